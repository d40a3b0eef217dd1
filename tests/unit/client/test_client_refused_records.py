"""What cannot be a record is refused where it is given, and the producer goes on."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.blocking import connect
from barnabas.testing import KafkaCluster

pytestmark = pytest.mark.kafka(brokers=1)


@pytest.mark.parametrize(
    ("refused", "how"),
    [
        ({"key": "k"}, "a record's key is bytes or None, not str: encode it"),
        ({"headers": [("a", "b")]}, "a record's header 'a' is bytes or None, not str: encode it"),
        ({"headers": [(b"a", b"b")]}, "a header's name is a str, not bytes"),
        ({"headers": {"a": 7}}, "a record's header 'a' is bytes or None, not int: encode it"),
        ({"timestamp": 1.5}, "a record's timestamp is a whole number of milliseconds, not 1.5"),
        ({"timestamp": 2**63}, "a record's timestamp is a whole number of milliseconds, not 9223372036854775808"),
    ],
)
def test_a_record_that_cannot_be_is_refused(kafka_module_cluster: KafkaCluster, refused: Any, how: str) -> None:
    with connect(kafka_module_cluster.bootstrap) as client, client.producer() as producer:
        producer.send("t", b"before")
        with pytest.raises((TypeError, ValueError)) as said:
            producer.send("t", b"x", **refused)
        assert str(said.value) == how
        producer.send("t", b"after", headers={"a": b"b", "nothing": None}, timestamp=0)
