"""Watches every replica's log, and knows what it ought to hold.

Each log has a `Chain`: its batches with a hash over all that came before, so that comparing prefixes is one comparison
(R1). Below a leader's high watermark lies what is committed: by partition, the hash at each such offset. From the two
follow log matching, leader completeness and durability, each judged at the moment it could first break.

R7's premise fails where a wiped copy (`RestartWatch`) or one of an unclean election leads (`LossWatch`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

from barnabas.log.log import AppendInfo, Log
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.replica.partition import Partition
from barnabas.sim.judges.chain import SEQUENCES, Chain, ChainedBatch, Committed, kind_of, youngest_by
from barnabas.sim.judges.watch_inquiries import InquiryWatch
from barnabas.sim.judges.watch_leaders import LeaderWatch
from barnabas.sim.judges.watch_losses import AppendedBatch, LossWatch, owners_in
from barnabas.sim.judges.watch_restarts import RestartWatch
from barnabas.sim.judges.watch_retention import RetentionWatch
from barnabas.sim.judges.watch_sequences import SequenceWatch
from barnabas.sim.world.node import EPOCH_MS
from barnabas.sim.world.probes import Probes, life, node
from barnabas.sim.world.trace import Happening
from barnabas.sim.world.world import World, broker_name, broker_number
from barnabas.wire.records import LOG_APPEND_TIME, batches, check_crc

_FETCH_NAMES_EPOCH: Final = 9
"""The version of Fetch since which a leader is told in which epoch it is followed (KIP-320)."""


class LogWatch:
    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        self.chains: dict[Log, Chain] = {}
        self.of: dict[tuple[str, str], Log] = {}
        """The log of a node and partition."""
        self.committed: dict[tuple[str, str], Committed] = {}
        """By partition and topic id."""
        self.losses = LossWatch(world)
        self.sequences = SequenceWatch(world, self.losses)
        self._outdated: dict[tuple[str, str], None] = {}
        """Node and partition of copies that may hold what was lost elsewhere."""
        self.unclean: dict[str, bool] = {}
        """By topic: whether leaders may be elected from outside the ISR."""
        self.failed_dirs: dict[tuple[str, int, str], int] = {}
        self._known: dict[tuple[str, str, int, int], int] = {}
        """By partition, topic id, base offset and epoch: the one hash of every log that holds this batch."""
        self._beginnings: dict[tuple[str, str, int, int], None] = {}
        """Those of `_known` that were first seen where a log began."""
        self._appender: dict[tuple[str, str, int], str] = {}
        self._deleted: dict[tuple[str, str], int] = {}
        """By partition and topic id: how far a replica deleted what is committed. Nobody reads before that."""
        self.cleaned: dict[tuple[str, str], int] = {}
        """By partition and topic id: how far some replica's cleaner went. Before that batches may be missing or emptied
        in one copy and not in another; `CleanerWatch` judges what they hold then."""
        self.stamped: dict[str, None] = {}
        """Partitions with batches whose time is the broker's."""
        self.restarts = RestartWatch(world, self)
        probes.around(Log, "opening", self._around_opening)
        probes.around(Log, "append_as_leader", self._around_append_as_leader)
        probes.around(Log, "append_as_follower", self._around_append_as_follower)
        probes.around(Log, "truncate_to", self._around_truncate)
        probes.around(Log, "truncate_fully_and_start_at", self._around_truncate_fully)
        probes.around(Log, "maybe_increment_log_start_offset", self._around_log_start)
        self.retention = RetentionWatch(world, self, probes)
        probes.around(Log, "replace_segments", self._around_replace)
        probes.after(Log, "rename_directory", self._renamed)
        probes.around(Partition, "append_as_leader", self._around_partition_append)
        probes.after(Partition, "append_as_follower", self._appended_as_follower)
        self.leaders = LeaderWatch(world, self, probes)
        self.inquiries = InquiryWatch(self, probes)

    # What may be lost

    def leads(self, chain: Chain, log: Log, leader_epoch: int) -> None:
        """R7's premise fails when a broker leads without records that its disk lost: everybody loses them."""
        key, partition = (chain.node, chain.partition), chain.partition
        if key not in self.restarts.synced_end or chain.end < self.restarts.synced_end[key]:
            return
        loss, taken = self.losses.lacking(chain, log, leader_epoch)
        if not taken:
            return
        if not self.restarts.is_wiped(*key):
            # All that is committed is there. What of its own epoch was not may be gone, or be on followers: a fork.
            own = [batch for batch in taken if batch.epoch == leader_epoch]
            if own:
                self.losses.happened(chain, loss, own)
                self._forget(chain, own)
            return
        self.losses.happened(chain, loss, taken)
        self.leaders.reached[partition] = min(chain.end, self.leaders.reached.get(partition, 0))
        committed = self.committed.get((partition, chain.topic_id))
        if committed is not None:
            begins = min(chain.end, max(self.start_of(chain), self.cleaned_to(partition, chain.topic_id)))
            # Before that it may lack what is committed; but where it has something else, that counts.
            at = {
                end: value
                for end, value in committed.at.items()
                if chain.hash_at(end) in (value, None if end <= begins else value)
            }
            committed.at, committed.high = at, max(at, default=0)
        self._outdated.update(dict.fromkeys((name, partition) for name in self.world.broker_names))
        self.leaders.told_latest.pop(f"{partition}/{chain.topic_id}", None)
        self._forget(chain, [batch for batch in taken if batch.epoch == leader_epoch])
        self.world.note(f"{partition}: {chain.node} leads without what was written from {loss.end} on; it may be lost")

    def _forget(self, chain: Chain, batches: list[AppendedBatch]) -> None:
        """Forgets batches of the leader's own epoch that it lost and no copy has: others may come in their place."""
        place = chain.partition, chain.topic_id
        keys = [(*place, batch.base, batch.epoch) for batch in batches]
        copies = [copy.links for copy in self.chains.values() if (copy.partition, copy.topic_id) == place]
        elsewhere = {link.hash for links in [*copies, *self.restarts.of_the_dead(*place)] for link in links}
        if not any(self._known.get(key) in elsewhere for key in keys):
            for key in keys:
                self._known.pop(key, None)

    def may_be_lost(self, name: str, partition: str) -> bool:
        """Whether the copy may lack committed records, or hold an earlier leader's in their place."""
        return self.restarts.is_wiped(name, partition) or self._is_outdated(name, partition)

    def _is_outdated(self, name: str, partition: str) -> bool:
        """Whether the copy is from before a loss, and does not yet hold what is committed since."""
        if (name, partition) not in self._outdated:
            return False
        log = self.of.get((name, partition))
        chain = None if log is None else self.chains.get(log)
        committed = None if chain is None else self.committed.get((partition, chain.topic_id))
        if chain is None or log is None or committed is None or not committed.high:
            return True
        if self.holds_committed(chain, log):
            del self._outdated[name, partition]
            return False
        return True

    def deleted_to(self, partition: str) -> int:
        """How far any replica deleted; a power loss may bring records back, but nobody is promised them."""
        return max((end for (name, _), end in self._deleted.items() if name == partition), default=0)

    def cleaned_to(self, partition: str, topic_id: str) -> int:
        return self.cleaned.get((partition, topic_id), 0)

    def cleaned_anywhere_to(self, partition: str) -> int:
        """The same for the cleaner, for any topic of that name."""
        return max((end for (name, _), end in self.cleaned.items() if name == partition), default=0)

    def _around_replace(self, original: Any, log: Log, cleaned: Any, replaced: list[Any]) -> None:
        chain, segments = self.chain_of(log), log.segments
        if chain is not None and replaced and replaced[-1] in segments[:-1]:
            key = chain.partition, chain.topic_id
            end = segments[segments.index(replaced[-1]) + 1].base_offset
            self.cleaned[key] = max(end, self.cleaned.get(key, 0))
        with self.under_way(chain, "swapping"):
            original(log, cleaned, replaced)

    def start_of(self, chain: Chain) -> int:
        """Where the log begins, or will when the replica has heard what others deleted."""
        return max(chain.log_start, self._deleted.get((chain.partition, chain.topic_id), 0))

    def holds_committed(self, chain: Chain, log: Log) -> bool:
        committed = self.committed.get((chain.partition, chain.topic_id))
        if committed is None or not committed.high:
            return True
        if max(self.start_of(chain), self.cleaned_to(chain.partition, chain.topic_id)) >= committed.high:
            return log.log_end_offset >= committed.high  # all of it is deleted, and its offsets are taken all the same
        return chain.hash_at(committed.high) == committed.at.get(committed.high)

    def may_be_unclean(self, partition: str) -> bool:
        return self.unclean.get(partition.rpartition("-")[0], False)

    def stamps_at(self, partition: str, offset: int) -> list[int | None]:
        """The timestamp of the batch at the offset, in each copy, as in a `ChainedBatch`; None where its producer
        stamped it."""
        found: dict[int | None, None] = {}
        for chain in self.chains.values():
            at = bisect_right(chain.ends, offset)
            if chain.partition == partition and at < len(chain.ends) and chain.links[at].base <= offset:
                found[chain.links[at].timestamp_ms if chain.links[at].stamped else None] = None
        return list(found)

    # Logs come and go

    def chain_of(self, log: Log) -> Chain | None:
        chain = self.chains.get(log)
        if chain is not None and not chain.topic_id:
            chain.topic_id = self._id_of(log)
        return chain

    def _id_of(self, log: Log) -> str:
        """Where brokers are upgraded to topic ids during the run, ids do not tell a topic from the next one of its
        name."""
        return str(log.topic_id or "") if self.world.metadata_version.is_topic_ids_supported else ""

    def _around_opening(self, original: Any, *arguments: Any, **named: Any) -> Generator[int, None, Log]:
        log: Log = yield from original(*arguments, **named)
        self._opened(log)
        return log

    def _opened(self, log: Log) -> None:
        """A future log counts from when it takes the other's place; of an unfinished move one copy goes."""
        name = node()
        if name not in self.world.nodes or "twin" in name or log.is_future:
            return
        known = self.of.get((name, str(log.topic_partition)))
        if known is not None and not known.closed and known.log_dir.online:
            return
        chain = self._taken_in(name, log)
        self.restarts.restarted(log, chain)
        self._remembers(log, chain)

    def _taken_in(self, name: str, log: Log) -> Chain:
        partition = str(log.topic_partition)
        chain = Chain(name, life(), partition, self._id_of(log))
        chain.log_start = log.log_start_offset
        with self.world.nodes[name].disk.as_it_is():
            for segment in log.segments:
                for batch in segment.batches():
                    data = memoryview(segment.read_batch(batch))
                    self._is_whole(chain, data)
                    self._add(chain, data)
                    self.sequences.follows(chain, chain.links[-1], judged=False)
            if chain.links:
                self.losses.found(chain, chain.links[-1], self._owners_in(chain, data))
        self.chains[log] = chain
        self.of[name, partition] = log
        return chain

    def _took_over(self, log: Log) -> None:
        """R1: a replica that has moved to another directory holds what it held."""
        name, partition = node(), str(log.topic_partition)
        before = self.of.get((name, partition))
        was = None if before is None else self.chains.get(before)
        chain = self._taken_in(name, log)
        self.world.check("R1")
        if was is not None and was.links and chain.links and chain.links[-1].hash != was.links[-1].hash:
            self.world.violated(
                "R1", f"{partition} on {name} ends with {chain.links[-1]} in its new directory, and ended with "
                f"{was.links[-1]}", partition, name,
            )  # fmt: skip
        self._remembers(log, chain)

    def _is_whole(self, chain: Chain, data: memoryview) -> None:
        """R15: recovery leaves no batch whose bytes are not those that were written."""
        self.world.check("R15")
        try:
            check_crc(data, 0, len(data))
        except ValueError as error:
            self.world.violated(
                "R15", f"{chain.partition} on {chain.node} was opened with a batch that is damaged: {error}",
                chain.partition, chain.node,
            )  # fmt: skip

    def disk_failed(self, name: str, operation: str, path: str) -> None:
        """From the first failed write or sync on nothing may be appended in that directory (R16)."""
        if operation in ("write", "fsync") and path.count("/") >= 3:
            directory = "/".join(path.split("/")[:3])
            process = self.world.nodes[name].process
            if process is not None:
                self.failed_dirs.setdefault((name, process.number, directory), self.world.loop.now_ns)

    def _renamed(self, _: object, log: Log, *__: object, **___: object) -> None:
        """The log is being deleted, or has taken the place of another, which is deleted next."""
        if log.name == str(log.topic_partition):
            self._took_over(log)
            return
        chain = self.chains.pop(log, None)
        if chain is not None and self.of.get((chain.node, chain.partition)) is log:
            del self.of[chain.node, chain.partition]
            self.restarts.wiped.pop((chain.node, chain.partition), None)

    @contextmanager
    def under_way(self, chain: Chain | None, doing: str = "", cutting_at: int | None = None) -> Iterator[None]:
        """While the log's files change: a process that dies meanwhile leaves them unchanged or half changed."""
        if chain is None:
            yield
            return
        disk = self.world.nodes[chain.node].disk
        chain.appending, chain.cutting_at, disk.doing = not doing, cutting_at, doing
        try:
            yield
        finally:
            # What ended with the process stays as it was when that died.
            disk.doing = ""
            chain.appending, chain.cutting_at = False, None

    # Appending

    def _add(self, chain: Chain, data: memoryview) -> None:
        """Adds the batches in `data`; judges R1, R11 and C5."""
        world = self.world
        for header, start, end in batches(data):
            links = chain.links
            before = links[-1].hash if links else 0
            last = header.last_offset
            value = hash((before, header.base_offset, last, header.partition_leader_epoch, header.crc))
            key = chain.partition, chain.topic_id, header.base_offset, header.partition_leader_epoch
            known = self._known.get(key)
            for invariant in ("R1", "R11", "C5"):
                world.check(invariant)
            begins = not links or links[-1].last < self.start_of(chain)
            # All that lay before may be gone, the last batch as well where that was a tombstone or ended a transaction.
            cleaned_to = self.cleaned_to(chain.partition, chain.topic_id)
            unlike = begins or links[-1].last < cleaned_to <= header.base_offset
            if known is None:
                self._known[key] = value
                if unlike:
                    self._beginnings[key] = None
            elif header.base_offset < cleaned_to:
                value = known
            elif unlike or key in self._beginnings:
                value = known  # one of the two logs begins here: what was before is not there to be compared
            elif known != value and self.losses.is_forked(chain.partition, header.base_offset):
                # What comes behind is compared again.
                world.excuse("R1", f"{chain.partition} on {chain.node} differs at {header.base_offset}")
                value = known
            elif known != value:
                world.violated(
                    "R1", f"{chain.partition} on {chain.node} holds the batch at {header.base_offset} of epoch "
                    f"{header.partition_leader_epoch}, but differs before or in it from another replica",
                    chain.partition, chain.node,
                )  # fmt: skip
                self._known[key] = value
            if links and header.base_offset <= links[-1].last:
                world.violated(
                    "R11", f"{chain.partition} on {chain.node}: offset {header.base_offset} after {links[-1].last}",
                    chain.partition, chain.node,
                )  # fmt: skip
            if not begins and header.partition_leader_epoch < links[-1].epoch:
                world.violated(
                    "C5", f"{chain.partition} on {chain.node}: epoch {header.partition_leader_epoch} after "
                    f"{links[-1].epoch}", chain.partition, chain.node,
                )  # fmt: skip
            sequence = header.base_sequence
            last_sequence = (sequence + header.last_offset_delta) % SEQUENCES if sequence >= 0 else -1
            if header.attributes & LOG_APPEND_TIME:
                self.stamped[chain.partition] = None
            links.append(
                ChainedBatch(
                    header.base_offset, last, header.partition_leader_epoch, header.crc, value, header.producer_id,
                    header.producer_epoch, sequence, last_sequence, header.max_timestamp - EPOCH_MS,
                    bool(header.attributes & LOG_APPEND_TIME), kind_of(header, data, start, end),
                )
            )  # fmt: skip
            chain.ends.append(last + 1)

    def _around_append_as_leader(self, original: Any, log: Log, records: Any, leader_epoch: int, **named: Any) -> Any:
        end = log.log_end_offset
        chain = self.chain_of(log)
        said = youngest_by(memoryview(records))
        try:
            with self.under_way(chain):
                info = original(log, records, leader_epoch, **named)
        except KafkaError as error:
            if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and chain is not None:
                self.sequences.refused(chain, log, memoryview(records))
            raise
        if chain is not None and info.duplicate:
            self.sequences.told_again(chain, memoryview(records), info.last_offset)
        if chain is None or info.duplicate or log.log_end_offset == end:
            return info
        view = memoryview(records)
        if len(view) < 61 or view[16] != 2 or int.from_bytes(view[:8], "big") != info.first_offset:
            with self.world.nodes[chain.node].disk.as_it_is():
                view = memoryview(log.active_segment.file.pread(info.size, log.active_segment.size - info.size))
        self._appended(log, chain, view, leader_epoch)
        self.is_as_young_as_it_says(log, chain, info, said)
        return info

    def is_as_young_as_it_says(self, log: Log, chain: Chain, info: AppendInfo, said_ms: int | None) -> None:
        """R22: a batch's header has its youngest record's timestamp; brokers need not believe a producer."""
        self.world.check("R22")
        if not log.settings.log_append_time and said_ms not in (None, info.max_timestamp):
            self.world.violated(
                "R22", f"the batch at {info.first_offset} of {chain.partition} has the timestamp {said_ms}; its "
                f"youngest record is of {info.max_timestamp}", chain.partition, chain.node,
            )  # fmt: skip

    def _appended(self, log: Log, chain: Chain, view: memoryview, leader_epoch: int) -> None:
        world = self.world
        self._add(chain, view)
        link = chain.links[-1]
        self.losses.appended(chain, link, self._owners_in(chain, view))
        world.check("C6")
        key = chain.partition, chain.topic_id, leader_epoch
        owner = self._appender.setdefault(key, chain.node)
        if owner != chain.node:
            world.violated(
                "C6", f"{chain.node} and {owner} both appended to {chain.partition} in epoch {leader_epoch}",
                chain.partition, chain.node,
            )  # fmt: skip
        self.sequences.follows(chain, link, judged=True)
        self._dir_works(log, chain)

    @staticmethod
    def _owners_in(chain: Chain, data: memoryview) -> frozenset[str]:
        return owners_in(data) if chain.partition.startswith("__") else frozenset()

    def _dir_works(self, log: Log, chain: Chain) -> None:
        self.world.check("R25")
        if log.log_end_offset - max(log.recovery_point, log.log_start_offset) >= log.settings.flush_messages:
            self.world.violated(
                "R25", f"{chain.node} has flushed {chain.partition} to {log.recovery_point} of {log.log_end_offset}; "
                f"flush.messages is {log.settings.flush_messages}", chain.partition, chain.node,
            )  # fmt: skip
        self.world.check("R16")
        failed_ns = self.failed_dirs.get((chain.node, chain.life, log.log_dir.path))
        if failed_ns is not None:
            self.world.violated(
                "R16", f"{chain.node} appended to {chain.partition} in {log.log_dir.path}, which failed at "
                f"{failed_ns / 1e9:.3f} s", chain.partition, chain.node,
            )  # fmt: skip

    def _around_append_as_follower(self, original: Any, log: Log, records: Any, **named: Any) -> Any:
        end = log.log_end_offset
        chain = self.chain_of(log)
        with self.under_way(chain):
            info = original(log, records, **named)
        if chain is not None and log.log_end_offset > end:
            first = len(chain.links)
            self._add(chain, memoryview(records))
            self.world.check("R14")
            base = chain.links[first].base if first < len(chain.links) else end
            if base < end:
                self.world.violated(
                    "R14", f"{chain.node} appended {base} to {chain.partition}, which ended at {end}",
                    chain.partition, chain.node,
                )  # fmt: skip
            for link in chain.links[first:]:
                self.sequences.follows(chain, link, judged=False)
            self._dir_works(log, chain)
        return info

    def _around_partition_append(self, original: Any, partition: Partition, *arguments: Any, **named: Any) -> Any:
        log = partition.log
        end = -1 if log is None else log.log_end_offset
        try:
            return original(partition, *arguments, **named)
        except KafkaError as error:
            self.world.check("R8")
            if log is not None and log.log_end_offset != end and error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                self.world.violated(
                    "R8", f"{node()} answered {error.code.name} and appended to {partition.topic_partition}",
                    str(partition.topic_partition), node(),
                )  # fmt: skip
            raise

    def _appended_as_follower(self, _: object, partition: Partition, *__: object, **___: object) -> None:
        """R14: a follower appends only batches of leader epochs that it has been told of."""
        if self.world.metadata_version.fetch_version < _FETCH_NAMES_EPOCH:
            return
        log = partition.log
        chain = None if log is None else self.chain_of(log)
        self.world.check("R14")
        if chain is not None and chain.links and chain.links[-1].epoch > partition.leader_epoch >= 0:
            self.world.violated(
                "R14", f"{chain.node} follows in epoch {partition.leader_epoch} of {chain.partition} and appended a "
                f"batch of {chain.links[-1].epoch}", chain.partition, chain.node,
            )  # fmt: skip

    # Truncating, deleting

    def _around_truncate(self, original: Any, log: Log, target_offset: int, **named: Any) -> Any:
        end = log.log_end_offset
        chain = self.chain_of(log)
        if chain is not None and target_offset < end:
            self._nothing_committed_is_cut(chain, target_offset)
        with self.under_way(chain, "truncating", target_offset):
            result = original(log, target_offset, **named)
        self._truncated(log, target_offset, end)
        return result

    def _truncated(self, log: Log, offset: int, end: int) -> None:
        chain = self.chain_of(log)
        if chain is not None and offset < end:
            chain.log_start = log.log_start_offset
            chain.cut(offset)
            self._offsets_in_order(log, chain)
            self._remembers(log, chain)
            self.world.trace.tell(
                chain.node, Happening.TRUNCATED, f"cuts {chain.partition} from {end} to {offset}",
                partition=chain.partition, from_offset=end, to_offset=offset,
            )  # fmt: skip

    def _remembers(self, log: Log, chain: Chain) -> None:
        self.sequences.remembers(chain, log, max(chain.log_start, self.cleaned_to(chain.partition, chain.topic_id)))

    def _nothing_committed_is_cut(self, chain: Chain, offset: int) -> None:
        """R4: a member of the ISR keeps what is committed, whatever its leader says."""
        committed = self.committed.get((chain.partition, chain.topic_id))
        state = self.world.state(chain.partition)
        if committed is None or state is None or broker_number(chain.node) not in state["isr"]:
            return
        self.world.check("R4")
        if self.may_be_lost(chain.node, chain.partition):
            self.world.waive("R4")
            return
        if committed.is_in(chain, offset):
            self.world.violated(
                "R4", f"{chain.node} is in the ISR {state['isr']} of {chain.partition} and cuts it at {offset}; "
                f"what lies below {committed.high} is committed", chain.partition, chain.node,
            )  # fmt: skip

    def _around_truncate_fully(self, original: Any, log: Log, new_offset: int, **named: Any) -> Any:
        end = log.log_end_offset
        chain = self.chain_of(log)
        with self.under_way(chain, "truncating", -1):
            result = original(log, new_offset, **named)
        if chain is not None:
            chain.cut(-1)
            chain.log_start = new_offset
            self._offsets_in_order(log, chain)
            self.world.trace.tell(
                chain.node, Happening.TRUNCATED, f"begins {chain.partition} anew at {new_offset}",
                partition=chain.partition, from_offset=end, to_offset=new_offset,
            )  # fmt: skip
        return result

    def _around_log_start(self, original: Any, log: Log, offset: int) -> Any:
        before = log.log_start_offset
        result = original(log, offset)
        chain = self.chain_of(log)
        if chain is not None:
            chain.log_start = log.log_start_offset
            key = chain.partition, chain.topic_id
            self._deleted[key] = max(chain.log_start, self._deleted.get(key, 0))
            self.world.check("R11")
            if not before <= log.log_start_offset <= max(log.high_watermark, before) <= log.log_end_offset:
                self.world.violated(
                    "R11", f"{chain.partition} on {chain.node}: start {before} to {log.log_start_offset}, "
                    f"high watermark {log.high_watermark}, end {log.log_end_offset}", chain.partition, chain.node,
                )  # fmt: skip
        return result

    # At the end

    def judge(self) -> None:
        """R1, R2, R13: all replicas of a partition hold the same, now that they are in sync."""
        world = self.world
        by_partition: dict[str, list[tuple[Log, Chain]]] = {}
        for log, chain in self.chains.items():
            if chain.node in world.brokers and self.of.get((chain.node, chain.partition)) is log:
                by_partition.setdefault(chain.partition, []).append((log, chain))
        for partition, copies in sorted(by_partition.items()):
            state = world.state(partition)
            if state is None:
                continue
            members = [broker_name(member) for member in state["isr"]]
            inside = [(log, chain) for log, chain in copies if chain.node in members]
            # A copy that began anew where its leader's records are all deleted has no batch that could differ.
            ends = {log.log_end_offset: chain.links[-1].hash for log, chain in inside if chain.links}
            world.check("R1")
            for log, chain in inside:
                self.restarts.epochs_match(log, chain)
                if chain.links and log.log_end_offset in ends and ends[log.log_end_offset] != chain.links[-1].hash:
                    world.violated("R1", f"replicas of {partition} differ at their end", partition, chain.node)

    def stand(self) -> None:
        """R11, for every replica, now."""
        of = self.of.values()
        wrong = [log for log in of if not log.log_start_offset <= log.high_watermark <= log.log_end_offset]
        self.world.check("R11", len(of) - len(wrong))
        for log in wrong:
            self._offsets_in_order(log, self.chains[log])

    def _offsets_in_order(self, log: Log, chain: Chain) -> None:
        self.world.check("R11")
        if not log.log_start_offset <= log.high_watermark <= log.log_end_offset:
            self.world.violated(
                "R11", f"{chain.partition} on {chain.node}: start {log.log_start_offset}, high watermark "
                f"{log.high_watermark}, end {log.log_end_offset}", chain.partition, chain.node,
            )  # fmt: skip
