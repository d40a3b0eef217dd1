"""A client's side of SASL, by the RFCs' own examples and the ways in which a server may be wrong."""

from __future__ import annotations

import pytest

from barnabas.model.errors import ConfigError
from barnabas.security.sasl.exchange import SaslRefused
from barnabas.security.sasl.login import SaslLogin, login_of

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
