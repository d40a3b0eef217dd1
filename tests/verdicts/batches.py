"""Batches as no producer should send them, in every codec and magic, and some that are as they should be.

Everything is deterministic, so that an answer recorded once can be held against one of another day.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from barnabas.wire.compression import Codec, compress, mended_lz4
from barnabas.wire.records import HEADER
from barnabas.wire.varint import signed

NOW: Final = 1_700_000_000_000
HOUR_MS: Final = 3_600_000
COMPRESSED: Final = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
LEGACY_CODECS: Final = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)

TOPICS: Final[dict[str, dict[str, str]]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "bounded": {
        "message.timestamp.before.max.ms": str(100 * 365 * 24 * HOUR_MS),
        "message.timestamp.after.max.ms": str(HOUR_MS),
    },
    "gzipped": {"compression.type": "gzip"},
    "unpacked": {"compression.type": "uncompressed"},
    "small": {"max.message.bytes": "200"},
}
"""Every kind of topic that the batches go to, with its configuration."""


class Case(NamedTuple):
    """One produce request of one partition."""

    name: str
    topic: str
    records: bytes
    version: int = 9


# ------------------------------------------------------------------------------------------------ parts


def record(
    offset_delta: int = 0,
    timestamp_delta: int = 0,
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    headers: bytes = b"\x00",
    *,
    grown: int = 0,
) -> bytes:
    """A record of magic 2; `headers` are its last bytes as they stand, `grown` is added to the length that it says."""
    body = b"\x00" + signed(timestamp_delta) + signed(offset_delta) + _field(key) + _field(value) + headers
    return signed(len(body) + grown) + body


def _field(data: bytes | None) -> bytes:
    return b"\x01" if data is None else signed(len(data)) + data


def batch(
    body: bytes,
    count: int = 1,
    codec: int = 0,
    *,
    packed: bytes | None = None,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_offset: int = 0,
    base_timestamp: int = NOW,
    max_timestamp: int = NOW,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    magic: int = 2,
    length: int | None = None,
    crc: int | None = None,
) -> bytes:
    """A batch of magic 2 with a valid CRC, whatever else is said; `packed` stands for the compressed `body`."""
    content = packed if packed is not None else (compress(Codec(codec), body) if codec else body)
    delta = count - 1 if last_offset_delta is None else last_offset_delta
    tail = HEADER.pack(
        0, 0, 0, 0, 0, attributes | codec, delta, base_timestamp, max_timestamp, producer_id, producer_epoch,
        base_sequence, count,
    )[21:] + content  # fmt: skip
    size = 9 + len(tail) if length is None else length
    checksum = crc32c(tail) if crc is None else crc
    return struct.pack(">qiiBI", base_offset, size, -1, magic, checksum) + tail


def message(
    magic: int = 1,
    value: bytes | None = b"value",
    key: bytes | None = b"key",
    *,
    offset: int = 0,
    attributes: int = 0,
    timestamp: int = NOW,
    length: int | None = None,
    crc: int | None = None,
    content: bytes | None = None,
) -> bytes:
    """A message of magic 0 or 1; `content` stands for key and value."""
    fields = _legacy_field(key) + _legacy_field(value) if content is None else content
    body = struct.pack(">BB", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"") + fields
    size = 4 + len(body) if length is None else length
    return struct.pack(">qiI", offset, size, zlib.crc32(body) if crc is None else crc) + body


def _legacy_field(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def wrapper(
    inner: bytes, codec: Codec, magic: int = 1, *, offset: int | None = None, attributes: int = 0, timestamp: int = NOW
) -> bytes:
    """`inner` messages, compressed in one message."""
    packed = compress(codec, inner)
    if codec is Codec.LZ4 and magic == 0:
        packed = packed[:6] + b"\x00" + packed[7:]  # a checksum that the clients of that age computed wrongly
    offset = 0 if offset is None else offset
    return message(magic, packed, None, offset=offset, attributes=attributes | codec, timestamp=timestamp)


THREE: Final = record(0) + record(1, 5) + record(2, 3)


# ------------------------------------------------------------------------------------------------ magic 2


class _Body(NamedTuple):
    name: str
    body: bytes
    count: int = 1


BODIES: Final = (
    _Body("one record", record()),
    _Body("a record with headers", record(headers=b"\x04\x02n\x02v\x02n\x01")),
    _Body("a record without key and value", record(key=None, value=None)),
    _Body("ff", b"\xff" * 40),
    _Body("zeros", bytes(40)),
    _Body("a thousand records said, one there", record(), 1000),
    _Body("two records there, one said", record(0) + record(1)),
    _Body("no records, one said", b""),
    _Body("a record longer than its batch", record(grown=40)),
    _Body("a record longer than its fields, by one", record(grown=1)),
    _Body("a record longer than its fields, another behind", record(0, grown=3) + record(1), 2),
    _Body("a record shorter than its fields", record(grown=-3)),
    _Body("a record shorter than its fields, another behind", record(0, grown=-3) + record(1), 2),
    _Body("a record of no length", b"\x00" + record(), 2),
    _Body("a record of negative length", signed(-7) + record()[1:]),
    _Body("a record of two gigabytes", signed(0x7FFFFFFF) + record()[1:]),
    _Body("a byte behind the last record", record() + b"\x00"),
    _Body("many bytes behind the last record", record() + bytes(70_000)),
    _Body("a record cut off", record()[:-4]),
    _Body("a record cut off inside its length", record() + b"\x80", 2),
    _Body("a record cut off behind its length", record() + b"\x1e", 2),
    _Body("a length that does not end", b"\x80\x80\x80\x80\x80\x01" + record()[1:]),
    _Body("a length of five bytes", b"\x9e\x80\x80\x80\x00" + record()[1:]),
    _Body("a length whose fifth byte says too much", bytes([record()[0] | 0x80]) + b"\x80\x80\x80\x70" + record()[1:]),
    _Body("a timestamp that does not end", signed(24) + b"\x00" + b"\x80" * 10 + b"\x00" * 13),
    _Body("a timestamp of ten bytes", signed(16) + b"\x00" + b"\x80" * 9 + b"\x01" + b"\x00\x01\x01\x00\x00"),
    _Body("an offset that does not end", signed(12) + b"\x00\x00" + b"\x80" * 5 + b"\x01\x01\x01\x00\x00"),
    _Body("a key longer than its record", signed(12) + b"\x00\x00\x00" + signed(50) + b"keyva\x00\x00\x00"),
    _Body("a key of two gigabytes", signed(12) + b"\x00\x00\x00" + signed(0x7FFFFFFF) + b"key\x00"),
    _Body("a key of length -2", signed(6) + b"\x00\x00\x00\x03\x01\x00"),
    _Body("a value longer than its record", signed(7) + b"\x00\x00\x00\x01" + signed(50) + b"v\x00"),
    _Body("a value of length -7", signed(6) + b"\x00\x00\x00\x01\x0d\x00"),
    _Body("a negative number of headers", record(headers=b"\x01")),
    _Body("more headers than bytes", record(headers=signed(60))),
    _Body("two billion headers", record(headers=signed(0x7FFFFFFF))),
    _Body("fewer headers than there are", record(headers=b"\x02\x02n\x02v\x02n\x01")),
    _Body("a header without a name", record(headers=b"\x02\x01\x02v")),
    _Body("a header's name longer than its record", record(headers=b"\x02" + signed(40) + b"n\x02v")),
    _Body("a header's value longer than its record", record(headers=b"\x02\x02n" + signed(40) + b"v")),
    _Body("a header's value of length -3", record(headers=b"\x02\x02n\x05")),
    _Body("attributes of a record", b"\x1e\xff" + record()[2:]),
    _Body("offsets 0, 2, 1", record(0) + record(2) + record(1), 3),
    _Body("offsets 0, 0, 0", record() * 3, 3),
    _Body("offsets from 5", record(5) + record(6), 2),
    _Body("offsets below zero", record(-1) + record(0), 2),
)


def _bodies() -> Iterator[Case]:
    for name, body, count in BODIES:
        for codec in Codec:
            yield Case(f"{name}, {codec.name.lower()}", "plain", batch(body, count, codec))
        yield Case(f"{name}, none to gzip", "gzipped", batch(body, count))
        yield Case(f"{name}, zstd to gzip", "gzipped", batch(body, count, Codec.ZSTD))
        yield Case(f"{name}, lz4 to none", "unpacked", batch(body, count, Codec.LZ4))


def _of_records() -> Iterator[Case]:
    """What is wrong with single records, or with what the header says of them all."""
    for codec in Codec:
        named = codec.name.lower()
        keyless = record(0, key=None) + record(1) + record(2, key=None)
        many = b"".join(record(number, key=None) for number in range(5))
        future = record(0) + record(1, 10**13) + record(2)
        past = record(0) + record(1, 5 - NOW) + record(2, 7 - NOW)
        none = record(0, -1 - NOW) + record(1)
        for topic in ("compacted", "gzipped", "stamped"):
            yield Case(f"two of three without key to {topic}, {named}", topic, batch(keyless, 3, codec))
        yield Case(f"five without key, {named}", "compacted", batch(many, 5, codec))
        yield Case(f"keys of length 0, {named}", "compacted", batch(record(key=b""), 1, codec))
        yield Case(f"without key, and cut off, {named}", "compacted", batch(keyless[:-2], 3, codec))
        for topic in ("bounded", "plain", "stamped"):
            yield Case(f"a timestamp of the future to {topic}, {named}", topic, batch(future, 3, codec))
            yield Case(f"two timestamps of the past to {topic}, {named}", topic, batch(past, 3, codec))
            yield Case(f"a record without timestamp to {topic}, {named}", topic, batch(none, 2, codec))
        for said, header in (("too large", NOW + 10**12), ("too small", NOW - 10**6), ("none", -1), ("-2", -2)):
            yield Case(f"max_timestamp {said}, {named}", "plain", batch(THREE, 3, codec, max_timestamp=header))
        yield Case(f"max_timestamp of the future, {named}", "bounded", batch(THREE, 3, codec, max_timestamp=10**14))
        yield Case(f"no timestamps, {named}", "plain", batch(THREE[:17], 1, codec, base_timestamp=-1, max_timestamp=-1))
        yield Case(f"timestamps below zero, {named}", "bounded", batch(THREE, 3, codec, base_timestamp=-(1 << 63)))
        yield Case(
            f"a sum of timestamps that overflows, {named}",
            "bounded",
            batch(THREE, 3, codec, base_timestamp=(1 << 63) - 2),
        )
        for topic in ("plain", "stamped", "bounded", "compacted"):
            for said in (NOW, -1, 10**14):
                stamped = batch(THREE, 3, codec, attributes=0x08, max_timestamp=said)
                yield Case(f"stamped {said} by its producer to {topic}, {named}", topic, stamped)
        stamped = batch(keyless, 3, codec, attributes=0x08, max_timestamp=-1)
        yield Case(f"without key and stamped by its producer, {named}", "compacted", stamped)
        for topic in ("stamped", "compacted", "bounded", "unpacked", "gzipped"):
            yield Case(f"three records to {topic}, {named}", topic, batch(THREE, 3, codec, max_timestamp=NOW + 5))


def _of_headers() -> Iterator[Case]:
    one = record()
    plain: dict[str, bytes] = {
        "no records": batch(b"", 0),
        "no records, of one": batch(one, 0),
        "no records, last offset 0": batch(one, 0, last_offset_delta=0),
        "-1 records": batch(one, -1),
        "-1 records, last offset 0": batch(one, -1, last_offset_delta=0),
        "one record, last offset 1": batch(one, 1, last_offset_delta=1),
        "two records, last offset 0": batch(one + record(1), 2, last_offset_delta=0),
        "last offset -1": batch(one, 1, last_offset_delta=-1),
        "base offset 7": batch(one, base_offset=7),
        "base offset -1": batch(one, base_offset=-1),
        "a wrong CRC": batch(one, crc=7),
        "a wrong CRC and base offset": batch(one, crc=7, base_offset=7),
        "a control batch": batch(one, attributes=0x20),
        "a producer without sequence": batch(one, producer_id=5, producer_epoch=0),
        "a delete horizon": batch(one, attributes=0x40),
        "attributes that nobody knows": batch(one, attributes=-128),
        "a delete horizon and a wrong max_timestamp": batch(one, attributes=0x40, max_timestamp=NOW + 7),
        "attributes that nobody knows and a wrong max_timestamp": batch(one, attributes=-128, max_timestamp=NOW + 7),
        "a length of 0": batch(one, length=0),
        "a length of -1": batch(one, length=-1),
        "a length of 13": batch(one, length=13),
        "a length of 14": batch(one, length=14),
        "a length of 20": batch(one, length=20),
        "a length of 48": batch(one, length=48),
        "a length one too short": batch(one, length=len(batch(one)) - 13),
        "a length one too long": batch(one, length=len(batch(one)) - 11),
        "a length of two gigabytes": batch(one, length=0x7FFFFFFF),
        "magic 3": batch(one, magic=3),
        "magic 127": batch(one, magic=127),
        "magic 255": batch(one, magic=255),
        "two batches": batch(one) * 2,
        "a batch and five bytes": batch(one) + b"later",
        "a batch and twelve zeros": batch(one) + bytes(12),
        "a batch and twenty ff": batch(one) + b"\xff" * 20,
        "a batch and half of one": batch(one) + batch(one)[:40],
        "a batch and a header of magic 9": batch(one) + batch(one, magic=9),
        "nothing": b"",
        "eleven bytes": batch(one)[:11],
        "half a batch": batch(one)[:40],
        "all but the last byte": batch(one)[:-1],
    }
    for name, records in plain.items():
        yield Case(name, "plain", records)
    for name in ("a wrong CRC", "a length of 48", "two batches", "base offset 7", "-1 records", "a control batch"):
        yield Case(f"{name} to gzip", "gzipped", plain[name])
    yield Case("a batch larger than the topic's", "small", batch(record(value=bytes(200))))
    yield Case("a batch larger than the topic's, with a wrong CRC", "small", batch(record(value=bytes(200)), crc=5))
    for codec in (5, 6, 7):
        for topic in ("plain", "gzipped", "compacted", "stamped"):
            yield Case(f"codec {codec} to {topic}", topic, batch(one, codec=codec, packed=one))
        yield Case(f"codec {codec}, version 5", "plain", batch(one, codec=codec, packed=one), 5)
    yield Case("codec zstd, version 5", "plain", batch(one, codec=Codec.ZSTD), 5)


def _of_codecs() -> Iterator[Case]:
    """Bytes that no codec made."""
    one = record()
    long = b"".join(record(number, value=b"%d" % (number * 7919) * 40) for number in range(300))
    for codec in COMPRESSED:
        named = codec.name.lower()
        packed, longer = compress(codec, one), compress(codec, long)
        for topic in ("plain", "unpacked"):
            for name, content, count in (
                ("nothing", b"", 1),
                ("the records as they are", one, 1),
                ("zeros", bytes(60), 1),
                ("ff", b"\xff" * 60, 1),
                ("a frame cut off", packed[:-3], 1),
                ("a frame cut off early", packed[:5], 1),
                ("a long frame", longer, 300),
                ("a long frame cut off", longer[: len(longer) // 2], 300),
                ("a long frame with a wrong byte", _flipped(longer), 300),
                ("a frame and a byte", packed + b"\x00", 1),
                ("a frame and ff", packed + b"\xff" * 30, 1),
                ("two frames of one record each", packed + compress(codec, record(1)), 2),
                ("two frames, one said", packed + compress(codec, record(1)), 1),
                ("a frame of nothing", compress(codec, b""), 1),
            ):
                yield Case(f"{name} as {named} to {topic}", topic, batch(b"", count, codec, packed=content))
    frame = compress(Codec.LZ4, one)
    lz4 = {
        "blocks that depend": mended_lz4(frame[:4] + b"\x40" + frame[5:]),
        "blocks that depend, wrong checksum": frame[:4] + b"\x40" + frame[5:],
        "a wrong header checksum": frame[:6] + b"\x00" + frame[7:],
        "version 2": frame[:4] + b"\xa0" + frame[5:],
        "a block larger than said": frame[:7] + struct.pack("<I", 0x80000000 | 70_000) + bytes(70_000) + bytes(4),
        "no end mark": frame[:-4],
        "half an end mark": frame[:-2],
    }
    for name, content in lz4.items():
        yield Case(f"lz4: {name}", "plain", batch(b"", 1, Codec.LZ4, packed=content))
    from cramjam import snappy

    block = bytes(snappy.compress_raw(one))
    xerial = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    snapped = {
        "one raw block": block,
        "a version of the future": xerial[:8] + struct.pack(">ii", 9, 9) + struct.pack(">i", len(block)) + block,
        "a block longer than there is": xerial + struct.pack(">i", len(block) + 9) + block,
        "a block of negative length": xerial + struct.pack(">i", -5) + block,
        "an empty block before": xerial + struct.pack(">i", 1) + b"\x00" + struct.pack(">i", len(block)) + block,
        "a block that says four gigabytes": xerial + struct.pack(">i", 9) + b"\xff\xff\xff\xff\x0f" + bytes(4),
    }
    for name, content in snapped.items():
        yield Case(f"snappy: {name}", "plain", batch(b"", 1, Codec.SNAPPY, packed=content))
    zipped = gzip.compress(one, mtime=0)
    members = {
        "a wrong CRC": zipped[:-8] + bytes([zipped[-8] ^ 1]) + zipped[-7:],
        "a wrong size": zipped[:-1] + b"\x01",
        "a name": zipped[:3] + b"\x08" + zipped[4:10] + b"name\x00" + zipped[10:],
        "method 7": zipped[:2] + b"\x07" + zipped[3:],
        "without its trailer": zipped[:-8],
    }
    for name, content in members.items():
        yield Case(f"gzip: {name}", "plain", batch(b"", 1, Codec.GZIP, packed=content))


def _flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x55]) + data[middle + 1 :]


# ------------------------------------------------------------------------------------------------ magic 0 and 1


def _legacy() -> Iterator[Case]:
    for magic in (0, 1):
        version = 2 if magic else 1

        def case(name: str, records: bytes, topic: str = "plain", magic: int = magic, version: int = version) -> Case:
            return Case(f"magic {magic}: {name} to {topic}", topic, records, version)

        one = message(magic)
        for topic in ("plain", "gzipped", "stamped", "compacted", "bounded"):
            yield case("a message", one, topic)
            yield case("three messages", one + message(magic, offset=1) + message(magic, offset=2), topic)
        yield case("two messages without key", message(magic, key=None) * 2, "compacted")
        yield case("two messages without key, and one", message(magic, key=None) * 2 + one, "gzipped")
        yield case("a message of the future", message(magic, timestamp=10**14), "bounded")
        yield case("a message of the future", message(magic, timestamp=10**14), "stamped")
        yield case("a message without timestamp", message(magic, timestamp=-1), "bounded")
        yield case("a message stamped by its producer", message(magic, attributes=8), "bounded")
        yield case("a message stamped by its producer", message(magic, attributes=8), "stamped")
        yield case("a message of unknown attributes", message(magic, attributes=0xF0))
        yield case("a wrong CRC", message(magic, crc=7))
        yield case("a wrong CRC behind", one + message(magic, crc=7))
        yield case("a length of 13", message(magic, length=13))
        yield case("a length too short", message(magic, length=len(one) - 14))
        yield case("a length too long", message(magic, length=len(one)))
        yield case("a key beyond", message(magic, content=struct.pack(">i", 90) + b"key" + struct.pack(">i", -1)))
        yield case("a value beyond", message(magic, content=struct.pack(">ii", -1, 90) + b"value"))
        yield case("a key of length -7", message(magic, content=struct.pack(">ii", -7, -1)))
        yield case("bytes behind the value", message(magic, content=struct.pack(">ii", -1, 1) + b"value"))
        yield case("another magic behind", one + message(1 - magic))
        yield case("a batch of magic 2 behind", one + batch(record()))
        yield case("half a message behind", one + one[:20])
        yield case("no timestamps at all", message(magic, content=b"\x00" * 4))
        for codec in (5, 6, 7):
            yield case(f"codec {codec}", message(magic, attributes=codec))
        yield case("zstd", wrapper(one, Codec.ZSTD, magic))
        for codec in LEGACY_CODECS[1:]:
            yield from _wrappers(magic, codec, case)


def _wrappers(magic: int, codec: Codec, case: Callable[..., Case]) -> Iterator[Case]:
    one = message(magic)
    three = b"".join(message(magic, b"%d" % number, offset=number, timestamp=NOW + number) for number in range(3))

    def wrapped(name: str, inner: bytes, topic: str = "plain", **named: int) -> Case:
        return case(f"{name} in {codec.name.lower()}", wrapper(inner, codec, magic, **named), topic)

    for topic in ("plain", "gzipped", "stamped", "compacted", "unpacked"):
        yield wrapped("three", three, topic, offset=2)
    yield wrapped("three, offset 0", three)
    yield wrapped("three, offset 1", three, offset=1)
    yield wrapped("three, offset 9", three, offset=9)
    yield wrapped("a message without key", one + message(magic, key=None, offset=1), "compacted", offset=1)
    yield wrapped("a message of the future", one + message(magic, offset=1, timestamp=10**14), "bounded", offset=1)
    yield wrapped("stamped", three, "bounded", offset=2, attributes=8, timestamp=-1)
    yield wrapped("stamped now", three, "bounded", offset=2, attributes=8)
    yield wrapped("a wrong CRC", one + message(magic, offset=1, crc=7), offset=1)
    yield wrapped("nothing", b"")
    yield wrapped("a wrapper", wrapper(one, codec, magic))
    yield wrapped("magic 2", batch(record()))
    yield wrapped("the other magic", message(1 - magic))
    yield wrapped("half a message behind", one + one[:20])
    yield wrapped("a length of 13", message(magic, length=13))
    yield wrapped("a length too long", message(magic, length=len(one)))
    yield wrapped("a key beyond", message(magic, content=struct.pack(">i", 90) + b"key" + struct.pack(">i", -1)))
    named = codec.name.lower()
    yield case(f"two wrappers in {named}", wrapper(one, codec, magic) * 2)
    yield case(f"a message, then a wrapper in {named}", one + wrapper(one, codec, magic))
    yield case(f"no value as {named}", message(magic, None, attributes=codec))
    yield case(f"garbage as {named}", message(magic, b"\xff" * 60, None, attributes=codec))
    yield case(f"empty as {named}", message(magic, b"", None, attributes=codec))


def cases() -> list[Case]:
    """All of them, each name once."""
    found = [*_bodies(), *_of_records(), *_of_headers(), *_of_codecs(), *_legacy()]
    assert len({case.name for case in found}) == len(found)
    return found
