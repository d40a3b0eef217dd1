"""``ssl.principal.mapping.rules`` as Kafka reads them. The expectations are what Apache's class answers."""

from __future__ import annotations

import pytest

from barnabas.model.errors import ConfigError
from barnabas.security.tls.principal_mapping import NoMatchingRule, SslPrincipalMapper

RULES = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    r"RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        (RULES, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        (RULES, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (RULES, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (RULES, "cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        (RULES, "OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz", r"Tkac\, Adam"),
        ("RULE:CN=(.*)/$1@$4/", "CN=x", "x@$4"),
        ("RULE:CN=(.*)/$12/", "CN=x", "x2"),
        (r"RULE:CN=(.*)/\$1\\/", "CN=x", "$1\\"),
        ("RULE:CN=(.*)/$0!/", "CN=x", "CN=x!"),
        ("RULE:(?<who>.*)/${who}./", "CN=x", "CN=x.."),  # the pattern fits the empty rest, too
        (" ,, RULE:CN=x/one/ ,, DEFAULT", "CN=x", "one"),
        (r"RULE:CN=(\w+)/$1/,DEFAULT", "CN=Müller", "CN=Müller"),
    ],
)
def test_the_first_rule_that_fits_names_the_user(rules: str, subject: str, name: str) -> None:
    assert SslPrincipalMapper(rules).name_of(subject) == name


@pytest.mark.parametrize("rules", ["", "RULE:CN=y/y/", "RULE:CN=/part/"])
def test_whom_no_rule_fits_is_refused(rules: str) -> None:
    with pytest.raises(NoMatchingRule, match="applies to CN=x"):
        SslPrincipalMapper(rules).name_of("CN=x")


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:CN=(/x/",
        "RULE:CN=x/$1/",
        "RULE:CN=(x)/${who}/",
        "RULE:CN=(x)/$/",
        "RULE:[a-z&&[^b]]/x/",
    ],
)
def test_rules_that_are_none_are_refused_by_their_key(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules has"):
        SslPrincipalMapper(rules)
