"""Watches every replica's log, and knows what it ought to hold.

For each log there is a `Chain`: its batches with a hash over all that came before, so that "the same prefix" is one
comparison (R1). What a leader's high watermark has passed is committed: by partition, the hash at each such offset.
From the two follow log matching, leader completeness and durability, each judged at the moment it could first break.

R7's premise is exact. A copy is *wiped* when a disk lost something of it, until it holds all that is committed again.
When every member of the ISR is wiped, or a wiped copy leads, or a leader was elected unclean, then what is committed
may be lost: the partition is excused from that moment on, and what was committed before is forgotten.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

from barnabas.log.log import Log
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.leadership import CommittedIsr, PendingExpandIsr
from barnabas.replica.partition import FetchIsolation, Partition
from barnabas.sim.node import EPOCH_MS
from barnabas.sim.probes import Probes, life, node
from barnabas.sim.trace import Happening
from barnabas.sim.world import DATA, World, broker_name, broker_number
from barnabas.wire.records import batches, check_crc

_SEQUENCES: Final = 1 << 31
OFFSETS_TOPIC: Final = "__consumer_offsets"


class Link(NamedTuple):
    """One batch of a log, and the hash of the log up to its end."""

    base: int
    last: int
    epoch: int
    crc: int
    hash: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    timestamp_ms: int
    """The largest timestamp, as milliseconds of the run."""


@dataclass
class Chain:
    """What one replica's log holds. `ends` are the offsets after each batch."""

    node: str
    life: int
    partition: str
    topic_id: str
    links: list[Link] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    log_start: int = 0
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By producer id: its epoch and its last sequence."""

    def hash_at(self, end: int) -> int | None:
        """The hash of all before `end`; None where no batch ends there."""
        index = bisect_left(self.ends, end)
        return self.links[index].hash if index < len(self.ends) and self.ends[index] == end else None

    @property
    def end(self) -> int:
        return self.ends[-1] if self.ends else 0

    def cut(self, offset: int) -> None:
        keep = len(self.links)
        while keep and self.links[keep - 1].last >= offset:
            keep -= 1
        if keep < len(self.links):
            del self.links[keep:]
            del self.ends[keep:]
            # A truncation forgets what producers wrote before the log's start.
            self.producers = {}
            for link in self.links:
                if link.producer_id >= 0 and link.last >= self.log_start:
                    self.producers[link.producer_id] = link.producer_epoch, link.last_sequence


@dataclass
class Committed:
    """What is committed of one partition: the hash at every high watermark a leader had."""

    at: dict[int, int] = field(default_factory=dict)
    high: int = 0


class LogWatch:
    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        self.chains: dict[Log, Chain] = {}
        self.of: dict[tuple[str, str], Log] = {}
        """The log of a node and partition."""
        self.committed: dict[tuple[str, str], Committed] = {}
        """By partition and topic id."""
        self.excused: dict[str, int] = {}
        """By partition: since when what was committed may be gone."""
        self.wiped: dict[tuple[str, str], None] = {}
        """Node and partition whose copy lost something."""
        self.unclean: dict[str, bool] = {}
        """By topic: whether leaders may be elected from outside the ISR."""
        self.told_latest: dict[str, int] = {}
        self.failed_dirs: dict[tuple[str, int, str], int] = {}
        self._known: dict[tuple[str, str, int, int], int] = {}
        """By partition, topic id, base offset and epoch: the one hash a log has that holds this batch."""
        self._beginnings: dict[tuple[str, str, int, int], None] = {}
        """Those of `_known` that were first seen where a log began."""
        self._appender: dict[tuple[str, str, int], str] = {}
        self._leader_high: dict[tuple[str, int, str, str, int], int] = {}
        self._before_loss: dict[tuple[str, str], tuple[str, list[Link], int]] = {}
        self._dead: dict[tuple[str, str], tuple[str, list[Link], str]] = {}
        """What a log held when its process ended: topic id, batches, how it ended."""
        self._damaged: dict[tuple[str, str], None] = {}
        """Logs of dead processes that lost something since."""
        self._trouble: dict[str, int] = {}
        """By node: how many errors its disk had given when it last served."""
        self._last_errors: dict[str, int] = {}
        self._synced: dict[tuple[str, str], int] = {}
        """How many batches were certainly on the platter when power was lost."""
        probes.after(Log, "open", self._opened)
        probes.around(Log, "append_as_leader", self._around_append_as_leader)
        probes.around(Log, "append_as_follower", self._around_append_as_follower)
        probes.around(Log, "update_high_watermark", self._around_update_high_watermark)
        probes.around(Log, "truncate_to", self._around_truncate)
        probes.around(Log, "truncate_fully_and_start_at", self._around_truncate_fully)
        probes.around(Log, "maybe_increment_log_start_offset", self._around_log_start)
        probes.around(Log, "delete_old_segments", self._around_delete_old_segments)
        probes.after(Log, "rename_directory", self._renamed)
        probes.around(Partition, "make_leader", self._around_make_leader)
        probes.after(Partition, "make_follower", self._made_follower)
        probes.around(Partition, "append_as_leader", self._around_partition_append)
        probes.after(Partition, "maybe_increment_high_watermark", self._high_watermark_raised)
        probes.after(Partition, "read", self._read)
        probes.after(Partition, "offset_for_timestamp", self._listed)
        probes.after(Partition, "_propose", self._proposed)

    # Excuses

    def is_excused(self, partition: str) -> bool:
        return partition in self.excused

    def excuse(self, partition: str, why: str) -> None:
        """What is committed of the partition may be lost from now on."""
        world = self.world
        self.excused[partition] = world.loop.now_ns
        for key in [each for each in self.committed if each[0] == partition]:
            del self.committed[key]
        self.told_latest.pop(partition, None)
        for wiped in [each for each in self.wiped if each[1] == partition]:
            del self.wiped[wiped]
        world.note(f"{partition}: {why}; what is committed may be lost")

    def premise(self, partition: str, isr: list[int], leader: int) -> None:
        """R7's premise, whenever an ISR or a copy changes: some member of the ISR keeps what is committed."""
        if not isr or not self.wiped:
            return
        members = [broker_name(each) for each in isr]
        if all(self.is_wiped(each, partition) for each in members):
            self.excuse(partition, f"every member of the ISR {isr} lost what was not synced")
        elif (
            leader >= 0
            and self.is_wiped(broker_name(leader), partition)
            and self.world.nodes[broker_name(leader)].alive
        ):
            self.excuse(partition, f"leader {leader} lost what was not synced")

    def is_wiped(self, name: str, partition: str) -> bool:
        if (name, partition) not in self.wiped:
            return False
        log = self.of.get((name, partition))
        chain = None if log is None else self.chains.get(log)
        if chain is not None and name in self.world.brokers and self._holds_committed(chain):
            del self.wiped[name, partition]
            return False
        return True

    def _holds_committed(self, chain: Chain) -> bool:
        committed = self.committed.get((chain.partition, chain.topic_id))
        if committed is None or not committed.high:
            return True
        if chain.log_start >= committed.high:
            return True
        return chain.hash_at(committed.high) == committed.at.get(committed.high)

    # Logs come and go

    def _chain(self, log: Log) -> Chain | None:
        chain = self.chains.get(log)
        if chain is not None and not chain.topic_id and log.topic_id is not None:
            chain.topic_id = str(log.topic_id)
        return chain

    def _opened(self, log: Log, *_: object, **named: object) -> None:
        name = node()
        if name not in self.world.nodes or "twin" in name:
            return
        partition = str(log.topic_partition)
        chain = Chain(name, life(), partition, "" if log.topic_id is None else str(log.topic_id))
        chain.log_start = log.log_start_offset
        for segment in log.segments:
            for batch in segment.batches():
                data = memoryview(segment.read_batch(batch))
                self._add(chain, data)
                self._sequence(chain, chain.links[-1], judged=False)
        self.chains[log] = chain
        self.of[name, partition] = log
        self._restarted(log, chain)

    def _restarted(self, log: Log, chain: Chain) -> None:
        """R15: after a restart the log is a prefix of what was written, and has all that was synced."""
        world, key = self.world, (chain.node, chain.partition)
        dead = self._dead.pop(key, None)
        synced = self._synced.pop(key, 0)
        damaged = key in self._damaged
        self._damaged.pop(key, None)
        if self._was_in_trouble(chain.node):
            return  # an operation that failed half-way may have been undone, or not
        if dead is None or (chain.topic_id and dead[0] and dead[0] != chain.topic_id):
            return
        world.check("R15")
        before, how = [each for each in dead[1] if each.last >= chain.log_start], dead[2]
        after = [each for each in chain.links if each.last >= chain.log_start]
        same = [(each.base, each.last, each.epoch, each.crc) for each in after]
        was = [(each.base, each.last, each.epoch, each.crc) for each in before]
        if same != was[: len(same)]:
            at = next((i for i, pair in enumerate(zip(same, was, strict=False)) if pair[0] != pair[1]), len(was))
            world.violated(
                "R15", f"after {how}, {chain.partition} on {chain.node} holds {same[at : at + 1]}, no prefix of "
                f"what was written: {was[at : at + 1]}", chain.partition, chain.node,
            )  # fmt: skip
        elif len(same) < len(was):
            if not damaged:
                world.violated(
                    "R15", f"after {how}, {chain.partition} on {chain.node} ends at {log.log_end_offset}, "
                    f"before {was[-1][1] + 1}", chain.partition, chain.node,
                )  # fmt: skip
            elif dead[1][:synced] and after and after[-1].last < dead[1][synced - 1].last:
                world.violated(
                    "R15", f"after {how}, {chain.partition} on {chain.node} ends at {log.log_end_offset}; up to "
                    f"{dead[1][synced - 1].last + 1} was synced", chain.partition, chain.node,
                )  # fmt: skip
        self.epochs_match(log, chain)

    def _was_in_trouble(self, name: str) -> bool:
        """Whether the node's disk gave errors since its logs were last read from a disk that works."""
        node = self.world.nodes[name]
        errors = node.disk.struck + node.volume.refused_writes
        before = self._trouble.setdefault(name, 0)
        self._last_errors[name] = errors
        return errors != before

    def epochs_match(self, log: Log, chain: Chain) -> None:
        """R13: the epoch cache rises strictly, and says of each batch what the batch says."""
        world = self.world
        world.check("R13")
        entries = log.leader_epochs.entries
        for one, other in pairwise(entries):
            if not (one.epoch < other.epoch and one.start_offset <= other.start_offset):
                world.violated(
                    "R13", f"{chain.partition} on {chain.node}: epochs {entries}", chain.partition, chain.node
                )
                return
        index = 0
        for link in chain.links:
            if link.last < log.log_start_offset:
                continue
            while index + 1 < len(entries) and entries[index + 1].start_offset <= link.base:
                index += 1
            if not entries or (entries[index].start_offset <= link.base and entries[index].epoch != link.epoch):
                world.violated(
                    "R13", f"{chain.partition} on {chain.node}: the batch at {link.base} is of epoch {link.epoch}, "
                    f"the cache has {list(entries)}", chain.partition, chain.node,
                )  # fmt: skip
                return

    def serves(self, name: str) -> None:
        """The broker is up: its logs are read."""
        self._trouble[name] = self._last_errors.get(name, 0)

    def process_ended(self, name: str, how: str) -> None:
        for (each, partition), log in list(self.of.items()):
            if each == name:
                chain = self.chains.pop(log, None)
                del self.of[each, partition]
                if chain is not None:
                    self._dead[name, partition] = chain.topic_id, chain.links, how

    def power_going(self, name: str) -> None:
        """Remembers what is on the platter for certain."""
        volume = self.world.nodes[name].volume
        for (each, partition), (_, links, _) in self._dead.items():
            if each != name or not links:
                continue
            prefix = self._directory(name, partition)
            if prefix is None:
                continue
            durable = volume.durable_files(prefix + "/")
            self._synced[name, partition] = _whole_batches(durable, links)
            self._before_loss[name, partition] = prefix, links, _bytes_in(volume.names, prefix)

    def power_gone(self, name: str) -> None:
        """A copy is wiped when not every byte of it came through."""
        volume = self.world.nodes[name].volume
        for key, (prefix, links, before) in list(self._before_loss.items()):
            if key[0] != name:
                continue
            del self._before_loss[key]
            if _bytes_in(volume.names, prefix) != before and links:
                self.wiped[key] = self._damaged[key] = None
                durable = volume.durable_files(prefix + "/")
                self._synced[key] = min(self._synced.get(key, 0), _whole_batches(durable, links))
                state = self.world.state(key[1])
                if state is not None:
                    self.premise(key[1], state["isr"], -1)

    def _directory(self, name: str, partition: str) -> str | None:
        for directory in (f"{DATA}/a", f"{DATA}/b"):
            path = f"{directory}/{partition}"
            if path in self.world.nodes[name].volume.directories:
                return path
        return None

    def disk_failed(self, name: str, operation: str, path: str) -> None:
        """R16 begins: from the first failed write or sync on, nothing is appended in that directory."""
        if operation in ("write", "fsync") and path.count("/") >= 3:
            directory = "/".join(path.split("/")[:3])
            process = self.world.nodes[name].process
            if process is not None:
                self.failed_dirs.setdefault((name, process.number, directory), self.world.loop.now_ns)

    def _renamed(self, _: object, log: Log, *__: object) -> None:
        """The log is being deleted."""
        chain = self.chains.pop(log, None)
        if chain is not None:
            self.of.pop((chain.node, chain.partition), None)
            self.wiped.pop((chain.node, chain.partition), None)

    # Appending

    def _add(self, chain: Chain, data: memoryview) -> None:
        """Takes the batches of `data` in; R1, R11 and C5 are judged here."""
        world = self.world
        for header, _, _ in batches(data):
            links = chain.links
            before = links[-1].hash if links else 0
            last = header.last_offset
            value = hash((before, header.base_offset, last, header.partition_leader_epoch, header.crc))
            key = chain.partition, chain.topic_id, header.base_offset, header.partition_leader_epoch
            known = self._known.get(key)
            world.check("R1")
            world.check("R11")
            world.check("C5")
            begins = not links or links[-1].last < chain.log_start
            if known is None:
                self._known[key] = value
                if begins:
                    self._beginnings[key] = None
            elif begins or key in self._beginnings:
                value = known  # one of the two logs begins here: what was before is not there to be compared
            elif known != value and chain.partition in self.excused:
                # A leader that lost power resumed in its epoch, and wrote other records in it: Kafka's ZooKeeper mode
                # has nothing against that, and its followers cannot tell.
                world.excuse("R1", f"{chain.partition} on {chain.node} differs at {header.base_offset}")
                self._known[key] = value
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
            if links and header.partition_leader_epoch < links[-1].epoch:
                world.violated(
                    "C5", f"{chain.partition} on {chain.node}: epoch {header.partition_leader_epoch} after "
                    f"{links[-1].epoch}", chain.partition, chain.node,
                )  # fmt: skip
            sequence = header.base_sequence
            last_sequence = (sequence + header.last_offset_delta) % _SEQUENCES if sequence >= 0 else -1
            links.append(
                Link(
                    header.base_offset, last, header.partition_leader_epoch, header.crc, value, header.producer_id,
                    header.producer_epoch, sequence, last_sequence, header.max_timestamp - EPOCH_MS,
                )
            )  # fmt: skip
            chain.ends.append(last + 1)

    def _around_append_as_leader(self, original: Any) -> Any:
        def append_as_leader(log: Log, records: Any, leader_epoch: int, **named: Any) -> Any:
            end = log.log_end_offset
            info = original(log, records, leader_epoch, **named)
            chain = self._chain(log)
            if chain is None or info.duplicate or log.log_end_offset == end:
                return info
            view = memoryview(records)
            if len(view) < 61 or view[16] != 2 or int.from_bytes(view[:8], "big") != info.first_offset:
                view = memoryview(log.active_segment.file.pread(info.size, log.active_segment.size - info.size))
            self._appended(log, chain, view, leader_epoch)
            return info

        return append_as_leader

    def _appended(self, log: Log, chain: Chain, view: memoryview, leader_epoch: int) -> None:
        world = self.world
        self._add(chain, view)
        link = chain.links[-1]
        world.check("C6")
        key = chain.partition, chain.topic_id, leader_epoch
        owner = self._appender.setdefault(key, chain.node)
        if owner != chain.node:
            world.violated(
                "C6", f"{chain.node} and {owner} both appended to {chain.partition} in epoch {leader_epoch}",
                chain.partition, chain.node,
            )  # fmt: skip
        self._sequence(chain, link, judged=True)
        self._dir_works(log, chain)

    def _sequence(self, chain: Chain, link: Link, *, judged: bool) -> None:
        """T1 and T2: a producer's sequences are contiguous, and an older epoch of it writes nothing."""
        if link.producer_id < 0 or link.base_sequence < 0:
            return
        known = chain.producers.get(link.producer_id)
        chain.producers[link.producer_id] = link.producer_epoch, link.last_sequence
        if not judged or known is None:
            return
        world = self.world
        world.check("T1")
        world.check("T2")
        epoch, last = known
        if link.producer_epoch < epoch:
            world.violated(
                "T2", f"producer {link.producer_id} of epoch {link.producer_epoch} wrote to {chain.partition} after "
                f"epoch {epoch}", chain.partition, chain.node,
            )  # fmt: skip
        elif link.producer_epoch == epoch and link.base_sequence != (last + 1) % _SEQUENCES:
            world.violated(
                "T1", f"producer {link.producer_id} wrote sequence {link.base_sequence} to {chain.partition} after "
                f"{last}", chain.partition, chain.node,
            )  # fmt: skip

    def _dir_works(self, log: Log, chain: Chain) -> None:
        self.world.check("R16")
        failed_ns = self.failed_dirs.get((chain.node, chain.life, log.log_dir.path))
        if failed_ns is not None:
            self.world.violated(
                "R16", f"{chain.node} appended to {chain.partition} in {log.log_dir.path}, which failed at "
                f"{failed_ns / 1e9:.3f} s", chain.partition, chain.node,
            )  # fmt: skip

    def _around_append_as_follower(self, original: Any) -> Any:
        def append_as_follower(log: Log, records: Any, **named: Any) -> Any:
            end = log.log_end_offset
            info = original(log, records, **named)
            chain = self._chain(log)
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
                    self._sequence(chain, link, judged=False)
                self._dir_works(log, chain)
            return info

        return append_as_follower

    def _around_partition_append(self, original: Any) -> Any:
        def append_as_leader(partition: Partition, *arguments: Any, **named: Any) -> Any:
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

        return append_as_leader

    # Truncating, deleting

    def _around_truncate(self, original: Any) -> Any:
        def truncate_to(log: Log, target_offset: int, **named: Any) -> Any:
            end = log.log_end_offset
            result = original(log, target_offset, **named)
            self._truncated(log, target_offset, end)
            return result

        return truncate_to

    def _truncated(self, log: Log, offset: int, end: int) -> None:
        chain = self._chain(log)
        if chain is not None and offset < end:
            self._nothing_committed_is_cut(chain, offset)
            chain.log_start = log.log_start_offset
            chain.cut(offset)
            self.world.trace.tell(
                chain.node, Happening.TRUNCATED, f"cuts {chain.partition} from {end} to {offset}",
                partition=chain.partition, from_offset=end, to_offset=offset,
            )  # fmt: skip

    def _nothing_committed_is_cut(self, chain: Chain, offset: int) -> None:
        """R4: a member of the ISR keeps what was committed, whatever its leader says."""
        committed = self.committed.get((chain.partition, chain.topic_id))
        state = self.world.state(chain.partition)
        if committed is None or state is None or broker_number(chain.node) not in state["isr"]:
            return
        lossy = chain.partition in self.excused or self.is_wiped(chain.node, chain.partition)
        if lossy or self.may_be_unclean(chain.partition):
            return
        self.world.check("R4")
        if offset < committed.high:
            self.world.violated(
                "R4", f"{chain.node} is in the ISR {state['isr']} of {chain.partition} and cuts it at {offset}; "
                f"what lies below {committed.high} is committed", chain.partition, chain.node,
            )  # fmt: skip

    def _around_truncate_fully(self, original: Any) -> Any:
        def truncate_fully_and_start_at(log: Log, new_offset: int, **named: Any) -> Any:
            end = log.log_end_offset
            result = original(log, new_offset, **named)
            chain = self._chain(log)
            if chain is not None:
                chain.cut(-1)
                chain.log_start = new_offset
                self.world.trace.tell(
                    chain.node, Happening.TRUNCATED, f"begins {chain.partition} anew at {new_offset}",
                    partition=chain.partition, from_offset=end, to_offset=new_offset,
                )  # fmt: skip
            return result

        return truncate_fully_and_start_at

    def _around_log_start(self, original: Any) -> Any:
        def maybe_increment_log_start_offset(log: Log, offset: int) -> Any:
            before = log.log_start_offset
            result = original(log, offset)
            chain = self._chain(log)
            if chain is not None:
                chain.log_start = log.log_start_offset
                self.world.check("R11")
                if not before <= log.log_start_offset <= max(log.high_watermark, before) <= log.log_end_offset:
                    self.world.violated(
                        "R11", f"{chain.partition} on {chain.node}: start {before} to {log.log_start_offset}, "
                        f"high watermark {log.high_watermark}, end {log.log_end_offset}", chain.partition, chain.node,
                    )  # fmt: skip
            return result

        return maybe_increment_log_start_offset

    def _around_delete_old_segments(self, original: Any) -> Any:
        def delete_old_segments(log: Log, *, now_ms: int) -> Any:
            before = log.log_start_offset
            deleted = original(log, now_ms=now_ms)
            chain = self._chain(log)
            if chain is not None and log.log_start_offset > before:
                self._retained(log, chain, before)
            return deleted

        return delete_old_segments

    def _retained(self, log: Log, chain: Chain, before: int) -> None:
        """R17: only what is old enough, by a clock that may be wrong, and never above the high watermark."""
        world, settings = self.world, log.settings
        world.check("R17")
        if log.log_start_offset > log.high_watermark:
            world.violated(
                "R17", f"{chain.node} deleted {chain.partition} to {log.log_start_offset}, above the high watermark "
                f"{log.high_watermark}", chain.partition, chain.node,
            )  # fmt: skip
        if settings.retention_bytes >= 0 or settings.retention_ms < 0 or world.clocks_touched:
            return
        for link in chain.links:
            if before <= link.base and link.last < log.log_start_offset:
                age_ms = world.loop.now_ns // 1_000_000 - link.timestamp_ms
                if age_ms + _CLIENTS_AHEAD_MS < settings.retention_ms:
                    world.violated(
                        "R17", f"{chain.node} deleted {link.base} of {chain.partition} after {age_ms} ms; retention.ms "
                        f"{settings.retention_ms}", chain.partition, chain.node,
                    )  # fmt: skip
                    return

    # The high watermark

    def _around_update_high_watermark(self, original: Any) -> Any:
        def update_high_watermark(log: Log, high_watermark: int) -> Any:
            before = log.high_watermark
            result = original(log, high_watermark)
            chain = self._chain(log)
            if chain is not None and log.high_watermark != before:
                self._moved(log, chain, before)
            return result

        return update_high_watermark

    def _moved(self, log: Log, chain: Chain, before: int) -> None:
        world, high = self.world, log.high_watermark
        world.check("R5")
        if high > log.log_end_offset:
            world.violated(
                "R5", f"{chain.partition} on {chain.node}: high watermark {high} beyond the end {log.log_end_offset}",
                chain.partition, chain.node,
            )  # fmt: skip
        committed = self.committed.get((chain.partition, chain.topic_id))
        if committed is not None and high > before and high in committed.at:
            world.check("R2")
            mine = chain.hash_at(high)
            lossy = chain.partition in self.excused or self.is_wiped(chain.node, chain.partition)
            if mine is not None and mine != committed.at[high] and not lossy:
                world.violated(
                    "R2", f"{chain.partition} on {chain.node} differs from what was committed below {high}",
                    chain.partition, chain.node,
                )  # fmt: skip

    def _high_watermark_raised(self, raised: bool, partition: Partition, now_ms: int) -> None:
        """A leader's high watermark rose: R4, R5, R6, and what lies below it is committed."""
        log = partition.log
        if not raised or log is None:
            return
        chain = self._chain(log)
        if chain is None:
            return
        world, high, name = self.world, log.high_watermark, chain.partition
        world.check("R6")
        state = partition.isr_state
        if len(state.isr) < partition.effective_min_isr and partition.progress:
            world.violated(
                "R6", f"{chain.node} raised the high watermark of {name} to {high} with the ISR {sorted(state.isr)}, "
                f"fewer than {partition.effective_min_isr}", name, chain.node,
            )  # fmt: skip
        for member in sorted(state.maximal_isr):
            progress = partition.progress.get(member)
            if progress is not None and progress.log_end_offset < high:
                world.violated(
                    "R6", f"{chain.node} raised the high watermark of {name} to {high}, and {member} is at "
                    f"{progress.log_end_offset}", name, chain.node,
                )  # fmt: skip
        key = chain.node, chain.life, name, chain.topic_id, partition.leader_epoch
        world.check("R5")
        if self._leader_high.get(key, 0) > high:
            world.violated(
                "R5", f"the high watermark of {name} on leader {chain.node} fell to {high} in epoch "
                f"{partition.leader_epoch}", name, chain.node,
            )  # fmt: skip
        self._leader_high[key] = high
        self._commit(chain, high)
        self._on_every_member(chain, high, partition.assigned_replicas)

    def _commit(self, chain: Chain, high: int) -> None:
        committed = self.committed.setdefault((chain.partition, chain.topic_id), Committed())
        value = chain.hash_at(high)
        if value is None:
            return
        self.world.check("R3")
        if committed.at.get(high, value) != value and chain.partition not in self.excused:
            self.world.violated(
                "R3", f"{chain.node} commits another {chain.partition} below {high} than was committed before",
                chain.partition, chain.node,
            )  # fmt: skip
        committed.at[high] = value
        committed.high = max(committed.high, high)

    def _on_every_member(self, chain: Chain, high: int, assigned: tuple[int, ...]) -> None:
        """R4: what is below a leader's high watermark is on every member of the ISR in ZooKeeper that runs."""
        world = self.world
        state = world.state(chain.partition)
        if state is None or self.may_be_unclean(chain.partition):
            return
        world.check("R4")
        for member in state["isr"]:
            name = broker_name(member)
            if member not in assigned:
                continue  # between the two rounds of a reassignment: it leaves the ISR next (KAFKA-9672)
            log = self.of.get((name, chain.partition))
            if log is None or name not in world.brokers or self.is_wiped(name, chain.partition):
                continue
            other = self._chain(log)
            if other is not None and other.topic_id == chain.topic_id and log.log_end_offset < high:
                world.violated(
                    "R4", f"{name} is in the ISR {state['isr']} of {chain.partition} and ends at {log.log_end_offset}; "
                    f"{chain.node} leads with the high watermark {high}", chain.partition, chain.node,
                )  # fmt: skip

    def may_be_unclean(self, partition: str) -> bool:
        return self.unclean.get(partition.rpartition("-")[0], False)

    # Leading and following

    def _around_make_leader(self, original: Any) -> Any:
        def make_leader(partition: Partition, state: Any, *arguments: Any) -> Any:
            before = partition.leader_epoch, partition.leader_id
            result = original(partition, state, *arguments)
            self._role(partition, state, before, leads=True)
            return result

        return make_leader

    def _made_follower(self, _: object, partition: Partition, state: Any, *__: object) -> None:
        log = partition.log
        chain = None if log is None else self._chain(log)
        if log is None or chain is None:
            return
        self.world.check("C5")

    def _role(self, partition: Partition, state: Any, before: tuple[int, int], *, leads: bool) -> None:
        log = partition.log
        chain = None if log is None else self._chain(log)
        if log is None or chain is None:
            return
        world, name = self.world, chain.partition
        world.check("C5")
        if state.leader_epoch < before[0]:
            world.violated("C5", f"{chain.node} went from epoch {before[0]} to {state.leader_epoch}", name, chain.node)
        if state.leader_epoch == before[0] and before[1] == broker_number(chain.node):
            return
        self._leader_complete(log, chain, state)

    def _leader_complete(self, log: Log, chain: Chain, state: Any) -> None:
        """R3: who leads by a clean election holds all that is committed."""
        world, name = self.world, chain.partition
        now = world.state(name)
        if now is None or now["leader_epoch"] != state.leader_epoch or now["leader"] != broker_number(chain.node):
            return  # a decision that another has overtaken
        self.premise(name, now["isr"], now["leader"])
        committed = self.committed.get((name, chain.topic_id))
        if committed is None or not committed.high or self.may_be_unclean(name):
            return
        world.check("R3")
        if chain.log_start < committed.high and chain.hash_at(committed.high) != committed.at[committed.high]:
            # Copies of an excused partition may differ below what was committed since: a leader that lost power wrote
            # other records in its own epoch (R1), and no later truncation mends that.
            judged = world.excuse if name in self.excused else world.violated
            judged(
                "R3", f"{chain.node} leads {name} in epoch {state.leader_epoch} up to {log.log_end_offset}, and "
                f"lacks some of what is committed up to {committed.high}", name, chain.node,
            )  # fmt: skip

    def _proposed(self, _: object, partition: Partition, pending: Any, isr: frozenset[int]) -> None:
        """R12: a follower is proposed only when it has reached the high watermark and this leader's epoch."""
        log = partition.log
        if log is None or not isinstance(pending, PendingExpandIsr) or not isinstance(pending.committed, CommittedIsr):
            return
        self.world.check("R12")
        start = partition.leader_epoch_start_offset or 0
        for member in sorted(isr - pending.committed.isr):
            end = partition.progress[member].log_end_offset
            if end < start or end < log.high_watermark:
                self.world.violated(
                    "R12", f"{node()} proposes {member} for the ISR of {partition.topic_partition} at {end}; its epoch "
                    f"began at {start}, the high watermark is {log.high_watermark}",
                    str(partition.topic_partition), node(),
                )  # fmt: skip

    # Reading

    def _read(
        self, result: Any, partition: Partition, fetch_offset: int, *_: object,
        current_leader_epoch: int = -1, isolation: FetchIsolation = FetchIsolation.LOG_END, **named: object,
    ) -> None:  # fmt: skip
        """R9 and R14: consumers get what is committed; who names an epoch gets nothing of another."""
        world = self.world
        world.check("R14")
        if current_leader_epoch not in (-1, partition.leader_epoch):
            world.violated(
                "R14", f"{node()} served {partition.topic_partition} of epoch {partition.leader_epoch} to a reader of "
                f"epoch {current_leader_epoch}", str(partition.topic_partition), node(),
            )  # fmt: skip
        world.check("R9")
        if not result.last_stable_offset <= result.high_watermark <= result.log_end_offset:
            world.violated(
                "R9", f"{node()}: last stable offset {result.last_stable_offset}, high watermark "
                f"{result.high_watermark}, end {result.log_end_offset} of {partition.topic_partition}",
                str(partition.topic_partition), node(),
            )  # fmt: skip
        if isolation is FetchIsolation.LOG_END or not len(result.records):
            return
        bound = result.high_watermark if isolation is FetchIsolation.HIGH_WATERMARK else result.last_stable_offset
        data, at = memoryview(result.records), 0
        while at + 61 <= len(data):
            base = int.from_bytes(data[at : at + 8], "big")
            if base >= bound:
                world.violated(
                    "R9", f"{node()} gave a consumer {base} of {partition.topic_partition}, the bound is {bound}",
                    str(partition.topic_partition), node(),
                )  # fmt: skip
                return
            at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")

    def _listed(
        self, result: Any, partition: Partition, timestamp: int, isolation: Any, *_: object, **named: object
    ) -> None:
        """R5: what clients are told of the end never goes back (KIP-207)."""
        if timestamp != -1 or isolation is not FetchIsolation.HIGH_WATERMARK:
            return
        log = partition.log
        chain = None if log is None else self._chain(log)
        if chain is None or self.may_be_unclean(chain.partition):
            return
        state = self.world.state(chain.partition)
        if state is None or state["leader"] != broker_number(chain.node):
            return  # a leader that was, and has not heard of it
        key = f"{chain.partition}/{chain.topic_id}"
        self.world.check("R5")
        if result[1] < self.told_latest.get(key, 0) and chain.partition not in self.excused:
            self.world.violated(
                "R5", f"{chain.node} told {result[1]} as the end of {chain.partition}, after "
                f"{self.told_latest[key]}", chain.partition, chain.node,
            )  # fmt: skip
        self.told_latest[key] = max(result[1], self.told_latest.get(key, 0))

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
            members = [broker_name(each) for each in state["isr"]]
            inside = [(log, chain) for log, chain in copies if chain.node in members]
            ends = {log.log_end_offset: chain.links[-1].hash if chain.links else 0 for log, chain in inside}
            world.check("R1")
            for log, chain in inside:
                self.epochs_match(log, chain)
                if chain.links and log.log_end_offset in ends and ends[log.log_end_offset] != chain.links[-1].hash:
                    judged = world.excuse if partition in self.excused else world.violated
                    judged("R1", f"replicas of {partition} differ at their end", partition, chain.node)

    def stand(self) -> None:
        """R11, of every replica, now."""
        for (name, partition), log in self.of.items():
            self.world.check("R11")
            if not log.log_start_offset <= log.high_watermark <= log.log_end_offset:
                self.world.violated(
                    "R11", f"{partition} on {name}: start {log.log_start_offset}, high watermark {log.high_watermark}, "
                    f"end {log.log_end_offset}", partition, name,
                )  # fmt: skip


def _bytes_in(names: dict[str, Any], prefix: str) -> int:
    """A hash of a log's segment files."""
    found = [
        (path, hash(bytes(names[path].cached)))
        for path in sorted(names)
        if path.startswith(prefix + "/") and path.endswith(".log") and len(names[path].cached)
    ]
    return hash(tuple((len(path), value) for path, value in found)) if found else 0


def _whole_batches(durable: dict[str, bytes], links: list[Link]) -> int:
    """How many of the log's first batches are whole in the durable files."""
    count = 0
    for path in sorted(each for each in durable if each.endswith(".log")):
        data, at = durable[path], 0
        while at + 61 <= len(data) and count < len(links):
            size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            if at + size > len(data) or int.from_bytes(data[at : at + 8], "big") != links[count].base:
                return count
            try:
                check_crc(memoryview(data), at, at + size)
            except ValueError:
                return count
            at += size
            count += 1
    return count


_CLIENTS_AHEAD_MS: Final = 1_000
