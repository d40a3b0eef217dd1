"""What became of transactions in the end. T2: no epoch is left out. T3: all records of a transaction count or none, as
its sender was told. T4: no marker is from a deposed coordinator. T5: no transaction is open or prepared. R9: what a
reader of committed records was given counts."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.coordinator.transaction_records import read_transaction, read_transactional_id
from barnabas.coordinator.transactions import PREPARED, TransactionMetadata
from barnabas.log.batches import StoredBatch
from barnabas.log.log import Log
from barnabas.model.errors import KafkaError
from barnabas.model.ids import NO_OFFSET, TopicPartition
from barnabas.model.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.sim.clients.history import History, Sent
from barnabas.sim.clients.teller import COMMITTED
from barnabas.sim.judges.watch_cleaner import Written
from barnabas.sim.plans.plan import MS
from barnabas.sim.world.node import EPOCH_MS
from barnabas.sim.world.world import World, leading_logs
from barnabas.wire.records import Record, batches, records_of

ENDS_WITHIN_S: Final = 60.0


class Open(NamedTuple):
    """A partition whose last stable offset is below its high watermark, and the producer of that transaction (-1:
    nobody's)."""

    node: str
    partition: TopicPartition
    log: Log
    producer_id: int
    first_offset: int = NO_OFFSET
    last_timestamp: int = 0


def still_open(world: World) -> Iterator[Open]:
    for name, broker in world.brokers.items():
        for partition in broker.replicas.leader_partitions:
            log = partition.log
            if log is None or log.last_stable_offset >= log.high_watermark:
                continue
            entries = [state for state in log.producers.entries.values() if state.current_txn_first_offset >= 0]
            for entry in entries:
                first_offset, last = entry.current_txn_first_offset, entry.last_timestamp
                yield Open(name, partition.topic_partition, log, entry.producer_id, first_offset, last)
            if not entries:
                yield Open(name, partition.topic_partition, log, -1)


def _began_ns(world: World, left_open: Open) -> int:
    """When the transaction's first record was written; where its first records are deleted, an upper bound for that."""
    with world.nodes[left_open.node].disk.as_it_is():
        batches = (batch for segment in left_open.log.segments for batch in segment.batches())
        written_ms = next(batch for batch in batches if batch.last_offset >= left_open.first_offset).max_timestamp
    return (min(left_open.last_timestamp, written_ms) - EPOCH_MS) * MS


async def nothing_stays_open(
    world: World, history: History, may_be_lost: Callable[[str, TopicPartition, int], bool]
) -> None:
    """T5: every last stable offset reaches the high watermark, once timeouts have ended what clients left open.

    Where the coordinator's record of a transaction or its marker is lost, nobody ends it: it hangs until an operator
    aborts it (KIP-664). `may_be_lost` is asked for a transactional id, a partition, and when the first record was
    written.
    """
    world.check("T5")
    await _nothing_stays_prepared(world, may_be_lost)
    try:
        await world.until(lambda: next(still_open(world), None) is None, "every transaction's end", ENDS_WITHIN_S)
        return
    except TimeoutError:
        left = list(still_open(world))
    hanging: list[Open] = []
    for left_open in left:
        owner = history.transactional_ids.get(left_open.producer_id, "")
        sentence = (
            f"{left_open.node}: {left_open.partition} is stable to {left_open.log.last_stable_offset} of "
            f"{left_open.log.high_watermark}; open is a transaction of {owner!r}, producer {left_open.producer_id}"
        )
        if owner and may_be_lost(owner, left_open.partition, _began_ns(world, left_open)):
            world.waive("T5")
            world.excuse("T5", sentence, str(left_open.partition), left_open.node)
            hanging.append(left_open)
        else:
            world.violated("T5", sentence, str(left_open.partition), left_open.node)
    if hanging:
        await world.client(lambda _, cluster: _abort(cluster, hanging), "operator")


def still_prepared(world: World) -> Iterator[tuple[str, str, TransactionMetadata]]:
    """By coordinator: each transactional id whose transaction is prepared, and its state."""
    for name, broker in world.brokers.items():
        coordinator = broker.transactions.coordinator
        with suppress(KafkaError):  # it loads
            for listed in coordinator.list_transactions(states=[state.title for state in PREPARED])[1]:
                yield name, listed.transactional_id, coordinator.describe(listed.transactional_id)


async def _nothing_stays_prepared(world: World, may_be_lost: Callable[[str, TopicPartition, int], bool]) -> None:
    """T5: a transaction whose end is decided ends on its coordinator as well; its producer is refused until then."""
    try:
        await world.until(lambda: next(still_prepared(world), None) is None, "what is prepared", ENDS_WITHIN_S)
    except TimeoutError:
        for name, transactional_id, known in list(still_prepared(world)):
            sentence = f"{name} keeps a transaction of {transactional_id!r} in {known.state.title}"
            began_ns = (known.start_ms - EPOCH_MS) * MS
            if any(may_be_lost(transactional_id, partition, began_ns) for partition in known.partitions):
                world.waive("T5")
                world.excuse("T5", sentence, node=name)
            else:
                world.violated("T5", sentence, node=name)


async def _abort(cluster: ClusterClient, hanging: list[Open]) -> None:
    admin, producers = Admin(cluster), {(hangs.partition, hangs.producer_id) for hangs in hanging}
    for found in await admin.open_transactions(sorted({partition for partition, _ in producers})):
        if (found.partition, found.producer_id) in producers:
            await admin.abort_transaction(found)


def transactions_are_whole(
    world: World,
    history: History,
    counts: Container[bytes],
    is_excused: Callable[[str, Sent], bool],
    may_be_gone: Callable[[Sent], bool],
) -> None:
    """T3. `counts` are the values that readers of committed records are given; `is_excused` is asked for a
    transactional id."""
    by_transaction: dict[str, list[tuple[bytes, Sent]]] = {}
    for value, sent in history.sent.items():
        if sent.transaction and (sent.offset >= 0 or sent.answered == COMMITTED):
            by_transaction.setdefault(sent.transaction, []).append((value, sent))
    excused: dict[str, None] = {}
    for name, records in by_transaction.items():
        world.check("T3")
        if any(is_excused(owner_of(sent), sent) for _, sent in records):
            world.waive("T3")
            excused[name] = None
            continue
        if unwritten := [value for value, sent in records if sent.offset < 0]:
            world.violated("T3", f"transaction {name} was committed, and nobody acknowledged {unwritten}")
            continue
        counting = [value for value, _ in records if value in counts]
        missing = [value for value, sent in records if value not in counts and not may_be_gone(sent)]
        outcome = records[0][1].answered
        if outcome == "aborted" and counting:
            world.violated("T3", f"transaction {name} was aborted, and {counting} count")
        elif outcome == "acknowledged" and missing:
            world.violated("T3", f"transaction {name} was committed, and {missing} do not count")
        elif counting and missing:
            world.violated("T3", f"of transaction {name} only {counting} count, of {len(records)} records")
    for value, (partition, offset) in history.committed_reads.items():
        known = history.sent.get(value)
        if known is None or not known.transaction:
            continue
        world.check("R9")
        stays = value in counts or may_be_gone(known)
        if known.answered != "aborted" and stays:
            continue
        # The coordinator may have written its lost record of the transaction before the later records of that. The
        # sender was not told the offset of its record, because it had given up.
        there = replace(known, partition=int(partition.rpartition("-")[2]), offset=offset)
        if known.transaction in excused or is_excused(owner_of(known), there):
            continue
        sentence = f"{value!r} at {partition}@{offset} was given to a reader of what is committed, and"
        if known.answered == "aborted":
            world.violated("T3", f"{sentence} was aborted", partition)
        else:
            world.violated("R9", f"{sentence} does not count", partition)


def owner_of(sent: Sent) -> str:
    """The transactional id that a transaction's name belongs to."""
    return sent.transaction.partition(" ")[0]


def markers_are_in_order(world: World, led: Mapping[TopicPartition, tuple[str, Log]], expires_ms: float) -> None:
    """T4: the coordinator epochs in a producer's end markers never fall, so none is from a deposed coordinator.

    When a producer was silent for ``producer.id.expiration.ms`` a leader has forgotten its coordinator epoch and takes
    a marker of any, as Kafka's does (``ProducerAppendInfo.checkCoordinatorEpoch``).
    """
    for partition, (name, log) in led.items():
        seen: dict[int, int] = {}
        last_ms: dict[int, int] = {}
        for batch, ends in _with_ends(world, name, log):
            producer_id, written_ms = batch.producer_id, batch.max_timestamp
            if producer_id in seen and written_ms - last_ms[producer_id] >= expires_ms:
                del seen[producer_id]
                world.waive("T4")
            last_ms[producer_id] = written_ms
            for record in ends:
                world.check("T4")
                before = seen.get(producer_id, -1)
                seen[producer_id] = epoch = int.from_bytes((record.value or b"")[2:6], "big", signed=True)
                if epoch < before:
                    sentence = f"coordinator epoch {epoch} of producer {producer_id} at {record.offset}"
                    world.violated("T4", f"{sentence} of {partition} after {before}", str(partition), name)


def _with_ends(world: World, name: str, log: Log) -> Iterator[tuple[StoredBatch, list[Record]]]:
    """All batches of producers, with the records of those that are end markers."""
    with world.nodes[name].disk.as_it_is():
        stored = [(batch, memoryview(segment.read_batch(batch)) if batch.is_control else memoryview(b""))
                  for segment in log.segments for batch in segment.batches() if batch.producer_id >= 0]  # fmt: skip
    for batch, data in stored:
        yield batch, [record for _, start, end in batches(data) for record in records_of(data, start, end)]


def epochs_are_used_up_one_by_one(
    world: World, written: Mapping[str, Mapping[int, Written]], may_be_lost: Callable[[str, int], bool]
) -> None:
    """T2: no epoch is skipped. A coordinator that skips epochs because it could not write a fence runs out of them
    (KAFKA-9666). `written` is what leaders wrote by partition and offset, since the logs themselves are compacted."""
    for each, (_, log) in leading_logs(world, [TRANSACTION_STATE_TOPIC]).items():
        seen: dict[tuple[str, int], int] = {}
        for offset, record in sorted(written.get(str(each), {}).items()):
            transactional_id = read_transactional_id(record.key or b"")
            if transactional_id is None or record.value is None or offset >= log.high_watermark:
                continue
            world.check("T2")
            metadata = read_transaction(record.value)
            key, epoch = (transactional_id, metadata.producer_id), metadata.producer_epoch
            if epoch > seen.get(key, epoch) + 1 and may_be_lost(str(each), offset):
                world.waive("T2")
            elif epoch > seen.get(key, epoch) + 1:
                sentence = f"{transactional_id!r} has epoch {epoch} at {each}@{offset} after {seen[key]}"
                world.violated("T2", sentence, str(each))
            seen[key] = epoch
