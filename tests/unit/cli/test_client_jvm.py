"""What ``KAFKA_OPTS`` says to a client: whom OAUTHBEARER may ask, and a JAAS file's section KafkaClient."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.cli.connect import settings_of
from barnabas.cli.kafka_tools.errors import JavaError
from barnabas.cli.kafka_tools.session import client_of
from barnabas.cli.options import Reach
from barnabas.cli.output import UsageError
from barnabas.cli.plain import kafka_opts
from barnabas.security.sasl.http import ALLOWED_URLS
from barnabas.security.sasl.login import SaslLogin, login_of

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
FILE = """
KafkaServer { org.apache.kafka.common.security.scram.ScramLoginModule required; };
KafkaClient { org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="p=,q\\"s"; };
"""
SCRAM = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}


def bearer(url: str, **more: str) -> dict[str, str]:
    return {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{BEARER} clientId="k" clientSecret="s";',
        ENDPOINT: url,
        **more,
    }


def told(settings: dict[str, str], file: Path) -> dict[str, str]:
    """As a command hears it that is given this file."""
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return settings_of(Reach(command_config=str(file)))


def refused_by_a_tool(properties: dict[str, str]) -> str:
    """Why one of Kafka's tools by name makes no client of these."""
    with pytest.raises(JavaError) as refused:
        client_of(properties)
    return str(refused.value.cause)


def test_a_list_of_the_jvms_is_the_only_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CVE-2025-27817: whoever writes a client's properties allows itself nothing."""
    file, outside, inside = tmp_path / "client.properties", "https://authority.example.com/token", "file:/etc/passwd"
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g -D{ALLOWED_URLS}={outside}")
    assert login_of(told(bearer(outside), file))
    client_of(bearer(outside))
    assert "not on the list" in refused_by_a_tool(bearer(inside, **{ALLOWED_URLS: inside}))
    assert told(bearer(inside, **{ALLOWED_URLS: inside}), file)[ALLOWED_URLS] == outside
    monkeypatch.delenv("KAFKA_OPTS")
    assert told(bearer(inside, **{ALLOWED_URLS: inside}), file)[ALLOWED_URLS] == inside


def test_a_jaas_file_says_who_the_client_is_where_its_properties_do_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jaas, file = tmp_path / "jaas.conf", tmp_path / "client.properties"
    jaas.write_text(FILE)
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={jaas}")
    assert login_of(told(SCRAM, file)) == SaslLogin("SCRAM-SHA-512", "alice", 'p=,q"s')
    bob = {**SCRAM, "sasl.username": "bob", "sasl.password": "b"}
    assert login_of(told(bob, file)) == SaslLogin("SCRAM-SHA-512", "bob", "b")
    assert told({"security.protocol": "PLAINTEXT"}, file) == {"security.protocol": "PLAINTEXT"}
    jaas.write_text(FILE.replace("KafkaClient", "Client"))
    with pytest.raises(UsageError, match="has 0 login modules in its section KafkaClient"):
        told(SCRAM, file)
    said = refused_by_a_tool({"bootstrap.servers": "127.0.0.1:1", **SCRAM})
    assert "has 0 login modules in its section KafkaClient" in said
    jaas.unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        told(SCRAM, file)


def test_login_modules_that_the_jvm_is_to_refuse_log_no_command_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jaas, file = tmp_path / "jaas.conf", tmp_path / "client.properties"
    jaas.write_text(FILE)
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    given = f"-Djava.security.auth.login.config={jaas} -Dorg.apache.kafka.disallowed.login.modules=a.B,"
    monkeypatch.setenv("KAFKA_OPTS", f"{given}{scram}")
    own = {**SCRAM, "sasl.jaas.config": f'{scram} required username="a" password="b";'}
    for settings in (SCRAM, own):
        with pytest.raises(UsageError, match="ScramLoginModule is not allowed"):
            told(settings, file)
        assert "is not allowed" in refused_by_a_tool({"bootstrap.servers": "127.0.0.1:1", **settings})
    monkeypatch.setenv("KAFKA_OPTS", f"{given}c.D")
    assert login_of(told(own, file)) == SaslLogin("SCRAM-SHA-512", "a", "b")


def test_kerberos_reads_the_file_that_is_named_for_a_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CONFIG", "/mine")
    monkeypatch.setenv("KAFKA_OPTS", "-Xmx1g '-Djava.security.krb5.conf=/etc/kafka/krb 5.conf'")
    kafka_opts()
    assert os.environ["KRB5_CONFIG"] == "/mine"
    monkeypatch.delenv("KRB5_CONFIG")
    kafka_opts()
    assert os.environ["KRB5_CONFIG"] == "/etc/kafka/krb 5.conf"
