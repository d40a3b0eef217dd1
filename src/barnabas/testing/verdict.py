"""Whether a cluster kept what it promised. Pure: batches read from files and promises noted, in; sentences, out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Disk
from barnabas.wire.errors import WireError
from barnabas.wire.records import batches, check_crc


class ReplicaBatch(NamedTuple):
    """A batch as a replica's file holds it."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int


class StoredReplica(NamedTuple):
    """The batches of one replica's segment files in their order, and what is wrong with the files themselves."""

    batches: list[ReplicaBatch]
    wrong: list[str]

    @property
    def end(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else 0


def read_replica(disk: Disk, log_dir: str, topic_partition: TopicPartition) -> StoredReplica | None:
    """Reads every segment, checking each batch's CRC; None where there is no such replica.

    Bytes after the last whole batch of the last segment are a write that a kill cut short, and no fault.
    """
    place = f"{log_dir}/{topic_partition}"
    if not disk.is_dir(place):
        return None
    found: list[ReplicaBatch] = []
    wrong: list[str] = []
    names = [name for name in disk.listdir(place) if name.endswith(".log")]
    for index, name in enumerate(names):
        data = memoryview(disk.read(f"{place}/{name}"))
        read = 0
        try:
            for header, start, end in batches(data):
                check_crc(data, start, end)
                if found and header.base_offset <= found[-1].last_offset:
                    wrong.append(f"offset {header.base_offset} follows {found[-1].last_offset} in {place}/{name}")
                found.append(
                    ReplicaBatch(header.base_offset, header.last_offset, header.partition_leader_epoch, header.crc)
                )
                read = end
        except WireError as error:
            wrong.append(f"{place}/{name} at byte {read}: {error}")
        if read < len(data) and index < len(names) - 1:
            wrong.append(f"{place}/{name} has {len(data) - read} bytes after its last batch")
    return StoredReplica(found, wrong)


def covering(replica: StoredReplica, offset: int) -> ReplicaBatch | None:
    """The batch that holds `offset`."""
    low, high = 0, len(replica.batches)
    while low < high:
        middle = (low + high) // 2
        if replica.batches[middle].last_offset < offset:
            low = middle + 1
        else:
            high = middle
    if low < len(replica.batches) and replica.batches[low].base_offset <= offset:
        return replica.batches[low]
    return None


def promised_is_there(
    promised: Iterable[tuple[int, int, int | None]], leader: StoredReplica, log_start_offset: int
) -> list[tuple[int, str]]:
    """Checks (base offset, last offset, CRC) of what was promised against the leader's files.

    What lies before the log start offset was deleted by the rules. Returns offset and sentence of each that is broken.
    """
    broken: list[tuple[int, str]] = []
    for base_offset, last_offset, crc in promised:
        if last_offset < log_start_offset:
            continue
        batch = covering(leader, last_offset)
        if batch is None:
            broken.append((base_offset, "is not there any more"))
        elif crc is not None and (batch.base_offset, batch.last_offset, batch.crc) != (base_offset, last_offset, crc):
            broken.append((base_offset, f"is another batch now, of leader epoch {batch.leader_epoch}"))
    return broken


def replicas_agree(replicas: Mapping[int, StoredReplica], log_start_offset: int, high_watermark: int) -> list[str]:
    """Below the high watermark every in-sync replica holds the same batches, with the same leader epochs."""
    committed: dict[int, Sequence[ReplicaBatch]] = {
        broker_id: [b for b in replica.batches if log_start_offset <= b.base_offset and b.last_offset < high_watermark]
        for broker_id, replica in replicas.items()
    }
    if not committed:
        return []
    first_id, first = next(iter(committed.items()))
    wrong = []
    for broker_id, batches_of in committed.items():
        if batches_of != first:
            differing = sorted(set(batches_of) ^ set(first))[0]
            wrong.append(f"brokers {first_id} and {broker_id} differ below the high watermark, at {differing}")
    return wrong


Place = tuple[TopicPartition, int]
"""A partition and an offset in it."""


def acknowledged_survive(
    acknowledged: Mapping[bytes, Place], sent: Iterable[bytes], found: Mapping[Place, bytes]
) -> list[str]:
    """R7 and T1: every acknowledged value is there, once, where the producer was told; none was never sent.

    For idempotent producers that send every value once. `found` is everything a reader was given in the end.
    """
    wrong: list[str] = []
    places: dict[bytes, list[Place]] = {}
    for place, value in found.items():
        places.setdefault(value, []).append(place)
    for value, (topic_partition, offset) in acknowledged.items():
        at = places.get(value, [])
        if not at:
            wrong.append(f"R7: {value[:40]!r} was acknowledged at {topic_partition}@{offset} and is lost")
        elif offset >= 0 and (topic_partition, offset) not in at:
            wrong.append(f"R7: {value[:40]!r} was acknowledged at {topic_partition}@{offset} and is at {_named(at)}")
    wrong += [
        f"T1: {value[:40]!r} is there more than once: {_named(at)}" for value, at in places.items() if len(at) > 1
    ]
    known = frozenset(sent)
    wrong += [
        f"R10: {value[:40]!r} at {_named(at)} was never sent" for value, at in places.items() if value not in known
    ]
    return wrong


def order_is_kept(found: Mapping[Place, bytes], origin: Callable[[bytes], tuple[str, int]]) -> list[str]:
    """T1: what one idempotent producer sent to a partition is there in the order in which it was sent.

    `origin` tells of a value which producer sent it, and as its how many-eth.
    """
    wrong: list[str] = []
    last: dict[tuple[str, TopicPartition], int] = {}
    for (topic_partition, offset), value in sorted(found.items()):
        producer, number = origin(value)
        before = last.get((producer, topic_partition), -1)
        if number <= before:
            wrong.append(f"T1: record {number} of {producer} is at {topic_partition}@{offset}, after {before}")
        last[producer, topic_partition] = max(number, before)
    return wrong


def reads_stay(read: Mapping[Place, bytes], found: Mapping[Place, bytes]) -> list[str]:
    """R10: what a consumer was once given is still there, unchanged."""
    return [
        f"R10: {place[0]}@{place[1]} was read as {value[:40]!r} and is {found.get(place, b'gone')[:40]!r}"
        for place, value in read.items()
        if found.get(place) != value
    ]


def _named(places: Iterable[Place]) -> str:
    return ", ".join(f"{topic_partition}@{offset}" for topic_partition, offset in places)
