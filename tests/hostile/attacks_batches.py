"""Batches that are small on the wire and large behind it."""

from __future__ import annotations

from hostile_frame import Target, attack
from verdicts.batches import batch, message, record, wrapper

from barnabas.wire.compression import Codec, compress
from barnabas.wire.messages.produce import ProduceRequest

PARTITIONS = 10
UNPACKED = 60_000_000


def produce(target: Target, topic: str, records: bytes, version: int = 9) -> set[int]:
    """The batch to all partitions of the topic at once; the error codes."""
    data = [ProduceRequest.PartitionProduceData(index=index, records=records) for index in range(PARTITIONS)]
    topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=data)]
    answer = target.caller().ask(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), version)
    return {each.error_code for each in answer.responses[0].partition_responses}


@attack("bombs in every codec to ten compacted partitions")
def bombs(target: Target) -> None:
    topic = target.topic(partitions=PARTITIONS, cleanup_policy="compact", max_message_bytes="5000000")
    for codec in (Codec.ZSTD, Codec.GZIP, Codec.LZ4, Codec.SNAPPY):
        assert produce(target, topic, batch(record(value=bytes(UNPACKED)), 1, codec)) == {0, 10}
    keyless = record(key=None, value=b"")
    count = UNPACKED // len(keyless)
    assert produce(target, topic, batch(keyless * count, count, Codec.ZSTD)) == {87, 10}


@attack("bombs that are compressed anew")
def bombs_compressed_anew(target: Target) -> None:
    topic = target.topic(partitions=PARTITIONS, compression_type="gzip")
    assert produce(target, topic, batch(record(value=bytes(UNPACKED)), 1, Codec.ZSTD)) == {10}
    assert produce(target, topic, batch(record(value=bytes(4_000_000)), 1, Codec.ZSTD)) == {0}


@attack("a hundred thousand frames of nothing")
def frames_of_nothing(target: Target) -> None:
    topic = target.topic(partitions=PARTITIONS)
    assert produce(target, topic, batch(b"", 1, Codec.ZSTD, packed=compress(Codec.ZSTD, b"") * 100_000)) == {10}


@attack("twenty thousand old messages in three kilobytes, to ten partitions")
def messages_written_anew(target: Target) -> None:
    topic = target.topic(partitions=PARTITIONS)
    sent = wrapper(message(1) * (20_000 if target.thorough else 5_000), Codec.GZIP, 1)
    assert produce(target, topic, sent, 2) == {0}


@attack("megabytes that are compressed anew at the highest levels")
def slowly_compressed_anew(target: Target) -> None:
    count = 15_000 if target.thorough else 3_000
    lines = b"".join(record(number, value=b"%d of %d" % (number * 7919, number)) for number in range(count))
    for codec, level in (("gzip", "9"), ("zstd", "22")):
        config = {"compression_type": codec, f"compression_{codec}_level": level}
        topic = target.topic(codec, partitions=PARTITIONS, **config)
        assert produce(target, topic, batch(lines, count, Codec.LZ4)) == {0}


@attack("a record to each of ten partitions that are flushed at once, again and again")
def flushed_at_once(target: Target) -> None:
    topic = target.topic(partitions=PARTITIONS, flush_messages="1")
    for _ in range(50 if target.thorough else 10):
        assert produce(target, topic, batch(record())) == {0}
