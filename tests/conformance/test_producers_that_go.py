"""A producer that wants no answers ends its connection behind its last record: ours and Apache Kafka append all."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import apache
import pytest
from cluster import running, until
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.wire.frames import encode_request
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch

pytestmark = pytest.mark.apache

PRODUCES = 3000
TOPIC = "parting"


@pytest.fixture(params=["ours", "Apache's"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    apache.require()
    with running(tmp_path, 1) if request.param == "ours" else apache.ApacheCluster(tmp_path, 1) as started:
        yield started.bootstrap


def test_all_that_was_sent_before_the_end_is_appended(broker: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker})
    for made in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
        made.result(30)
    reader = Consumer({"bootstrap.servers": broker, "group.id": "nobody"})

    def end_offset() -> int:
        return int(reader.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30)[1])

    assert end_offset() == 0
    batch = build_batch([Record(0, 1_700_000_000_000, None, b"goodbye", [])])
    data = ProduceRequest.PartitionProduceData(0, batch)
    message = ProduceRequest(None, 0, 1000, [ProduceRequest.TopicProduceData(TOPIC, [data])])
    host, _, port = broker.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"".join(encode_request(message, 9, 1, "test")) * PRODUCES)
    until(lambda: end_offset() == PRODUCES, what=f"{PRODUCES} records are there")
    reader.close()
