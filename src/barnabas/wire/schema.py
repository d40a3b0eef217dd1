"""Kafka's message schemas: ``messages.json`` as typed values.

The file holds the schemas of Kafka 3.9.2's ``clients/src/main/resources/common/message`` (and of the records of its
internal topics), unchanged but for white space and the prose in them.
"""

from __future__ import annotations

import json
import pkgutil
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

NEVER: Final = 0x7FFF
"""A version no message reaches: the end of ``3+``, and the first flexible version of a message that has none."""


class Versions(NamedTuple):
    """An inclusive range of versions; ``low > high`` is the empty one, Kafka's ``none``."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        if text is None or text == "none":
            return cls(NEVER, -1)
        low, dash, high = text.partition("-")
        if text.endswith("+"):
            return cls(int(text[:-1]), NEVER)
        return cls(int(low), int(high) if dash else int(low))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def __str__(self) -> str:
        if self.low > self.high:
            return "none"
        if self.high == NEVER:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message or of a struct within it."""

    name: str
    attribute: str
    """The name in Python."""
    type: str
    """Kafka's type without the ``[]`` of an array: ``int32``, ``string``, ..., or the name of a struct."""
    is_array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    ignorable: bool
    default: int | float | bool | str | None
    """The value of a field that was not set; None means null, and an array or struct has none but null or empty."""
    null_by_default: bool
    is_key: bool
    entity: str | None
    flexible: Versions | None
    """Overrides the message's flexible versions (the request header's client id is never flexible)."""

    @property
    def is_struct(self) -> bool:
        return self.type[0].isupper()

    @property
    def is_ever_null(self) -> bool:
        return self.nullable.low <= self.nullable.high or self.null_by_default


@dataclass(frozen=True, slots=True)
class StructSchema:
    """A named group of fields."""

    name: str
    versions: Versions
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class MessageSchema:
    """One message: its own fields, and the structs they use, in the order in which they are first used."""

    name: str
    kind: str
    """``request``, ``response``, ``header`` or ``data``."""
    api_key: int
    versions: Versions
    flexible: Versions
    root: StructSchema
    structs: dict[str, StructSchema]

    @property
    def is_ever_flexible(self) -> bool:
        return self.flexible.low <= self.flexible.high


def snake_case(name: str) -> str:
    """``ThrottleTimeMs`` to ``throttle_time_ms``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


RESERVED: Final = frozenset({"name", "api_key", "min_version", "max_version", "flexible_since", "encode", "decode"})
"""Names that every message class has: a top-level field of such a name gets an underscore after it."""


@cache
def _lines() -> dict[str, str]:
    """The file's line for each message: a program that uses twenty messages parses twenty lines."""
    data = pkgutil.get_data("barnabas.wire", "messages.json")
    assert data is not None
    lines = (line.removesuffix(",") for line in data.decode().splitlines() if line.startswith('"'))
    return {name: source for name, _, source in (line[1:].partition('":') for line in lines)}


def message_names() -> list[str]:
    return sorted(_lines())


def _default(type_: str, value: Any) -> int | float | bool | str | None:
    match type_:
        case "bool":
            return value is True or value == "true"
        case "int8" | "int16" | "uint16" | "int32" | "uint32" | "int64":
            return int(str(value), 0) if value is not None else 0
        case "float64":
            return float(value) if value is not None else 0.0
        case "string":
            return None if value == "null" else str(value or "")
    return None


def _field(source: dict[str, Any], at_root: bool) -> Field:
    is_array = source["type"].startswith("[]")
    type_ = source["type"].removeprefix("[]")
    attribute = snake_case(source["name"])
    if at_root and attribute in RESERVED:
        attribute += "_"
    given = source.get("default")
    nullable = Versions.parse(source.get("nullable"))
    return Field(
        name=source["name"],
        attribute=attribute,
        type=type_,
        is_array=is_array,
        versions=Versions.parse(source["versions"]),
        nullable=nullable,
        tagged=Versions.parse(source.get("tagged")),
        tag=int(source.get("tag", -1)),
        ignorable=bool(source.get("ignorable", False)),
        default=None if is_array else _default(type_, given),
        null_by_default=given == "null" or ("default" in source and given is None),
        is_key=bool(source.get("key", False)),
        entity=source.get("entity"),
        flexible=Versions.parse(source["flexible"]) if "flexible" in source else None,
    )


@lru_cache(16)
def message_schema(name: str) -> MessageSchema:
    """The schema of the message that Kafka calls `name`, for instance ``FetchRequest``."""
    source = json.loads(_lines()[name])
    structs: dict[str, StructSchema] = {}

    def fields_of(sources: list[dict[str, Any]], at_root: bool) -> tuple[Field, ...]:
        fields = []
        for field_source in sources:
            field = _field(field_source, at_root)
            if "fields" in field_source:
                assert field.type not in structs, f"{name} has two structs called {field.type}"
                add_struct(field.type, field.versions, field_source["fields"])
            fields.append(field)
        return tuple(fields)

    def add_struct(struct_name: str, versions: Versions, sources: list[dict[str, Any]]) -> None:
        structs[struct_name] = StructSchema(struct_name, versions, ())  # takes its place before the structs inside it
        structs[struct_name] = StructSchema(struct_name, versions, fields_of(sources, at_root=False))

    for struct_source in source.get("structs", ()):
        add_struct(struct_source["name"], Versions.parse(struct_source["versions"]), struct_source["fields"])
    versions = Versions.parse(source["validVersions"])
    root = StructSchema(name, versions, fields_of(source["fields"], at_root=True))
    for struct in (root, *structs.values()):
        for field in struct.fields:
            assert not field.is_struct or field.type in structs, f"{name}.{struct.name}: no struct {field.type}"
    return MessageSchema(
        name=name,
        kind=source["type"],
        # In a record of an internal topic the number is the record's type, not an API key.
        api_key=source.get("apiKey", -1) if source["type"] in ("request", "response") else -1,
        versions=versions,
        flexible=Versions.parse(source["flexibleVersions"]),
        root=root,
        structs=structs,
    )
