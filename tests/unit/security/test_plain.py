"""PLAIN on the broker's side."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.security.principal import Principal
from barnabas.security.sasl.exchange import Authenticated, SaslRefused
from barnabas.security.sasl.plain import Plain, client_tokens

USERS = Plain({"alice": "secret", "bob": "", "zoë": "pässword"})


def login(token: bytes) -> Authenticated | None:
    server = USERS.begin()
    assert server.authenticated is None
    assert asyncio.run(server.evaluate(token)) == b""
    return server.authenticated


def test_who_knows_the_password_is_that_user() -> None:
    assert login(b"\0alice\0secret") == Authenticated(Principal("User", "alice"))
    assert login(b"alice\0alice\0secret") == Authenticated(Principal("User", "alice"))
    assert login(next(client_tokens("zoë", "pässword"))) == Authenticated(Principal("User", "zoë"))


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0\xff", "Authentication failed: Invalid username or password"),
        (b"\0bob\0", "Authentication failed: password not specified"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"bob\0alice\0secret", "authorization id that is different from username"),
        (b"", "expected 3 tokens, got 1"),
        (b"alice\0secret", "expected 3 tokens, got 2"),
        (b"\0alice\0secret\0more\0", "expected 3 tokens, got 4"),
        (b"\xff\xfe\0\xc3\0\xa9", "Invalid username or password"),
    ],
)
def test_anything_else_is_refused_in_kafkas_words(token: bytes, told: str) -> None:
    with pytest.raises(SaslRefused, match=told):
        login(token)


def test_an_exchange_ends_once() -> None:
    server = USERS.begin()
    asyncio.run(server.evaluate(b"\0alice\0secret"))
    with pytest.raises(SaslRefused):
        asyncio.run(server.evaluate(b"\0alice\0secret"))
