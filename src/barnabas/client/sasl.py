"""A client's side of SASL: PLAIN (RFC 4616) and SCRAM (RFC 5802), as values without I/O.

A mechanism is a generator: it yields the tokens to send, and is sent the broker's answer to each. `login_of` reads
Kafka's own way to write a user down, ``sasl.jaas.config``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Generator
from typing import Final, NamedTuple

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS_MIN: Final = 4096
"""``ScramMechanism.minIterations``: a server that asks for less is not trusted."""
_FIELD: Final = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')""")


class SaslRefused(ValueError):
    """The server's part of the exchange is not what the mechanism allows, or it doesn't know the password."""


class SaslLogin(NamedTuple):
    mechanism: str
    username: str
    password: str

    def __repr__(self) -> str:
        return f"SaslLogin({self.mechanism!r}, {self.username!r})"

    def tokens(self, nonce: str) -> Generator[bytes, bytes, None]:
        """What to send; `nonce` is fresh for every connection."""
        if self.mechanism == "PLAIN":
            yield f"\0{self.username}\0{self.password}".encode()
            return
        yield from _scram(_HASHES[self.mechanism], self.username, self.password, nonce)


def login_of(mechanism: str, jaas_config: str) -> SaslLogin:
    """Raises ``ValueError`` for a mechanism that isn't there, or a text without user name and password."""
    if mechanism not in MECHANISMS:
        raise ValueError(f"sasl.mechanism is {mechanism!r}: {', '.join(MECHANISMS)} are supported.")
    fields = {name: double or single for name, double, single in _FIELD.findall(jaas_config)}
    if "username" not in fields or "password" not in fields:
        raise ValueError(
            'sasl.jaas.config takes a text such as ...ScramLoginModule required username="u" password="p"; '
            "with both of them in quotes."
        )
    unescaped = {name: re.sub(r"\\(.)", r"\1", value) for name, value in fields.items()}
    return SaslLogin(mechanism, unescaped["username"], unescaped["password"])


def _scram(digest: str, username: str, password: str, nonce: str) -> Generator[bytes, bytes, None]:
    escaped = username.replace("=", "=3D").replace(",", "=2C")
    client_first = f"n={escaped},r={nonce}"
    server_first = (yield f"n,,{client_first}".encode()).decode()
    fields = _attributes(server_first)
    try:
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        server_nonce = fields["r"]
    except (KeyError, ValueError, binascii.Error):
        raise SaslRefused(f"the broker answered SCRAM's first message with {server_first!r}") from None
    if not server_nonce.startswith(nonce) or server_nonce == nonce:
        raise SaslRefused("the broker's nonce does not begin with ours: the exchange may be a replay")
    if iterations < _ITERATIONS_MIN:
        raise SaslRefused(f"the broker asks for {iterations} SCRAM iterations, at least {_ITERATIONS_MIN} are safe")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    unproven = f"c=biws,r={server_nonce}"
    message = f"{client_first},{server_first},{unproven}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), message, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = (yield f"{unproven},p={base64.b64encode(proof).decode()}".encode()).decode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), message, digest)
    if _attributes(server_final).get("v") != base64.b64encode(expected).decode():
        raise SaslRefused("the broker did not prove that it knows the password")


def _attributes(message: str) -> dict[str, str]:
    return {name: value for name, equals, value in (part.partition("=") for part in message.split(",")) if equals}
