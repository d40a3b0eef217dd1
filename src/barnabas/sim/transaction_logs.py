"""Judges what a run of transactions leaves on the simulated disks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from barnabas.coordinator.transaction_records import read_transaction, read_transactional_id
from barnabas.sim.world.world import LOG_DIR, World
from barnabas.wire.records import BatchHeader, Record, batches, records_of


def logs_are_right(world: World, partitions: Sequence[str]) -> Iterator[str]:
    """R11: offsets rise. T4: coordinator epochs in a producer's markers never fall. Yields what is wrong."""
    for name in world.broker_names:
        for partition in partitions:
            seen: dict[int, int] = {}
            last = -1
            for header, records in _on_disk(world, name, partition):
                if header.base_offset <= last:
                    yield f"R11: {partition}@{header.base_offset} on {name} comes after {last}"
                last = header.last_offset
                for record in records if header.is_control else ():
                    epoch = int.from_bytes((record.value or b"")[2:6], "big", signed=True)
                    before = seen.get(header.producer_id, -1)
                    if epoch < before:
                        yield (
                            f"T4: {partition} on {name}: coordinator epoch {epoch} of producer {header.producer_id} "
                            f"after {before}"
                        )
                    seen[header.producer_id] = epoch


def epochs_are_used_up_one_by_one(world: World, partitions: Sequence[str]) -> Iterator[str]:
    """T2: no epoch is skipped. A coordinator that skips epochs because it could not write a fence runs out of them
    (KAFKA-9666)."""
    for name in world.broker_names:
        for partition in partitions:
            seen: dict[tuple[str, int], int] = {}
            for _, records in _on_disk(world, name, partition):
                for record in records:
                    transactional_id = read_transactional_id(record.key or b"")
                    if transactional_id is None or record.value is None:
                        continue
                    metadata = read_transaction(record.value)
                    key, epoch = (transactional_id, metadata.producer_id), metadata.producer_epoch
                    if epoch > seen.get(key, epoch) + 1:
                        yield f"T2: {transactional_id!r} has epoch {epoch} after {seen[key]}"
                    seen[key] = epoch


def _on_disk(world: World, name: str, partition: str) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Every batch in the partition's files."""
    files = world.nodes[name].volume.names
    prefix = f"{LOG_DIR}/{partition}/"
    for path in sorted(log_path for log_path in files if log_path.startswith(prefix) and log_path.endswith(".log")):
        data = memoryview(bytes(files[path].cached))
        for header, start, end in batches(data):
            yield header, records_of(data, start, end)
