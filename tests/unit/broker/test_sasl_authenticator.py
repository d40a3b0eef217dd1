"""What a SASL listener takes in which state, and what it answers."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from barnabas.broker.sasl_authenticator import Reply, SaslServerAuthenticator, SaslSession, SaslState
from barnabas.model.errors import ErrorCode
from barnabas.runtime import Bytes
from barnabas.runtime.sparing_log import VARYING
from barnabas.security.principal import Principal
from barnabas.security.sasl.exchange import Authenticated, InvalidCredentials, SaslMechanism
from barnabas.security.sasl.plain import Plain
from barnabas.wire.frames import decode_response, encode_request, response_class
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest

ALICE = b"\0alice\0wonder"


class Clock:
    wall_ms = 1_000_000
    ms = 5_000

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ms(self) -> int:
        return self.ms


class Ticket:
    """A mechanism whose one token is the name, and which ends at a time."""

    name = "TICKET"
    authenticated: Authenticated | None = None
    expires_at_ms = Clock.wall_ms + 700

    def begin(self) -> Ticket:
        return Ticket()

    async def evaluate(self, token: bytes) -> bytes:
        await asyncio.sleep(0)
        if token == b"bug":
            raise KeyError(token)
        if token == b"forged":
            raise InvalidCredentials(self.name, "the signature is another's")
        self.authenticated = Authenticated(Principal("User", token.decode()), self.expires_at_ms)
        return b"welcome"


MECHANISMS: dict[str, SaslMechanism] = {"PLAIN": Plain({"alice": "wonder", "bob": "builder"}), "TICKET": Ticket()}


def authenticator(before: SaslSession | None = None, **max_reauth_ms: int) -> SaslServerAuthenticator:
    return SaslServerAuthenticator(MECHANISMS, {"PLAIN": 0, "TICKET": 0, **max_reauth_ms}, Clock(), before)


def take(asked: SaslServerAuthenticator, frame: Bytes) -> Reply:
    return asyncio.run(asked.take(bytearray(frame)))


def ask(asked: SaslServerAuthenticator, message: Any, version: int) -> tuple[Reply, Any]:
    frame = b"".join(encode_request(message, version, 7, "test"))[4:]
    reply = take(asked, frame)
    if not reply.answer:
        return reply, None
    return reply, decode_response(response_class(message.api_key), version, b"".join(reply.answer)[4:])[1]


def handshake(asked: SaslServerAuthenticator, mechanism: str = "PLAIN", version: int = 1) -> Any:
    return ask(asked, SaslHandshakeRequest(mechanism=mechanism), version)[1]


def token(asked: SaslServerAuthenticator, data: bytes, version: int = 2) -> tuple[Reply, Any]:
    return ask(asked, SaslAuthenticateRequest(auth_bytes=data), version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_asks_for_versions_and_logs_in(version: int) -> None:
    asked = authenticator()
    assert ask(asked, ApiVersionsRequest(), 3)[0].is_api_versions
    assert handshake(asked).mechanisms == ["PLAIN", "TICKET"]
    assert asked.session is None
    reply, answer = token(asked, ALICE, version)
    assert not reply.failure
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
    assert asked.state is SaslState.COMPLETE
    assert asked.session is not None
    assert asked.session.authenticated.principal == Principal("User", "alice")
    assert asked.session.expires_ms is None


def test_behind_handshake_version_0_tokens_are_bare() -> None:
    asked = authenticator()
    assert handshake(asked, "TICKET", 0).error_code == 0
    reply = take(asked, b"carol")
    assert b"".join(reply.answer) == struct.pack(">i", 7) + b"welcome"
    assert asked.session is not None
    refused = authenticator()
    handshake(refused, "PLAIN", 0)
    reply = take(refused, b"\0alice\0wrong")
    assert not reply.answer
    assert "Invalid username or password" in reply.failure


def test_a_mechanism_that_is_not_enabled_is_told_what_is() -> None:
    reply, answer = ask(authenticator(), SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "TICKET"]
    assert "SCRAM-SHA-256" in reply.failure


@pytest.mark.parametrize("mechanism", ["", "x", "a\nWARNING forged", "(" * 9, "\u2028", "M" * 20_000])
def test_whatever_a_stranger_asks_for_is_one_kind_of_line_in_the_log(mechanism: str) -> None:
    reply, _ = ask(authenticator(), SaslHandshakeRequest(mechanism=mechanism), 1)
    assert VARYING.sub("", reply.failure) == "it asked for a SASL mechanism that is not enabled "
    assert len(reply.failure) < 300
    assert reply.failure.isprintable()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ([], "METADATA before it authenticated"),
        ([ApiVersionsRequest()], "METADATA before it authenticated"),
        ([ApiVersionsRequest(), SaslHandshakeRequest(mechanism="PLAIN")], "METADATA in the midst"),
    ],
)
def test_every_other_request_ends_the_connection(said: list[Any], reason: str) -> None:
    asked = authenticator()
    for message in said:
        assert not ask(asked, message, 1)[0].failure
    reply, answer = ask(asked, MetadataRequest(), 1)
    assert answer is None
    assert reason in reply.failure
    assert asked.session is None


def test_versions_are_asked_once_and_again_only_in_a_version_that_exists() -> None:
    asked = authenticator()
    unknown = b"".join(encode_request(ApiVersionsRequest(), 3, 7, "test"))[4:]
    unknown = unknown[:2] + struct.pack(">h", 77) + unknown[4:]
    assert take(asked, unknown).is_api_versions
    assert ask(asked, ApiVersionsRequest(), 0)[0].is_api_versions
    assert "API_VERSIONS before" in ask(asked, ApiVersionsRequest(), 0)[0].failure


@pytest.mark.parametrize(
    "frame", [b"", b"\0", b"\0\x12\0\x03", b"\x60\x81\x01\x02gssapi...", bytes(100), b"\0\x11\0\x09" + bytes(9)]
)
def test_what_cannot_be_read_ends_the_connection(frame: bytes) -> None:
    reply = take(authenticator(), frame)
    assert reply.failure
    assert not reply.answer


def test_a_wrong_password_is_told_no_more_than_kafka_tells() -> None:
    asked = authenticator()
    handshake(asked)
    reply, answer = token(asked, b"\0alice\0wrong")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert asked.session is None
    assert asked.state is SaslState.AUTHENTICATE
    asked = authenticator()
    handshake(asked, "TICKET")
    reply, answer = token(asked, b"forged")
    assert answer.error_message.endswith("due to invalid credentials with SASL mechanism TICKET")
    assert reply.failure.endswith("the signature is another's)")


def test_a_mechanism_that_breaks_lets_nobody_in() -> None:
    asked = authenticator()
    handshake(asked, "TICKET")
    _, answer = token(asked, b"bug")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "bug" not in answer.error_message
    assert asked.session is None


@pytest.mark.parametrize(
    ("mechanism", "max_reauth_ms", "lifetime_ms"),
    [("PLAIN", 0, 0), ("PLAIN", 400, 400), ("TICKET", 0, 700), ("TICKET", 400, 400), ("TICKET", 900, 700)],
)
def test_a_session_ends_with_its_credential_or_when_the_broker_says(
    mechanism: str, max_reauth_ms: int, lifetime_ms: int
) -> None:
    asked = authenticator(**{mechanism: max_reauth_ms})
    handshake(asked, mechanism)
    _, answer = token(asked, ALICE if mechanism == "PLAIN" else b"carol")
    assert answer.session_lifetime_ms == lifetime_ms
    assert asked.session is not None
    assert asked.session.expires_ms == (Clock.ms + lifetime_ms if lifetime_ms else None)


def session(asked: SaslServerAuthenticator) -> SaslSession:
    handshake(asked)
    token(asked, ALICE)
    assert asked.session is not None
    return asked.session


def test_a_session_is_prolonged_by_the_same_principal_and_mechanism_alone() -> None:
    before = session(authenticator(PLAIN=400))
    again = authenticator(before, PLAIN=400)
    assert ask(again, ApiVersionsRequest(), 0)[0].failure  # only SaslHandshake begins it
    again = authenticator(before, PLAIN=400)
    handshake(again)
    assert not token(again, ALICE)[0].failure
    assert again.session is not None

    other = authenticator(before, PLAIN=400)
    handshake(other)
    _, answer = token(other, b"\0bob\0builder")
    assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert other.session is None

    foreign = authenticator(before, PLAIN=400)
    assert handshake(foreign, "TICKET").error_code == 0
    reply, answer = token(foreign, b"alice")
    assert answer is None
    assert "'TICKET' requested by client is not supported for re-authentication of mechanism 'PLAIN'" in reply.failure
    assert foreign.session is None
