"""What must hold, whatever happened. Each check returns what does not, by invariant; none is the good answer."""

from __future__ import annotations

from barnabas.model.ids import TopicPartition
from barnabas.sim.draw import TOPIC
from barnabas.sim.workload import History
from barnabas.sim.world import LOG_DIR, World
from barnabas.wire.records import batches, check_crc


def acknowledged_survive(history: History, found: dict[tuple[TopicPartition, int], bytes]) -> list[tuple[str, str]]:
    """R7 and T1: every acknowledged record is there, once, and where the broker said; none appears twice."""
    wrong: list[tuple[str, str]] = []
    places: dict[bytes, list[tuple[TopicPartition, int]]] = {}
    for place, value in found.items():
        places.setdefault(value, []).append(place)
    for value, (topic_partition, offset) in history.acknowledged.items():
        at = places.get(value, [])
        if not at:
            wrong.append(("R7", f"lost: {value!r} was acknowledged at {topic_partition}@{offset}"))
        elif offset >= 0 and (topic_partition, offset) not in at:
            wrong.append(("R7", f"moved: {value!r} was acknowledged at {topic_partition}@{offset}, it is at {at}"))
    for value, at in places.items():
        if len(at) > 1:
            wrong.append(("T1", f"duplicated: {value!r} is at {at}"))
    sent = dict.fromkeys(history.sent)
    wrong += [("R10", f"invented: {value!r} at {at}") for value, at in places.items() if value not in sent]
    return wrong


def reads_stay(history: History, found: dict[tuple[TopicPartition, int], bytes]) -> list[tuple[str, str]]:
    """R4 and R10: what a consumer was once given is still there, unchanged."""
    wrong = [("R10", f"changed under a reader: {change}") for change in history.changed]
    for place, value in history.read.items():
        if found.get(place) != value:
            wrong.append(("R10", f"read and gone: {place[0]}@{place[1]} was {value!r}, is {found.get(place)!r}"))
    return wrong


def replicas_agree(world: World, partitions: int) -> list[tuple[str, str]]:
    """R1, R2 and R11: once all are in sync, every replica's files hold the same batches, in rising offsets."""
    wrong: list[tuple[str, str]] = []
    for number in range(partitions):
        topic_partition = TopicPartition(TOPIC, number)
        copies = {name: batches_on_disk(world, name, topic_partition, wrong) for name in world.brokers}
        first_name, first = next(iter(copies.items()))
        for name, copy in copies.items():
            if copy != first:
                differing = sorted(set(copy) ^ set(first))[:3]
                wrong.append(("R1", f"{topic_partition}: {first_name} and {name} differ at {differing}"))
    return wrong


def batches_on_disk(
    world: World, node: str, topic_partition: TopicPartition, wrong: list[tuple[str, str]]
) -> list[tuple[int, int, int, int]]:
    """(base offset, last offset, leader epoch, CRC) of each batch in a replica's segment files."""
    prefix = f"{LOG_DIR}/{topic_partition}/"
    found: list[tuple[int, int, int, int]] = []
    names = world.nodes[node].volume.names
    for path in sorted(name for name in names if name.startswith(prefix) and name.endswith(".log")):
        data = memoryview(bytes(names[path].cached))
        for header, start, end in batches(data):
            check_crc(data, start, end)
            if found and header.base_offset <= found[-1][1]:
                wrong.append(("R11", f"{topic_partition} on {node}: offset {header.base_offset} after {found[-1][1]}"))
            found.append((header.base_offset, header.last_offset, header.partition_leader_epoch, header.crc))
    return found
