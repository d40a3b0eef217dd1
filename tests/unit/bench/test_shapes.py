"""What `barnabas bench shapes` sends: a request for each leader, every partition once, records as they are named."""

from __future__ import annotations

import socket
import threading

import pytest

from barnabas.bench.shapes import PRODUCE_VERSION, SHAPES, LoadShape, RoundTrips, check, requests_of
from barnabas.bench.small_requests import Refused
from barnabas.wire import frames
from barnabas.wire.messages.produce import ProduceRequest, ProduceResponse
from barnabas.wire.records import batches, records_of


def sent(shape: LoadShape) -> dict[int, ProduceRequest]:
    requests = {}
    for broker, frame in requests_of(shape, "t").items():
        header, offset = frames.decode_request_header(frame[4:])
        requests[broker], _ = ProduceRequest.decode(frame[4:], header.api_version, offset)
    return requests


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_each_partition_is_sent_once_to_its_leader(shape: LoadShape) -> None:
    requests = sent(shape)
    assert len(requests) == (min(3, shape.partitions) if shape.everywhere else 1)
    found = {}
    for broker, request in requests.items():
        assert request.acks == -1
        (topic,) = request.topic_data
        for data in topic.partition_data:
            assert data.index not in found
            found[data.index] = broker
            assert shape.assignment()[data.index][0] == broker
            body = bytes(data.records or b"")
            ((_, first, last),) = batches(body)
            records = list(records_of(body, first, last))
            assert len(records) == shape.records
            assert all((record.key is not None) == shape.keyed for record in records)
    assert sorted(found) == list(range(shape.partitions))


def test_a_compressed_shape_is_smaller() -> None:
    plain, packed = (
        len(requests_of(LoadShape("of 100", records=100, compression=name), "t")[0]) for name in ("none", "gzip")
    )
    assert packed < 0.8 * plain


def test_the_error_of_one_partition_ends_the_run() -> None:
    check(answer(0)[4:])
    with pytest.raises(Refused, match="t-1 got error 19"):
        check(answer(19)[4:])


def answer(code: int) -> bytes:
    Partition = ProduceResponse.PartitionProduceResponse
    partitions = [Partition(index=0), Partition(index=1, error_code=code)]
    response = ProduceResponse(responses=[ProduceResponse.TopicProduceResponse("t", partitions)])
    return b"".join(map(bytes, frames.encode_response(response, PRODUCE_VERSION, 1)))


class Leader(threading.Thread):
    """Answers its requests with these error codes, one after the other."""

    def __init__(self, *codes: int) -> None:
        super().__init__(daemon=True)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._codes = codes
        self.port: int = self._listener.getsockname()[1]
        self.start()

    def run(self) -> None:
        connection, _ = self._listener.accept()
        with connection, self._listener:
            for code in self._codes:
                assert connection.recv(1 << 16) == b"request"
                connection.sendall(answer(code))


def test_leaders_that_have_not_heard_of_a_new_topic_are_asked_again() -> None:
    leaders = [Leader(3, 0, 0, 0), Leader(0, 0, 6, 0)]
    ports = {number: leader.port for number, leader in enumerate(leaders)}
    with RoundTrips(ports, dict.fromkeys(ports, b"request")) as trips:
        trips.until_taken()
        with pytest.raises(Refused, match="t-1 got error 6"):
            trips.once()
        trips.once()  # no answer of the one before is left over
    for leader in leaders:
        leader.join(60)
        assert not leader.is_alive()
