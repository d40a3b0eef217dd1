"""The exchange: bytes in, answers out, whatever the pieces they come in."""

from __future__ import annotations

import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.client.exchange import STAGING_BYTES, Exchange, FrameReceiver
from barnabas.wire.errors import WireError
from barnabas.wire.frames import encode_response
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def fill(receiver: FrameReceiver | Exchange, data: bytes, sizes: list[int]) -> list[object]:
    """Feeds `data` in pieces of at most `sizes` bytes, then in as much as there is room for."""
    found: list[object] = []
    at = turn = 0
    while at < len(data):
        room = receiver.buffer()
        assert len(room) > 0
        count = min(len(room), len(data) - at, sizes[turn] if turn < len(sizes) else len(data))
        room[:count] = data[at : at + count]
        found += receiver.received(count)
        at += count
        turn += 1
    return found


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine
@given(
    st.lists(st.integers(0, 3 * STAGING_BYTES), max_size=6),
    st.lists(st.integers(1, STAGING_BYTES * 2), max_size=100),
)
def test_frames_come_out_whole_however_the_stream_is_cut(lengths: list[int], pieces: list[int]) -> None:
    bodies = [bytes([index + 1]) * length for index, length in enumerate(lengths)]
    stream = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    assert [bytes(frame) for frame in fill(FrameReceiver(), stream, pieces)] == bodies  # type: ignore[call-overload]


@pytest.mark.parametrize("size", [-1, 1001, 0x7FFFFFFF])
def test_a_size_beyond_the_bound_is_refused_before_anything_is_allocated(size: int) -> None:
    receiver = FrameReceiver(1000)
    with pytest.raises(WireError):
        fill(receiver, struct.pack(">i", size), [4])


def response(message: object, version: int, correlation_id: int) -> bytes:
    return b"".join(encode_response(message, version, correlation_id))


def test_answers_find_their_requests_by_correlation_id() -> None:
    exchange = Exchange("test")
    first, _ = exchange.request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    second, _ = exchange.request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 0)
    assert len(exchange) == 2
    data = response(HeartbeatResponse(error_code=27), 4, first) + response(HeartbeatResponse(error_code=0), 0, second)
    answers = fill(exchange, data, [7, 1, 1, 20])
    assert [(each.correlation_id, each.message.error_code) for each in answers] == [(first, 27), (second, 0)]  # type: ignore[attr-defined]
    assert len(exchange) == 0


def test_an_answer_nobody_waits_for_is_an_error() -> None:
    exchange = Exchange("test")
    with pytest.raises(WireError, match="correlation id 7"):
        fill(exchange, response(HeartbeatResponse(), 0, 7), [100])


def test_a_response_cut_short_is_an_error() -> None:
    exchange = Exchange("test")
    exchange.request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    with pytest.raises(WireError):
        fill(exchange, struct.pack(">ii", 5, 0) + b"\0", [100])


def test_an_old_broker_refuses_a_new_api_versions_request_in_version_zero() -> None:
    exchange = Exchange("test")
    correlation_id, _ = exchange.request(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
    (answer,) = fill(exchange, response(ApiVersionsResponse(error_code=35), 0, correlation_id), [100])
    assert answer.message.error_code == 35  # type: ignore[attr-defined]


def test_the_best_version_is_the_highest_that_both_know() -> None:
    exchange = Exchange("test")
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert exchange.best_version(request) == 4
    exchange.versions = {12: (0, 2)}
    assert exchange.best_version(request) == 2
    exchange.versions = {12: (7, 9)}
    with pytest.raises(WireError, match="no common version"):
        exchange.best_version(request)
    exchange.versions = {3: (0, 1)}
    with pytest.raises(WireError, match="does not offer"):
        exchange.best_version(request)
