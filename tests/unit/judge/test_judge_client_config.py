"""What secures a run's connections, by each driver's names."""

from __future__ import annotations

import json

import pytest

from barnabas.cli.app import run
from barnabas.judge.client_config import encrypted, franz_go_json, java_properties, of_librdkafka, securing
from barnabas.model.errors import ConfigError

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="client" password="s3cret";'
BEARER = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="s3cret";'
)
SCRAM = {
    "security.protocol": "SASL_SSL",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "/there/authority.pem",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": JAAS,
}
MUTUAL = {
    "security.protocol": "SSL",
    "ssl.ca.location": "/there/authority.pem",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/there/own.pem",
}


def test_a_file_of_kafkas_is_told_by_librdkafkas_names() -> None:
    assert of_librdkafka(SCRAM) == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/there/authority.pem",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "client",
        "sasl.password": "s3cret",
    }
    assert of_librdkafka(MUTUAL) == {
        "security.protocol": "SSL",
        "ssl.ca.location": "/there/authority.pem",
        "ssl.certificate.location": "/there/own.pem",
        "ssl.key.location": "/there/own.pem",
    }
    assert json.loads(franz_go_json(SCRAM)) == of_librdkafka(SCRAM)
    unnamed = {**MUTUAL, "ssl.endpoint.identification.algorithm": ""}
    assert of_librdkafka(unnamed)["ssl.endpoint.identification.algorithm"] == "none"


def test_without_security_nothing_is_asked_for() -> None:
    assert of_librdkafka({}) == of_librdkafka({"security.protocol": "PLAINTEXT", "ssl.ca.location": "/x"}) == {}
    assert not encrypted({})
    assert not encrypted({"security.protocol": "SASL_PLAINTEXT"})
    assert encrypted(MUTUAL)
    assert securing({"linger.ms": "5", **MUTUAL}) == MUTUAL


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({**SCRAM, "ssl.truststore.type": "JKS"}, "reads only ssl.truststore.type=PEM"),
        (
            {"security.protocol": "SASL_SSL", "sasl.kerberos.service.name": "kafka"},
            "PLAIN and SCRAM alone|cannot be read",
        ),
        (
            {**SCRAM, "sasl.jaas.config": JAAS.replace("required", "required tokenauth=true")},
            "without delegation tokens",
        ),
    ],
)
def test_what_a_driver_does_not_take_is_said(settings: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        of_librdkafka(settings)
    assert "s3cret" not in str(error.value)


def test_franz_go_takes_no_certificate_of_another_name() -> None:
    with pytest.raises(ConfigError, match="verifies host names"):
        franz_go_json({**MUTUAL, "ssl.endpoint.identification.algorithm": ""})


def test_javas_file_reads_backslashes_and_lines_as_they_are() -> None:
    assert java_properties({"a": "one\\two\nthree"}) == "a=one\\\\two\\nthree\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-X", "linger.ms=5"], "-X linger.ms: a run takes only properties that secure connections"),
        (["-X", "security.protocol=SSL", "--nemesis", "network"], "without TLS"),
        (["-X", "security.protocol=SSL", "--nemesis", "delay"], "without TLS"),
    ],
)
def test_what_a_run_does_not_take_is_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["judge", "run", "-b", "localhost:1", *words]) == 2
    assert said in capsys.readouterr().err
