"""What can be wrong with a request: each of its fields in turn holds something else, or its bytes are cut."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.schema import Field, MessageSchema, message_schema

ABSENT_ID = Uuid(b"absent topic id!")

WORDS = ("", "absent", "not a name", "x" * 250)
NUMBERS = (-2, -1, 0, 7)
NO_BROKERS = (-2, -1, 7)
NUMBERS_OF = {
    "id": NO_BROKERS,
    "broker_id": NO_BROKERS,
    "controller_id": NO_BROKERS,
    "leader": NO_BROKERS,
    # Nothing that would be waited for, and nothing that would cost a broker its memory.
    "max_wait_ms": (-1, 0),
    "min_bytes": (-1, 0),
    "acks": (-2, 7),  # 0 is answered by silence
    "num_partitions": (-2, 0),
    "count": (-1, 0, 1),
    "session_timeout_ms": (-1, 0, 2_000_000_000),
    "rebalance_timeout_ms": (-1, 10),
    "timeout_ms": (-1, 0),
    # A controller of a later epoch would be believed, and a broker of epoch -1 comes from a time before there were any.
    "controller_epoch": (-1, 0),
    "broker_epoch": (0, 7),
}
LEFT_AS_IT_IS = {
    ("CreateTopicsRequest", "timeout_ms"),  # which topics are there when it ends is chance
    ("DeleteTopicsRequest", "timeout_ms"),
    ("CreatePartitionsRequest", "timeout_ms"),
    ("ElectLeadersRequest", "timeout_ms"),
    ("ProduceRequest", "timeout_ms"),
    ("DeleteRecordsRequest", "timeout_ms"),
    ("ControlledShutdownRequest", "broker_epoch"),  # it would shut down
}


class Variant(NamedTuple):
    """One change to a request that makes sense."""

    name: str
    """``topics.partitions.partition_index=-1``: the field and what it holds."""
    path: tuple[str, ...]
    """Attributes from the request to the field; of an array on the way, its first element."""
    value: Any

    def of(self, request: Message) -> Message:
        """`request`, changed. Raises `LookupError` where it has no such field, because an array on the way is empty."""
        changed = copy.deepcopy(request)
        holder: Any = changed
        for step in self.path[:-1]:
            holder = getattr(holder, step)
            if isinstance(holder, list):
                holder = holder[0]
            if holder is None:
                raise LookupError(self.name)
        old = getattr(holder, self.path[-1])
        new = self.value(old) if callable(self.value) else self.value
        if new == old:
            raise LookupError(self.name)
        setattr(holder, self.path[-1], new)
        return changed


def twice(elements: list[Any] | None) -> list[Any]:
    if not elements:
        raise LookupError("nothing to double")
    return [*elements, *copy.deepcopy(elements)]


def corrupted(records: Any) -> Any:
    """Record batches whose last byte is another, so that their checksum is wrong."""
    if not records:
        raise LookupError("nothing to corrupt")
    content = bytes(records)
    return content[:-1] + bytes([content[-1] ^ 0xFF])


def cut(records: Any) -> Any:
    if not records:
        raise LookupError("nothing to cut")
    return bytes(records)[:-3]


def negated(value: Any) -> Any:
    return not value


def _values(schema: MessageSchema, field: Field, version: int) -> Iterator[tuple[str, Any]]:
    if version in field.nullable:
        yield "null", None
    if field.is_array:
        yield "[]", []
        yield "twice", twice
    elif field.type == "string":
        for word in WORDS:
            yield repr(word) if len(word) < 20 else f"{len(word)} letters", word
    elif field.type == "bool":
        yield "the other", negated
    elif field.type == "records":
        yield "no bytes", b""
        yield "9 bytes", b"\xff" * 9
        yield "a wrong checksum", corrupted
        yield "cut", cut
    elif field.type == "bytes":
        yield "no bytes", b""
        yield "9 bytes", b"\xff" * 9
    elif field.type == "uuid":
        yield "no id", ZERO_UUID
        yield "an absent id", ABSENT_ID
    elif field.type == "float64":
        yield "-1.0", -1.0
        yield "nan", float("nan")
    elif field.type.startswith(("int", "uint")):
        for number in NUMBERS_OF.get(field.attribute, NUMBERS):
            if number >= 0 or field.type.startswith("int"):
                yield str(number), number


def variants(name: str, version: int) -> list[Variant]:
    """Every change to the message `name` in that version."""
    schema = message_schema(name)
    found: list[Variant] = []

    def walk(fields: tuple[Field, ...], path: tuple[str, ...]) -> None:
        for field in fields:
            if version not in field.versions or (name, field.attribute) in LEFT_AS_IT_IS:
                continue
            at = (*path, field.attribute)
            if not (field.is_struct and not field.is_array):
                found.extend(
                    Variant(f"{'.'.join(at)}={label}", at, value) for label, value in _values(schema, field, version)
                )
            if field.is_struct:
                walk(schema.structs[field.type].fields, at)

    walk(schema.root.fields, ())
    return found
