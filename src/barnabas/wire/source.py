"""The source of a function for one message in one version: the common part of decoders and encoders."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire import varint
from barnabas.wire.errors import UnsupportedVersionError, WireError
from barnabas.wire.schema import Field, MessageSchema, StructSchema
from barnabas.wire.structs import Struct, TaggedFields, default_of

FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
STRING_LENGTH_MAX: Final = 0x7FFF
TAGGED_FIELDS_MAX: Final = 1000
"""The limit of one struct's tagged fields; no schema has ten."""
TURN: Final = 256
"""How many elements of arrays the generators read or write between two yields."""
TURN_BYTES: Final = 256 * 1024
"""How many bytes of an answer they write between two yields, if its elements are long."""
NUMBERS_IN_AN_ELEMENT: Final = 4
"""How many numbers of an array take the memory and the time of one other element."""
SMALL_ARRAY: Final = 16
"""Arrays of numbers up to this long have a ready ``struct.Struct``."""


def _array_reader(code: str) -> Callable[[bytes | bytearray, int, int], list[Any]]:
    """``(buffer, offset, count) -> list`` for an array of one fixed-width type."""
    small = tuple(struct.Struct(f">{count}{code}").unpack_from for count in range(SMALL_ARRAY))

    def read(buffer: bytes | bytearray, offset: int, count: int) -> list[Any]:
        if count < SMALL_ARRAY:
            return list(small[count](buffer, offset))
        return list(struct.unpack_from(f">{count}{code}", buffer, offset))

    return read


def _array_writer(code: str) -> Callable[[list[Any]], bytes]:
    small = tuple(struct.Struct(f">{count}{code}").pack for count in range(SMALL_ARRAY))

    def write(values: list[Any]) -> bytes:
        count = len(values)
        return small[count](*values) if count < SMALL_ARRAY else struct.pack(f">{count}{code}", *values)

    return write


def _read_uuids(buffer: bytes | bytearray, offset: int, count: int) -> list[Uuid]:
    return [Uuid(bytes(buffer[at : at + 16])) for at in range(offset, offset + 16 * count, 16)]


ARRAY_READERS: Final[dict[str, Callable[[bytes | bytearray, int, int], list[Any]]]] = {
    **{name: _array_reader(code) for name, code in FORMATS.items() if name != "uuid"},
    "uuid": _read_uuids,
}
ARRAY_WRITERS: Final[dict[str, Callable[[list[Any]], bytes]]] = {
    **{name: _array_writer(code) for name, code in FORMATS.items() if name != "uuid"},
    "uuid": b"".join,
}


def _bad_length(field: str, length: int, left: int) -> NoReturn:
    if length < 0:
        raise WireError(f"{field} is null and must not be")
    if length > left:
        raise WireError(f"{field} says it has {length} bytes or elements, and {left} bytes are left")
    raise WireError(f"{field} has {length} bytes, more than a string may have")


def _bad_tag(field: str, size: int, used: int) -> NoReturn:
    raise WireError(f"tagged field {field} says it has {size} bytes and has {used}")


def _too_many(field: str, count: int) -> NoReturn:
    raise WireError(f"{field} has {count} elements, more than are left of those that a request of its size may have")


def _unsupported(message: str, field: str, version: int) -> NoReturn:
    raise UnsupportedVersionError(f"{message} v{version} cannot carry {field}, which is set")


def _too_long(field: str, length: int) -> NoReturn:
    raise WireError(f"{field} has {length} bytes, more than a string may have")


def _unknown_tagged(buffer: bytes | bytearray, offset: int, first: int) -> tuple[list[tuple[int, bytes]], int]:
    """The tagged fields of a struct whose schema has none; `first` is the first byte of their count."""
    count, end = first, len(buffer)
    if first > 127:
        count, offset = varint.read_rest(buffer, offset, first)
    if count > TAGGED_FIELDS_MAX:
        _too_many("tagged fields", count)
    if count * 2 > end - offset:
        _bad_length("tagged fields", count * 2, end - offset)
    fields = []
    for _ in range(count):
        tag, offset = varint.read_unsigned(buffer, offset)
        size, offset = varint.read_unsigned(buffer, offset)
        if size > end - offset:
            _bad_length("a tagged field", size, end - offset)
        fields.append((tag, bytes(buffer[offset : offset + size])))
        offset += size
    return fields, offset


def _write_tagged(buffer: bytearray, known: list[tuple[int, bytearray]], unknown: TaggedFields) -> None:
    """The tagged fields of a struct, by ascending tag."""
    fields: list[tuple[int, bytes | bytearray]] = sorted([*known, *(unknown or ())], key=lambda field: field[0])
    if len({tag for tag, _ in fields}) != len(fields):
        raise WireError(f"a tag is written twice: {[tag for tag, _ in fields]}")
    varint.write_unsigned(buffer, len(fields))
    for tag, value in fields:
        varint.write_unsigned(buffer, tag)
        varint.write_unsigned(buffer, len(value))
        buffer += value


def least_size(schema: MessageSchema, field: Field, version: int) -> int:
    """The fewest bytes that a value of the field's type, or an element of the array, takes."""
    flexible = version in schema.flexible
    if field.is_struct:
        least = 1 if flexible else 0
        for inner in schema.structs[field.type].fields:
            if version not in inner.versions or version in inner.tagged:
                continue
            if inner.is_array:
                least += 1 if is_compact(schema, inner, version) else 4
            elif inner.is_struct and version in inner.nullable:
                least += 1
            else:
                least += least_size(schema, inner, version)
        assert least > 0, f"{schema.name} v{version}: an element of {field.name} has no bytes"
        return least
    if field.type in FORMATS:
        return struct.calcsize(">" + FORMATS[field.type])
    if is_compact(schema, field, version):
        return 1
    return 2 if field.type == "string" else 4


def is_compact(schema: MessageSchema, field: Field, version: int) -> bool:
    """Whether the field's lengths are varints."""
    return version in (schema.flexible if field.flexible is None else field.flexible)


class Source:
    """The source of a function, line by line."""

    def __init__(self, schema: MessageSchema, cls: type[Struct], version: int, *, in_turns: bool = False) -> None:
        self.schema = schema
        self.version = version
        self.in_turns = in_turns
        self.flexible = version in schema.flexible
        self.lines: list[str] = []
        self.depth = 1
        self.run: list[tuple[str, str]] = []
        """Fixed-width values not yet read or written: struct code, and target or expression."""
        self.names = 0
        self.namespace: dict[str, Any] = {
            "new": object.__new__,
            "new_uuid": bytes.__new__,
            "view": memoryview,
            "Uuid": Uuid,
            "ZERO_UUID": ZERO_UUID,
            "bad_length": _bad_length,
            "too_many": _too_many,
            "bad_tag": _bad_tag,
            "unknown_tagged": _unknown_tagged,
            "unsupported": _unsupported,
            "too_long": _too_long,
            "write_tagged": _write_tagged,
            "write_varint": varint.write_unsigned,
            "read_varint": varint.read_unsigned,
            "rest": varint.read_rest,
            f"C_{schema.name}": cls,
            **{f"C_{name}": getattr(cls, name) for name in schema.structs},
            **{f"D_{name}": default_of(getattr(cls, name)) for name in schema.structs},
            **{f"read_{name}": reader for name, reader in ARRAY_READERS.items()},
            **{f"write_{name}": writer for name, writer in ARRAY_WRITERS.items()},
        }

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def take_turns(self, *, written: bool = False) -> None:
        """Adds the yield that lets other tasks run, at the beginning of a loop's body."""
        if self.in_turns:
            self.add("t += 1")
            if written:
                self.add(f"if t >= {TURN} or len(w) >= turn:")
                self.add(f"    t, turn = 0, len(w) + {TURN_BYTES}")
                self.add("    yield len(w)")
            else:
                self.add(f"if t >= {TURN}:")
                self.add("    t = 0")
                self.add("    yield")

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def packer(self, codes: str, method: str) -> tuple[str, int]:
        """The name of a bound method of the ``struct.Struct`` of `codes`, and the struct's size."""
        packer = struct.Struct(">" + codes)
        name = f"{method[0]}_{codes.replace('?', 'Z')}"
        self.namespace[name] = getattr(packer, method)
        return name, packer.size

    def is_flexible(self, field: Field) -> bool:
        return is_compact(self.schema, field, self.version)

    def struct(self, field: Field) -> StructSchema:
        return self.schema.structs[field.type]

    def default(self, field: Field) -> str:
        if field.null_by_default or (field.type == "records" and not field.is_array):
            return "None"
        if field.is_array:
            return "[]"
        if field.is_struct:
            return f"D_{field.type}"
        return {"bytes": 'b""', "uuid": "ZERO_UUID"}.get(field.type) or repr(field.default)

    def is_set(self, field: Field, path: str) -> str:
        """An expression that is true when the field at `path` does not hold its default."""
        if field.null_by_default or (field.type == "records" and not field.is_array):
            return f"{path} is not None"
        if field.is_array or field.type == "bytes":
            return f"({path} is None or len({path}))" if field.is_ever_null else path
        if field.is_struct:
            parts = [self.is_set(inner, f"{path}.{inner.attribute}") for inner in self.struct(field).fields]
            if self.schema.is_ever_flexible:
                parts.append(f"{path}.unknown_tagged_fields")
            return f"({path} is not {self.default(field)} and ({' or '.join(parts)}))"
        return f"{path} != {self.default(field)}"

    def text(self) -> str:
        return "\n".join([*self.lines, ""])
