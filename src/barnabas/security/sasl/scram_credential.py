"""A SCRAM credential, which passwords are checked against (RFC 5802), and its form in ZooKeeper. Never a password."""

from __future__ import annotations

import base64
import hashlib
import hmac
from enum import IntEnum
from typing import Final, NamedTuple

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
"""``ScramMechanism``: the limits of the iterations that a broker stores; a client refuses a broker that asks for
fewer."""


class ScramMechanism(IntEnum):
    """By the numbers of KIP-554."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """As Kafka does it, without SASLprep."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)


MECHANISMS: Final = {mechanism.mechanism_name: mechanism for mechanism in ScramMechanism}


class ScramCredential(NamedTuple):
    """RFC 5802's stored values."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"

    @classmethod
    def of(cls, mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
        name = mechanism.hash_name
        client_key = hmac.digest(salted_password, b"Client Key", name)
        server_key = hmac.digest(salted_password, b"Server Key", name)
        return cls(salt, hashlib.new(name, client_key).digest(), server_key, iterations)

    @classmethod
    def of_password(cls, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> ScramCredential:
        return cls.of(mechanism, salt, mechanism.salted_password(password, salt, iterations), iterations)

    def encode(self) -> str:
        salt, stored, server = (base64.b64encode(value).decode() for value in self[:3])
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"

    @classmethod
    def decode(cls, text: str) -> ScramCredential:
        """Raises ``ValueError``."""
        fields = dict(part.partition("=")[::2] for part in text.split(","))
        if fields.keys() != {"salt", "stored_key", "server_key", "iterations"}:
            raise ValueError("it has other fields than a credential")
        salt, stored, server = (
            base64.b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        iterations = int(fields["iterations"])
        if not 0 < iterations < 1 << 31:
            raise ValueError(f"it has {iterations} iterations")
        return cls(salt, stored, server, iterations)
