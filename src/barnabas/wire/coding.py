"""Reads and writes a message in one version, by the codec in its class.

Brokers do so for each request. A broker's process runs this module compiled, but not `message`, which calls it and is
the base of all messages.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from barnabas.wire.errors import WireError
from barnabas.wire.structs import Bytes, Decoder, Encoder, Framer, ShortDecoder

BAD_INPUT: Final = (struct.error, IndexError, OverflowError)
"""The errors that compiled decoders raise when the frame ends too early."""
BAD_MESSAGE: Final = (struct.error, TypeError, AttributeError, OverflowError, UnicodeEncodeError)
"""The errors that compiled encoders raise when a field's value does not fit its type."""


def whole(view: memoryview) -> bytes | bytearray:
    """The bytes under a view: to slice bytes takes half the time of slicing a view. A view of a part is copied."""
    below = view.obj
    if isinstance(below, bytes | bytearray) and len(below) == view.nbytes and view.c_contiguous:
        return below
    return bytes(view)


def decoded(cls: Any, buffer: Bytes, version: int, offset: int) -> tuple[Any, int]:
    """The message that begins at `offset`, and the offset after it; never reads beyond `buffer`."""
    decoder: Decoder = cls._decoders.get(version) or cls._compile_decoder(version)
    try:
        return decoder(whole(buffer) if isinstance(buffer, memoryview) else buffer, offset, len(buffer))
    except BAD_INPUT as error:
        raise WireError(f"{cls.name} v{version} ends too early or holds a bad value: {error}") from None


def decoded_if_short(cls: Any, frame: bytearray, version: int, offset: int) -> tuple[Any, int] | None:
    """As `decoded`, for a message that takes at most one turn, whatever its bytes of records; None for a longer one,
    and if the kernel cannot tell."""
    decoder: ShortDecoder = cls._short_decoders.get(version) or cls._make_short_decoder(version)
    return decoder(frame, offset)


def encoded_into(message: Any, version: int, buffer: bytearray, parts: list[Bytes]) -> bytearray:
    """Appends to `buffer`; at each field of records, moves `buffer` and them to `parts`. Returns the open buffer."""
    encoder: Encoder = message._encoders.get(version) or message._compile_encoder(version)
    try:
        return encoder(message, buffer, parts)
    except BAD_MESSAGE as error:
        raise WireError(f"{message.name} v{version} cannot be written: {error}") from error


def framed(message: Any, version: int, head: bytearray) -> list[Bytes] | None:
    """The parts of a frame that begins with `head`, including its size; None if `encoded_into` has to encode it."""
    framer: Framer = message._framers.get(version) or message._make_framer(version)
    return framer(message, head)
