"""JKS, Java's own format of key stores (``sun.security.provider.JavaKeyStore``), versions 1 and 2.

A store is a magic number, a version and the entries: private keys with their chains, and certificates to trust. Behind
them stands a SHA-1 of the password and all bytes before: who knows the password sees whether the store is whole.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from typing import Final

from barnabas.security.tls.der import elements

MAGIC: Final = b"\xfe\xed\xfe\xed"
_WHITENING: Final = b"Mighty Aphrodite"
"""The text that ``JavaKeyStore.getPreKeyedHash`` appends to the password."""
_PRIVATE_KEY: Final = 1
_KEY_PROTECTOR: Final = bytes.fromhex("2b060104012a02110101")
"""1.3.6.1.4.1.42.2.17.1.1, ``sun.security.provider.KeyProtector``."""
_SHA1_BYTES: Final = 20


@dataclass(frozen=True, slots=True)
class ProtectedKey:
    """A private key as it lies in the store, and its chain, the owner's certificate first; DER."""

    alias: str
    protected: bytes = field(repr=False)
    chain: list[bytes]

    def opened(self, password: str) -> bytes:
        """The key as PKCS #8, DER. Raises ``ValueError`` for a wrong password or a damaged key."""
        try:
            [(_, _, whole)] = elements(self.protected)
            (_, _, algorithm), (_, _, content) = elements(whole)
            (_, _, kind), *_ = elements(algorithm)
        except (IndexError, ValueError):
            raise ValueError("the key is damaged") from None
        if kind != _KEY_PROTECTOR:
            raise ValueError("the key is protected by an algorithm that is not Java's KeyProtector")
        secret = _as_java(password)
        block, hidden, check = content[:_SHA1_BYTES], content[_SHA1_BYTES:-_SHA1_BYTES], content[-_SHA1_BYTES:]
        stream = bytearray()
        while len(stream) < len(hidden):
            block = _sha1(secret, block)
            stream += block
        key = bytes(byte ^ mask for byte, mask in zip(hidden, stream, strict=False))
        if _sha1(secret, key) != check:
            raise ValueError("the password does not open it")
        return key


@dataclass(frozen=True, slots=True)
class JavaKeyStore:
    """What a store holds, in the file's order."""

    private_keys: list[ProtectedKey]
    trusted: list[bytes]
    """Certificates, DER."""

    @classmethod
    def read(cls, data: bytes, password: str) -> JavaKeyStore:
        """Reads a store. Raises ``ValueError`` for other bytes, and for a wrong password.

        Without a password the store's integrity is not checked, as when Java opens trust stores.
        """
        reader = _Reader(data)
        if reader.taken(4) != MAGIC:
            raise ValueError("it does not begin as one does")
        version = reader.number()
        if version not in (1, 2):
            raise ValueError(f"its version is {version}")
        keys: list[ProtectedKey] = []
        trusted: list[bytes] = []
        for _ in range(reader.number()):
            kind, alias = reader.number(), reader.text()
            reader.taken(8)  # the entry's creation time
            if kind == _PRIVATE_KEY:
                protected = reader.block()
                keys.append(
                    ProtectedKey(alias, protected, [reader.certificate(version) for _ in range(reader.number())])
                )
            else:
                trusted.append(reader.certificate(version))
        told = reader.rest()
        if password and _sha1(_as_java(password), _WHITENING, data[: len(data) - len(told)]) != told:
            raise ValueError("its checksum is of another password, or of other bytes")
        return cls(keys, trusted)


class _Reader:
    """Java's ``DataInputStream`` over a store. What goes beyond its end is a ``ValueError``."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def taken(self, length: int) -> bytes:
        start, self._position = self._position, self._position + length
        if self._position > len(self._data):
            raise ValueError("it ends early")
        return self._data[start : self._position]

    def rest(self) -> bytes:
        return self._data[self._position :]

    def number(self) -> int:
        (number,) = struct.unpack(">I", self.taken(4))
        return int(number)

    def text(self) -> str:
        (length,) = struct.unpack(">H", self.taken(2))
        return self.taken(length).decode("utf-8", "replace")

    def block(self) -> bytes:
        return self.taken(self.number())

    def certificate(self, version: int) -> bytes:
        if version > 1 and (kind := self.text()) != "X.509":
            raise ValueError(f"it holds a certificate of kind {kind}")
        return self.block()


def _as_java(password: str) -> bytes:
    return password.encode("utf-16-be")


def _sha1(*parts: bytes) -> bytes:
    """The format requires SHA-1, also on a machine that forbids it for new uses."""
    return hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()
