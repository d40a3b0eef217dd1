"""Any message of the schema, by chance or by Hypothesis, and the form in which Kafka's own tools print it."""

from __future__ import annotations

import base64
import importlib
import random
from typing import Any, Protocol

from hypothesis import strategies as st

from barnabas.model.ids import Uuid
from barnabas.wire.generate import module_name
from barnabas.wire.message import Message
from barnabas.wire.schema import Field, MessageSchema, StructSchema, message_names, message_schema

RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
LENGTHS = (0, 1, 2, 3, 1, 2)
LONG = (17, 126, 127, 128, 300)
"""Beside the bounds of one-byte varints and of the ready array codecs."""


def _imported(name: str) -> type[Message]:
    module = importlib.import_module(f"barnabas.wire.messages.{module_name(message_schema(name))}")
    found: type[Message] = getattr(module, name)
    return found


def versions_of(name: str) -> range:
    versions = message_schema(name).versions
    return range(versions.low, versions.high + 1)


ALL_MESSAGES = message_names()
# While tests are collected, not while they run: pytest parses what is imported, and CPython 3.11's parser fails
# (gh-106905) when a finalizer of an earlier test's garbage formats a traceback inside of it.
_CLASSES = {name: _imported(name) for name in ALL_MESSAGES}
ALL_VERSIONS = [(name, version) for name in ALL_MESSAGES for version in versions_of(name)]


def message_class(name: str) -> type[Message]:
    return _CLASSES[name]


class Choice(Protocol):
    def integer(self, low: int, high: int) -> int: ...
    def text(self) -> str: ...
    def binary(self) -> bytes: ...
    def real(self) -> float: ...
    def size(self, *, cheap: bool) -> int: ...
    def yes(self) -> bool: ...


class ByChance:
    """Choices of a seeded `Random`: quick, and the same in every run."""

    def __init__(self, seed: object) -> None:
        self.random = random.Random(repr(seed))

    def integer(self, low: int, high: int) -> int:
        return self.random.choice((low, high, self.random.randint(low, high), max(low, min(high, 1))))

    def size(self, *, cheap: bool) -> int:
        if cheap and self.random.random() < 0.1:
            return self.random.choice(LONG)
        return self.random.choice(LENGTHS)

    def text(self) -> str:
        return "".join(self.random.choice("aZ0-._é漢😀") for _ in range(self.size(cheap=True)))

    def binary(self) -> bytes:
        return self.random.randbytes(self.size(cheap=True))

    def real(self) -> float:
        return self.random.uniform(-1e9, 1e9)

    def yes(self) -> bool:
        return self.random.random() < 0.5


class ByHypothesis:
    def __init__(self, draw: Any) -> None:
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def size(self, *, cheap: bool) -> int:
        return self.draw(st.integers(0, 3))

    def text(self) -> str:
        return self.draw(st.text(max_size=20))

    def binary(self) -> bytes:
        return self.draw(st.binary(max_size=20))

    def real(self) -> float:
        return self.draw(st.floats(allow_nan=False))

    def yes(self) -> bool:
        return self.draw(st.booleans())


def _value(schema: MessageSchema, field: Field, version: int, choice: Choice) -> Any:
    match field.type:
        case "bool":
            return choice.yes()
        case "string":
            return choice.text()
        case "bytes" | "records":
            return choice.binary()
        case "uuid":
            return Uuid(choice.integer(0, 2**128 - 1).to_bytes(16, "big"))
        case "float64":
            return choice.real()
        case _ if field.is_struct:
            struct = schema.structs[field.type]
            return _fill(schema, struct, getattr(message_class(schema.name), struct.name)(), version, choice)
    return choice.integer(*RANGES[field.type])


def _fill(schema: MessageSchema, struct: StructSchema, target: Any, version: int, choice: Choice) -> Any:
    for field in struct.fields:
        if version not in field.versions:
            continue
        if version in field.nullable and not choice.yes():
            value = None
        elif field.is_array:
            count = choice.size(cheap=not field.is_struct)
            value = [_value(schema, field, version, choice) for _ in range(count)]
        elif version in field.tagged and not choice.yes():
            continue
        else:
            value = _value(schema, field, version, choice)
        setattr(target, field.attribute, value)
    if version in schema.flexible and not choice.integer(0, 9):
        target.unknown_tagged_fields = [(100, choice.binary()), (20_000, choice.binary())]
    return target


def message_by(choice: Choice, name: str, version: int) -> Message:
    schema = message_schema(name)
    filled: Message = _fill(schema, schema.root, message_class(name)(), version, choice)
    return filled


@st.composite
def messages(draw: Any, name: str) -> tuple[int, Message]:
    """A version, and a message of what that version can carry."""
    version = draw(st.sampled_from(versions_of(name)))
    return version, message_by(ByHypothesis(draw), name, version)


def as_kafka_prints(message: Message, version: int) -> dict[str, Any]:
    """What the ``JsonConverter`` that Kafka generates for the message gives, records left out."""
    schema = message_schema(message.name)

    def plain(field: Field, value: Any) -> Any:
        if value is None:
            return None
        if field.is_struct:
            return of(schema.structs[field.type], value)
        if field.type == "uuid":
            return str(value)
        if field.type == "bytes":
            return base64.b64encode(value).decode()
        return value

    def of(struct: StructSchema, value: Any) -> dict[str, Any]:
        printed: dict[str, Any] = {}
        default = type(value)()
        for field in struct.fields:
            if version not in field.versions or field.type == "records":
                continue
            held = getattr(value, field.attribute)
            if version in field.tagged and held == getattr(default, field.attribute):
                continue
            name = field.name[0].lower() + field.name[1:]
            many = field.is_array and held is not None
            printed[name] = [plain(field, each) for each in held] if many else plain(field, held)
        return printed

    return of(schema.root, message)
