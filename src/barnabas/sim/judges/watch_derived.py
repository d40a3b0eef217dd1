"""Watches that what a log keeps beside its batches is what its batches say (R27).

A log derives from its batches: its producers with their last batches and open transactions, the last stable offset, the
index of aborted transactions, each segment's largest timestamp, leader epochs, snapshots, and the recovery point. It
updates them at each append, cuts them with the log, and reads them from files at a start. This module derives all of it
again from the batches alone and compares, after a cut or a start and at the end. Errors there show in no answer for a
long time. What is written down must also give back what is there, whenever a restart comes.

Nothing before the log's start is compared, and no log that the cleaner has changed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from barnabas.log.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from barnabas.log.index_file import CorruptIndex
from barnabas.log.leader_epoch_cache import FILE_NAME as EPOCHS
from barnabas.log.log import Log
from barnabas.log.log_dirs import CLEAN_SHUTDOWN_FILE, LogDirs
from barnabas.log.producer_state import ProducerEntry, ProducerStateManager
from barnabas.log.segment import LOG_SUFFIX, Segment, base_offset_of
from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import NO_TIMESTAMP
from barnabas.replica.high_watermark_checkpoints import HighWatermarkCheckpoints
from barnabas.replica.partition import Partition
from barnabas.sim.judges.chain import Chain, ChainedBatch, LinkKind, checkpointed
from barnabas.sim.judges.watch_logs import LogWatch
from barnabas.sim.world.disk import SimDisk, Volume
from barnabas.sim.world.node import EPOCH_MS
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import DATA, World

RETAINED: Final = 5
"""Batches of a producer that its state remembers."""
NOTHING_OPEN: Final = -1
FOR_EVER_MS: Final = 1 << 62

DIRECTORIES: Final = (f"{DATA}/a", f"{DATA}/b")
UPKEEP: Final = ("flush", "delete_old_segments", "delete_marked_files")
"""Periodic work that a broker does on all of its logs."""


class Remembered(NamedTuple):
    """A batch that a producer's state remembers."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int


class Ended(NamedTuple):
    """A finished transaction. `stable` is the last stable offset by then."""

    producer_id: int
    first_offset: int
    marker: int
    aborted: bool
    stable: int


@dataclass(slots=True)
class ToldProducer:
    epoch: int
    batches: list[Remembered] = field(default_factory=list)
    open_from: int = NOTHING_OPEN
    last_offset: int = -1
    last_ms: int = -1
    """The largest timestamp of the producer's last batch, in milliseconds of the run."""
    last_written_ms: int = -1
    """The same of its last batch that is no marker."""


@dataclass(slots=True)
class Told:
    """What the batches say."""

    producers: dict[int, ToldProducer] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)

    def still_open(self) -> list[int]:
        """Where transactions without an end begin."""
        return [known.open_from for known in self.producers.values() if known.open_from != NOTHING_OPEN]

    def undecided(self, high_watermark: int) -> list[int]:
        """Where transactions begin that are open, or whose end may still be lost."""
        return self.still_open() + [ended.first_offset for ended in self.ended if ended.marker >= high_watermark]


def told_by(links: Iterable[ChainedBatch]) -> Told:
    told = Told()
    for link in links:
        if link.producer_id < 0:
            continue
        known = told.producers.setdefault(link.producer_id, ToldProducer(link.producer_epoch))
        if known.epoch != link.producer_epoch:
            known.epoch = link.producer_epoch
            known.batches.clear()
        known.last_offset, known.last_ms = link.last, link.timestamp_ms
        if link.kind in (LinkKind.COMMIT, LinkKind.ABORT):
            _end(told, known, link)
            continue
        known.last_written_ms = link.timestamp_ms
        known.batches.append(Remembered(link.base_sequence, link.last_sequence, link.base, link.last))
        del known.batches[:-RETAINED]
        if link.kind is LinkKind.DATA and known.open_from == NOTHING_OPEN:
            known.open_from = link.base
    return told


def _end(told: Told, known: ToldProducer, marker: ChainedBatch) -> None:
    first, known.open_from = known.open_from, NOTHING_OPEN
    if first != NOTHING_OPEN:
        stable = min(told.still_open(), default=marker.last + 1)
        told.ended.append(Ended(marker.producer_id, first, marker.last, marker.kind is LinkKind.ABORT, stable))


class DerivedWatch:
    def __init__(self, world: World, logs: LogWatch, probes: Probes) -> None:
        """Its probes run behind those of `logs`, so that chains are up to date when it looks."""
        self.world = world
        self.logs = logs
        self._looked_at: dict[Log, int] = {}
        """By log: where its open transaction began when it was last looked at."""
        probes.around(Log, "opening", self._around_opening)
        probes.after(Log, "truncate_to", self._cut)
        probes.after(Log, "truncate_fully_and_start_at", self._cut)
        for name in ("truncate_to", "truncate_fully_and_start_at"):
            probes.after(Log, name, self._is_gone_for_good)
        probes.after(Log, "flush", self._flushed)
        for name in UPKEEP:
            probes.after(Log, name, self.is_kept_up)
        probes.after(Log, "maybe_increment_log_start_offset", self._start_moved)
        probes.after(LogDirs, "checkpoint_log_start_offsets", self._starts_written)
        probes.after(LogDirs, "checkpoint_recovery_points", self._recovery_points_written)
        probes.after(LogDirs, "close", self._closed)
        probes.around(LogDirs, "replace_with_future", self._around_replace_with_future)
        probes.around(HighWatermarkCheckpoints, "write", self._around_high_watermarks)
        probes.around(ProducerStateManager, "remove_expired", self._around_remove_expired)

    def _around_opening(self, original: Any, *arguments: Any, **named: Any) -> Generator[int, None, Log]:
        log: Log = yield from original(*arguments, **named)
        self._cut(None, log)
        return log

    def _cut(self, _: object, log: Log, *__: object, **___: object) -> None:
        """After a cut or a start, nothing that the log keeps goes beyond its end."""
        chain = self.logs.chain_of(log)
        if chain is None:
            return
        self.look(log, chain)
        if log.recovery_point > log.log_end_offset:
            self._wrong(log, chain, f"it counts as flushed to {log.recovery_point}, and ends at {log.log_end_offset}")
        # Of an empty log one entry is the epoch of what was deleted (``LeaderEpochFileCache.truncateFromStart``).
        beyond = [
            entry
            for entry in log.leader_epochs.entries
            if entry.start_offset >= log.log_end_offset and entry.start_offset > log.log_start_offset
        ]
        if beyond:
            self._wrong(log, chain, f"its epochs have {beyond}, and it ends at {log.log_end_offset}")

    def _is_gone_for_good(self, _: object, log: Log, *__: object, **___: object) -> None:
        """R15: a power loss brings no cut segment back; it would count as part of what is written next."""
        chain = self.logs.chain_of(log)
        if chain is None:
            return
        self.world.check("R15")
        there = self.world.nodes[chain.node].volume.durable_names(f"{log.directory}/")
        bases = [base_offset_of(name.rpartition("/")[2], LOG_SUFFIX) for name in there]
        back = [base for base in bases if base is not None and base > log.log_end_offset]
        if back:
            self.world.violated(
                "R15", f"{chain.partition} on {chain.node} is cut to {log.log_end_offset}, and its segments {back} are "
                "on the platter", chain.partition, chain.node,
            )  # fmt: skip

    def _flushed(self, moved: bool, log: Log, **_: object) -> None:
        """R15: when the recovery point moves, the epochs of the records below it are on the platter, since recovery
        reads nothing before that point."""
        chain = self.logs.chain_of(log)
        if not moved or chain is None:
            return
        self.world.check("R15")
        path, volume = f"{log.directory}/{EPOCHS}", self.world.nodes[chain.node].volume
        file = volume.names.get(path)
        if file is not None and volume.durable_files(path).get(path) != bytes(file.cached):
            self.world.violated(
                "R15", f"{chain.partition} on {chain.node} counts as flushed to {log.recovery_point}, and its epochs "
                f"{log.leader_epochs.entries} are not on the platter", chain.partition, chain.node,
            )  # fmt: skip

    def is_kept_up(self, _: object, log: Log, **__: object) -> None:
        """R16: periodic work on all logs leaves closed logs alone; their files may be gone."""
        self.world.check("R16")
        if log.closed:
            place = str(log.topic_partition)
            self.world.violated("R16", f"{node()} works on {log.directory}, which it has closed", place, node())

    def _start_moved(self, moved: bool, log: Log, *_: object) -> None:
        """R13: the epochs that remain are those of the batches that remain."""
        chain = self.logs.chain_of(log)
        if moved and chain is not None:
            self.logs.restarts.epochs_match(log, chain)

    def _starts_written(self, _: object, log_dirs: LogDirs) -> None:
        """A start would find where each log begins, by the checkpoint or by the first segment."""
        for log, chain, there in self._written_down(log_dirs, LOG_START_OFFSETS):
            found = max(there, log.segments[0].base_offset)
            if found != log.log_start_offset:
                self._wrong(log, chain, f"it begins at {log.log_start_offset}, and after a restart at {found}")

    def _recovery_points_written(self, _: object, log_dirs: LogDirs) -> None:
        for log, chain, there in self._written_down(log_dirs, RECOVERY_POINTS):
            if there != log.recovery_point:
                self._wrong(log, chain, f"it is flushed to {log.recovery_point}, and its directory says {there}")

    def _closed(self, _: object, log_dirs: LogDirs, **__: object) -> None:
        """Whoever starts after a clean stop reads no log, and goes by what is written down."""
        names = self.world.nodes[node()].volume.names
        if all(f"{path}/{CLEAN_SHUTDOWN_FILE}" in names for path in log_dirs.online_paths):
            self._starts_written(None, log_dirs)
            self._recovery_points_written(None, log_dirs)

    def _around_high_watermarks(
        self, original: Any, checkpoints: HighWatermarkCheckpoints, partitions: Iterable[Partition]
    ) -> None:
        known = list(partitions)
        names = self.world.nodes[node()].volume.names
        before = {path: checkpointed(names, path, HIGH_WATERMARKS) for path in DIRECTORIES}
        original(checkpoints, known)
        self.high_watermarks_written(before, known)

    def high_watermarks_written(self, before: Mapping[str, Mapping[str, int]], partitions: Iterable[Partition]) -> None:
        """The checkpoint has each log's high watermark. For a log that the controller has not named yet it keeps the
        old value (KAFKA-769); for a removed one it has the last. Below a log's start it is as good as none."""
        name = node()
        names, led = self.world.nodes[name].volume.names, {str(each.topic_partition): each for each in partitions}
        now = {path: checkpointed(names, path, HIGH_WATERMARKS) for path in before}
        for (owner, place), log in self.logs.of.items():
            if owner != name or not log.log_dir.online or log.closed:
                continue
            self.world.check("R27")
            partition, path = led.get(place), log.log_dir.path
            right = before[path].get(place, 0)
            if (partition is not None and partition.log is not None) or log.high_watermark > right:
                right = log.high_watermark
            if max(now[path].get(place, 0), log.log_start_offset) != max(right, log.log_start_offset):
                self._wrong(
                    log, self.logs.chains[log], f"it is committed to {right}, and {path} says {now[path].get(place)}"
                )

    def _around_replace_with_future(self, original: Any, log_dirs: LogDirs, partition: TopicPartition) -> Log:
        """When a replica moves to another directory its checkpoints move with it: a start would find it to begin where
        it did."""
        begins = log_dirs.logs[partition].log_start_offset
        names = self.world.nodes[node()].volume.names
        log: Log = original(log_dirs, partition)
        chain = self.logs.chain_of(log)
        there = checkpointed(names, log.log_dir.path, LOG_START_OFFSETS).get(str(partition), 0)
        found = max(there, log.segments[0].base_offset)
        self.world.check("R27")
        if chain is not None and found < begins:
            self._wrong(
                log, chain, f"it moves to {log.log_dir.path}, which says that it begins at {found}, not {begins}"
            )
        return log

    def _around_remove_expired(self, original: Any, producers: ProducerStateManager, now_ms: int) -> None:
        """A producer is forgotten only when it was silent for long and has no open transaction."""
        before = len(producers.entries)
        original(producers, now_ms)
        if len(producers.entries) < before:
            for log, chain in [each for each in self.logs.chains.items() if each[0].producers is producers]:
                self.look(log, chain)

    def _written_down(self, log_dirs: LogDirs, file: str) -> Iterator[tuple[Log, Chain, int]]:
        """The value for each log in a file that was just written, 0 where the file has none."""
        self.world.check("R27")
        names = self.world.nodes[node()].volume.names
        for path in log_dirs.online_paths:
            there = checkpointed(names, path, file)
            for partition, log in log_dirs.logs_in(path).items():
                chain = self.logs.chain_of(log)
                if chain is not None and not log.is_future:
                    yield log, chain, there.get(str(partition), 0)

    def judge(self) -> None:
        """At the end, every log."""
        for log, chain in self.logs.chains.items():
            if chain.node in self.world.brokers:
                self.look(log, chain)
                self.look_at_timestamps(log, chain)

    def look(self, log: Log, chain: Chain) -> None:
        self.world.check("R27")
        snapshots = [offset for offset in log.producers.snapshot_offsets if offset > log.log_end_offset]
        if snapshots:
            self._wrong(log, chain, f"it has snapshots of {snapshots}, and ends at {log.log_end_offset}")
        if self._was_cleaned(chain):
            self.world.waive("R27")
            return
        begins, told = log.log_start_offset, told_by(chain.links)
        self._look_at_producers(log, chain, told, begins)
        self._look_at_stable(log, chain, told, begins)
        for segment, _ in _by_segment(log, chain):
            self._look_at_aborted(log, chain, segment, told, begins)

    def stand(self) -> None:
        """Logs with a newly opened transaction, or with several: a snapshot would restore their producers, none of
        these would be forgotten, and the cleaner would leave the open records."""
        for log, chain in self.logs.chains.items():
            if not log.producers.entries:
                continue
            begun = [entry.current_txn_first_offset for entry in log.producers.entries.values()]
            opened = [first for first in begun if first != NOTHING_OPEN]
            if not opened:
                continue
            if len(opened) > 1 or self._looked_at.get(log) != opened[0]:
                self._survive_a_snapshot(log, chain, min(opened))
                self._looked_at[log] = opened[0]
            self.logs.inquiries.ask_the_cleaner(log, chain)

    def _survive_a_snapshot(self, log: Log, chain: Chain, first_open: int) -> None:
        self.world.check("R27")
        read = read_back(log.producers)
        if read.first_unstable_offset != first_open:
            self._wrong(
                log, chain, f"a transaction is open from {first_open}, and from a snapshot {read.first_unstable_offset}"
            )
        for producer_id, entry in log.producers.entries.items():
            was, now = _in_a_snapshot(entry), _in_a_snapshot(read.entries[producer_id])
            if was != now:
                self._wrong(log, chain, f"of producer {producer_id} it knows {was}, and from a snapshot {now}")
        # However long it is open: nobody would end it any more.
        read.remove_expired(FOR_EVER_MS)
        if forgotten := [each for each in log.producers.entries.values() if each.producer_id not in read.entries
                         and each.current_txn_first_offset != NOTHING_OPEN]:  # fmt: skip
            self._wrong(log, chain, f"in time it forgets {forgotten[0].producer_id}, whose transaction is open")

    def _was_cleaned(self, chain: Chain) -> bool:
        return self.logs.cleaned_to(chain.partition, chain.topic_id) > 0

    def _wrong(self, log: Log, chain: Chain, what: str) -> None:
        self.world.violated("R27", f"{chain.partition} on {chain.node}: {what}", chain.partition, chain.node)

    def _look_at_producers(self, log: Log, chain: Chain, told: Told, begins: int) -> None:
        state = log.producers
        for producer_id, known in told.producers.items():
            entry = state.entries.get(producer_id)
            if known.last_offset < begins:
                continue
            if entry is None:
                if known.open_from != NOTHING_OPEN or not self._may_be_expired(log, chain, known.last_ms):
                    self._wrong(log, chain, f"producer {producer_id} is forgotten, which wrote {known.last_offset}")
                continue
            there = [Remembered(*batch[:4]) for batch in entry.batches if batch.last_offset >= begins]
            right = [batch for batch in known.batches if batch.last_offset >= begins]
            if entry.producer_epoch != known.epoch or there != right[len(right) - len(there) :]:
                self._wrong(
                    log, chain, f"of producer {producer_id} in epoch {entry.producer_epoch} it knows {there}; "
                    f"there are {right} in epoch {known.epoch}",
                )  # fmt: skip
            elif right and not there and not self._may_be_expired(log, chain, known.last_written_ms):
                # A marker that comes when its producer is forgotten tells of no batch.
                self._wrong(log, chain, f"of producer {producer_id} it knows none of {right}")
            opened = entry.current_txn_first_offset
            if opened != known.open_from and not any(0 <= first < begins for first in (opened, known.open_from)):
                self._wrong(
                    log, chain, f"a transaction of producer {producer_id} is open from {known.open_from}, by its state "
                    f"from {opened}",
                )  # fmt: skip
        for entry in state.entries.values():
            if entry.last_offset >= log.log_end_offset:
                self._wrong(log, chain, f"it knows {entry.batches[-1]} of producer {entry.producer_id}, beyond its end")

    def _may_be_expired(self, log: Log, chain: Chain, last_ms: int) -> bool:
        node = self.world.nodes[chain.node]
        age_ms = node.clock.now_ms() - EPOCH_MS - last_ms
        return chain.node in self.world.clocks_touched or age_ms >= log.producers.producer_id_expiration_ms

    def _look_at_stable(self, log: Log, chain: Chain, told: Told, begins: int) -> None:
        undecided = told.undecided(log.high_watermark)
        known = [entry.current_txn_first_offset for entry in log.producers.entries.values()]
        unstable = log.producers.first_unstable_offset
        if any(0 <= first < begins for first in (*undecided, *known, -1 if unstable is None else unstable)):
            return  # it knows of a transaction that began before the log's start; the log tells it no more
        # Which ends may still be lost is forgotten by a restart and by a cut, as in Kafka: then they count at once.
        least, most = min([log.high_watermark, *undecided]), min([log.high_watermark, *told.still_open()])
        if not least <= log.last_stable_offset <= most:
            self._wrong(log, chain, f"it is stable to {least}, and at most to {most}; it says {log.last_stable_offset}")

    def _look_at_aborted(self, log: Log, chain: Chain, segment: Segment, told: Told, begins: int) -> None:
        try:
            with self.world.nodes[chain.node].disk.as_it_is():
                there = {entry.last_offset: entry for entry in segment.txn_index.aborted()}
        except CorruptIndex:
            return  # it is made anew when somebody asks for it
        ends = [base for base in (other.base_offset for other in log.segments) if base > segment.base_offset]
        end = ends[0] if ends else log.log_end_offset
        for ended in told.ended:
            if not ended.aborted or not segment.base_offset <= ended.marker < end or ended.first_offset < begins:
                continue
            entry = there.get(ended.marker)
            if entry is not None and entry.producer_id == ended.producer_id and entry.first_offset < begins:
                continue  # it began before the log does
            if entry is None or entry[:3] != ended[:3] or entry.last_stable_offset > ended.stable >= begins:
                self._wrong(log, chain, f"{ended} was aborted, and its index has {entry}")
        aborts = [link.last for link in chain.links if link.kind is LinkKind.ABORT]
        for marker, entry in there.items():
            if marker not in aborts:
                self._wrong(log, chain, f"its index of aborted transactions has {entry}, and there is no such end")

    def look_at_timestamps(self, log: Log, chain: Chain) -> None:
        """The largest timestamp of a segment, and its first batch that has it, where a lookup by time begins."""
        for segment, links in _by_segment(log, chain) if not self._was_cleaned(chain) else ():
            with self.world.nodes[chain.node].disk.as_it_is():
                largest = segment.max_timestamp_and_offset()
            right = max(links, key=lambda link: link.timestamp_ms)
            wanted = (EPOCH_MS + right.timestamp_ms, right.last)
            if largest != wanted and NO_TIMESTAMP not in (largest[0], wanted[0]):
                self._wrong(log, chain, f"{segment} is as young as {wanted}, and says {largest}")


def read_back(state: ProducerStateManager) -> ProducerStateManager:
    """What a start would restore from a snapshot of `state`."""
    disk = SimDisk(Volume(), lambda *_: None, lambda: 0)
    disk.makedirs("/log")

    def empty() -> ProducerStateManager:
        expiration_ms = state.producer_id_expiration_ms
        return ProducerStateManager(disk, "/log", TopicPartition("", 0), producer_id_expiration_ms=expiration_ms)

    writer = empty()
    writer.entries.update(state.entries)
    writer.map_end_offset = state.map_end_offset
    writer.take_snapshot(sync=False)
    reader = empty()
    reader.truncate_and_reload(0, state.map_end_offset)
    return reader


def _in_a_snapshot(entry: ProducerEntry) -> tuple[object, ...]:
    """What Kafka's snapshot format has of a producer."""
    last = entry.batches[-1] if entry.batches else None
    place = None if last is None else (last.first_sequence, last.last_sequence, last.first_offset, last.last_offset)
    return (
        entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp, entry.current_txn_first_offset, place
    )  # fmt: skip


def _by_segment(log: Log, chain: Chain) -> Iterator[tuple[Segment, list[ChainedBatch]]]:
    """The segments that have batches, with these."""
    segments = list(log.segments)
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        end = log.log_end_offset if following is None else following.base_offset
        links = [link for link in chain.links if segment.base_offset <= link.base < end]
        if links:
            yield segment, links
