"""Writes and reads to the end, when all has healed. L1: every partition takes a record. G5: every consumer is given all
records, and every group commits them, except for partitions that a returning static leader assigned to nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.metadata import METADATA_MAX_AGE_MS
from barnabas.client.offsets import LATEST
from barnabas.client.producer import Producer
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.world.world import World, leading_logs

FAST: Final = 1 << 30
"""Bytes a second."""
WITHIN_S: Final = 90.0
"""For absent members to be noticed, for others to join, and for what they have not read."""
IN_VAIN_S: Final = 30.0
"""A client that was not told of its broker's power loss waits for ``request.timeout.ms``, on one connection after the
other: each broker's, and the coordinator's."""


class Reader(NamedTuple):
    """A consumer at work, alone or for a group; one with `committed` reads up to the last stable offset."""

    consumer: Consumer
    group: str
    topics: tuple[str, ...]
    committed: bool
    commits: bool = False
    """Whether its commits are in the history."""


Commits = Mapping[tuple[str, str], tuple[int, int]]
"""By group and partition: the offset whose commit was acknowledged, and when."""
WasThere = Callable[[str, str], bool]
"""Whether a static leader came back to a group's present generation after the partition was created."""


class Left(NamedTuple):
    """A reader that has not read or committed to the end of a partition: its offset, and the end; -1 while nobody
    leads."""

    who: str
    partition: TopicPartition
    at: int
    end: int
    group: str = ""


async def everything_works(world: World, topics: Mapping[str, Iterable[int]]) -> None:
    """L1: a new record can be produced to each of these partitions."""
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


async def moves_come_to_their_end(world: World) -> None:
    """L1: a replica that moves to another log directory arrives, once no throttle holds it back."""
    world.check("L1")

    def under_way() -> list[str]:
        return [
            f"{log.topic_partition} on {name}"
            for name, broker in world.brokers.items()
            if broker.replicas.quotas.log_dir_moves.bytes_per_second >= FAST
            for log in broker.log_dirs.all_logs
            if log.is_future and broker.replicas.partition(log.topic_partition) is not None
        ]

    try:
        await world.until(lambda: not under_way(), "replicas in their log directories", WITHIN_S)
    except TimeoutError:
        for which in under_way()[:3]:
            world.violated("L1", f"{which} does not get to its other log directory")


async def records_can_be_deleted(world: World, topics: Mapping[str, Iterable[int]]) -> None:
    """L1: the committed records of each of these partitions can be deleted, even if nobody writes there any more."""
    world.check("L1")

    async def story(runtime: Runtime, cluster: ClusterClient) -> None:
        of_clients = {topic: partitions for topic, partitions in topics.items() if not topic.startswith("__")}
        each = [TopicPartition(topic, number) for topic, partitions in of_clients.items() for number in partitions]
        for partition, outcome in (await Admin(cluster).delete_records(dict.fromkeys(each, LATEST))).items():
            if isinstance(outcome, KafkaError):
                world.violated("L1", f"records of {partition} cannot be deleted: {outcome!r}", str(partition))

    await world.client(story, "deleter")


async def readers_get_to_the_end(
    world: World, reading: Mapping[str, Reader], commits: Commits, was_there: WasThere
) -> None:
    if not reading:
        return
    world.check("G5")

    def is_excused(each: Left) -> bool:
        """No member is assigned the partition: a returning static leader takes the former assignment as complete
        (KIP-814, ``ConsumerCoordinator.onLeaderElected``)."""
        return bool(each.group) and each.at < 0 and was_there(each.group, str(each.partition))

    def behind() -> list[Left]:
        return [each for each in left(world, reading, commits) if not is_excused(each)]

    def nobody_waits_in_vain() -> bool:
        ways = ((client, broker) for client in reading for broker in world.broker_names)
        return not any(world.network.waits_in_vain(*way) for way in ways)

    with suppress(TimeoutError):  # a connection that nobody uses any more stays as it is
        patience_s = IN_VAIN_S * (len(world.broker_names) + 1)
        await world.until(lambda: nobody_waits_in_vain() or not behind(), "readers that wait in vain", patience_s)
    with suppress(TimeoutError):
        await world.until(
            lambda: not any(has_two_leaders(world, each.partition) for each in behind()),
            "readers of a leader that leads no more",
            METADATA_MAX_AGE_MS / 1000,
        )
    try:
        await world.until(lambda: not behind(), "readers at the end", WITHIN_S)
    except TimeoutError:
        for who, partition, at, end, _ in behind()[:3]:
            world.violated("G5", f"{who} is at {at} in {partition}, whose end is {end}", str(partition))
    if any(map(is_excused, left(world, reading, commits))):
        world.waive("G5")


def has_two_leaders(world: World, partition: TopicPartition) -> bool:
    """Whether a former leader still believes to lead, as in Kafka: its replica was moved away while its broker was not
    registered, and no controller tells it. Its readers look for the leader when their metadata are old enough."""
    brokers = world.brokers.values()
    return sum(partition == led.topic_partition for broker in brokers for led in broker.replicas.leader_partitions) > 1


def left(world: World, reading: Mapping[str, Reader], commits: Commits) -> Iterator[Left]:
    topics = dict.fromkeys(topic for reader in reading.values() for topic in reader.topics)
    ends = {
        partition: (log.high_watermark, log.last_stable_offset)
        for partition, (_, log) in leading_logs(world, topics).items()
    }
    of_groups: dict[tuple[str, TopicPartition], int] = {}
    for name, reader in reading.items():
        positions = reader.consumer.positions()
        for partition, at in positions.items():
            if not reader.group and partition not in ends and world.state(str(partition)) is not None:
                yield Left(name, partition, at, -1)
        for partition, end in ends.items():
            bound = end[1] if reader.committed else end[0]
            if reader.group and partition.topic in reader.topics:
                key = reader.group, partition
                of_groups[key] = max(positions.get(partition, -1), of_groups.get(key, -1))
            elif partition in positions and positions[partition] < bound:
                yield Left(name, partition, positions[partition], bound)
    of_group = {reader.group: reader for reader in reading.values()}
    for (group, partition), at in of_groups.items():
        bound = ends[partition][1] if of_group[group].committed else ends[partition][0]
        if at < bound:
            yield Left(f"group {group}", partition, at, bound, group)
        elif of_group[group].commits and (acknowledged := commits.get((group, str(partition)), (-1, 0))[0]) < bound:
            yield Left(f"group {group} by its commits", partition, acknowledged, bound)
