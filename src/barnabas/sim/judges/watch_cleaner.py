"""Watches the log cleaner, and knows what it may remove (R18).

A model holds every record that leaders appended. When a cleaned segment is about to replace others, each record that it
lacks is looked up in the model. A record may go when a later one of its key is committed, when its transaction was
aborted, or when it is an expired tombstone. A marker may go when no record of its transaction is left. Nothing at or
beyond the last stable offset may go, nor the last batch of a producer that is still known.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final, NamedTuple

from barnabas.broker import configs as broker_configs
from barnabas.log import cleaner
from barnabas.log.cleaner import log_to_clean
from barnabas.log.log import Log
from barnabas.log.segment import Segment
from barnabas.replica.partition import Partition
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World
from barnabas.wire.records import LOG_APPEND_TIME, Record, batches, records_of

PIECE_BYTES: Final = 4_096


class Written(NamedTuple):
    """A record as its leader appended it. `producer_id` is that of its transaction, -1 outside of one; `commits` is
    what an end marker says, None for data."""

    epoch: int
    key: bytes | None
    value: bytes | None
    producer_id: int
    commits: bool | None


class Settled(NamedTuple):
    """What is known of the records below a last stable offset."""

    counts: dict[int, bool]
    """Whether the record at an offset is committed."""
    newest: dict[bytes | None, int]
    """By key: the offset of the last record that counts."""
    ended: dict[int, list[int]]
    """By offset of a marker: the records of the transaction that it ended."""


class CleanerWatch:
    def __init__(self, world: World, probes: Probes, may_be_lost: Callable[..., bool] = lambda *_: False) -> None:
        self.world = world
        self._may_be_lost = may_be_lost
        """Whether committed records may be lost from a node's copy of a partition."""
        self.written: dict[str, dict[int, Written]] = {}
        """By partition and offset. Of two records at one place it is the later leader's, written or held when it was
        elected: it may have heard nothing of the leader before it, and hold what an earlier leader wrote."""
        self._compacted: dict[str, None] = {}
        """Topics that are, or were once."""
        self._left_alone: dict[Log, None] = {}
        self.taken_at: set[tuple[str, int]] = set()
        """By partition and offset: what the cleaner of any node removed."""
        self._gave_way: dict[tuple[str, int], tuple[int, Written]] = {}
        """By partition and offset of a removed record: the offset of the later record of its key, and that record."""
        self._passed_ms: dict[tuple[str, int], int] = {}
        """When the cleaner of any node first passed a tombstone and kept it."""
        # A pass over a small log pauses as often as outside of the simulator over one thirty times as large.
        probes.instead(cleaner, "PIECE_BYTES", PIECE_BYTES)
        probes.instead(broker_configs, "DEDUPE_BUFFER_MIN_BYTES", 0)
        probes.around(Log, "opening", self._around_opening)
        probes.around(Log, "append_as_leader", self._around_append)
        probes.around(Partition, "make_leader", self._around_make_leader)
        probes.around(Log, "replace_segments", self._around_replace)

    # The model

    def _around_append(self, original: Any, log: Log, records: Any, leader_epoch: int, **named: Any) -> Any:
        info = original(log, records, leader_epoch, **named)
        if not info.duplicate and self._is_followed(log):
            active = log.active_segment
            with self.world.nodes[node()].disk.as_it_is():
                data = active.file.pread(info.size, active.size - info.size)
            self._note(str(log.topic_partition), leader_epoch, data)
        return info

    def _around_make_leader(self, original: Any, partition: Partition, *arguments: Any) -> Any:
        before, log = partition.leader_epoch, partition.log
        # The only one in sync has committed all that it has once it leads.
        committed = 0 if log is None else log.high_watermark
        new_leader = original(partition, *arguments)
        if new_leader or partition.leader_epoch != before:
            log = partition.local_log()
            written = self.written.get(str(log.topic_partition), {})
            with self.world.nodes[node()].disk.as_it_is():
                for segment in log.segments if self._is_followed(log) else ():
                    for batch in segment.batches():
                        # A broker that died amid an append may have done it, and leads on alone with what it has.
                        if batch.last_offset >= committed or batch.last_offset not in written:
                            self._note(str(log.topic_partition), partition.leader_epoch, segment.read_batch(batch))
        return new_leader

    def _is_followed(self, log: Log) -> bool:
        """Whether the topic is or was compacted; the cleaner leaves others alone."""
        topic = log.topic_partition.topic
        if log.settings.compact:
            self._compacted[topic] = None
        return topic.startswith("__") or topic in self._compacted

    def _note(self, partition: str, epoch: int, data: bytes) -> None:
        written = self.written.setdefault(partition, {})
        for header, start, end in batches(data):
            producer_id = header.producer_id if header.is_transactional else -1
            for record in records_of(data, start, end):
                known = written.get(record.offset)
                if known is None or known.epoch <= epoch:
                    commits = record.key == _COMMIT if header.is_control else None
                    written[record.offset] = Written(epoch, record.key, record.value, producer_id, commits)

    def settled(self, log: Log) -> Settled:
        """What is known of the records below the log's last stable offset; some are ended by a marker beyond it."""
        written = self.written.get(str(log.topic_partition), {})
        found = Settled({}, {}, {})
        open_: dict[int, list[int]] = {}
        for offset in sorted(place for place in written if place < log.high_watermark):
            record = written[offset]
            if record.commits is not None:
                found.ended[offset] = open_.pop(record.producer_id, [])
                found.counts.update((ended, record.commits) for ended in found.ended[offset])
            elif record.producer_id >= 0:
                open_.setdefault(record.producer_id, []).append(offset)
            else:
                found.counts[offset] = True
        for offset in sorted(found.counts):
            if offset < log.last_stable_offset and found.counts[offset]:
                found.newest[written[offset].key] = offset
        return found

    # A restart

    def _around_opening(self, original: Any, *arguments: Any, **named: Any) -> Generator[int, None, Log]:
        log: Log = yield from original(*arguments, **named)
        if self._is_followed(log):
            with self.world.nodes[node()].disk.as_it_is():
                self._rises(node(), log)
        return log

    def _rises(self, name: str, log: Log) -> None:
        """R11: segments do not overlap, as they would after a half-finished swap (KAFKA-12520)."""
        last = -1
        self.world.check("R11")
        for segment in log.segments:
            for batch in segment.batches():
                if batch.base_offset <= last:
                    sentence = f"{name}: {log.topic_partition}@{batch.base_offset} comes after {last}"
                    self.world.violated("R11", sentence, str(log.topic_partition), name)
                last = batch.last_offset

    # A swap

    def _around_replace(self, original: Any, log: Log, cleaned: Segment, replaced: list[Segment]) -> None:
        name = node()
        with self.world.nodes[name].disk.as_it_is():
            self._judge_swap(name, log, cleaned, replaced)
        original(log, cleaned, replaced)

    def _judge_swap(self, name: str, log: Log, cleaned: Segment, replaced: list[Segment]) -> None:
        world, partition = self.world, str(log.topic_partition)
        segments, may_be_lost = log.segments, self._may_be_lost(name, partition)
        if all(segment in segments for segment in replaced):
            before, _ = held(replaced)
            after, last_offsets = held([cleaned])
            # Readers of this replica are not given them, even if its copy is none to judge by.
            self.taken_at.update((partition, offset) for offset in before if offset not in after)
        if may_be_lost:
            return
        world.check("R18")
        if any(segment not in segments for segment in replaced):
            world.violated("R18", f"{name} replaces segments of {partition} that are gone", partition, name)
            return
        stable = log.last_stable_offset
        end = segments[segments.index(replaced[-1]) + 1].base_offset
        if end > stable:
            world.violated(
                "R18", f"{name} cleaned {partition} to {end}, and its last stable offset is {stable}", partition, name
            )
        self._is_as_young_as_it_says(name, partition, cleaned)
        for offset, record in after.items():
            if offset not in before or (before[offset].key, before[offset].value) != (record.key, record.value):
                world.violated("R18", f"{name}: {partition}@{offset} became {record}", partition, name)
        settled = self.settled(log)
        for offset in before:
            if offset in after:
                if before[offset].value is None:
                    self._passed_ms.setdefault((partition, offset), world.nodes[name].clock.now_ms())
                continue
            why_not = self._why_not(name, log, offset, settled, before | after, replaced[0], after)
            if why_not:
                world.violated("R18", f"{name} removes {partition}@{offset}: {why_not}", partition, name)
        for entry in log.producers.entries.values():
            lost = entry.batches and entry.last_offset in before and entry.last_offset not in last_offsets
            if lost:
                world.violated(
                    "R18", f"{name} takes the last batch of producer {entry.producer_id} from {partition}, which ends "
                    f"at {entry.last_offset}", partition, name,
                )  # fmt: skip

    def _is_as_young_as_it_says(self, name: str, partition: str, cleaned: Segment) -> None:
        """R18: the timestamp of a cleaned batch is that of its youngest remaining record, because a lookup by time
        relies on it."""
        for batch in cleaned.batches():
            data = memoryview(cleaned.read_batch(batch))
            left = [record.timestamp for record in records_of(data, 0, len(data))]
            if left and not batch.attributes & LOG_APPEND_TIME and batch.max_timestamp != max(left):
                self.world.violated(
                    "R18", f"{name} leaves a batch of {partition} at {batch.base_offset} that is of "
                    f"{batch.max_timestamp}, and its records are of {max(left)} at most", partition, name,
                )  # fmt: skip

    def _why_not(
        self,
        name: str,
        log: Log,
        offset: int,
        settled: Settled,
        known: dict[int, Record],
        first: Segment,
        after: dict[int, Record],
    ) -> str:
        """Why the record may not be removed yet; empty where it may."""
        partition = str(log.topic_partition)
        record = self.written.get(partition, {}).get(offset)
        if record is None:
            return f"nobody wrote {known[offset]}"
        if record.commits is not None:
            earlier, _ = held(segment for segment in log.segments if segment.base_offset < first.base_offset)
            left = [place for place in settled.ended.get(offset, ()) if place in after or place in earlier]
            return f"the marker goes, and of its transaction {left} are there" if left else ""
        if offset not in settled.counts:
            return "it is not stable yet"
        if not settled.counts[offset]:
            return ""
        newest = settled.newest.get(record.key, -1)
        if newest > offset:
            self._gave_way[partition, offset] = newest, self.written[partition][newest]
            return ""
        if record.value is not None:
            return f"it is the last stable one of {record.key!r}"
        passed_ms = self._passed_ms.get((partition, offset))
        if passed_ms is None:
            return "it is a tombstone that no pass has gone by"
        if self.world.clocks_touched:
            return ""  # the pass was by another clock, or this one stood elsewhere then
        age_ms = world_now_ms(self.world, name) - passed_ms
        # The time counts from the beginning of a pass, which may take a while.
        if age_ms < log.settings.delete_retention_ms / 2:
            return f"a tombstone goes after {age_ms} ms"
        return ""

    def look(self) -> None:
        """R18: the cleaner cleans every log whose disk works and whose records have keys."""
        for name, broker in self.world.brokers.items():
            for log in broker.log_dirs.all_logs:
                if log.uncleanable is None or log in self._left_alone:
                    continue
                self._left_alone[log] = None
                disk, volume = self.world.nodes[name].disk, self.world.nodes[name].volume
                if disk.errors or volume.refused_writes or self._may_be_lost(name, str(log.topic_partition)):
                    continue
                sentence = f"{name} leaves {log.topic_partition} alone: {log.uncleanable}"
                self.world.violated("R18", sentence, str(log.topic_partition), name)

    # At the end

    async def comes_to_its_end(self) -> None:
        """L1: in the end the cleaner has nothing left to do."""
        self.world.check("L1")
        await self.world.until(lambda: next(self._due(), None) is None, "the cleaner's end on every broker")

    def _due(self) -> Iterator[Log]:
        for name, broker in self.world.brokers.items():
            now_ms = world_now_ms(self.world, name)
            for log in broker.log_dirs.all_logs:
                if log.settings.compact and log.uncleanable is None and log_to_clean(log, now_ms).is_due:
                    yield log

    def judge(self, name: str, log: Log) -> None:
        """A replica holds what was written: rising offsets, unchanged records, and of each key at least the newest."""
        world, partition = self.world, str(log.topic_partition)
        if self._may_be_lost(name, partition):
            return
        world.check("R18")
        written = self.written.get(partition, {})
        self._rises(name, log)
        found, _ = held(log.segments)
        for offset, record in found.items():
            known = written.get(offset)
            if known is None or (known.key, known.value) != (record.key, record.value):
                judged = world.excuse if self._may_be_lost(name, partition, offset) else world.violated
                judged("R10", f"{name}: {partition}@{offset} is {record}, not {known}", partition, name)
        settled = self.settled(log)
        for key, offset in settled.newest.items():
            if offset >= log.log_start_offset and offset not in found and written[offset].value is not None:
                later, newer = self._gave_way.get((partition, offset), (-1, None))
                lost = newer is not None and (later >= log.high_watermark or written.get(later) is not newer)
                judged = world.excuse if lost else world.violated  # it gave way to a later one, which is lost
                judged("R7", f"{name}: the last value of {key!r} in {partition}@{offset} is gone", partition, name)


def held(segments: Iterable[Segment]) -> tuple[dict[int, Record], dict[int, None]]:
    """Every record by its offset, and the last offsets of all batches, emptied ones too."""
    records: dict[int, Record] = {}
    last_offsets: dict[int, None] = {}
    for segment in segments:
        for batch in segment.batches():
            data = segment.read_batch(batch)
            last_offsets[batch.last_offset] = None
            records.update((record.offset, record) for record in records_of(memoryview(data), 0, len(data)))
    return records, last_offsets


def world_now_ms(world: World, name: str) -> int:
    return world.nodes[name].clock.now_ms()


_COMMIT = b"\0\0\0\1"
"""The key of a commit marker."""
