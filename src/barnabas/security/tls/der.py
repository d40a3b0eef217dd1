"""DER (X.690), as far as a certificate and an encrypted key are looked into."""

from __future__ import annotations

from collections.abc import Iterator


def elements(encoded: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The elements of a DER value: for each its tag, all its bytes, and its content.

    Raises ``ValueError`` or ``IndexError`` for a truncated value.
    """
    position = 0
    while position < len(encoded):
        start, tag, length = position, encoded[position], encoded[position + 1]
        position += 2
        if length & 0x80:
            count = length & 0x7F
            length = int.from_bytes(encoded[position : position + count], "big")
            position += count
        if position + length > len(encoded):
            raise ValueError("it is cut")
        yield tag, encoded[start : position + length], encoded[position : position + length]
        position += length
