"""DIGEST-MD5: both sides agree, and with the example of RFC 2831; a wrong password convinces nobody."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from barnabas.security.sasl.exchange import SaslRefused
from barnabas.zk.protocol import digest_md5
from barnabas.zk.protocol.digest_md5 import DigestMd5Server, client_tokens, directives


def begun(user: str, password: str, cnonce: str = "c") -> Generator[bytes, bytes, None]:
    tokens = client_tokens(user, password, cnonce)
    assert next(tokens) == b""
    return tokens


def test_a_user_and_a_server_convince_each_other() -> None:
    server = DigestMd5Server({"bob": 's3cr"et', "zoë": "пароль"}, "server-nonce")
    for user, password in (("bob", 's3cr"et'), ("zoë", "пароль")):
        client = begun(user, password, "client-nonce")
        known, proof = server.verify(client.send(server.challenge()))
        assert known == user
        with pytest.raises(StopIteration):
            client.send(proof)


def test_the_proof_is_that_of_the_rfc() -> None:
    fields = {
        "realm": "elwood.innosoft.com",
        "nonce": "OA6MG9tEQGm2hh",
        "cnonce": "OA6MHXh6VqTrRk",
        "nc": "00000001",
        "qop": "auth",
        "digest-uri": "imap/elwood.innosoft.com",
    }
    assert digest_md5._proof("chris", "secret", fields, "AUTHENTICATE") == "d388dad90d4bbd760a152321f2143af7"
    assert digest_md5._proof("chris", "secret", fields, "") == "ea40f60335c427b5527b84dbabcdfffd"


@pytest.mark.parametrize(("user", "password"), [("bob", "wrong"), ("eve", ""), ("", "")])
def test_a_wrong_password_is_refused(user: str, password: str) -> None:
    server = DigestMd5Server({"bob": "secret"}, "n")
    answer = begun(user, password).send(server.challenge())
    with pytest.raises(SaslRefused, match="no user"):
        server.verify(answer)


def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    client = begun("bob", "secret")
    answer = client.send(DigestMd5Server({}, "n").challenge())
    _, proof = DigestMd5Server({"bob": "secret"}, "n").verify(answer)
    with pytest.raises(SaslRefused, match="did not prove"):
        client.send(proof[:-1] + b"x")


def test_an_answer_to_another_challenge_is_refused() -> None:
    answer = begun("bob", "secret").send(DigestMd5Server({}, "first").challenge())
    with pytest.raises(SaslRefused, match="another challenge"):
        DigestMd5Server({"bob": "secret"}, "second").verify(answer)


@pytest.mark.parametrize("token", [b"=", b'nonce="open', b"\xff\xfe", b"a=b c"])
def test_garbage_is_refused(token: bytes) -> None:
    with pytest.raises(SaslRefused):
        begun("bob", "secret").send(token)


@pytest.mark.parametrize("response", ["é" * 32, "\u65e5"])
def test_a_proof_that_is_no_hexadecimal_number_is_refused(response: str) -> None:
    server = DigestMd5Server({"bob": "secret"}, "n")
    client = begun("bob", "secret")
    answer = client.send(server.challenge()).decode()
    with pytest.raises(SaslRefused, match="no user"):
        server.verify(f"{answer[: answer.index('response=')]}response={response}".encode())
    with pytest.raises(SaslRefused, match="did not prove"):
        client.send(f"rspauth={response}".encode())


def test_directives_are_read_as_they_are_written() -> None:
    assert directives(b'realm="a\\"b", nonce = "x,y" ,qop=auth') == {"realm": 'a"b', "nonce": "x,y", "qop": "auth"}
