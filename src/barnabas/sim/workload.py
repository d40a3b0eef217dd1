"""What clients do during a run, and what they were told: the history that the checkers judge."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import ClusterClient
from barnabas.client.offsets import EARLIEST
from barnabas.client.producer import Producer
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.chance import Chance
from barnabas.sim.draw import TOPIC
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.records import batches, check_crc, records_of

_FETCH_VERSION = 12


@dataclass
class History:
    """`acknowledged` maps a value to where the broker said it is; `unknown` are values whose fate was never told."""

    sent: list[bytes] = field(default_factory=list)
    acknowledged: dict[bytes, tuple[TopicPartition, int]] = field(default_factory=dict)
    unknown: dict[bytes, str] = field(default_factory=dict)
    read: dict[tuple[TopicPartition, int], bytes] = field(default_factory=dict)
    """What a consumer saw below the high watermark while the run went on."""
    changed: list[str] = field(default_factory=list)


async def create_topic(cluster: ClusterClient, partitions: int, replication_factor: int) -> None:
    topic = NewTopic(TOPIC, partitions, replication_factor, configs={"min.insync.replicas": "2"})
    for name, error in (await Admin(cluster).create_topics([topic])).items():
        if error is not None:
            raise RuntimeError(f"topic {name} could not be created: {error}")


async def produce(
    runtime: Runtime, cluster: ClusterClient, history: History, records: int, length_ns: int, chance: Chance
) -> None:
    """`records` distinct values over about `length_ns`, idempotent, acks=all; waits for every answer."""
    producer = Producer(cluster)
    pending: list[tuple[bytes, asyncio.Future[object]]] = []
    pause_ns = length_ns // records
    for number in range(records):
        value = b"order %d" % number
        history.sent.append(value)
        key = b"customer %d" % chance.whole(0, 20)
        pending.append((value, await producer.append(TOPIC, value, key=key)))  # type: ignore[arg-type]
        await asyncio.sleep(chance.exponential_ns(pause_ns) / 1e9)
    for value, future in pending:
        try:
            delivered = await future
        except (KafkaError, OSError) as error:
            history.unknown[value] = repr(error)
            continue
        place = TopicPartition(delivered.topic, delivered.partition)  # type: ignore[attr-defined]
        history.acknowledged[value] = (place, delivered.offset)  # type: ignore[attr-defined]
    await producer.close()


async def read_from(
    cluster: ClusterClient, topic_partition: TopicPartition, offset: int
) -> list[tuple[int, bytes | None]]:
    """One fetch of committed records by a consumer: offsets and values."""
    connection = await cluster.leader(topic_partition)
    response = await connection.send(
        FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            topics=[
                FetchRequest.FetchTopic(
                    topic=topic_partition.topic,
                    partitions=[
                        FetchRequest.FetchPartition(
                            partition=topic_partition.partition, fetch_offset=offset, partition_max_bytes=65536
                        )
                    ],
                )
            ],
        ),
        _FETCH_VERSION,
    )
    answer = response.responses[0].partitions[0]
    if answer.error_code:
        await cluster.refresh([topic_partition.topic])
        return []
    data = memoryview(answer.records or b"")
    found: list[tuple[int, bytes | None]] = []
    for header, start, end in batches(data):
        check_crc(data, start, end)
        if not header.is_control:
            found += [(each.offset, each.value) for each in records_of(data, start, end) if each.offset >= offset]
    return found


async def tail(runtime: Runtime, cluster: ClusterClient, history: History, partitions: int, stop: list[bool]) -> None:
    """A consumer that follows every partition to its end, and remembers what it was given where."""
    positions = {TopicPartition(TOPIC, number): 0 for number in range(partitions)}
    while not stop:
        for topic_partition in positions:
            try:
                found = await read_from(cluster, topic_partition, positions[topic_partition])
            except (KafkaError, OSError):
                await asyncio.sleep(0.1)
                continue
            for offset, value in found:
                place = topic_partition, offset
                if history.read.setdefault(place, value or b"") != value:
                    history.changed.append(f"{topic_partition}@{offset}: {history.read[place]!r}, later {value!r}")
                positions[topic_partition] = offset + 1
        await asyncio.sleep(0.05)


async def read_all(cluster: ClusterClient, partitions: int) -> dict[tuple[TopicPartition, int], bytes]:
    """Every committed record of the topic, once the cluster is well."""
    everything: dict[tuple[TopicPartition, int], bytes] = {}
    for number in range(partitions):
        topic_partition = TopicPartition(TOPIC, number)
        listed = await cluster.list_offsets({topic_partition: -1})
        end = listed[topic_partition].offset
        position = (await cluster.list_offsets({topic_partition: EARLIEST}))[topic_partition].offset
        while position < end:
            found = await read_from(cluster, topic_partition, position)
            for offset, value in found:
                everything[topic_partition, offset] = value or b""
                position = offset + 1
            if not found:
                await asyncio.sleep(0.1)
    return everything
