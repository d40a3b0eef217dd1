"""What `barnabas bench shapes` sends: a request for each leader, every partition once, records as they are named."""

from __future__ import annotations

import pytest

from barnabas.bench.shapes import PRODUCE_VERSION, SHAPES, Shape, check, requests_of
from barnabas.bench.small_requests import Refused
from barnabas.wire import frames
from barnabas.wire.messages.produce import ProduceRequest, ProduceResponse
from barnabas.wire.records import batches, records_of


def sent(shape: Shape) -> dict[int, ProduceRequest]:
    requests = {}
    for broker, frame in requests_of(shape, "t").items():
        header, offset = frames.decode_request_header(frame[4:])
        requests[broker], _ = ProduceRequest.decode(frame[4:], header.api_version, offset)
    return requests


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_each_partition_is_sent_once_to_its_leader(shape: Shape) -> None:
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
        len(requests_of(Shape("of 100", records=100, compression=name), "t")[0]) for name in ("none", "gzip")
    )
    assert packed < 0.8 * plain


def test_the_error_of_one_partition_ends_the_run() -> None:
    Topic = ProduceResponse.TopicProduceResponse
    Partition = ProduceResponse.PartitionProduceResponse
    for code in (0, 19):
        partitions = [Partition(index=0), Partition(index=1, error_code=code)]
        response = ProduceResponse(responses=[Topic("t", partitions)])
        answer = b"".join(map(bytes, frames.encode_response(response, PRODUCE_VERSION, 1)))[4:]
        if code:
            with pytest.raises(Refused, match="t-1 got error 19"):
                check(answer)
        else:
            check(answer)
