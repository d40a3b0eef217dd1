"""``sasl.jaas.config`` as operators write it, read as Kafka's ``JaasConfig`` reads it."""

from __future__ import annotations

import pytest

from barnabas.security.sasl.jaas import jaas_sections, login_module, login_modules

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_options_are_quoted_either_way_escaped_or_plain_words() -> None:
    module = login_module(
        rf"""{PLAIN} Required
            username = "alice"  // who we are
            password='say "hi"'  /* and
            how */ user_bob="back\\slash, \"quotes\"; tab\t octal\101" user_carol-2=plain_word.x;
        """
    )
    assert (module.class_name, module.control_flag) == (PLAIN, "required")
    assert dict(module.options) == {
        "username": "alice",
        "password": 'say "hi"',
        "user_bob": 'back\\slash, "quotes"; tab\t octalA',
        "user_carol-2": "plain_word.x",
    }


def test_a_file_may_hold_several_modules_and_a_configuration_one() -> None:
    text = f"{PLAIN} required; a.B optional x='1';"
    assert [each.class_name for each in login_modules(text)] == [PLAIN, "a.B"]
    with pytest.raises(ValueError, match="contains 2 login modules"):
        login_module(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no login module"),
        ("// nothing", "no login module"),
        (PLAIN, "control flag"),
        (f"{PLAIN} needed;", "'needed' is no control flag"),
        (f'{PLAIN} required username="alice"', "does not end with a semicolon"),
        (f"{PLAIN} required username;", "option username has no value"),
        (f"{PLAIN} required username=;", "a value for option username"),
        (f"{PLAIN} required password=12secret;", "a value that needs some"),
        (f'{PLAIN} required password="secret;', "quotes that do not end"),
        (f'{PLAIN} required ="secret";', "option's name"),
        ("com.sun.security.auth.module.JndiLoginModule required user.provider.url='ldap://evil';", "is not allowed"),
        ("com.sun.security.auth.module.LdapLoginModule required userProvider='ldap://evil';", "is not allowed"),
    ],
)
def test_what_cannot_be_read_is_refused_without_telling_secrets(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as told:
        login_module(text)
    assert "secret" not in str(told.value)


def test_an_operator_says_which_modules_nobody_logs_in_by() -> None:
    text = f"{PLAIN} required;"
    with pytest.raises(ValueError, match=r"PlainLoginModule is not allowed, by org\.apache\.kafka\.disallowed"):
        login_module(text, f"a.B, {PLAIN}")
    assert login_module(text, "a.B").class_name == PLAIN


def test_passwords_are_not_shown() -> None:
    assert "hush" not in repr(login_module(f'{PLAIN} required password="hush";'))


def test_a_file_has_the_login_modules_of_each_section() -> None:
    text = f"""
        KafkaServer {{ {PLAIN} required username="a"; a.B optional; }};
        Client {{ {PLAIN} sufficient; }};
        Empty {{ }};
    """
    found = {name: [each.class_name for each in modules] for name, modules in jaas_sections(text).items()}
    assert found == {"KafkaServer": [PLAIN, "a.B"], "Client": [PLAIN], "Empty": []}
    assert jaas_sections("") == {}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Client {", "a login module's class"),
        (f"Client {{ {PLAIN} required;", "a login module's class"),
        (f"Client {{ {PLAIN} required; }}", "it needs ; behind the end of Client"),
        (f"Client {PLAIN} required;", "it needs { behind Client"),
        (f"Client {{ {PLAIN} required; }}; Client {{ {PLAIN} required; }};", "section Client is there twice"),
        (f'Client {{ {PLAIN} required password="${{secret}}"; }};', "option password in section Client asks for"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_without_telling_secrets(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as told:
        jaas_sections(text)
    assert "secret" not in str(told.value)
