"""DIGEST-MD5: both sides agree, and with the example of RFC 2831; a wrong password convinces nobody."""

from __future__ import annotations

import pytest

from barnabas.zk.protocol import digest_md5
from barnabas.zk.protocol.digest_md5 import DigestMd5Client, DigestMd5Server, SaslError, directives


def test_a_user_and_a_server_convince_each_other() -> None:
    server = DigestMd5Server({"bob": 's3cr"et', "zoë": "пароль"}, "server-nonce")
    for user, password in (("bob", 's3cr"et'), ("zoë", "пароль")):
        client = DigestMd5Client(user, password, "client-nonce")
        answer = client.respond(server.challenge())
        assert answer is not None
        known, proof = server.verify(answer)
        assert known == user
        assert client.respond(proof) is None
        assert client.complete


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
    answer = DigestMd5Client(user, password, "c").respond(server.challenge())
    assert answer is not None
    with pytest.raises(SaslError, match="no user"):
        server.verify(answer)


def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    client = DigestMd5Client("bob", "secret", "c")
    answer = client.respond(DigestMd5Server({}, "n").challenge())
    assert answer is not None
    _, proof = DigestMd5Server({"bob": "secret"}, "n").verify(answer)
    with pytest.raises(SaslError, match="did not prove"):
        client.respond(proof[:-1] + b"x")


def test_an_answer_to_another_challenge_is_refused() -> None:
    answer = DigestMd5Client("bob", "secret", "c").respond(DigestMd5Server({}, "first").challenge())
    assert answer is not None
    with pytest.raises(SaslError, match="another challenge"):
        DigestMd5Server({"bob": "secret"}, "second").verify(answer)


@pytest.mark.parametrize("token", [b"=", b'nonce="open', b"\xff\xfe", b"a=b c"])
def test_garbage_is_refused(token: bytes) -> None:
    with pytest.raises(SaslError):
        DigestMd5Client("bob", "secret", "c").respond(token)


def test_directives_are_read_as_they_are_written() -> None:
    assert directives(b'realm="a\\"b", nonce = "x,y" ,qop=auth') == {"realm": 'a"b', "nonce": "x,y", "qop": "auth"}
