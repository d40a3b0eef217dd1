"""Decides whether a cluster kept its promises. Pure functions: from batches in files and recorded promises to
sentences."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Disk
from barnabas.wire.errors import WireError
from barnabas.wire.records import batches, check_crc


class ReplicaBatch(NamedTuple):
    """A batch in a replica's file."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int


class StoredReplica(NamedTuple):
    """The batches of one replica's segment files in their order, and faults of the files themselves."""

    batches: list[ReplicaBatch]
    wrong: list[str]

    @property
    def end(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else 0


def read_replica(disk: Disk, log_dir: str, topic_partition: TopicPartition) -> StoredReplica | None:
    """Reads every segment, checking each batch's CRC; None if there is no such replica.

    Bytes after the last complete batch of the last segment are not a fault: a kill cut the write short.
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
    """The batch that contains `offset`."""
    at = bisect_left(replica.batches, offset, key=attrgetter("last_offset"))
    found = replica.batches[at] if at < len(replica.batches) else None
    return found if found is not None and found.base_offset <= offset else None


def promised_is_there(
    promised: Iterable[tuple[int, int, int | None]], leader: StoredReplica, log_start_offset: int
) -> list[tuple[int, str]]:
    """Checks the promised (base offset, last offset, CRC) against the leader's files.

    Records before the log start offset were deleted on purpose. Returns offset and sentence of each broken promise.
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
    """Checks that below the high watermark every in-sync replica has the same batches, with the same leader epochs."""
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
