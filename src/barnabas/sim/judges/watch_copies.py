"""Opens copies of logs in memory and asks what would be left of them just now: after a cut (R27), after a kill amid the
swap of a cleaned segment (R15), and of records that the leader never had (R13, R24).

Logs are cut, and brokers killed, in few moments of a run. A copy can be opened and cut in any. A log is copied when its
leader has aborted a transaction, and when it has grown to four times the batches that it had last time. What the copy
keeps beside its batches has to be what its batches say. A new leader that missed an epoch is asked on behalf of a
follower that has a record of that epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from barnabas.log.loading import at_once
from barnabas.log.log import AppendInfo, Log
from barnabas.log.log_segments import LogSegments
from barnabas.log.recovery import SWAP_SUFFIX
from barnabas.log.segment import Segment
from barnabas.model.ids import NO_EPOCH, ZERO_UUID
from barnabas.replica.partition import Partition
from barnabas.replica.readable_partition import FetchIsolation
from barnabas.replica.truncation import truncation, truncation_offset
from barnabas.sim.judges.chain import Chain, LinkKind
from barnabas.sim.world.disk import Inode, SimDisk, Volume
from barnabas.sim.world.loop import current_incarnation
from barnabas.sim.world.node import EPOCH_MS
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.records import Record, build_batch

if TYPE_CHECKING:
    from barnabas.sim.judges.watch_derived import DerivedWatch
    from barnabas.sim.judges.watch_logs import LogWatch

OPENING: Final = Log.opening
"""The function before any probe wraps it, so that no watcher of logs is told of a copy."""
FEW: Final = 4
"""Batches of a log that is copied for the first time."""
UNTOLD: Final = -1
"""For the epoch of a broker."""
UNHEARD_OF: Final = Record(0, EPOCH_MS, None, b"what no leader has", ())


class CopyWatch:
    def __init__(self, world: World, logs: LogWatch, derived: DerivedWatch, probes: Probes) -> None:
        """Its probes run behind those of `logs`, so that chains are up to date when it looks."""
        self.world = world
        self.logs = logs
        self.derived = derived
        self._asks_at: dict[tuple[Log, bool], int] = {}
        """By log, and whether its aborted transactions are counted or its batches: how many there are at the next
        copy."""
        self._swaps: dict[Log, int] = {}
        self._amid: list[Volume] | None = None
        """The log's files at each step of the swap that is under way."""
        probes.after(Log, "append_as_leader", self._appended)
        probes.around(Log, "replace_segments", self._around_replace)
        probes.after(Segment, "change_suffix", self._renamed)
        probes.after(LogSegments, "replace", self._replaced)
        probes.across(Partition, "make_leader", lambda partition: partition.leader_epoch, self._leads)

    # R27: what a cut leaves

    def _appended(self, info: AppendInfo, log: Log, *_: object, **__: object) -> None:
        chain = self.logs.chain_of(log)
        if chain is None or info.duplicate or not chain.links or log.settings.compact:
            return
        of_aborts = chain.links[-1].kind is LinkKind.ABORT
        have = sum(link.kind is LinkKind.ABORT for link in chain.links) if of_aborts else len(chain.links)
        if have >= self._asks_at.get((log, of_aborts), 1 if of_aborts else FEW):
            self._asks_at[log, of_aborts] = (2 if of_aborts else 4) * have
            self.ask_what_a_cut_leaves(log, chain)

    def ask_what_a_cut_leaves(self, log: Log, chain: Chain) -> None:
        """Cuts the copy's last batch off, after a kill; where a transaction was aborted, that batch is its marker."""
        if self.logs.cleaned_to(chain.partition, chain.topic_id) or log.log_start_offset >= chain.links[-1].base:
            return
        self.world.check("R27")
        opened = self.opened(log, self._files(log.directory, chain.node))
        if opened.log_end_offset != log.log_end_offset:
            self.world.waive("R27")  # a bit of it is another by now
            return
        opened.update_high_watermark(log.high_watermark)
        at = chain.links[-1].base
        opened.truncate_to(at, now_ms=self._now_ms())
        left = replace(chain, links=chain.links[:-1], ends=chain.ends[:-1])
        if opened.log_end_offset != at:
            self._wrong(chain, f"a cut at {at} leaves it with the end {opened.log_end_offset}")
            return
        self.ask_whether_it_is_the_same(log, opened, chain)
        self.derived.look(opened, left)
        self.derived.look_at_timestamps(opened, left)

    def ask_whether_it_is_the_same(self, log: Log, opened: Log, chain: Chain) -> None:
        """R15: a start that finds a log in two directories drops one only where both are the same, and not where one
        lacks the last batch."""
        self.world.check("R15")
        if chain.links[-1].base not in (log.log_start_offset, opened.log_start_offset) and opened.ends_as(log):
            self.world.violated(
                "R15", f"{chain.node} would drop one of two copies of {chain.partition}, which end at "
                f"{log.log_end_offset} and at {opened.log_end_offset}", chain.partition, chain.node,
            )  # fmt: skip

    # R15: what a kill amid a swap leaves

    def _around_replace(self, original: Any, log: Log, cleaned: Segment, replaced: list[Segment]) -> None:
        swaps = self._swaps[log] = self._swaps.get(log, 0) + 1
        self._amid = [] if self.logs.chain_of(log) is not None and swaps & (swaps - 1) == 0 else None
        try:
            original(log, cleaned, replaced)
            amid = self._amid or []
        finally:
            self._amid = None
        for files in amid:
            self.ask_what_a_kill_leaves(log, files)

    def _renamed(self, _: object, segment: Segment, __: str, new: str) -> None:
        if self._amid is not None and new == SWAP_SUFFIX:
            self._amid.append(self._files(segment.directory, node()))

    def _replaced(self, _: object, segments: LogSegments, *__: object) -> None:
        if self._amid is not None:
            self._amid.append(self._files(segments.active.directory, node()))

    def ask_what_a_kill_leaves(self, log: Log, files: Volume) -> None:
        """`files` are those of one moment of the swap, which is over by now."""
        self.world.check("R15")
        with self.world.nodes[node()].disk.as_it_is():
            right = list(_batches(log))
        there = list(_batches(self.opened(log, files)))
        missing = [each for each in right if each not in there]
        if self.world.faults.get("bit-rot"):
            self.world.waive("R15")
        elif missing:
            place = str(log.topic_partition)
            self.world.violated(
                "R15", f"a broker killed amid the swap of a cleaned segment of {place} starts without {missing[:3]}, "
                f"{len(missing)} of {len(right)} batches", place, node(),
            )  # fmt: skip

    # R13: what a leader leaves of what it never had

    def _leads(self, before: int, _: object, partition: Partition, *__: object) -> None:
        log = partition.log
        chain = None if log is None else self.logs.chain_of(log)
        if log is None or chain is None or partition.leader_epoch == before or len(chain.links) < FEW:
            return
        missed = partition.leader_epoch - 1
        at = chain.links[len(chain.links) // 2].base
        deleted = self.logs.start_of(chain), self.logs.cleaned_to(chain.partition, chain.topic_id)
        if missed > chain.links[-1].epoch and at > max(deleted):
            self.ask_whether_it_has_all(partition, log, missed)
            self.ask_where_they_part(partition, log, chain, at, missed)

    def ask_whether_it_has_all(self, partition: Partition, log: Log, missed: int) -> None:
        """R24: a follower whose log ends where the leader's does, but with a record of the epoch `missed`, does not
        count as having all."""
        self.world.check("R24")
        end = log.log_end_offset
        asked = FetchRequest.FetchPartition(
            partition.topic_partition.partition, partition.leader_epoch, end, missed, log.log_start_offset
        )
        now_ms = self.world.loop.now_ns // 1_000_000
        for follower in sorted(partition.progress.keys() & partition.isr_state.isr):
            if partition.record_fetch_of_all(follower, UNTOLD, log.topic_id or ZERO_UUID, asked, now_ms):
                place = str(partition.topic_partition)
                sentence = (
                    f"{node()} believes that {follower} has all of {place} before {end}, which ends in epoch {missed}"
                )
                self.world.violated("R24", f"{sentence}, of which nobody told {node()}", place, node())

    def ask_where_they_part(self, partition: Partition, log: Log, chain: Chain, at: int, missed: int) -> None:
        """R13: a follower has the leader's records before `at`, and there a record of the epoch `missed`. The answers
        to Fetch and to OffsetForLeaderEpoch make it cut just that record (KIP-101, KIP-279, KIP-595)."""
        for ask in (_by_a_fetch, _by_epochs):
            self.world.check("R13")
            opened = self.opened(log, self._files(log.directory, chain.node))
            if opened.log_end_offset != log.log_end_offset:
                self.world.waive("R13")
                return
            opened.truncate_to(at, now_ms=self._now_ms())
            opened.append_as_follower(build_batch([UNHEARD_OF._replace(offset=at)], leader_epoch=missed), now_ms=0)
            for _ in range(len(opened.leader_epochs.entries) + 1):
                with self.world.nodes[chain.node].disk.as_it_is():
                    cut = ask(partition, opened)
                if cut is None:
                    break
                opened.truncate_to(cut, now_ms=self._now_ms())
            if opened.log_end_offset != at:
                self.world.violated(
                    "R13", f"{chain.node} leads {chain.partition} in epoch {partition.leader_epoch}; a follower with "
                    f"the same before {at} and then a record of epoch {missed} cuts its log at "
                    f"{opened.log_end_offset}", chain.partition, chain.node,
                )  # fmt: skip

    # Copies

    def _files(self, directory: str, name: str) -> Volume:
        """A volume of its own with all files that a killed process leaves in the directory."""
        volume = Volume()
        for path, inode in self.world.nodes[name].volume.names.items():
            if path.startswith(f"{directory}/"):
                copied = volume.names[path] = Inode()
                copied.cached[:] = inode.cached
                copied.modified_ms = inode.modified_ms
        return volume

    def opened(
        self, log: Log, files: Volume, *, recovery_point: int | None = None, log_start_offset: int | None = None
    ) -> Log:
        """`log` as a start finds it in `files`, with the checkpoints given (by default what the log has). It belongs to
        no process, so nothing watches it."""
        disk = SimDisk(files, lambda *_: None, self._now_ms)
        disk.makedirs(log.directory)
        whose = current_incarnation.set(None)
        try:
            return at_once(
                OPENING(
                    disk, log.directory, log.topic_partition, log.config, now_ms=self._now_ms(), clean=False,
                    recovery_point=log.recovery_point if recovery_point is None else recovery_point,
                    log_start_offset=log.log_start_offset if log_start_offset is None else log_start_offset,
                    topic_id=log.topic_id,
                    producer_id_expiration_ms=log.producers.producer_id_expiration_ms,
                )
            )  # fmt: skip
        finally:
            current_incarnation.reset(whose)

    def _now_ms(self) -> int:
        return EPOCH_MS + self.world.loop.now_ns // 1_000_000

    def _wrong(self, chain: Chain, what: str) -> None:
        self.world.violated("R27", f"{chain.partition} on {chain.node}: {what}", chain.partition, chain.node)


def _batches(log: Log) -> Iterator[tuple[int, int]]:
    """The first and last offset of each batch."""
    for segment in log.segments:
        for batch in segment.batches():
            yield batch.base_offset, batch.last_offset


def _by_a_fetch(leader: Partition, log: Log) -> int | None:
    """Where the answer to a fetch makes a follower cut its log."""
    read = leader.read(
        log.log_end_offset, 1, current_leader_epoch=NO_EPOCH, last_fetched_epoch=log.leader_epochs.latest_epoch,
        isolation=FetchIsolation.LOG_END, only_leader=True, min_one_batch=False,
    )  # fmt: skip
    return None if read.diverging is None else truncation_offset(log, *read.diverging)


def _by_epochs(leader: Partition, log: Log) -> int | None:
    """Where the answer to OffsetForLeaderEpoch makes a follower cut its log."""
    told = leader.last_offset_for_leader_epoch(NO_EPOCH, log.leader_epochs.latest_epoch, only_leader=True)
    cut = truncation(log, *told).offset
    return cut if cut < log.log_end_offset else None
