"""The parts of a message, and the types of the functions that read and write it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias, TypeVar

Bytes: TypeAlias = bytes | bytearray | memoryview
Records: TypeAlias = Bytes | list[Bytes] | None
"""Record batches, opaque here: one view into the frame when read, one buffer or several when written."""
TaggedFields: TypeAlias = list[tuple[int, bytes]] | None
"""Tagged fields that the schema does not know, kept so that they can be passed on."""

Decoder: TypeAlias = Callable[[bytes | bytearray, int, int], tuple[Any, int]]
"""``(frame, offset, end) -> (message, offset after it)``."""
Encoder: TypeAlias = Callable[[Any, bytearray, list[Bytes]], bytearray]
"""``(message, open buffer, finished parts) -> open buffer``: records go to the parts uncopied."""
Framer: TypeAlias = Callable[[Any, bytearray], list[Bytes] | None]
"""``(message, head) -> parts of the whole frame``, whose size stands in the first four bytes of the head; None if it
takes an `Encoder`."""
ShortDecoder: TypeAlias = Callable[[bytes | bytearray, int], tuple[Any, int] | None]
"""``(frame, offset) -> (message, offset after it)``; None if it takes a `Decoder`, or several turns."""
DecoderInTurns: TypeAlias = Callable[[bytes | bytearray, int, int, int], Generator[None, None, tuple[Any, int]]]
"""A `Decoder` that yields now and then; its last argument is how many elements of arrays it may decode."""
EncoderInTurns: TypeAlias = Callable[[Any, bytearray, list[Bytes]], Generator[int, None, bytearray]]
"""An `Encoder` that yields now and then, each time the length of its open buffer."""

EMPTY: Final[Any] = ()
"""In a signature: the field's own new empty list or struct."""

S = TypeVar("S", bound="Struct")


class Struct:
    """Named fields in ``__slots__``, equal when all are equal."""

    __slots__: tuple[str, ...] = ()
    __hash__ = None  # type: ignore[assignment]

    unknown_tagged_fields: TaggedFields

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        names = [name for name in self.__slots__ if name != "unknown_tagged_fields" or self.unknown_tagged_fields]
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


_defaults: Final[dict[type[Struct], Any]] = {}


def default_of(cls: type[S]) -> S:
    """The default struct of a field that was not sent: shared by all messages, and never changed."""
    found: S | None = _defaults.get(cls)
    if found is None:
        found = _defaults[cls] = cls()
    return found
