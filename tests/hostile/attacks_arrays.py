"""The largest array of the smallest elements, for every array of every request that is offered."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from bulk_requests import REQUESTS
from hostile_frame import Broken, Target, attack

from barnabas.broker.router import HANDLED
from barnabas.wire.api import SUPPORTED, ApiKey
from barnabas.wire.frames import encode_request, request_class
from barnabas.wire.schema import Field, StructSchema, message_schema
from barnabas.wire.varint import write_unsigned

MIB = 1 << 20
BETWEEN_BROKERS = {
    *(ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN),
    *(ApiKey.ALTER_PARTITION, ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.WRITE_TXN_MARKERS),
}
"""They decide what the cluster does, and nobody keeps a stranger from sending them yet."""


NUMBER = 0x0102_0304
NAME = "00000000"
"""Stand in an element where something else is put for each of them."""
NAMED = ("name", "topic", "topic_name", "group_id", "transactional_id", "v3_and_below_transactional_id")
"""Whose name an array of different elements stands below."""


class Array(NamedTuple):
    """One array of a request, as bytes: what stands before its count, one element, and what stands behind."""

    name: str
    key: ApiKey
    version: int
    flexible: bool
    before: bytes
    element: bytes
    behind: bytes

    def body(self, count: int) -> bytes:
        """The array with `count` times the same element."""
        return self._with(count, self.element * count)

    def differing(self, count: int) -> bytes | None:
        """With `count` elements, each of another number or name; None where an element has neither."""
        number, name = struct.pack(">i", NUMBER), NAME.encode()
        if number in self.element:
            front, back = self.element.split(number, 1)
            return self._with(count, b"".join(front + struct.pack(">i", at) + back for at in range(count)))
        if name in self.element:
            front, back = self.element.split(name, 1)
            return self._with(count, b"".join(front + b"%08d" % at + back for at in range(count)))
        return None

    def _with(self, count: int, elements: bytes) -> bytes:
        number = bytearray()
        if self.flexible:
            write_unsigned(number, count + 1)
        else:
            number += struct.pack(">i", count)
        return self.before + number + elements + self.behind


def arrays(key: ApiKey, version: int, topic: str | None = None) -> Iterator[Array]:
    """Every array of a request in one version, those inside arrays' elements too: of the one element before them.

    With a `topic` what is before them names that, and elements hold `NUMBER` and `NAME` where they can.
    """
    cls = request_class(key)
    schema = message_schema(cls.__name__)
    flexible = version >= cls.flexible_since

    def paths(struct_: StructSchema, path: tuple[Field, ...]) -> Iterator[tuple[Field, ...]]:
        for field in struct_.fields:
            if version not in field.versions or version in field.tagged:
                continue
            if field.is_array:
                yield (*path, field)
            if field.is_struct:
                yield from paths(schema.structs[field.type], (*path, field))

    def fill(at: Any, struct_: StructSchema) -> None:
        for field in struct_.fields:
            if topic is not None and field.attribute in NAMED and version in field.versions and not field.is_array:
                setattr(at, field.attribute, topic)

    def encoded(path: tuple[Field, ...], count: int) -> bytes:
        message = at = cls()
        if key is ApiKey.PRODUCE:
            message.acks = -1  # or nothing would be answered
        if key is ApiKey.METADATA and topic is not None:
            message.allow_auto_topic_creation = False
        fill(message, schema.root)
        for field in path[:-1]:
            inner = getattr(cls, field.type)()
            fill(inner, schema.structs[field.type])
            setattr(at, field.attribute, [inner] if field.is_array else inner)
            at = inner
        last = path[-1]
        scalar = {"string": "x", "bytes": b"", "bool": True, "float64": 0.0, "uuid": bytes(16)}
        if topic is not None:
            scalar |= {"string": NAME, "int32": NUMBER}
        element = getattr(cls, last.type)() if last.is_struct else scalar.get(last.type, 1)
        if topic is not None and last.is_struct:
            differs = next(
                (each for each in schema.structs[last.type].fields if each.type in ("int32", "string")), None
            )
            if differs is not None and version in differs.versions and not differs.is_array:
                setattr(element, differs.attribute, scalar[differs.type])
        setattr(at, last.attribute, [element] * count)
        return message.encode(version)

    for path in paths(schema.root, ()):
        none, two = encoded(path, 0), encoded(path, 2)
        size = (len(two) - len(none)) // 2
        differs = next(at for at in range(len(two)) if two[at] != none[at])
        start = differs if flexible else differs - 3
        behind = none[differs + 1 :]
        element = two[differs + 1 : differs + 1 + size]
        name = ".".join(field.attribute for field in path)
        yield Array(f"{key.name} v{version} {name}", key, version, flexible, none[:start], element, behind)


def all_arrays(topic: str | None = None) -> Iterator[Array]:
    for key in HANDLED:
        low, high = SUPPORTED[key]
        for version in sorted({low, high}):
            if topic is None or key is not ApiKey.METADATA or version >= 4:  # before, each name would become a topic
                yield from arrays(key, version, topic)


def send(target: Target, array: Array, body: bytes) -> None:
    """An answer, or the end of the connection, and nothing else."""
    caller = target.caller()
    try:
        caller.request(array.key, array.version, body, flexible=array.flexible)
        caller.answer_bytes()
    except Broken:
        pass
    finally:
        caller.close()


@attack("megabytes of the smallest elements, in every array", memory_bytes=160 * MIB)
def too_many_elements(target: Target) -> None:
    for array in all_arrays():
        if array.key not in BETWEEN_BROKERS:
            send(target, array, array.body((16 if target.thorough else 2) * MIB // len(array.element)))


@attack("as many of the smallest elements as are taken, in every array", memory_bytes=160 * MIB)
def many_elements(target: Target) -> None:
    for array in all_arrays():
        if array.key not in BETWEEN_BROKERS:
            send(target, array, array.body(90_000 if target.thorough else 3_000))


@attack("as many different elements as are taken, in every array", memory_bytes=160 * MIB)
def different_elements(target: Target) -> None:
    for array in all_arrays(target.topic()):
        body = array.differing(90_000 if target.thorough else 3_000)
        if body is not None and array.key not in BETWEEN_BROKERS:
            send(target, array, body)


@attack("forty thousand elements that make sense", memory_bytes=160 * MIB)
def elements_that_make_sense(target: Target) -> None:
    for message, version in REQUESTS.values():
        caller = target.caller()
        try:
            caller.send(b"".join(encode_request(message, version, 1, "")))
            caller.answer_bytes()
        except Broken:  # what is wrong with it is told by no answer
            pass
        finally:
            caller.close()
