"""Who writes and reads to the end. L1: when all has healed, every partition takes a record. G5: every consumer is given
all there is, and every group commits it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.judge_records import leading_logs
from barnabas.sim.world import World

WITHIN_S: Final = 90.0
"""For members to be missed, for others to join, and for what they have not read."""


class Reader(NamedTuple):
    """A consumer at work, alone or for a group; `committed` are those whose bound is the last stable offset."""

    consumer: Consumer
    group: str
    topics: tuple[str, ...]
    committed: bool
    commits: bool = False
    """Whether what it has committed is in the history."""


Commits = Mapping[tuple[str, str], tuple[int, int]]
"""By group and partition: the offset whose commit was acknowledged, and when."""


async def everything_works(world: World, topics: Mapping[str, Iterable[int]]) -> None:
    """L1: a fresh record can be produced to each of these partitions."""
    world.check("L1")

    async def story(runtime: Runtime, cluster: ClusterClient) -> None:
        producer = Producer(cluster, delivery_timeout_ms=60_000)
        for topic, partitions in topics.items():
            for number in () if topic.startswith("__") else partitions:
                await producer.send(topic, b"after all", key=b"after all", partition=number)
        await producer.close()

    try:
        await world.client(story, "survivor")
    except (KafkaError, OSError) as error:
        world.violated("L1", f"a record could not be produced after all had healed: {error!r}")


async def readers_get_to_the_end(world: World, reading: Mapping[str, Reader], commits: Commits) -> None:
    if not reading:
        return
    world.check("G5")
    try:
        await world.until(lambda: next(left(world, reading, commits), None) is None, "readers at the end", WITHIN_S)
    except TimeoutError:
        for who, partition, at, end in list(left(world, reading, commits))[:3]:
            world.violated("G5", f"{who} is at {at} in {partition}, whose end is {end}", str(partition))


def left(
    world: World, reading: Mapping[str, Reader], commits: Commits
) -> Iterator[tuple[str, TopicPartition, int, int]]:
    """Who has not read to the end of what, or not committed it, where it is, and where the end is."""
    topics = dict.fromkeys(topic for reader in reading.values() for topic in reader.topics)
    ends = {
        partition: (log.high_watermark, log.last_stable_offset)
        for partition, (_, log) in leading_logs(world, topics).items()
    }
    of_groups: dict[tuple[str, TopicPartition], int] = {}
    for name, reader in reading.items():
        positions = reader.consumer.positions()
        for partition, end in ends.items():
            bound = end[1] if reader.committed else end[0]
            if reader.group and partition.topic in reader.topics:
                key = reader.group, partition
                of_groups[key] = max(positions.get(partition, -1), of_groups.get(key, -1))
            elif partition in positions and positions[partition] < bound:
                yield name, partition, positions[partition], bound
    of_group = {reader.group: reader for reader in reading.values()}
    for (group, partition), at in of_groups.items():
        bound = ends[partition][1] if of_group[group].committed else ends[partition][0]
        if at < bound:
            yield f"group {group}", partition, at, bound
        elif of_group[group].commits and (acknowledged := commits.get((group, str(partition)), (-1, 0))[0]) < bound:
            yield f"group {group} by its commits", partition, acknowledged, bound
