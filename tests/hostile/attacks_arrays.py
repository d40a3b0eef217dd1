"""The largest array of the smallest elements, for every array of every request that is offered."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from hostile_frame import Broken, Target, attack

from barnabas.broker.router import HANDLED
from barnabas.wire.api import SUPPORTED, ApiKey
from barnabas.wire.frames import request_class
from barnabas.wire.schema import Field, StructSchema, message_schema
from barnabas.wire.varint import write_unsigned

MIB = 1 << 20
BETWEEN_BROKERS = {
    *(ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN),
    *(ApiKey.ALTER_PARTITION, ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.WRITE_TXN_MARKERS),
}
"""They decide what the cluster does, and nobody keeps a stranger from sending them yet."""


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
        number = bytearray()
        if self.flexible:
            write_unsigned(number, count + 1)
        else:
            number += struct.pack(">i", count)
        return self.before + number + self.element * count + self.behind


def arrays(key: ApiKey, version: int) -> Iterator[Array]:
    """Every array of a request in one version, those inside arrays' elements too: of the one element before them."""
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

    def encoded(path: tuple[Field, ...], count: int) -> bytes:
        message = at = cls()
        if key is ApiKey.PRODUCE:
            message.acks = -1  # or nothing would be answered
        for field in path[:-1]:
            inner = getattr(cls, field.type)()
            setattr(at, field.attribute, [inner] if field.is_array else inner)
            at = inner
        last = path[-1]
        scalar = {"string": "x", "bytes": b"", "bool": True, "float64": 0.0, "uuid": bytes(16)}
        element = getattr(cls, last.type)() if last.is_struct else scalar.get(last.type, 1)
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


def all_arrays() -> Iterator[Array]:
    for key in HANDLED:
        low, high = SUPPORTED[key]
        for version in sorted({low, high}):
            yield from arrays(key, version)


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
