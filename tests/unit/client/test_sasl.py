"""A client's side of SASL, by the RFCs' own examples and the ways in which a server may be wrong."""

from __future__ import annotations

import asyncio
import hashlib
import pickle
import sys
from types import FrameType

import pytest

from barnabas.model.errors import ConfigError
from barnabas.runtime.real import real_runtime
from barnabas.security.sasl.exchange import SaslRefused
from barnabas.security.sasl.login import SaslLogin, login_of
from barnabas.security.sasl.scram import KEPT_MAX, NoUsers, Scram
from barnabas.security.sasl.scram_credential import ScramCredential, ScramMechanism

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
PENCIL = SaslLogin("SCRAM-SHA-256", "user", "pencil")


def test_scram_is_rfc_7677s_example() -> None:
    tokens = PENCIL.tokens(NONCE)
    assert next(tokens) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert tokens.send(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        tokens.send(SERVER_FINAL)


@pytest.mark.parametrize(
    ("first", "final", "said"),
    [
        (b"r=somebodyelses,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", b"", "nonce"),
        (SERVER_FIRST.replace(b"4096", b"1"), b"", "iterations"),
        (b"e=unknown-user", b"", "unknown-user"),
        (SERVER_FIRST, b"v=AAAA", "prove"),
    ],
)
def test_a_server_that_is_not_the_one_is_refused(first: bytes, final: bytes, said: str) -> None:
    tokens = PENCIL.tokens(NONCE)
    next(tokens)

    def converse() -> None:
        tokens.send(first)
        tokens.send(final)

    with pytest.raises(SaslRefused, match=said):
        converse()


def test_plain_is_one_token_and_the_password_is_not_printed() -> None:
    jaas = 'o.a.k.PlainLoginModule required username="k" password=\'a "b"\';'
    login = login_of({"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas})
    assert isinstance(login, SaslLogin)
    assert list(login.tokens("")) == [b'\0k\0a "b"']
    assert "a " not in repr(login)


@pytest.mark.parametrize(("mechanism", "text"), [("CRAM-MD5", ""), ("GSSAPI", ""), ("PLAIN", "username=k password=p")])
def test_what_is_not_supported_is_said(mechanism: str, text: str) -> None:
    with pytest.raises(ConfigError, match="sasl"):
        login_of({"sasl.mechanism": mechanism, "sasl.jaas.config": text})


class OneUser(NoUsers):
    """Whoever logs in is the one that has this credential."""

    def __init__(self, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int = 4096) -> None:
        self.mechanism = mechanism
        self.known = ScramCredential.of_password(mechanism, password, salt, iterations)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return self.known


def log_in(login: SaslLogin, users: OneUser) -> int:
    """How often PBKDF2 was run for it. Raises `SaslRefused`."""
    server = Scram(users.mechanism, users, real_runtime().clock, lambda: "broker").begin()
    runs = 0

    def count(_frame: FrameType, event: str, called: object) -> None:
        nonlocal runs
        runs += event == "c_call" and called is hashlib.pbkdf2_hmac

    tokens = login.tokens("client")
    sys.setprofile(count)
    try:
        token = next(tokens)
        while True:
            try:
                token = tokens.send(asyncio.run(server.evaluate(token)))
            except StopIteration:
                return runs
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_password_is_stretched_once_for_a_salt_and_its_iterations(mechanism: ScramMechanism) -> None:
    login = SaslLogin(mechanism.mechanism_name, "kate", "pencil")
    first = OneUser(mechanism, "pencil", b"salt")
    altered = [OneUser(mechanism, "pencil", b"another salt"), OneUser(mechanism, "pencil", b"salt", 8192)]
    assert [log_in(login, first) for _ in range(3)] == [1, 0, 0]
    for users in altered:
        assert [log_in(login, users) for _ in range(2)] == [1, 0]
    assert log_in(login, first) == 0
    assert log_in(SaslLogin(mechanism.mechanism_name, "kate", "pencil"), first) == 1, "it is this login that keeps it"


def test_what_is_kept_of_a_password_is_bounded_and_nothing_of_the_login_as_a_value() -> None:
    login = SaslLogin("SCRAM-SHA-256", "kate", "pencil")
    brokers = [OneUser(ScramMechanism.SCRAM_SHA_256, "pencil", bytes([number])) for number in range(KEPT_MAX + 1)]
    for _ in range(2):
        assert [log_in(login, users) for users in brokers] == [1] * len(brokers)
        assert [log_in(login, users) for users in brokers[1:]] == [0] * KEPT_MAX
    other = SaslLogin("SCRAM-SHA-256", "kate", "pencil")
    assert login == other
    assert hash(login) == hash(other)
    assert repr(login) == repr(other)
    assert pickle.loads(pickle.dumps(login)) == other


def test_nothing_is_kept_of_a_broker_that_did_not_prove_that_it_knows_the_password() -> None:
    login, wrong = SaslLogin("SCRAM-SHA-256", "user", "pencil"), SaslLogin("SCRAM-SHA-256", "user", "pen")
    users = OneUser(ScramMechanism.SCRAM_SHA_256, "pencil", b"salt")
    assert log_in(login, users) == 1
    for number in range(KEPT_MAX):
        tokens = login.tokens(NONCE)
        next(tokens)
        tokens.send(SERVER_FIRST.replace(b"W22", b"X%02d" % number))
        with pytest.raises(SaslRefused, match="prove"):
            tokens.send(b"v=AAAA")
    assert log_in(login, users) == 0
    for _ in range(2):
        with pytest.raises(SaslRefused, match="invalid credentials"):
            log_in(wrong, users)
    assert log_in(login, OneUser(ScramMechanism.SCRAM_SHA_256, "pencil", b"salt")) == 0
