"""Compiles the decoder or the encoder of one message in one version.

The schema becomes the source of one straight Python function, which is then compiled: neighbouring fields of fixed
width (and the length, or the first byte of the length, of what follows them) are one ``struct.Struct``; structs are
inlined where they are used; fields that the version does not have become their defaults. The function that decodes
``HeartbeatRequest`` v0 reads:

    def decode(b, o, end):
        x0 = new(C_HeartbeatRequest)
        n1, = u1(b, o)
        o += 2
        p1 = o + n1
        if n1 < 0 or p1 > end: bad_length("group_id", n1, end - o)
        x0.group_id = b[o:p1].decode("utf-8", "replace")
        ...

No decoder reads behind `end`, which is the buffer's own: fixed widths are checked by ``struct``, every length before
it is used, and an array's by the least number of bytes that many elements take. What is malformed raises WireError,
or one of ``message.BAD_INPUT`` that becomes it.

Each has a second form, for messages that may be long: a generator that yields behind every `TURN` elements, so that its
caller can let others go on, and that decodes no more elements than its last argument allows.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NoReturn, cast

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire import varint
from barnabas.wire.errors import UnsupportedVersionError, WireError
from barnabas.wire.message import (
    Decoder,
    DecoderInTurns,
    Encoder,
    EncoderInTurns,
    Message,
    TaggedFields,
    default_of,
)
from barnabas.wire.schema import Field, MessageSchema, Struct, message_schema

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
"""Of one struct; no schema has ten."""
TURN: Final = 256
"""How many elements of arrays the generators read or write between two yields."""
TURN_BYTES: Final = 256 * 1024
"""And how many bytes of an answer, where its elements are long."""
KEPT_IN_TURNS: Final = 16
"""Of these longer forms so many are kept. Each has 8 KB, strangers can ask for hundreds, and one is made in 0.5 ms."""
NUMBERS_IN_AN_ELEMENT: Final = 4
"""So many numbers of an array of numbers cost the memory and the time of one other element."""
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


class _Source:
    """A function being written."""

    def __init__(self, schema: MessageSchema, cls: type[Message], version: int, *, in_turns: bool = False) -> None:
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
        """At the beginning of a loop's body."""
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
        """The name of a bound method of the ``Struct`` of `codes`, and its size."""
        packer = struct.Struct(">" + codes)
        name = f"{method[0]}_{codes.replace('?', 'Z')}"
        self.namespace[name] = getattr(packer, method)
        return name, packer.size

    def is_flexible(self, field: Field) -> bool:
        return is_compact(self.schema, field, self.version)

    def struct(self, field: Field) -> Struct:
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


class _DecoderSource(_Source):
    def flush(self) -> None:
        if not self.run:
            return
        codes = "".join(code for code, _ in self.run)
        targets = [target for _, target in self.run]
        self.run = []
        if codes == "B":
            self.add(f"{targets[0]} = b[o]")
            self.add("o += 1")
            return
        unpack, size = self.packer(codes, "unpack_from")
        self.add(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {unpack}(b, o)")
        self.add(f"o += {size}")

    def length(self, field: Field, long: bool) -> str:
        """Reads a length into a new name: -1 (or less) is null."""
        name = self.name("n")
        if self.is_flexible(field):
            self.run.append(("B", name))
            self.flush()
            if field.type == "records":  # most have lengths of two bytes
                self.add(f"if {name} > 127:")
                self.add("    m = b[o]")
                self.add(f"    if m < 128: {name}, o = {name} + (m - 1) * 128, o + 1")
                self.add(f"    else: {name}, o = rest(b, o, {name})")
            else:
                self.add(f"if {name} > 127: {name}, o = rest(b, o, {name})")
            self.add(f"{name} -= 1")
        else:
            self.run.append(("i" if long else "h", name))
            self.flush()
        return name

    def spend(self, count: str, field: str) -> None:
        if self.in_turns:
            self.add(f"left -= {count}")
            self.add(f'if left < 0: too_many("{field}", {count})')

    def value(self, field: Field, target: str, nullable: bool) -> None:
        """Reads one value, an element if the field is an array, into `target`."""
        match field.type:
            case "uuid":
                raw = self.name("r")
                self.run.append(("16s", raw))
                self.flush()
                self.add(f"{target} = new_uuid(Uuid, {raw})")
            case "string" | "bytes" | "records":
                self.stretch(field, target, nullable)
            case _ if field.is_struct:
                if nullable:
                    present = self.name("n")
                    self.run.append(("b", present))
                    self.flush()
                    self.add(f"if {present} < 0: {target} = None")
                    self.add("else:")
                    self.depth += 1
                    self.add(f"{target} = {self.fields(self.struct(field))}")
                    self.depth -= 1
                else:
                    self.add(f"{target} = {self.fields(self.struct(field))}")
            case _:
                self.run.append((FORMATS[field.type], target))

    def stretch(self, field: Field, target: str, nullable: bool) -> None:
        length = self.length(field, long=field.type != "string")
        stop = self.name("p")
        if nullable:
            self.add(f"if {length} < 0: {target} = None")
            self.add("else:")
            self.depth += 1
        self.add(f"{stop} = o + {length}")
        limits = [] if nullable else [f"{length} < 0"]
        limits.append(f"{stop} > end")
        if field.type == "string" and self.is_flexible(field):
            limits.append(f"{length} > {STRING_LENGTH_MAX}")
        self.add(f'if {" or ".join(limits)}: bad_length("{field.attribute}", {length}, end - o)')
        match field.type:
            case "string":
                # As Java's String does: a client id in Latin-1 is no reason to hang up.
                self.add(f'{target} = b[o:{stop}].decode("utf-8", "replace")')
            case "bytes":
                # A copy: it is short, and would keep the whole frame alive.
                self.add(f"{target} = bytes(b[o:{stop}])")
            case _:
                self.add(f"{target} = view(b)[o:{stop}]")
        self.add(f"o = {stop}")
        if nullable:
            self.depth -= 1

    def array(self, field: Field, target: str, nullable: bool) -> None:
        count = self.length(field, long=True)
        if nullable:
            self.add(f"if {count} < 0: {target} = None")
            self.add("else:")
            self.depth += 1
        size = least_size(self.schema, field, self.version)
        needed = count if size == 1 else f"{count} * {size}"
        limits = ([] if nullable else [f"{count} < 0"]) + [f"{needed} > end - o"]
        self.add(f'if {" or ".join(limits)}: bad_length("{field.attribute}", {needed}, end - o)')
        numbers = field.type in FORMATS and field.type != "uuid"
        self.spend(f"{count} // {NUMBERS_IN_AN_ELEMENT}" if numbers else count, field.attribute)
        if field.type in FORMATS:
            self.add(f"{target} = read_{field.type}(b, o, {count})")
            self.add(f"o += {needed}")
        else:
            elements = self.name("a")
            element = self.name("e")
            self.add(f"{target} = {elements} = []")
            numbers_alone = self.numbers_alone(field)
            if numbers_alone:
                self.run_of_structs(field, numbers_alone, elements, needed)
                count = f"{count} - len({elements})"
            self.add(f"for _ in range({count}):")
            self.depth += 1
            self.take_turns()
            self.value(field, element, nullable=False)
            self.flush()
            self.add(f"{elements}.append({element})")
            self.depth -= 1
        if nullable:
            self.depth -= 1

    def numbers_alone(self, field: Field) -> list[Field]:
        """The fields of an array's structs, where all that the version has of them are numbers: all are as long."""
        if not field.is_struct:
            return []
        there = [
            each
            for each in self.struct(field).fields
            if self.version in each.versions and self.version not in each.tagged
        ]
        plain = all(each.type in FORMATS and each.type != "uuid" and not each.is_array for each in there)
        return there if plain else []

    def run_of_structs(self, field: Field, numbers: list[Field], elements: str, needed: str) -> None:
        """Reads the array's structs up to the first one that has tagged fields."""
        element, row, tags = self.name("x"), self.name("r"), self.name("t")
        unpack, size = self.packer("".join(FORMATS[each.type] for each in numbers) + "B" * self.flexible, "iter_unpack")
        self.add(f"for {row} in {unpack}(view(b)[o:o + {needed}]):")
        self.depth += 1
        self.take_turns()
        self.add(f"{element} = new(C_{field.type})")
        targets = [f"{element}.{each.attribute}" for each in numbers] + [tags] * self.flexible
        self.add(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {row}")
        if self.flexible:
            self.add(f"if {tags}: break")
        for each in self.struct(field).fields:
            if each not in numbers:
                self.add(f"{element}.{each.attribute} = {self.default(each)}")
        if self.schema.is_ever_flexible:
            self.add(f"{element}.unknown_tagged_fields = None")
        self.add(f"{elements}.append({element})")
        self.depth -= 1
        self.add(f"o += len({elements}) * {size}")

    def any(self, field: Field, target: str) -> None:
        nullable = self.version in field.nullable
        if field.is_array:
            self.array(field, target, nullable)
        else:
            self.value(field, target, nullable)

    def fields(self, struct_: Struct) -> str:
        """Reads a struct into a new object and returns its name; nothing is left pending."""
        target = self.name("x")
        self.add(f"{target} = new(C_{struct_.name})")
        tagged = []
        for field in struct_.fields:
            if self.version in field.versions and self.version not in field.tagged:
                self.any(field, f"{target}.{field.attribute}")
                continue
            self.add(f"{target}.{field.attribute} = {self.default(field)}")
            if self.version in field.versions and self.flexible:
                tagged.append(field)
        if self.schema.is_ever_flexible:
            self.add(f"{target}.unknown_tagged_fields = None")
        if self.flexible:
            self.tagged_fields(target, tagged)
        self.flush()
        return target

    def tagged_fields(self, target: str, known: list[Field]) -> None:
        count, tag, size, stop, unknown = (self.name(prefix) for prefix in "ntspk")
        self.run.append(("B", count))
        self.flush()
        if not known:
            self.add(f"if {count}:")
            self.depth += 1
            self.add(f"{target}.unknown_tagged_fields, o = unknown_tagged(b, o, {count})")
            self.spend(f"len({target}.unknown_tagged_fields)", "tagged fields")
            self.depth -= 1
            return
        self.add(f"if {count}:")
        self.depth += 1
        self.add(f"if {count} > 127: {count}, o = rest(b, o, {count})")
        self.add(f'if {count} > {TAGGED_FIELDS_MAX}: too_many("tagged fields", {count})')
        self.spend(count, "tagged fields")
        self.add(f'if {count} * 2 > end - o: bad_length("tagged fields", {count} * 2, end - o)')
        self.add(f"{unknown} = []")
        self.add(f"for _ in range({count}):")
        self.depth += 1
        self.add(f"{tag}, o = read_varint(b, o)")
        self.add(f"{size}, o = read_varint(b, o)")
        self.add(f"{stop} = o + {size}")
        self.add(f'if {stop} > end: bad_length("a tagged field", {size}, end - o)')
        for field in known:
            self.add(f"if {tag} == {field.tag}:")
            self.depth += 1
            self.any(field, f"{target}.{field.attribute}")
            self.flush()
            self.add(f'if o != {stop}: bad_tag("{field.attribute}", {size}, o - {stop} + {size})')
            self.add("continue")
            self.depth -= 1
        self.add(f"{unknown}.append(({tag}, bytes(b[o:{stop}])))")
        self.add(f"o = {stop}")
        self.depth -= 1
        self.add(f"if {unknown}: {target}.unknown_tagged_fields = {unknown}")
        self.depth -= 1


class _EncoderSource(_Source):
    def flush(self) -> None:
        if not self.run:
            return
        run, self.run = self.run, []
        self.add(f"w += {self.packed(run)}")

    def packed(self, run: list[tuple[str, str]]) -> str:
        pack, _ = self.packer("".join(code for code, _ in run), "pack")
        return f"{pack}({', '.join(expression for _, expression in run)})"

    def flush_with_varint(self, name: str) -> None:
        """Writes what is pending and an unsigned varint, which nearly always is one byte of the same run."""
        run, self.run = self.run, []
        if run:
            self.add(f"if {name} < 128: w += {self.packed([*run, ('B', name)])}")
            self.add("else:")
            self.add(f"    w += {self.packed(run)}")
            self.add(f"    write_varint(w, {name})")
        else:
            self.add(f"if {name} < 128: w.append({name})")
            self.add(f"else: write_varint(w, {name})")

    def length(self, field: Field, expression: str, long: bool, value: str, nullable: bool) -> None:
        if self.is_flexible(field):
            name = self.name("n")
            plus_one = f"{expression} + 1"
            self.add(f"{name} = " + (f"0 if {value} is None else {plus_one}" if nullable else plus_one))
            if field.type == "string" and not field.is_array:
                self.add(f'if {name} > {STRING_LENGTH_MAX + 1}: too_long("{field.attribute}", {name} - 1)')
            self.flush_with_varint(name)
        else:
            code = "i" if long else "h"
            self.run.append((code, f"-1 if {value} is None else {expression}" if nullable else expression))
            self.flush()

    def value(self, field: Field, path: str, nullable: bool) -> None:
        match field.type:
            case "string":
                text, encoded = self.name("v"), self.name("s")
                self.add(f"{text} = {path}")
                if nullable:
                    self.add(f'{encoded} = b"" if {text} is None else {text}.encode()')
                else:
                    self.add(f"{encoded} = {text}.encode()")
                self.length(field, f"len({encoded})", False, text, nullable)
                self.add(f"w += {encoded}")
            case "bytes":
                value = self.name("v")
                self.add(f"{value} = {path}")
                self.length(field, f"len({value})", True, value, nullable)
                self.add(f"if {value}: w += {value}")
            case "records":
                value = self.name("v")
                self.add(f"{value} = {path}")
                size = f"(sum(map(len, {value})) if type({value}) is list else len({value}))"
                self.length(field, size, True, value, nullable)
                self.add(f"if {value}:")
                self.add("    parts.append(w)")
                self.add(f"    if type({value}) is list: parts += {value}")
                self.add(f"    else: parts.append({value})")
                self.add("    w = bytearray()")
            case _ if field.is_struct:
                value = self.name("x")
                self.add(f"{value} = {path}")
                if nullable:
                    self.run.append(("b", f"-1 if {value} is None else 1"))
                    self.flush()
                    self.add(f"if {value} is not None:")
                    self.depth += 1
                    self.fields(self.struct(field), value)
                    self.flush()
                    self.depth -= 1
                else:
                    self.fields(self.struct(field), value)
            case _:
                self.run.append((FORMATS[field.type], path))

    def array(self, field: Field, path: str, nullable: bool) -> None:
        values = self.name("v")
        self.add(f"{values} = {path}")
        self.length(field, f"len({values})", True, values, nullable)
        if field.type in FORMATS:
            self.add(f"if {values}: w += write_{field.type}({values})")
            return
        element = self.name("e")
        self.add(f"for {element} in {values}{' or ()' if nullable else ''}:")
        self.depth += 1
        self.take_turns(written=True)
        self.value(field, element, nullable=False)
        self.flush()
        self.depth -= 1

    def any(self, field: Field, path: str) -> None:
        nullable = self.version in field.nullable
        if field.is_array:
            self.array(field, path, nullable)
        else:
            self.value(field, path, nullable)

    def fields(self, struct_: Struct, path: str) -> None:
        """Writes a struct; its last fixed-width run is left pending."""
        tagged = []
        for field in struct_.fields:
            at = f"{path}.{field.attribute}"
            if self.version not in field.versions:
                if not field.ignorable:
                    self.add(
                        f"if {self.is_set(field, at)}: "
                        f'unsupported("{self.schema.name}", "{field.attribute}", {self.version})'
                    )
            elif self.version in field.tagged and self.flexible:
                tagged.append(field)
            else:
                self.any(field, at)
        if self.flexible:
            self.tagged_fields(path, tagged)
        elif self.schema.is_ever_flexible:
            self.add(
                f"if {path}.unknown_tagged_fields: "
                f'unsupported("{self.schema.name}", "unknown_tagged_fields", {self.version})'
            )

    def tagged_fields(self, path: str, known: list[Field]) -> None:
        unknown = f"{path}.unknown_tagged_fields"
        if not known:
            run, self.run = self.run, []
            self.add(f"if {unknown}:")
            if run:
                self.add(f"    w += {self.packed(run)}")
            self.add(f"    write_tagged(w, [], {unknown})")
            self.add("else: " + (f"w += {self.packed([*run, ('B', '0')])}" if run else "w.append(0)"))
            return
        conditions = [self.is_set(field, f"{path}.{field.attribute}") for field in known]
        run, self.run = self.run, []
        self.add(f"if {' or '.join([*conditions, unknown])}:")
        self.depth += 1
        if run:
            self.add(f"w += {self.packed(run)}")
        outer, found = self.name("w"), self.name("k")
        self.add(f"{found} = []")
        for field, condition in zip(known, conditions, strict=True):
            self.add(f"if {condition}:")
            self.depth += 1
            self.add(f"{outer} = w")
            self.add("w = bytearray()")
            self.any(field, f"{path}.{field.attribute}")
            self.flush()
            self.add(f"{found}.append(({field.tag}, w))")
            self.add(f"w = {outer}")
            self.depth -= 1
        self.add(f"write_tagged(w, {found}, {unknown})")
        self.depth -= 1
        self.add("else: " + (f"w += {self.packed([*run, ('B', '0')])}" if run else "w.append(0)"))


def decoder_source(cls: type[Message], version: int, *, in_turns: bool = False) -> _Source:
    schema = message_schema(cls.name)
    source = _DecoderSource(schema, cls, version, in_turns=in_turns)
    source.lines.append("def decode(b, o, end, left):" if in_turns else "def decode(b, o, end):")
    if in_turns:
        source.add("t = 0")
    source.add(f"return {source.fields(schema.root)}, o")
    if in_turns:
        source.add("yield")  # never reached: a message without an array has a generator all the same
    return source


def encoder_source(cls: type[Message], version: int, *, in_turns: bool = False) -> _Source:
    schema = message_schema(cls.name)
    source = _EncoderSource(schema, cls, version, in_turns=in_turns)
    source.lines.append("def encode(x, w, parts):")
    if in_turns:
        source.add(f"t, turn = 0, {TURN_BYTES}")
    source.fields(schema.root, "x")
    source.flush()
    source.add("return w")
    if in_turns:
        source.add("yield")
    return source


def _compiled(function: str, written: Callable[[], _Source]) -> Any:
    source = written()
    file_name = f"{function} {source.schema.name} v{source.version}, compiled"
    # So that a traceback shows the line, and nobody keeps them all: it is written again for the traceback.
    linecache.cache[file_name] = (lambda: written().text(),)
    exec(compile(source.text(), file_name, "exec"), source.namespace)
    return source.namespace[function]


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    decoder: Decoder = _compiled("decode", lambda: decoder_source(cls, version))
    return decoder


def _decoder_in_turns(cls: type[Message], version: int) -> DecoderInTurns:
    decoder: DecoderInTurns = _compiled("decode", lambda: decoder_source(cls, version, in_turns=True))
    return decoder


def compile_encoder(cls: type[Message], version: int) -> Encoder:
    encoder: Encoder = _compiled("encode", lambda: encoder_source(cls, version))
    return encoder


def _encoder_in_turns(cls: type[Message], version: int) -> EncoderInTurns:
    encoder: EncoderInTurns = _compiled("encode", lambda: encoder_source(cls, version, in_turns=True))
    return encoder


# To the checker a class is hashed as its objects are, and messages are not.
compile_decoder_in_turns = cast(
    "Callable[[type[Message], int], DecoderInTurns]", lru_cache(KEPT_IN_TURNS)(_decoder_in_turns)
)
compile_encoder_in_turns = cast(
    "Callable[[type[Message], int], EncoderInTurns]", lru_cache(KEPT_IN_TURNS)(_encoder_in_turns)
)
