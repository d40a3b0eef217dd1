"""Clients that read their answers late, or not at all: what is sent stays in order, and nothing of it stays behind."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

import pytest
from confluent_kafka import Producer
from processes import Cluster, eventually

from barnabas.model.errors import ErrorCode
from barnabas.wire.frames import decode_response, encode_request
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.records import batches, records_of

RECORD_BYTES = 1000
RECORDS = 20_000
ANSWER_BYTES = 8_000_000
"""Far more than the kernel keeps of a connection."""


def fetch(correlation_id: int, offset: int) -> bytes:
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=ANSWER_BYTES)
    topic = FetchRequest.FetchTopic(topic="t", partitions=[partition])
    message = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=ANSWER_BYTES, topics=[topic])
    return b"".join(bytes(part) for part in encode_request(message, 11, correlation_id, "slow"))


def api_versions(correlation_id: int) -> bytes:
    return b"".join(bytes(part) for part in encode_request(ApiVersionsRequest(), 0, correlation_id, "slow"))


def exactly(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        found += connection.recv(size - len(found)) or pytest.fail("the connection ended")
    return bytes(found)


def answer(connection: socket.socket) -> bytes:
    return exactly(connection, struct.unpack(">i", exactly(connection, 4))[0])


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_a_late_reader_gets_what_it_asked_for_and_who_leaves_takes_nothing_along(tmp_path: Path) -> None:
    with Cluster(tmp_path, 1) as cluster:
        (broker,) = cluster.brokers
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "linger.ms": 20})
        for number in range(RECORDS):
            producer.produce("t", b"%0*d" % (RECORD_BYTES, number), partition=0)
            producer.poll(0)
        assert producer.flush(60) == 0

        before = descriptors(broker.pid)
        late = [socket.create_connection(("127.0.0.1", cluster.ports[0]), 60) for _ in range(5)]
        leaving = [socket.create_connection(("127.0.0.1", cluster.ports[0]), 60) for _ in range(5)]
        for connection in (*late, *leaving):
            # What comes behind the first answer waits for it: another one from the file, and one that is not.
            connection.sendall(fetch(1, 0) + api_versions(2) + fetch(3, RECORDS // 2))
        for connection in (*late, *leaving):
            assert answer_begins(connection)
        for connection in leaving:
            connection.close()
        eventually(lambda: descriptors(broker.pid) <= before + 2 * len(late), what="those that left are forgotten")

        for connection in late:
            for correlation_id, first in ((1, 0), (2, None), (3, RECORDS // 2)):
                told = answer(connection)
                assert struct.unpack_from(">i", told)[0] == correlation_id
                if first is not None:
                    _, response = decode_response(FetchResponse, 11, told)
                    (found,) = response.responses[0].partitions
                    assert found.error_code == ErrorCode.NONE
                    assert ANSWER_BYTES - 1_000_000 <= len(found.records) <= ANSWER_BYTES
                    values = [
                        bytes(record.value or b"")
                        for _, start, end in batches(found.records)
                        for record in records_of(found.records, start, end)
                    ]
                    at = values.index(b"%0*d" % (RECORD_BYTES, first))
                    assert values[at:] == [
                        b"%0*d" % (RECORD_BYTES, first + number) for number in range(len(values) - at)
                    ]
            connection.close()
        eventually(lambda: descriptors(broker.pid) <= before, what="so are those that read all")


def answer_begins(connection: socket.socket) -> bool:
    return bool(connection.recv(1, socket.MSG_PEEK))
