"""Settings by Kafka's names, and by librdkafka's, as the arguments that they stand for."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.config import CLUSTER, CONSUMER, PRODUCER, check_names, login, options, protocol, tls_context
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from barnabas.model.errors import ConfigError


@pytest.mark.parametrize(
    ("keys", "name", "text", "option", "value"),
    [
        (CLUSTER, "client.id", "me", "client_id", "me"),
        (CLUSTER, "request.timeout.ms", "7", "request_timeout_ms", 7),
        (PRODUCER, "acks", "all", "acks", "all"),
        (PRODUCER, "request.required.acks", "1", "acks", "1"),
        (PRODUCER, "queue.buffering.max.ms", "5", "linger_ms", 5),
        (PRODUCER, "compression.codec", "lz4", "compression", "lz4"),
        (PRODUCER, "enable.idempotence", " False ", "idempotent", False),
        (PRODUCER, "message.timeout.ms", "9", "delivery_timeout_ms", 9),
        (CONSUMER, "isolation.level", "read_committed", "isolation_level", READ_COMMITTED),
        (CONSUMER, "isolation.level", "read_uncommitted", "isolation_level", READ_UNCOMMITTED),
        (CONSUMER, "auto.offset.reset", "smallest", "auto_offset_reset", EARLIEST),
        (CONSUMER, "auto.offset.reset", "end", "auto_offset_reset", LATEST),
        (CONSUMER, "auto.offset.reset", "none", "auto_offset_reset", None),
        (CONSUMER, "enable.auto.commit", "TRUE", "enable_auto_commit", True),
        (CONSUMER, "partition.assignment.strategy", "range, cooperative-sticky", "assignors", None),
        (CONSUMER, "fetch.wait.max.ms", "11", "max_wait_ms", 11),
        (CONSUMER, "check.crcs", "false", "check_crcs", False),
    ],
)
def test_a_setting_is_the_argument_that_it_stands_for(keys: Any, name: str, text: str, option: str, value: Any) -> None:
    found = options({name: text, "not.among.these": "x"}, keys)
    assert list(found) == [option]
    if name == "partition.assignment.strategy":
        assert [*found[option]] == ["range", "cooperative-sticky"]
    else:
        assert found[option] == value


@pytest.mark.parametrize(
    ("keys", "name", "text"),
    [
        (PRODUCER, "linger.ms", "soon"),
        (PRODUCER, "enable.idempotence", "yes"),
        (CONSUMER, "isolation.level", "serializable"),
        (CONSUMER, "auto.offset.reset", "middle"),
    ],
)
def test_a_value_that_a_setting_does_not_take_is_said_with_its_name(keys: Any, name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is '{text}'"):
        options({name: text}, keys)


def test_a_name_that_nobody_knows_is_refused_with_one_that_is_near() -> None:
    check_names({"linger.ms": "5", "group.id": "g", "bootstrap.servers": "a:1", "ssl.ca.location": "x"})
    with pytest.raises(ConfigError, match=r"is it isolation\.level\?"):
        check_names({"isolation.levle": "x"})
    with pytest.raises(ConfigError, match=r"zzz is not a setting of this client$"):
        check_names({"zzz": "x"})


def test_who_speaks_and_whether_over_tls_is_said_by_the_protocol() -> None:
    assert (protocol({}), login({}), tls_context({})) == ("PLAINTEXT", None, None)
    assert protocol({"security.protocol": "sasl_ssl"}) == "SASL_SSL"
    assert tls_context({"security.protocol": "SASL_PLAINTEXT"}) is None
    assert tls_context({"security.protocol": "ssl"}) is not None
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    known = login({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas})
    assert known is not None
    assert login({"security.protocol": "SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}) is None
    with pytest.raises(ConfigError, match="it takes PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"):
        protocol({"security.protocol": "TLS"})
