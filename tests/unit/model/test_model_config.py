"""Configuration keys: types, bounds, inheritance, and sentences for what is wrong."""

from __future__ import annotations

import pytest

from barnabas.model.config import (
    broker_config,
    broker_definitions,
    parse_properties,
    topic_config,
    topic_definitions,
)
from barnabas.model.errors import ConfigError


def test_every_default_of_kafka_can_be_read() -> None:
    brokers = broker_config({})
    for name in broker_definitions():
        brokers.value(name)
    topics = topic_config(brokers, {})
    for name in topic_definitions():
        topics.value(name)
    assert brokers.number("replica.lag.time.max.ms") == 30_000
    assert topics.number("segment.bytes") == 1 << 30


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("num.partitions", "many", "whole number"),
        ("num.partitions", "1_000", "whole number"),
        ("log.cleaner.min.cleanable.ratio", "0.0_1", "a number"),
        ("num.partitions", "0", "[1,...]"),
        ("auto.create.topics.enable", "yes", "true or false"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "[0,...,1]"),
        ("num.network.threads", str(1 << 40), "2147483647"),
        ("log.cleanup.policy", "burn", "compact, delete"),
    ],
)
def test_a_bad_value_names_the_key_and_what_is_allowed(name: str, text: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as refused:
        broker_config({name: text})
    assert name in str(refused.value)
    assert allowed in str(refused.value)


def test_an_unknown_key_is_told_with_the_nearest_known_one() -> None:
    assert list(broker_config({"brokr.id": "1", "listeners": "PLAINTEXT://:1"}).unknown()) == [
        ("brokr.id", "broker.id")
    ]


def test_a_topic_inherits_the_brokers_setting_and_its_own_goes_before() -> None:
    broker = broker_config({"log.segment.bytes": "2000", "min.insync.replicas": "2"})
    assert topic_config(broker, {}).number("segment.bytes") == 2000
    assert topic_config(broker, {}).number("min.insync.replicas") == 2
    assert topic_config(broker, {"segment.bytes": "3000"}).number("segment.bytes") == 3000


def test_the_finest_unit_that_is_set_counts() -> None:
    assert topic_config(broker_config({"log.retention.hours": "2"}), {}).number("retention.ms") == 7_200_000
    both = broker_config({"log.retention.hours": "2", "log.retention.minutes": "5"})
    assert topic_config(both, {}).number("retention.ms") == 300_000
    assert topic_config(broker_config({"log.retention.hours": "-1"}), {}).number("retention.ms") == -1


def test_properties_are_read_as_java_reads_them() -> None:
    text = "# comment\n! too\na=1\nb : two words \nc\\:d=e\nlong=x,\\\n   y\nempty=\npath=C:\\\\tmp\nuni=\\u0041\n"
    assert parse_properties(text) == {
        "a": "1",
        "b": "two words ",
        "c:d": "e",
        "long": "x,y",
        "empty": "",
        "path": "C:\\tmp",
        "uni": "A",
    }
