"""Batches that are small on the wire and large behind it."""

from __future__ import annotations

from hostile_frame import Target, attack
from verdicts.batches import batch, record

from barnabas.wire.compression import Codec, compress
from barnabas.wire.messages.produce import ProduceRequest

PARTITIONS = 10
UNPACKED = 60_000_000


def produce(target: Target, topic: str, records: bytes) -> set[int]:
    """The batch to all partitions of the topic at once; the error codes."""
    data = [ProduceRequest.PartitionProduceData(index=index, records=records) for index in range(PARTITIONS)]
    topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=data)]
    answer = target.caller().ask(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), 9)
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
