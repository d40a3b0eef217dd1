"""A SASL listener's connection, fed with bytes: what waits for a slow mechanism, failures that take time, sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from clocks import ManualClock
from test_broker_connection import Channel, Transport, echo, feed, heartbeat

from barnabas.broker.framed_connection import ConnectionLimits
from barnabas.broker.guarded_connection import SaslConnection
from barnabas.model.errors import ErrorCode
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.sasl.exchange import Authenticated, SaslRefused
from barnabas.wire.frames import decode_response, encode_request, response_class
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest


class Slow:
    """A mechanism that looks a token up, and is answered when a test says so."""

    name = "SLOW"

    def __init__(self) -> None:
        self.looked_up: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.authenticated: Authenticated | None = None

    def begin(self) -> Slow:
        self.authenticated = None
        return self

    async def evaluate(self, token: bytes) -> bytes:
        user = await self.looked_up
        if not user:
            raise SaslRefused("Nobody is known by this.")
        self.authenticated = Authenticated(Principal("User", user), token_authenticated=token == b"delegated")
        return b""


class World:
    def __init__(self, *, max_reauth_ms: int = 0, delay_ms: int = 0) -> None:
        self.clock = ManualClock()
        self.slow = Slow()
        self.complaints: list[str] = []
        channel: Any = Channel(echo)
        channel.connections = SimpleNamespace(
            opened=lambda connection, transport: None,
            closed=lambda connection: None,
            complain=lambda connection, reason: self.complaints.append(reason),
        )
        gate: Any = SimpleNamespace(
            clock=self.clock,
            name="SASL",
            mechanisms={"SLOW": self.slow},
            max_reauth_ms={"SLOW": max_reauth_ms},
            max_token_bytes=500,
            authentication_timeout_ms=60_000,
            failed_authentication_delay_ms=delay_ms,
        )
        self.connection = SaslConnection(gate, channel, ConnectionLimits(2000))
        self.transport = Transport()
        self.connection.connection_made(self.transport)

    def answer(self, number: int, message: Any, version: int) -> Any:
        return decode_response(response_class(message.api_key), version, self.transport.frames()[number])[1]

    def login(self, user: str = "alice", by: bytes = b"ticket") -> None:
        self.slow.looked_up = asyncio.get_running_loop().create_future()
        self.slow.looked_up.set_result(user)
        feed(self.connection, login_by(by))


def frame(message: Any, version: int) -> bytes:
    return b"".join(encode_request(message, version, 1, "test"))


def login_by(token: bytes) -> bytes:
    return frame(SaslHandshakeRequest(mechanism="SLOW"), 1) + frame(SaslAuthenticateRequest(auth_bytes=token), 2)


LOGIN = login_by(b"ticket")


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


def test_what_comes_behind_a_token_waits_for_it_and_is_served() -> None:
    async def story() -> None:
        world = World()
        feed(world.connection, LOGIN + heartbeat(1) + heartbeat(2))
        assert len(world.transport.frames()) == 1  # the handshake's
        assert not world.transport.reading
        assert world.connection.principal == ANONYMOUS
        world.slow.looked_up.set_result("alice")
        await asyncio.sleep(0)
        assert world.transport.reading
        assert world.connection.principal == Principal("User", "alice")
        assert [world.answer(number, HeartbeatRequest(), 2).error_code for number in (2, 3)] == [1, 2]
        feed(world.connection, heartbeat(3, "g" * 1000))  # more than a stranger may announce
        assert world.answer(4, HeartbeatRequest(), 2).error_code == 3

    play(story)


def test_what_comes_behind_a_token_that_is_refused_is_not_served() -> None:
    async def story() -> None:
        world = World()
        feed(world.connection, LOGIN + heartbeat(1))
        world.slow.looked_up.set_result("")
        for _ in range(5):
            await asyncio.sleep(0.001)
        assert len(world.transport.frames()) == 2
        answer = world.answer(1, SaslAuthenticateRequest(), 2)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert world.transport.closed
        assert world.connection.principal == ANONYMOUS

    play(story)


def test_a_failure_is_told_after_a_delay_in_which_nothing_is_read() -> None:
    async def story() -> None:
        world = World(delay_ms=3_600_000)
        world.login("")
        for _ in range(5):
            await asyncio.sleep(0.001)
        assert len(world.transport.frames()) == 1
        assert not world.transport.closed
        assert not world.transport.reading
        feed(world.connection, heartbeat(1))
        assert len(world.transport.frames()) == 1
        world.connection.connection_lost(None)

    play(story)


def test_a_connection_that_goes_away_abandons_the_token() -> None:
    async def story() -> None:
        world = World()
        feed(world.connection, LOGIN)
        world.connection.connection_lost(None)
        world.slow.looked_up.set_result("alice")
        await asyncio.sleep(0)
        assert world.connection.principal == ANONYMOUS
        assert len(world.transport.frames()) == 1

    play(story)


@pytest.mark.parametrize("size", [501, 1999, 100_000_000, -1])
def test_a_stranger_may_announce_little(size: int) -> None:
    async def story() -> None:
        world = World()
        feed(world.connection, size.to_bytes(4, "big", signed=True))
        assert world.transport.closed
        assert "it announced a request of" in world.complaints[0]

    play(story)


def test_a_tls_handshake_is_called_by_its_name() -> None:
    async def story() -> None:
        world = World()
        feed(world.connection, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc")
        assert world.complaints == ["it speaks TLS, and this listener does not"]

    play(story)


def test_a_session_ends_and_can_be_prolonged_before() -> None:
    async def story() -> None:
        world = World(max_reauth_ms=10_000)
        world.login()
        world.clock.ms += 6_000
        world.login()
        assert world.answer(3, SaslAuthenticateRequest(), 2).session_lifetime_ms == 10_000
        world.clock.ms += 6_000
        feed(world.connection, heartbeat(1))
        assert world.answer(4, HeartbeatRequest(), 2).error_code == 1
        feed(world.connection, frame(ApiVersionsRequest(), 0)[:5])
        world.clock.ms += 6_000
        feed(world.connection, frame(ApiVersionsRequest(), 0)[5:])
        assert world.transport.closed
        assert world.complaints == ["its session has ended, and it did not authenticate again"]

    play(story)


def test_another_principal_does_not_take_a_session_over() -> None:
    async def story() -> None:
        world = World(max_reauth_ms=10_000)
        world.login()
        world.clock.ms += 2_000
        world.login("mallory")
        for _ in range(5):
            await asyncio.sleep(0.001)
        assert world.transport.closed
        assert world.connection.principal == Principal("User", "alice")

    play(story)


def test_what_a_token_may_not_do_counts_from_the_login_that_was_by_one() -> None:
    """A session that goes on by a delegation token is a token's from then on, and a user's again behind a password."""

    async def story() -> None:
        world = World(max_reauth_ms=10_000)
        for by, token_authenticated in ((b"ticket", False), (b"delegated", True), (b"ticket", False)):
            world.login(by=by)
            assert world.connection.token_authenticated is token_authenticated
            world.clock.ms += 2_000
        assert not world.transport.closed

    play(story)


def test_who_authenticates_again_and_again_is_not_listened_to() -> None:
    """Each login costs the broker a computation: one a second of a session that has begun."""

    async def story() -> None:
        world = World(max_reauth_ms=10_000)
        world.login()
        began = world.connection._session
        world.clock.ms += 1_000
        world.login()
        prolonged = world.connection._session
        assert prolonged is not began
        world.clock.ms += 999
        world.login()
        assert world.connection._session is prolonged

    play(story)
