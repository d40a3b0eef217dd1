"""A fetch of one partition, written and read in place, against the codec of the messages."""

from __future__ import annotations

import pytest
from replica_worlds import TOPIC_ID

from barnabas.model.errors import ErrorCode
from barnabas.replica.one_partition_fetch import FIRST_VERSION, OnePartitionAnswer, OnePartitionRequest
from barnabas.wire.frames import encode_request, encode_response
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse

VERSIONS = range(FIRST_VERSION, FetchRequest.max_version + 1)
NUMBERS = (0, 1, 127, 128, 1 << 31, (1 << 63) - 1)


def request(version: int, session_epoch: int, fetch_offset: int) -> FetchRequest:
    asked = FetchRequest.FetchPartition(3, 5, fetch_offset, 4, 2, 1 << 20)
    message = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 24,
        session_id=0x0B42_4E42,
        session_epoch=session_epoch,
        topics=[FetchRequest.FetchTopic(topic_id=TOPIC_ID, partitions=[asked])],
    )
    if version >= 15:
        message.replica_state = FetchRequest.ReplicaState(2, 77)
    else:
        message.replica_id = 2
    return message


def response(high_watermark: int, log_start_offset: int, records: bytes | None, **fields: object) -> FetchResponse:
    data = FetchResponse.PartitionData(
        3, 0, high_watermark, high_watermark, log_start_offset, aborted_transactions=None, records=records
    )
    for name, value in fields.items():
        setattr(data, name, value)
    return FetchResponse(session_id=9, responses=[FetchResponse.FetchableTopicResponse("", TOPIC_ID, [data])])


def frame(message: FetchResponse, version: int, correlation_id: int = 8) -> bytes:
    return b"".join(encode_response(message, version, correlation_id))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("client_id", ["", "broker-2-fetcher-0", "ü"])
def test_a_request_is_the_message_with_other_numbers(version: int, client_id: str) -> None:
    written = OnePartitionRequest(request(version, 6, 7), version, client_id)
    for number in NUMBERS:
        epoch = number & 0x7FFFFFFF
        expected = b"".join(encode_request(request(version, epoch, number), version, epoch, client_id))
        assert b"".join(written.frame(epoch, number, epoch)) == expected


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_382, 16_383, 16_384, 3_000_000])
def test_an_answer_is_the_message_with_other_numbers_and_records(version: int, size: int) -> None:
    shape = OnePartitionAnswer(version, 9, TOPIC_ID, 3)
    records = bytes(range(251)) * (size // 251 + 1)
    for number in NUMBERS:
        message = response(number, number // 2, records[:size])
        expected = frame(message, version)
        assert b"".join(shape.frame(8, number, number, number // 2, records[:size])) == expected
        assert shape.read(expected[4:]) == (number, number // 2, records[:size])


@pytest.mark.parametrize("version", VERSIONS)
def test_what_says_anything_else_is_not_read(version: int) -> None:
    shape = OnePartitionAnswer(version, 9, TOPIC_ID, 3)
    others = [
        FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        FetchResponse(session_id=9),
        response(1, 0, None),
        response(1, 0, b"r", error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER)),
        response(1, 0, b"r", partition_index=4),
        response(1, 0, b"r", aborted_transactions=[]),
        response(1, 0, b"r", preferred_read_replica=1),
        response(1, 0, b"", diverging_epoch=FetchResponse.EpochEndOffset(3, 1)),
        response(1, 0, b"", current_leader=FetchResponse.LeaderIdAndEpoch(3, 1)),
    ]
    throttled = response(1, 0, b"r")
    throttled.throttle_time_ms = 1
    two = response(1, 0, b"r")
    two.responses[0].partitions *= 2
    for message in (*others, throttled, two):
        assert shape.read(frame(message, version)[4:]) is None, message
    good = frame(response(1, 0, b"records"), version)[4:]
    assert shape.read(good) is not None
    for cut in range(len(good)):
        assert shape.read(good[:cut]) is None, cut
    assert shape.read(good + b"\0") is None
