"""A connection's framing and order, with a transport that only remembers."""

import asyncio
import os
import resource
import socket
import struct
from types import SimpleNamespace

import pytest
from clocks import ManualClock

from barnabas.broker import framed_connection
from barnabas.broker.connection import BrokerConnection
from barnabas.broker.context import Disconnect, Route
from barnabas.broker.framed_connection import AT_ONCE, SHARED_BYTES, ConnectionLimits
from barnabas.broker.long_requests import ELEMENTS, LongRequests
from barnabas.broker.quotas import Quotas
from barnabas.broker.repeated_fetch import RepeatedFetches
from barnabas.broker.request_memory import AHEAD_BYTES_MAX, ORDINARY_BYTES, RequestMemory, request_memory
from barnabas.broker.request_metrics import RequestMetrics
from barnabas.broker.unsent_answers import LEAST_BYTES, PATIENCE_MS, UNSENT_BYTES_MAX, UnsentAnswers
from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.replica.delayed_produce import DelayedProduce
from barnabas.runtime import turns as turns_of_stories
from barnabas.runtime.file_records import FILE_RECORDS_BYTES, FileRecords
from barnabas.security.authorizer import AllowAll
from barnabas.wire.frames import decode_response, encode_request, response_class
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.list_groups import ListGroupsRequest


class Transport(asyncio.Transport):
    def __init__(self, host="127.0.0.1"):
        super().__init__()
        self.peer = (host, 5)
        self.written = bytearray()
        self.closed = False
        self.reading = True

    def get_extra_info(self, name, default=None):
        return self.peer if name == "peername" else default

    def write(self, data):
        self.written += data

    def writelines(self, parts):
        for part in parts:
            self.written += part

    def get_write_buffer_size(self):
        return 0

    def close(self):
        self.closed = True

    abort = close

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def frames(self):
        frames, position = [], 0
        while position < len(self.written):
            (size,) = struct.unpack_from(">i", self.written, position)
            frames.append(bytes(self.written[position + 4 : position + 4 + size]))
            position += 4 + size
        return frames


class Open:
    def opened(self, connection, transport):
        pass

    def complain(self, connection, reason):
        pass

    def closed(self, connection):
        pass


def route(name, request, handle, response):
    return Route(name, 0, 4, request, handle, response, None)


class Table:
    """A router whose only request is Heartbeat (and ApiVersions), answered by the test's own handler."""

    def __init__(self, handle):
        self.routes = {
            12: route("Heartbeat", HeartbeatRequest, handle, HeartbeatResponse),
            18: route("ApiVersions", ApiVersionsRequest, handle, ApiVersionsResponse),
        }
        self.repeated_fetches = RepeatedFetches(self.routes[12])

    def unsupported_version(self):
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)


class Unheard(RequestMetrics):
    """Its log needs a loop."""

    def _tell(self, context, what, cause):
        pass


class Channel:
    node = SimpleNamespace(broker_id=7)
    parts = None
    authorizer = AllowAll()
    connections = Open()
    long_requests = LongRequests()
    unsent_answers = UnsentAnswers(ManualClock())
    requests = Unheard(lambda: 7, ManualClock())
    quotas = Quotas(ManualClock(), broker_config({}))

    def __init__(self, handle):
        self.router = Table(handle)


def begin(handle, *, max_request_bytes=1000, memory=None):
    limits = ConnectionLimits(max_request_bytes, memory)
    connection = BrokerConnection(Channel(handle), "PLAINTEXT", limits)
    transport = Transport()
    connection.connection_made(transport)
    return connection, transport


def feed(connection, data, piece=None):
    """As a transport does it: takes a buffer, fills some of it, says how much."""
    data = bytes(data)
    while data:
        buffer = connection.get_buffer(-1)
        assert len(buffer) > 0
        count = min(len(buffer), len(data), piece or len(data))
        buffer[:count] = data[:count]
        connection.buffer_updated(count)
        data = data[count:]


def heartbeat(number, group="g"):
    return b"".join(encode_request(HeartbeatRequest(group_id=group, member_id=str(number)), 2, number, "test"))


@pytest.mark.parametrize(
    ("connected", "known"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),  # over a socket of both kinds
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::a0:1", "2001:db8:0:0:0:0:a0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_an_address_has_one_name_the_one_that_acls_and_kafka_have_for_it(connected, known):
    connection = BrokerConnection(Channel(echo), "PLAINTEXT", ConnectionLimits(1000))
    connection.connection_made(Transport(connected))
    assert (connection.peer_host, connection.peer) == (known, f"{known}:5")


async def echo(broker, request, context):
    return HeartbeatResponse(throttle_time_ms=len(request.group_id), error_code=int(request.member_id))


def answers(transport):
    return [
        (number, message.error_code)
        for number, message in (decode_response(HeartbeatResponse, 2, frame) for frame in transport.frames())
    ]


@pytest.mark.parametrize("piece", [None, 1, 3, 7, 64])
def test_requests_are_cut_out_of_the_stream_however_it_arrives(piece):
    connection, transport = begin(echo)
    feed(connection, b"".join(heartbeat(number) for number in range(AT_ONCE)), piece)
    assert answers(transport) == [(number, number) for number in range(AT_ONCE)]
    assert not transport.closed


@pytest.mark.parametrize("size", [SHARED_BYTES - 60, SHARED_BYTES, SHARED_BYTES * 3])
def test_a_frame_beyond_the_shared_buffer_arrives_whole_and_so_does_the_next(size):
    connection, transport = begin(echo, max_request_bytes=10**6)
    group = "x" * min(size, 32000)
    padded = heartbeat(1, group)
    feed(connection, heartbeat(0) + padded + heartbeat(2), 5000)
    messages = [decode_response(HeartbeatResponse, 2, frame) for frame in transport.frames()]
    assert [(number, message.throttle_time_ms) for number, message in messages] == [(0, 1), (1, len(group)), (2, 1)]


def test_frames_of_two_connections_do_not_mix_in_the_shared_buffer():
    one, one_transport = begin(echo)
    two, two_transport = begin(echo)
    first, second = heartbeat(1), heartbeat(2)
    feed(one, first[:3])
    feed(two, second[:2])
    feed(one, first[3:])
    feed(two, second[2:])
    assert answers(one_transport) == [(1, 1)]
    assert answers(two_transport) == [(2, 2)]


def test_one_request_is_in_flight_and_the_next_waits_for_its_answer():
    async def main():
        gates = []

        async def wait(broker, request, context):
            gate = asyncio.get_running_loop().create_future()
            gates.append(gate)
            await gate
            return HeartbeatResponse(error_code=int(request.member_id))

        connection, transport = begin(wait)
        feed(connection, heartbeat(1) + heartbeat(2))
        assert len(gates) == 1
        gates[0].set_result(None)
        await asyncio.sleep(0)
        assert answers(transport) == [(1, 1)]
        assert len(gates) == 2
        gates[1].set_result(None)
        await asyncio.sleep(0)
        assert answers(transport) == [(1, 1), (2, 2)]

    asyncio.run(main())


def test_reading_pauses_while_too_much_waits_and_goes_on_afterwards(monkeypatch):
    monkeypatch.setattr(framed_connection, "MAX_WAITING_BYTES", 100)

    async def main():
        gate = asyncio.get_running_loop().create_future()

        async def wait_once(broker, request, context):
            await asyncio.shield(gate)
            return HeartbeatResponse(error_code=int(request.member_id))

        connection, transport = begin(wait_once)
        feed(connection, b"".join(heartbeat(number) for number in range(8)))
        assert not transport.reading
        gate.set_result(None)
        while len(transport.frames()) < 8:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert transport.reading
        assert [number for number, _ in answers(transport)] == list(range(8))

    asyncio.run(main())


def test_the_next_request_waits_while_the_client_does_not_read_its_answers():
    connection, transport = begin(echo)
    connection.pause_writing()
    feed(connection, heartbeat(1))
    assert answers(transport) == []
    connection.resume_writing()
    assert answers(transport) == [(1, 1)]


class Unread:
    def __init__(self, unsent_bytes):
        self.unsent_bytes = unsent_bytes
        self.ended = False

    def end_unread(self):
        self.ended = True


def test_answers_that_nobody_reads_end_their_connections_once_they_come_to_too_much():
    clock = ManualClock()
    unsent = UnsentAnswers(clock)
    still, moving, late = (Unread(UNSENT_BYTES_MAX // 2 + 1) for _ in range(3))
    unsent.add(still)
    unsent.add(moving)
    assert unsent.room() == LEAST_BYTES
    clock.ms += PATIENCE_MS
    moving.unsent_bytes -= 1
    unsent.add(late)
    assert (still.ended, moving.ended, late.ended) == (True, False, False)
    assert unsent.held == UNSENT_BYTES_MAX + 1
    unsent.remove(moving)
    unsent.remove(late)
    assert unsent.held == 0
    assert unsent.room() == UNSENT_BYTES_MAX


@pytest.mark.parametrize("behind", ["one read", "a request that waits"])
def test_of_many_requests_in_one_breath_some_are_begun_and_the_others_wait_for_their_turn(behind):
    async def main():
        begun = []
        gate = asyncio.get_running_loop().create_future()

        async def handle(broker, request, context):
            if request.member_id == "99":
                await gate
                return HeartbeatResponse(error_code=99)
            begun.append(int(request.member_id))
            return HeartbeatResponse(error_code=int(request.member_id))

        connection, transport = begin(handle)
        if behind == "a request that waits":
            feed(connection, heartbeat(99))
        other, others = begin(echo)
        wanted = 3 * AT_ONCE + 1
        feed(connection, b"".join(heartbeat(number) for number in range(wanted)))
        gate.set_result(None)
        while len(begun) < AT_ONCE:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert begun == list(range(AT_ONCE))
        feed(other, heartbeat(5))
        assert answers(others) == [(5, 5)]
        while len(begun) < wanted:
            count = len(begun)
            await asyncio.sleep(0)
            assert len(begun) <= count + AT_ONCE
        assert [code for _, code in answers(transport)][-wanted:] == list(range(wanted))

    asyncio.run(main())


def test_a_story_is_abandoned_when_its_connection_is_lost():
    ended = []

    async def main():
        async def wait(broker, request, context):
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append(request.member_id)

        connection, transport = begin(wait)
        feed(connection, heartbeat(1))
        connection.connection_lost(None)
        assert ended == ["1"]
        assert not transport.written

    asyncio.run(main())


@pytest.mark.parametrize("size", [-1, 1001, 2**31 - 1])
def test_a_size_that_cannot_be_closes_the_connection(size):
    connection, transport = begin(echo)
    feed(connection, heartbeat(1) + struct.pack(">i", size) + b"garbage")
    assert answers(transport) == [(1, 1)]
    assert transport.closed


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">ihhih", 10, 999, 0, 5, -1),  # an unknown API key
        struct.pack(">ihhih", 10, 12, 99, 5, -1),  # an unknown version
        struct.pack(">ihhih", 10, 12, 2, 5, -1),  # a body that ends too early
        struct.pack(">i", 3) + b"abc",
        struct.pack(">i", 0),
        b"".join(encode_request(ListGroupsRequest(), 0, 1, "test")),
    ],
)
def test_what_cannot_be_understood_closes_the_connection(data):
    connection, transport = begin(echo)
    feed(connection, data)
    assert transport.closed
    assert not transport.written


def test_api_versions_in_an_unknown_version_is_answered_in_version_0():
    connection, transport = begin(echo)
    feed(connection, struct.pack(">ihhihb", 11, 18, 77, 5, -1, 0))
    number, message = decode_response(response_class(18), 0, transport.frames()[0])
    assert (number, message.error_code) == (5, ErrorCode.UNSUPPORTED_VERSION)
    assert not transport.closed


def test_an_expected_error_is_answered_with_its_code():
    async def refuse(broker, request, context):
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    connection, transport = begin(refuse)
    feed(connection, heartbeat(1))
    assert answers(transport) == [(1, ErrorCode.NOT_COORDINATOR)]


def test_an_unexpected_error_is_answered_and_logged_and_the_connection_lives(caplog):
    async def fail(broker, request, context):
        if request.member_id == "1":
            raise ZeroDivisionError("a mistake of ours")
        return HeartbeatResponse(error_code=0)

    connection, transport = begin(fail)
    feed(connection, heartbeat(1) + heartbeat(2))
    assert answers(transport) == [(1, ErrorCode.UNKNOWN_SERVER_ERROR), (2, 0)]
    assert "a mistake of ours" in caplog.text
    assert not transport.closed


def test_a_handler_may_ask_for_the_connection_to_be_closed():
    async def close(broker, request, context):
        raise Disconnect("acks=0")

    connection, transport = begin(close)
    feed(connection, heartbeat(1) + heartbeat(2))
    assert transport.closed
    assert not transport.written


def test_a_request_without_an_answer_lets_the_next_begin():
    async def silent(broker, request, context):
        return None if request.member_id == "1" else HeartbeatResponse(error_code=2)

    connection, transport = begin(silent)
    feed(connection, heartbeat(1) + heartbeat(2))
    assert answers(transport) == [(2, 2)]


class Gates:
    """A handler whose requests settle, and then wait until the test opens their gates; those named `slow` do not."""

    def __init__(self):
        self.begun = []
        self.gates = {}
        self.contexts = {}

    async def handle(self, broker, request, context):
        number = int(request.member_id)
        self.begun.append(number)
        self.contexts[number] = context
        if request.group_id != "slow":
            context.settle(DelayedProduce([], find=NotImplemented))
        self.gates[number] = gate = asyncio.get_running_loop().create_future()
        outcome = await gate
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome and HeartbeatResponse(error_code=number)

    def open(self, number, outcome=True):
        self.gates[number].set_result(outcome)


def begin_pipelined():
    gates = Gates()
    connection, transport = begin(gates.handle)
    routes = connection._routes
    routes[12] = routes[12]._replace(pipelined=True)
    return gates, connection, transport


async def turns(count=3):
    for _ in range(count):
        await asyncio.sleep(0)


def api_versions(number):
    return b"".join(encode_request(ApiVersionsRequest(), 0, number, "test"))


def test_what_may_be_pipelined_begins_behind_settled_requests_and_answers_keep_their_order():
    async def main():
        gates, connection, transport = begin_pipelined()
        feed(connection, b"".join(map(heartbeat, (1, 2, 3))))
        assert gates.begun == [1, 2, 3]
        gates.open(3)
        gates.open(2)
        await turns()
        assert answers(transport) == []
        gates.open(1)
        await turns()
        assert answers(transport) == [(1, 1), (2, 2), (3, 3)]
        assert not connection.busy

    asyncio.run(main())


def test_answers_that_are_ready_together_leave_in_one_write():
    async def main():
        gates, connection, transport = begin_pipelined()
        writes = []
        transport.write = writes.append
        feed(connection, b"".join(map(heartbeat, range(5))))
        for number in range(5):
            gates.open(number)
        await turns()
        assert len(writes) == 1
        transport.written += writes[0]
        assert answers(transport) == [(number, number) for number in range(5)]

    asyncio.run(main())


def test_the_requests_of_one_read_are_answered_in_one_write():
    connection, transport = begin(echo)
    writes = []
    transport.write = writes.append
    feed(connection, b"".join(map(heartbeat, range(5))))
    assert len(writes) == 1
    transport.written += writes[0]
    assert answers(transport) == [(number, number) for number in range(5)]


def test_what_may_not_be_pipelined_begins_when_all_before_it_is_answered():
    async def main():
        gates, connection, transport = begin_pipelined()
        feed(connection, heartbeat(1) + heartbeat(2) + api_versions(3) + heartbeat(4))
        connection._routes[18] = connection._routes[18]._replace(handle=echo_versions)
        assert gates.begun == [1, 2]
        gates.open(1)
        await turns()
        assert gates.begun == [1, 2]
        gates.open(2)
        await turns()
        assert gates.begun == [1, 2, 4]
        gates.open(4)
        await turns()
        assert [struct.unpack_from(">i", frame)[0] for frame in transport.frames()] == [1, 2, 3, 4]

    async def echo_versions(broker, request, context):
        return ApiVersionsResponse()

    asyncio.run(main())


def test_nothing_begins_behind_a_request_that_has_not_settled_until_it_does():
    async def main():
        gates, connection, _transport = begin_pipelined()
        feed(connection, heartbeat(1, "slow") + heartbeat(2))
        await turns()
        assert gates.begun == [1]
        gates.contexts[1].settle(DelayedProduce([], find=NotImplemented))
        assert gates.begun == [1]  # not in the midst of the other's story
        await turns()
        assert gates.begun == [1, 2]
        connection.connection_lost(None)

    asyncio.run(main())


def test_no_more_than_a_bounded_number_is_begun_and_not_answered(monkeypatch):
    monkeypatch.setattr(framed_connection, "MAX_UNANSWERED", 3)
    monkeypatch.setattr(framed_connection, "MAX_WAITING_BYTES", 60)

    async def main():
        gates, connection, transport = begin_pipelined()
        feed(connection, b"".join(map(heartbeat, range(8))))
        assert gates.begun == [0, 1, 2]
        assert not transport.reading
        for number in range(8):
            gates.open(number)
            await turns()
        assert transport.reading
        assert [number for number, _ in answers(transport)] == list(range(8))

    asyncio.run(main())


def test_a_request_without_an_answer_holds_nobody_up_among_those_that_wait():
    async def main():
        gates, connection, transport = begin_pipelined()
        feed(connection, b"".join(map(heartbeat, (1, 2, 3))))
        gates.open(2, None)
        gates.open(3)
        gates.open(1)
        await turns()
        assert answers(transport) == [(1, 1), (3, 3)]

    asyncio.run(main())


def test_a_connection_that_has_to_end_ends_behind_the_answers_before():
    async def main():
        gates, connection, transport = begin_pipelined()
        feed(connection, b"".join(map(heartbeat, (1, 2, 3))))
        gates.open(2, Disconnect("acks=0"))
        gates.open(3)
        await turns()
        assert not transport.closed
        gates.open(1)
        await turns()
        assert answers(transport) == [(1, 1)]
        assert transport.closed

    asyncio.run(main())


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack(">i", -5),
        struct.pack(">i", 0),
        struct.pack(">ihhih", 10, 12, 99, 5, -1),
        struct.pack(">ihhih", 10, 999, 0, 5, -1),
    ],
)
def test_bytes_that_cannot_be_understood_end_the_connection_behind_the_answers_before(garbage):
    async def main():
        gates, connection, transport = begin_pipelined()
        feed(connection, heartbeat(1) + heartbeat(2) + garbage + heartbeat(3))
        await turns()
        feed(connection, heartbeat(4))
        assert gates.begun == [1, 2]
        assert not transport.closed
        gates.open(1)
        await turns()
        assert not transport.closed
        gates.open(2)
        await turns()
        assert gates.begun == [1, 2]
        assert answers(transport) == [(1, 1), (2, 2)]
        assert transport.closed

    asyncio.run(main())


def test_all_stories_are_abandoned_when_their_connection_is_lost():
    async def main():
        gates, connection, transport = begin_pipelined()
        feed(connection, b"".join(map(heartbeat, (1, 2, 3))))
        gates.open(1)
        connection.connection_lost(None)
        await turns()
        assert not transport.written
        assert all(gate.cancelled() or not gate.done() for gate in (gates.gates[2], gates.gates[3]))
        assert not connection.busy

    asyncio.run(main())


def test_what_came_before_bytes_that_cannot_be_understood_is_answered_although_it_had_to_wait():
    async def main():
        gates, connection, transport = begin_pipelined()
        feed(connection, heartbeat(1, "slow") + heartbeat(2) + struct.pack(">i", -5))
        assert gates.begun == [1]
        gates.open(1)
        await turns()
        assert gates.begun == [1, 2]
        assert not transport.closed
        gates.open(2)
        await turns()
        assert answers(transport) == [(1, 1), (2, 2)]
        assert transport.closed

    asyncio.run(main())


def announce(connection, size, arrived=0):
    feed(connection, struct.pack(">i", size) + bytes(arrived))


def test_a_length_alone_costs_an_ordinary_request_and_all_of_them_a_bounded_sum():
    memory = RequestMemory()
    several = [begin(echo, max_request_bytes=100 << 20, memory=memory)[0] for _ in range(200)]
    for connection in several:
        announce(connection, 100 << 20)
        assert len(connection.get_buffer(-1)) <= ORDINARY_BYTES
    assert memory.ahead <= AHEAD_BYTES_MAX + 200 * 4096
    for connection in several:
        connection.connection_lost(None)
    assert (memory.ahead, memory.held) == (0, 0)


def test_the_buffer_of_an_ordinary_request_is_made_once_and_that_of_a_larger_one_grows_with_what_arrives():
    connection, transport = begin(echo, max_request_bytes=100 << 20)
    announce(connection, ORDINARY_BYTES, 100)
    assert len(connection.get_buffer(-1)) == ORDINARY_BYTES - 100
    connection, transport = begin(echo, max_request_bytes=100 << 20)
    announce(connection, 100 << 20)
    arrived = 0
    while arrived < 20 << 20:
        length = len(connection.get_buffer(-1))
        assert arrived + length <= max(2 * arrived, ORDINARY_BYTES)
        feed(connection, bytes(length))
        arrived += length
    assert not transport.closed


def test_a_request_that_grew_arrives_whole_however_it_was_cut(monkeypatch):
    seen = []
    monkeypatch.setattr(BrokerConnection, "_run", lambda self, frame: seen.append(frame))
    connection, _ = begin(echo, max_request_bytes=10**7)
    data = bytes(range(256)) * 20_000
    feed(connection, struct.pack(">i", len(data)) + data + struct.pack(">i", 3) + b"abc", 33_333)
    assert seen == [data, b"abc"]
    assert (connection._memory.ahead, connection._memory.held) == (0, 0)


def test_a_connection_moves_on_with_what_arrives_and_with_what_is_taken():
    connection, transport = begin(echo, max_request_bytes=200_000)
    announce(connection, 100_000, arrived=10)
    begun = connection.progress
    feed(connection, bytes(1000))
    arrived = connection.progress
    transport.get_write_buffer_size = lambda: 500
    assert len({begun, arrived, connection.progress}) == 3
    assert connection.progress == connection.progress


def test_beyond_queued_max_request_bytes_a_connection_is_read_from_again_when_there_is_room():
    memory = RequestMemory(1000)
    (first, first_transport), (second, second_transport), (third, third_transport) = (
        begin(echo, max_request_bytes=100_000, memory=memory) for _ in range(3)
    )
    announce(first, 50_000)
    assert first_transport.reading, "a request begins while anything is free"
    announce(second, 50_000)
    announce(third, 50_000)
    assert (second_transport.reading, third_transport.reading) == (False, False)
    third.connection_lost(None)
    first.connection_lost(None)
    assert second_transport.reading
    second.connection_lost(None)
    assert (memory.ahead, memory.held) == (0, 0)


def test_requests_that_wait_for_their_turn_count_until_they_begin():
    memory = RequestMemory(1000)
    held = asyncio.new_event_loop().create_future()

    async def wait(broker, request, context):
        await held
        return HeartbeatResponse()

    connection, _ = begin(wait, memory=memory)
    feed(connection, heartbeat(1) + heartbeat(2) + heartbeat(3))
    assert memory.held == 2 * (len(heartbeat(2)) - 4)
    connection.connection_lost(None)
    assert memory.held == 0


def test_a_bound_for_all_requests_that_is_below_that_of_one_is_refused():
    with pytest.raises(ConfigError, match=r"queued\.max"):
        request_memory(broker_config({"queued.max.request.bytes": "1000", "socket.request.max.bytes": "1001"}))


def test_what_a_connection_may_announce_depends_on_what_it_is():
    connection, transport = begin(echo, max_request_bytes=10**6)
    connection.max_request_bytes = 1000
    announce(connection, 1001)
    assert transport.closed


def long_request(elements, size=None):
    """DescribeGroups of so many groups."""
    request = DescribeGroupsRequest(groups=["g" * (size or 1)] * elements)
    return b"".join(encode_request(request, 0, 1, "test"))


async def describe(broker, request, context):
    for _ in request.groups:
        if context.due():
            await context.turn()
    return DescribeGroupsResponse(
        groups=[DescribeGroupsResponse.DescribedGroup(group_id=each) for each in request.groups]
    )


def begin_describing(memory=None):
    connection, transport = begin(echo, max_request_bytes=10**7, memory=memory)
    connection._routes[15] = route("DescribeGroups", DescribeGroupsRequest, describe, DescribeGroupsResponse)
    return connection, transport


def turns_until(done):
    """Turns of the loop until `done`, each with a heartbeat of somebody else's that is answered at once."""
    other, other_transport = begin(echo)

    async def play():
        turns = 0
        while not done():
            feed(other, heartbeat(turns))
            assert len(other_transport.frames()) == turns + 1
            turns += 1
            assert turns < 10_000
            await asyncio.sleep(0)
        return turns

    return play()


def test_a_long_request_is_read_answered_and_written_while_others_are_served():
    async def play():
        memory = RequestMemory()
        connection, transport = begin_describing(memory)
        feed(connection, long_request(20_000))
        assert not transport.written
        assert memory.held > 60_000
        turns = await turns_until(lambda: transport.written)
        assert memory.held == 0
        assert len(decode_response(DescribeGroupsResponse, 0, transport.frames()[0])[1].groups) == 20_000
        return turns

    assert asyncio.run(play()) > 2 * 20_000 // 256 + 20_000 // 128


def test_a_request_with_more_elements_than_its_size_allows_closes_the_connection_before_they_are_decoded():
    async def play():
        connection, transport = begin_describing()
        feed(connection, long_request(ELEMENTS * 2))
        await turns_until(lambda: transport.closed)
        assert not transport.written

    asyncio.run(play())


def test_requests_of_many_elements_are_answered_one_after_the_other_where_there_are_many(monkeypatch):
    """What they are decoded to is not all held at once."""
    monkeypatch.setattr(turns_of_stories, "HELD_MAX", 20)
    begun = []

    async def begin_to_describe(broker, request, context):
        begun.append(context)
        return await describe(broker, request, context)

    async def play():
        transports = []
        for _ in range(20):
            connection, transport = begin_describing()
            connection._routes[15] = connection._routes[15]._replace(handle=begin_to_describe)
            feed(connection, long_request(2_500))
            transports.append(transport)
        while (answered := sum(bool(each.written) for each in transports)) < 20:
            assert len(begun) <= answered + 4
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(play(), 60))


def test_a_connection_that_goes_while_its_long_request_is_read_leaves_nothing_behind():
    async def play():
        memory = RequestMemory()
        stories = []
        for _ in range(2):
            connection, _ = begin_describing(memory)
            feed(connection, long_request(20_000))
            stories.append(connection)
        for _ in range(100):
            await asyncio.sleep(0)
        for connection in stories:
            connection.connection_lost(None)
        assert memory.held == 0
        connection, transport = begin_describing(memory)
        feed(connection, long_request(20_000))
        await turns_until(lambda: transport.written)
        assert not connection._channel.long_requests.turns._begun

    asyncio.run(play())


def test_a_connection_that_finds_no_descriptor_for_its_files_ends_alone():
    """What it waited for may have come with another client's append, which goes on."""
    ours, theirs = socket.socketpair()

    class WithSocket(Transport):
        def get_extra_info(self, name, default=None):
            return ours if name == "socket" else super().get_extra_info(name, default)

    async def story():
        connection, transport = BrokerConnection(Channel(echo), "PLAINTEXT", ConnectionLimits(1000)), WithSocket()
        connection.connection_made(transport)
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest_free = os.dup(ours.fileno())
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, allowed[1]))
        try:
            connection._write([b"head", FileRecords(SimpleNamespace(cuts=0), 0, FILE_RECORDS_BYTES)])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, allowed)
        assert (transport.closed, bytes(transport.written)) == (True, b"")

    with ours, theirs:
        asyncio.run(story())
