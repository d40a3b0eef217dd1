"""What a leader asks of a client's batch; what Kafka says to hundreds of them is in ``tests/verdicts``."""

from __future__ import annotations

import asyncio
import dataclasses
import struct
from pathlib import Path
from typing import Any

import pytest
from log_worlds import NOW, PARTITION, batch, idempotent, open_log
from verdicts import batches as cases

from barnabas.log import validation
from barnabas.log.batches import StoredBatch
from barnabas.log.refusals import InvalidRecords
from barnabas.log.settings import LogSettings
from barnabas.log.validation import AT_ONCE_BYTES, TakesLong, Unpacking, validated
from barnabas.model.config import broker_config, topic_config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire import scan
from barnabas.wire.compression import Codec, compress
from barnabas.wire.records import parse_header, records_of

COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]


def settings(**config: str) -> LogSettings:
    named = {key.replace("_", "."): value for key, value in config.items()}
    return LogSettings.of(topic_config(broker_config({}), named))


def bomb(codec: Codec, size: int) -> bytearray:
    """A batch of one record of `size` zeros."""
    return bytearray(cases.batch(cases.record(value=bytes(size)), 1, codec))


def patient() -> Unpacking:
    """That of a request which nobody waits behind."""
    unpacking = Unpacking()
    unpacking.at_once = 1 << 40
    return unpacking


async def turn() -> None:
    await asyncio.sleep(0)


def verdict(case: cases.Case, given: LogSettings) -> Any:
    try:
        view, batch, restamped = validated(PARTITION, given, bytearray(case.records), cases.NOW)
    except KafkaError as error:
        return error.code, error.message, getattr(error, "record_errors", None)
    return bytes(view), [getattr(batch, name) for name in StoredBatch.__slots__], restamped


@pytest.mark.parametrize("config", [{"message.timestamp.type": "LogAppendTime"}, {}])
def test_a_batch_that_is_refused_for_its_sequence_is_still_what_was_sent(
    config: dict[str, str], tmp_path: Path
) -> None:
    log = open_log(tmp_path, config=config)
    log.append_as_leader(idempotent(["a"], 0), 0, now_ms=NOW)
    sent = bytearray(cases.batch(cases.record(), max_timestamp=5, producer_id=7, producer_epoch=0, base_sequence=9))
    before = bytes(sent)
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(sent, 0, now_ms=NOW)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sent == before


def test_the_fallback_in_python_gives_the_kernels_verdict_on_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = {name: settings(**config) for name, config in cases.TOPICS.items()}
    found = [verdict(case, topics[case.topic]) for case in cases.cases()]
    monkeypatch.setattr(validation, "_CHECK", scan.python_check)
    monkeypatch.setattr(scan, "begin", scan.PythonScan)
    assert [verdict(case, topics[case.topic]) for case in cases.cases()] == found


@pytest.mark.parametrize("codec", Codec)
def test_a_headers_max_timestamp_is_not_believed(codec: Codec, tmp_path: Path) -> None:
    log = open_log(tmp_path)
    said = bytearray(cases.batch(cases.THREE, 3, codec, max_timestamp=NOW + 10**12))
    assert log.append_as_leader(said, 0, now_ms=NOW).max_timestamp == NOW + 5
    kept = parse_header(log.read(0, 10_000))
    assert kept.max_timestamp == NOW + 5
    found = log.fetch_offset_by_timestamp(NOW + 6)
    assert found is None


def test_single_records_are_told_of() -> None:
    body = cases.record(0) + cases.record(1, key=None)
    with pytest.raises(InvalidRecords) as refused:
        validated(PARTITION, settings(cleanup_policy="compact"), bytearray(cases.batch(body, 2)), NOW)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    reason = f"Compacted topic cannot accept message without key in topic partition {PARTITION}"
    assert refused.value.record_errors == [(1, reason)]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_batch_that_unpacks_to_more_than_a_request_may_is_too_large(codec: Codec) -> None:
    unpacking = Unpacking()
    unpacking.left = 400_000
    given = settings(max_message_bytes=str(1 << 30))
    validated(PARTITION, given, bomb(codec, 200_000), NOW, unpacking=unpacking)
    with pytest.raises(KafkaError) as refused:
        validated(PARTITION, given, bomb(codec, 200_000), NOW, unpacking=unpacking)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_batch_that_unpacks_to_much_gives_way_to_others(codec: Codec) -> None:
    given = settings()
    large = bomb(codec, 3 * AT_ONCE_BYTES)
    if len(large) > given.max_message_bytes:
        given = dataclasses.replace(given, max_message_bytes=len(large))
    unpacking = Unpacking()
    with pytest.raises(TakesLong):
        validated(PARTITION, given, large, NOW, unpacking=unpacking)

    async def judged_beside() -> int:
        turns = 0
        judging = asyncio.ensure_future(unpacking.judge(PARTITION, given, large, NOW, turn))
        while not judging.done():
            turns += 1
            await asyncio.sleep(0)
        await judging
        return turns

    assert asyncio.run(judged_beside()) >= 3
    assert validated(PARTITION, given, large, NOW, unpacking=unpacking)[1].record_count == 1
    with pytest.raises(TakesLong):  # what was judged was that batch
        validated(PARTITION, given, large, NOW, unpacking=unpacking)


MANY = 20_000
RECORDS = b"".join(cases.record(number, value=b"%d" % (number * 7919)) for number in range(MANY))
SLOW: dict[str, tuple[dict[str, str], bytes]] = {
    "messages": ({}, cases.message(1) * MANY),
    "messages in a wrapper": ({}, cases.wrapper(cases.message(1) * MANY, Codec.GZIP, 1)),
    "compressed anew by gzip": ({"compression_type": "gzip"}, cases.batch(RECORDS, MANY)),
    "compressed anew by zstd": ({"compression_type": "zstd"}, cases.batch(RECORDS, MANY, Codec.GZIP)),
    "compressed anew by lz4": ({"compression_type": "lz4"}, cases.batch(RECORDS, MANY)),
    "compressed anew by snappy": ({"compression_type": "snappy"}, cases.batch(RECORDS, MANY)),
    "numbered anew": ({"compression_type": "lz4"}, cases.batch(cases.record(7) * MANY, MANY)),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_batch_that_is_written_anew_gives_way_to_others(name: str) -> None:
    config, sent = SLOW[name]
    given = settings(**config)
    expected = validated(PARTITION, given, bytearray(sent), NOW, unpacking=patient())
    unpacking = Unpacking()
    turns = 0

    async def counted() -> None:
        nonlocal turns
        turns += 1

    asyncio.run(unpacking.judge(PARTITION, given, sent, NOW, counted))
    assert turns >= 3
    found = validated(PARTITION, given, bytearray(sent), NOW, unpacking=unpacking)
    assert (bytes(found[0]), found[1].record_count) == (bytes(expected[0]), MANY)
    with pytest.raises(TakesLong):
        validated(PARTITION, given, bytearray(sent), NOW, unpacking=Unpacking())


def test_settings_that_change_while_a_batch_is_judged_count() -> None:
    before, after = settings(), settings(cleanup_policy="compact")
    large = bytearray(cases.batch(cases.record(key=None, value=bytes(2 * AT_ONCE_BYTES)), 1, Codec.ZSTD))
    unpacking = Unpacking()
    asyncio.run(unpacking.judge(PARTITION, before, large, NOW, turn))
    unpacking.at_once = 1 << 40
    with pytest.raises(InvalidRecords):
        validated(PARTITION, after, large, NOW, unpacking=unpacking)


def test_many_small_blocks_give_way_as_a_large_one_does() -> None:
    blocks = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + (struct.pack(">i", 3) + b"\x01\x00\x00") * 5_000
    with pytest.raises(TakesLong):
        validated(PARTITION, settings(), bytearray(cases.batch(b"", 10_000, Codec.SNAPPY, packed=blocks)), NOW)


def test_frames_of_nothing_are_counted_as_well() -> None:
    empty = compress(Codec.ZSTD, b"")
    many = bytearray(cases.batch(b"", 1, Codec.ZSTD, packed=empty * 2_000))
    with pytest.raises(TakesLong):
        validated(PARTITION, settings(), many, NOW)


def test_a_batch_that_is_compressed_anew_may_unpack_to_some_times_what_a_topic_takes() -> None:
    given = settings(compression_type="gzip", max_message_bytes="100000")
    assert validated(PARTITION, given, bomb(Codec.ZSTD, 3_000_000), NOW, unpacking=patient())[1].size < 100_000
    with pytest.raises(KafkaError) as refused:
        validated(PARTITION, given, bomb(Codec.ZSTD, 9_000_000), NOW, unpacking=patient())
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", "1", "9"), ("gzip", "1", "-1"), ("zstd", "-5", "19")])
def test_a_topics_level_of_compression_is_what_its_leader_compresses_with(codec: str, low: str, high: str) -> None:
    records = batch([" ".join(str(number * number) for number in range(20_000))])
    sizes = []
    for level in (low, high):
        config = {"compression.type": codec, f"compression.{codec}.level": level}
        given = LogSettings.of(topic_config(broker_config({}), config))
        view, found, _ = validated(PARTITION, given, records, NOW, unpacking=patient())
        assert records_of(view, 0, len(view)) == records_of(records, 0, len(records))
        sizes.append(found.size)
    assert sizes[1] < sizes[0] < len(records)


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(("bound", "expected"), [({}, 1000), ({"": "500"}, 500), ({"": str((1 << 63) - 1)}, 1000)])
def test_the_deprecated_bound_holds_where_the_new_one_is_none(side: str, bound: dict[str, str], expected: int) -> None:
    own = {f"message.timestamp.{side}.max.ms": value for value in bound.values()}
    config = topic_config(broker_config({}), {"message.timestamp.difference.max.ms": "1000", **own})
    assert getattr(LogSettings.of(config), f"timestamp_{side}_max_ms") == expected


def test_the_settings_of_a_log_are_judged_by(tmp_path: Path) -> None:
    log = open_log(tmp_path, config={"message.timestamp.before.max.ms": "1000"})
    with pytest.raises(InvalidRecords) as refused:
        log.append_as_leader(batch(["a"], timestamp=NOW - 1001), 0, now_ms=NOW)
    assert refused.value.code is ErrorCode.INVALID_TIMESTAMP
    assert log.log_end_offset == 0


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_may_unpack_to_what_a_topic_takes(magic: int) -> None:
    message = cases.message(magic, bytes(1_000))
    for count, fits in ((500, True), (1_100, False)):
        wrapper = bytearray(cases.wrapper(message * count, Codec.GZIP, magic))
        if fits:
            assert validated(PARTITION, settings(), wrapper, NOW, unpacking=patient())[1].record_count == count
        else:
            with pytest.raises(KafkaError) as refused:
                validated(PARTITION, settings(), wrapper, NOW, unpacking=patient())
            assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
