"""T7: a reader of committed records is given the same records from any place where it begins."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import Final

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED
from barnabas.model.ids import TopicPartition
from barnabas.sim.plans.chance import Chance
from barnabas.sim.world.world import World

POLLS_MAX: Final = 400


async def begins_anywhere(
    world: World,
    cluster: ClusterClient,
    found: Mapping[tuple[str, int], bytes],
    counting: Mapping[tuple[str, int], bytes],
    compacted: Collection[str],
) -> None:
    """T7, for one place of each partition. Where there are such places, it is an aborted record behind another one:
    both may be of one transaction.

    `found` are all records by partition and offset, `counting` those that a reader from the beginning was given. A
    topic in `compacted` may have lost some of them meanwhile.
    """
    places = _drawn(world, found, counting)
    ends = await cluster.list_offsets(dict.fromkeys(places, LATEST))
    consumer = Consumer(cluster, max_wait_ms=100, isolation_level=READ_COMMITTED, auto_offset_reset=EARLIEST)
    await consumer.assign(places)
    given: dict[tuple[str, int], bytes] = {}
    for _ in range(POLLS_MAX):
        known = consumer.positions()  # none where a log begins behind the place by now
        if all(known.get(place, -1) >= ends[place].offset for place in places):
            break
        for topic, number, record in await consumer.poll(500):
            given[f"{topic}-{number}", record.offset] = record.value or b""
    else:
        world.violated("L1", f"what is committed could not be read to its end from {places}")
    await consumer.close()
    starts = await cluster.list_offsets(dict.fromkeys(places, EARLIEST))
    for place, begin in places.items():
        world.check("T7")
        partition, first = str(place), max(begin, starts[place].offset)
        count = {offset for name, offset in counting if name == partition and offset >= first}
        told = {offset for name, offset in given if name == partition and offset >= first}
        missing = set() if place.topic in compacted else count - told
        if told - count or missing:
            sentence = f"a reader from {begin} in {partition} is given {_few(told - count)}, and not {_few(missing)}"
            world.violated("T7", f"{sentence}, unlike a reader from the beginning", partition)


def _drawn(
    world: World, found: Mapping[tuple[str, int], bytes], counting: Mapping[tuple[str, int], bytes]
) -> dict[TopicPartition, int]:
    chance, offsets = Chance(world.seed, "places"), dict[str, list[tuple[int, bool]]]()
    for partition, offset in sorted(found):
        offsets.setdefault(partition, []).append((offset, (partition, offset) in counting))
    drawn: dict[TopicPartition, int] = {}
    for partition, all_of_it in offsets.items():
        topic, _, number = partition.rpartition("-")
        left_out = [offset for offset, counts in all_of_it if not counts]
        amid = [later for before, later in itertools.pairwise(left_out) if later == before + 1]
        drawn[TopicPartition(topic, int(number))] = chance.one_of(amid or left_out or [at for at, _ in all_of_it])
    return drawn


def _few(offsets: Collection[int]) -> list[int]:
    return sorted(offsets)[:5]
