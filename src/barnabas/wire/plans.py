"""A message in one version as the table by which the kernel reads and writes it (``_codec.h``).

Messages that the kernel declines, and all messages where there is no kernel, go to the functions that `codec` compiles:
they decode a message from its beginning, and describe its errors. So both give the same result for the same bytes, and
a message that the kernel does not support is only slower.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from functools import cache, partial
from typing import Any, Final, NamedTuple, TypeVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.codec import compile_decoder, compile_decoder_in_turns, compile_encoder
from barnabas.wire.kernel import kernel as _kernel
from barnabas.wire.kernel import staying
from barnabas.wire.schema import Field, MessageSchema, StructSchema, message_schema
from barnabas.wire.source import TURN, is_compact, least_size
from barnabas.wire.structs import Bytes, Decoder, DecoderInTurns, Encoder, Framer, ShortDecoder, Struct, default_of

_KINDS: Final = (
    *("bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "uuid", "string", "bytes", "records", "struct"),
)
_IGNORED, _ABSENT, _PLACED, _TAGGED = range(4)
_ARRAY, _COMPACT, _NULLABLE, _NULL_BY_DEFAULT, _ERROR_CODE = 1, 2, 4, 8, 16
_COUNT: Final = struct.Struct("=i4x")
_STRUCTURE: Final = struct.Struct("=6i")
_FIELD: Final = struct.Struct("=8i")
_UNBOUNDED: Final = 1 << 62
S = TypeVar("S", bound=Struct)


class MessagePlan(NamedTuple):
    table: bytes
    constants: tuple[Any, ...]


def decoder(cls: type[Struct], version: int) -> Decoder:
    plan = plan_of(cls, version)
    if plan is None:
        return compile_decoder(cls, version)
    (table, constants), by_table = plan, _kernel.decode

    @cache
    def in_words() -> Decoder:
        return compile_decoder(cls, version)

    def decode(buffer: bytes | bytearray, offset: int, end: int) -> tuple[Any, int]:
        found: tuple[Any, int] | None = by_table(table, constants, _UNBOUNDED, buffer, offset)
        return found or in_words()(buffer, offset, end)

    return decode


def short_decoder(cls: type[Struct], version: int) -> ShortDecoder:
    plan = plan_of(cls, version)
    return _not_short if plan is None else partial(_kernel.decode, *plan, TURN - 1)


def _not_short(frame: bytes | bytearray, offset: int) -> None:
    """The `ShortDecoder` without a kernel."""


def decoder_in_turns(cls: type[Struct], version: int) -> DecoderInTurns:
    """The kernel decodes messages that take at most one turn."""
    plan = plan_of(cls, version)

    def in_words(buffer: bytes | bytearray, offset: int, end: int, left: int) -> Generator[None, None, tuple[Any, int]]:
        return (yield from compile_decoder_in_turns(cls, version)(buffer, offset, end, left))

    if plan is None:
        return in_words
    (table, constants), by_table = plan, _kernel.decode

    def decode(buffer: bytes | bytearray, offset: int, end: int, left: int) -> Generator[None, None, tuple[Any, int]]:
        found: tuple[Any, int] | None = by_table(table, constants, min(left, TURN - 1), buffer, offset)
        if found is not None:
            return found
        return (yield from in_words(buffer, offset, end, left))

    return decode


def encoder(cls: type[Struct], version: int) -> Encoder:
    plan = plan_of(cls, version)
    if plan is None:
        return compile_encoder(cls, version)
    (table, constants), by_table = plan, _kernel.encode

    @cache
    def in_words() -> Encoder:
        return compile_encoder(cls, version)

    def encode(message: Any, buffer: bytearray, parts: list[Bytes]) -> bytearray:
        found: bytearray | None = by_table(table, constants, message, buffer, parts)
        return in_words()(message, buffer, parts) if found is None else found

    return encode


def framer(cls: type[Struct], version: int) -> Framer:
    plan = plan_of(cls, version)
    return _no_frame if plan is None else partial(_kernel.frame, *plan)


def _no_frame(message: Any, head: bytearray) -> None:
    """The `Framer` without a kernel."""


def maker(cls: type[S]) -> Callable[..., S]:
    """Makes structs from all their fields in order, in a sixth of the time of the class's own constructor."""
    if _kernel is None:
        return cls
    slots = _slots(cls).values()
    return partial(_kernel.make, cls, struct.pack(f"={len(slots)}i", *slots))


@staying
def error_counter(cls: type[Struct]) -> Callable[[Any], int] | None:
    """How many error codes the message and its elements have, if all are 0; -1 if one is not."""
    plan = plan_of(cls, message_schema(cls.__name__).versions.high)
    return None if plan is None else partial(_kernel.errors, *plan)


def _slots(cls: type[Struct]) -> dict[str, int]:
    return {name: _kernel.slot_of(cls, name, cls.__basicsize__) for name in cls.__slots__}


def structs_of(cls: type[Struct]) -> list[StructSchema]:
    """The error codes, the message's own first."""
    schema = message_schema(cls.__name__)
    return [schema.root, *schema.structs.values()]


def plan_of(cls: type[Struct], version: int) -> MessagePlan | None:
    """None if there is no kernel, or it does not know a type of the message."""
    if _kernel is None:
        return None
    schema = message_schema(cls.__name__)
    structs = {structure.name: structure for structure in structs_of(cls)}
    known = (*_KINDS, *structs)
    if any(field.type not in known for structure in structs.values() for field in structure.fields):
        return None
    numbers = {name: number for number, name in enumerate(structs)}
    classes = {name: cls if name == schema.root.name else getattr(cls, name) for name in structs}
    constants: list[Any] = [bytes.__new__, Uuid, *classes.values()]
    structures: list[bytes] = []
    fields: list[bytes] = []
    flexible, ever_flexible = version in schema.flexible, schema.is_ever_flexible
    for name, structure in structs.items():
        slots = _slots(classes[name])
        unknown = slots["unknown_tagged_fields"] if ever_flexible else 0
        structures.append(
            _STRUCTURE.pack(2 + numbers[name], len(fields), len(structure.fields), unknown, flexible, ever_flexible)
        )
        for field in structure.fields:
            initial = -1
            if not field.is_array or field.null_by_default:
                initial = len(constants)
                constants.append(_initial(field, classes))
            fields.append(
                _FIELD.pack(
                    _KINDS.index("struct" if field.is_struct else field.type),
                    _where(schema, field, version),
                    _flags(schema, field, version),
                    slots[field.attribute],
                    numbers.get(field.type, 0),
                    initial,
                    field.tag,
                    least_size(schema, field, version) if field.is_array and version in field.versions else 0,
                )
            )
    return MessagePlan(_COUNT.pack(len(structures)) + b"".join(structures) + b"".join(fields), tuple(constants))


def _initial(field: Field, classes: dict[str, type[Any]]) -> Any:
    if field.null_by_default or field.type == "records":
        return None
    if field.is_struct:
        return default_of(classes[field.type])
    return {"bytes": b"", "uuid": ZERO_UUID}.get(field.type, field.default)


def _where(schema: MessageSchema, field: Field, version: int) -> int:
    if version not in field.versions:
        return _IGNORED if field.ignorable else _ABSENT
    return _TAGGED if version in field.tagged and version in schema.flexible else _PLACED


def _flags(schema: MessageSchema, field: Field, version: int) -> int:
    null_by_default = field.null_by_default or (field.type == "records" and not field.is_array)
    return (
        _ARRAY * field.is_array
        | _COMPACT * is_compact(schema, field, version)
        | _NULLABLE * (version in field.nullable)
        | _NULL_BY_DEFAULT * null_by_default
        | _ERROR_CODE * (field.attribute == "error_code" and field.type == "int16" and not field.is_array)
    )
