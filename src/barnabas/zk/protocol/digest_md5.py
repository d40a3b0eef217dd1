"""SASL DIGEST-MD5 (RFC 2831) as ZooKeeper uses it, both sides. Pure: challenges in, answers out.

The client's first token is empty. The server challenges with its realm and a nonce, the client proves that it knows the
password, and the server proves the same back (``rspauth``). Only the quality of protection ``auth`` is spoken.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Generator, Mapping
from typing import Final

from barnabas.security.sasl.exchange import SaslRefused

REALM: Final = "zk-sasl-md5"
"""The name of every ZooKeeper server, whatever its host."""
DIGEST_URI: Final = f"zookeeper/{REALM}"

_DIRECTIVE: Final = re.compile(r'\s*([A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^,"\s]*))\s*(?:,|$)', re.S)


def directives(token: bytes) -> dict[str, str]:
    """The ``name=value`` pairs of a token, names in lower case. Raises `SaslRefused`."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        text = token.decode("latin-1")
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _DIRECTIVE.match(text, position)
        if match is None:
            raise SaslRefused(f"a token that cannot be read from byte {position} on")
        name, quoted, plain = match.groups()
        found[name.lower()] = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position = match.end()
    return found


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _encoded(text: str) -> bytes:
    """Latin-1 if it has all characters, else UTF-8 (RFC 2831, 2.1.2.1)."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _proof(user: str, password: str, fields: Mapping[str, str], method: str) -> str:
    """``response`` (`method` "AUTHENTICATE") or ``rspauth`` (`method` ""), from the fields of the client's answer."""
    secret = _md5(b":".join((_encoded(user), _encoded(fields.get("realm", "")), _encoded(password))))
    first = b":".join((secret, fields["nonce"].encode(), fields["cnonce"].encode()))
    if "authzid" in fields:
        first += b":" + fields["authzid"].encode()
    second = f"{method}:{fields['digest-uri']}".encode()
    parts = (
        *(_md5(first).hex(), fields["nonce"], fields["nc"], fields["cnonce"], fields["qop"]),
        _md5(second).hex(),
    )
    return _md5(":".join(parts).encode()).hex()


def client_tokens(user: str, password: str, cnonce: str) -> Generator[bytes, bytes, None]:
    """A client's side: it ends when the server has proved that it knows the password. Raises `SaslRefused`."""
    challenge = directives((yield b""))
    if "nonce" not in challenge:
        raise SaslRefused("a challenge without a nonce")
    if "auth" not in [quality.strip() for quality in challenge.get("qop", "auth").split(",")]:
        raise SaslRefused(f"the server wants qop {challenge['qop']}, and only auth is spoken")
    sent = {
        "realm": challenge.get("realm", ""),
        "nonce": challenge["nonce"],
        "cnonce": cnonce,
        "nc": "00000001",
        "qop": "auth",
        "digest-uri": DIGEST_URI,
    }
    answer = ",".join(
        (
            "charset=utf-8",
            f"username={_quoted(user)}",
            f"realm={_quoted(sent['realm'])}",
            f"nonce={_quoted(sent['nonce'])}",
            f"nc={sent['nc']}",
            f"cnonce={_quoted(cnonce)}",
            f"digest-uri={_quoted(DIGEST_URI)}",
            "qop=auth",
            f"response={_proof(user, password, sent, 'AUTHENTICATE')}",
        )
    )
    proof = directives((yield answer.encode())).get("rspauth", "")
    if not hmac.compare_digest(proof.encode(), _proof(user, password, sent, "").encode()):
        raise SaslRefused("the server did not prove that it knows the password")


class DigestMd5Server:
    """One authentication: `challenge`, then `verify` the client's answer."""

    def __init__(self, passwords: Mapping[str, str], nonce: str) -> None:
        self._passwords = passwords
        self._nonce = nonce

    def challenge(self) -> bytes:
        return f'realm="{REALM}",nonce={_quoted(self._nonce)},qop="auth",charset=utf-8,algorithm=md5-sess'.encode()

    def verify(self, token: bytes) -> tuple[str, bytes]:
        """The authenticated user, and the server's own proof. Raises `SaslRefused`."""
        fields = {"qop": "auth", **directives(token)}
        missing = {"username", "nonce", "cnonce", "nc", "digest-uri", "response"} - fields.keys()
        if missing:
            raise SaslRefused(f"an answer without {', '.join(sorted(missing))}")
        user = fields["username"]
        if fields["nonce"] != self._nonce or fields["nc"] != "00000001" or fields["qop"] != "auth":
            raise SaslRefused("an answer to another challenge")
        if fields["digest-uri"].lower() != DIGEST_URI or fields.get("realm", REALM) != REALM:
            raise SaslRefused(f"an answer meant for {fields['digest-uri']}")
        # An unknown user takes as long as a wrong password.
        password = self._passwords.get(user, "")
        expected = _proof(user, password, fields, "AUTHENTICATE")
        if not hmac.compare_digest(fields["response"].encode(), expected.encode()) or user not in self._passwords:
            raise SaslRefused(f"no user {user!r} with this password")
        if fields.get("authzid", user) != user:
            raise SaslRefused(f"{user!r} may not act as {fields['authzid']!r}")
        return user, f"rspauth={_proof(user, password, fields, '')}".encode()
