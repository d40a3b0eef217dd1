"""A consumer: reads assigned partitions by one pipelined fetch a leader, alone or as a member of a classic group.

`poll` returns the fetched records, by partition and in offset order; ``async for`` returns one record after the other.
A position is the next offset to be returned. When partitions are revoked or move during a fetch, its records are used
only as far as they match a partition's position.

Requests to the group's coordinator run in tasks of their own, like fetches (`fetcher`); their answers change a consumer
only within its `poll`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self

from barnabas.client.asking import RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS
from barnabas.client.assignor import Assignor
from barnabas.client.closing import AsyncClosing
from barnabas.client.cluster import ClusterClient
from barnabas.client.fetcher import (
    FETCH_MAX_BYTES,
    FETCH_MAX_WAIT_MS,
    PARTITION_MAX_BYTES,
    ConsumerClosed,
    Fetcher,
    beside,
)
from barnabas.client.group import RANGE, GroupMember, Joined
from barnabas.client.metadata import METADATA_MAX_AGE_MS
from barnabas.client.offsets import EARLIEST, LATEST, READ_UNCOMMITTED, CommittedOffset, committed_offset
from barnabas.client.positions import UNKNOWN, ConsumerRecord, Position
from barnabas.client.transaction_requests import ConsumerGroupMetadata
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime import and_then, within

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_MS: Final = 30_000
"""How long a closing consumer tries to commit, as Kafka's does."""
_ITERATION_MS: Final = 60_000
"""How long ``async for`` waits in one `poll`; the caller does not see the single polls."""
_TURN_MS: Final = 20
"""How long a caller that never waits may keep other tasks of the event loop from running."""
_ALL: Final = 1 << 62
RebalanceCallback = Callable[[list[TopicPartition]], Awaitable[None] | None]
"""Called with partitions within `poll` (and `close`); may be a coroutine function, and may call the consumer."""


class Consumer(Fetcher, AsyncClosing):
    """Call `assign` to choose partitions, or `subscribe` to share topics with a group; then `poll`."""

    def __init__(
        self,
        cluster: ClusterClient,
        *,
        topics: Sequence[str | re.Pattern[str]] = (),
        group: str | None = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
        isolation_level: int = READ_UNCOMMITTED,
        auto_offset_reset: int | None = EARLIEST,
        max_wait_ms: int = FETCH_MAX_WAIT_MS,
        min_bytes: int = 1,
        max_bytes: int = FETCH_MAX_BYTES,
        partition_max_bytes: int = PARTITION_MAX_BYTES,
        check_crcs: bool = True,
        session_timeout_ms: int = 45_000,
        max_poll_interval_ms: int = 300_000,
        heartbeat_interval_ms: int = 3_000,
        assignors: Sequence[str | Assignor] = (RANGE,),
        group_instance_id: str | None = None,
        auto_commit_interval_ms: int | None = None,
        metadata_max_age_ms: int = METADATA_MAX_AGE_MS,
    ) -> None:
        """With `topics` it subscribes to them by itself, or, without a `group`, reads all their partitions.

        `auto_offset_reset` says where to begin without a committed offset, or when that offset is out of range:
        `EARLIEST`, `LATEST`, or None to raise OFFSET_OUT_OF_RANGE. With an `auto_commit_interval_ms` the consumer
        commits its positions that often, and when partitions are taken away; else only `commit` does.
        """
        super().__init__(
            cluster,
            isolation_level=isolation_level,
            auto_offset_reset=auto_offset_reset,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            partition_max_bytes=partition_max_bytes,
            check_crcs=check_crcs,
        )
        self._auto_commit_interval_ms = auto_commit_interval_ms
        self._metadata_max_age_ms = metadata_max_age_ms
        self._heartbeat: asyncio.Task[int] | None = None
        self._joining: asyncio.Task[Joined] | None = None
        self._placing: asyncio.Task[None] | None = None
        self._committing: asyncio.Task[None] | None = None
        self._commit_due_ms = 0
        self._looking: asyncio.Task[None] | None = None
        self._looked_ms = cluster.runtime.clock.monotonic_ms()
        """When the consumer last looked for new topics and partitions."""
        self._looked_at = cluster.metadata
        self._pattern: re.Pattern[str] | None = None
        self._begins_with = list(topics)
        """The topics that the consumer subscribes to by itself, until it has."""
        self._beginning: asyncio.Task[None] | None = None
        self._on_assigned, self._on_revoked, self._on_lost = on_assigned, on_revoked, on_lost or on_revoked
        self._closed = False
        self._gave_way_ms = 0
        self.member = None
        if group is not None:
            self.member = GroupMember(
                cluster,
                group,
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=max_poll_interval_ms,
                heartbeat_interval_ms=heartbeat_interval_ms,
                assignors=assignors,
                group_instance_id=group_instance_id,
            )

    async def close(self) -> None:
        """Commits, if the consumer commits by itself, and leaves the group, if there is one."""
        if self._closed:
            return
        self._closed = True
        self._choose_others()
        for fetch, _ in self._fetches.values():
            fetch.cancel()
        self._fetches.clear()
        await and_then(self._part(), self._leave)

    @property
    def closed(self) -> bool:
        return self._closed

    def _check_open(self) -> None:
        if self._closed:
            raise ConsumerClosed("the consumer is closed")

    async def _leave(self) -> None:
        self._let_go()
        if self.member is not None:
            await self.member.leave()

    # assignment and subscription

    async def assign(
        self, positions: Mapping[TopicPartition, int | CommittedOffset] | Iterable[TopicPartition]
    ) -> None:
        """Reads these partitions from these offsets; `EARLIEST` and `LATEST` are looked up.

        Partitions without offsets begin where the group has committed, else where `auto_offset_reset` says.
        """
        self._check_open()
        self._choose_others()
        given = positions if isinstance(positions, Mapping) else dict.fromkeys(positions)
        placed = {partition: committed_offset(offset) for partition, offset in given.items() if offset is not None}
        await self.unsubscribe()
        placed |= await self._places([partition for partition in given if partition not in placed])
        looked_up = {partition: place.offset for partition, place in placed.items() if place.offset < 0}
        listed = await self._listed(looked_up) if looked_up else {}
        self._positions = {
            partition: Position(listed[partition].offset)
            if partition in listed
            else Position(placed[partition].offset, placed[partition].leader_epoch)
            for partition in given
        }
        self._in_doubt = set(self._positions)

    async def subscribe(
        self,
        topics: str | Sequence[str] | re.Pattern[str],
        *,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Joins the group (from the next `poll` on) for these topics, or all whose whole name fits a pattern.

        `on_revoked` gets partitions before another member does: it can still commit work done for them. `on_lost` (else
        `on_revoked`) gets those that another member may own already; `on_assigned` gets new ones before any record is
        read: it may `seek`.
        """
        self._check_open()
        self._choose_others()
        if self.member is None:
            raise RuntimeError("a subscription needs a group: make the consumer with group=...")
        if not isinstance(topics, re.Pattern) and not topics:
            await self.unsubscribe()
            return
        self._on_assigned, self._on_revoked, self._on_lost = on_assigned, on_revoked, on_lost or on_revoked
        self._pattern = topics if isinstance(topics, re.Pattern) else None
        if isinstance(topics, re.Pattern):
            topics = await self._matching(topics)
        else:
            topics = [topics] if isinstance(topics, str) else list(topics)
        if not self.member.subscribed:  # a subscribed member gives its partitions up when it joins
            await self._part()
            self._let_go()
        self.member.subscribe(topics)

    def _choose_others(self) -> None:
        """Forgets the topics that the consumer was made with: its owner chooses others."""
        if self._beginning is not asyncio.current_task():
            if self._beginning is not None:
                self._beginning.cancel()
            self._beginning, self._begins_with = None, []

    async def _begun(self, timeout_ms: float) -> bool:
        """Whether the consumer has subscribed to the topics that it was made with, or its owner has chosen others."""
        self._beginning = beginning = self._beginning or self._patiently(self._begin)
        if not await within(beginning, max(timeout_ms, 1)):
            return False
        if not beginning.cancelled():
            self._beginning = None
            beginning.result()
        return True

    async def _begin(self) -> None:
        patterns = [topic for topic in self._begins_with if isinstance(topic, re.Pattern)]
        names = [topic for topic in self._begins_with if isinstance(topic, str)]
        if patterns and (names or len(patterns) > 1):
            raise ValueError("a consumer subscribes to names, or to one pattern")
        if self.member is None:
            names += [name for pattern in patterns for name in await self._matching(pattern)]
            await self.assign([partition for name in names for partition in await self._partitions(name)])
        else:
            told = {"on_assigned": self._on_assigned, "on_revoked": self._on_revoked, "on_lost": self._on_lost}
            await self.subscribe(patterns[0] if patterns else names, **told)
        self._begins_with = []

    async def _partitions(self, topic: str) -> list[TopicPartition]:
        async def attempt() -> list[TopicPartition]:
            code = (await self.cluster.refresh([topic])).error_of(topic)
            if code is not ErrorCode.NONE:
                raise KafkaError(code, f"topic {topic!r}: {code.name}")
            return self.cluster.metadata.partitions(topic)

        return await self.cluster.retrying(attempt)

    async def unsubscribe(self) -> None:
        """Leaves the group, and reads nothing more."""
        self._choose_others()
        await self._part()
        self._let_go()
        self._pattern = None
        if self.member is not None and self.member.subscribed:
            self.member.subscribe(None)
            await self.member.leave()

    async def _matching(self, pattern: re.Pattern[str]) -> list[str]:
        known = await self.cluster.refresh(None)
        return sorted(name for name, topic in known.topics.items() if pattern.fullmatch(name) and not topic.is_internal)

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self._positions)

    @property
    def subscription(self) -> list[str]:
        return [] if self.member is None else list(self.member.topics)

    # offsets

    async def commit(self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None) -> None:
        """Commits these offsets (of the next record to read) for the group, or every position."""
        await self._member().commit(self.offsets_to_commit() if offsets is None else offsets)

    async def committed(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """The group's committed offsets of these partitions, or of those assigned; -1 where none.

        Waits for open transactions that commit offsets of these partitions, as Kafka's consumers do (KIP-447).
        """
        wanted = list(self._positions if partitions is None else partitions)
        return await self._member().committed(wanted, require_stable=True)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Names this consumer as a group member, for a transaction that commits its offsets."""
        return self._member().metadata

    def _member(self) -> GroupMember:
        if self.member is None:
            raise RuntimeError("only a member of a group has committed offsets: make the consumer with group=...")
        if not self.member.subscribed:  # else it has not left, and `on_revoked` may commit while it closes
            self._check_open()
        return self.member

    # the group

    async def _follow_group(self, member: GroupMember) -> None:
        """Takes the results of heartbeats, joins and position lookups, and begins the next ones as tasks.

        The generation changes only here, between what one `poll` returned and what the next one will.
        """
        if self._heartbeat is not None and self._heartbeat.done():
            heartbeat, self._heartbeat = self._heartbeat, None
            member.take_heartbeat(heartbeat)
        if self._joining is not None and self._joining.done():
            joining, self._joining = self._joining, None
            joined = joining.result()
            member.take_join(joined)
            await member.while_beating(self._joined(member, joined))
        if self._placing is not None and self._placing.done():
            placing, self._placing = self._placing, None
            placing.result()
        self._commit_when_due(member)
        if member.has_to_join:
            if self._joining is None:
                await self._before_join(member)
                self._joining = self._patiently(member.join)
        else:
            if self._placing is None and any(
                position.offset == UNKNOWN and position.reset_to is None for position in self._positions.values()
            ):
                self._placing = self._patiently(self._place)
            if self._heartbeat is None and member.subscribed:
                self._heartbeat = beside(member.beat())

    @property
    def _group_is_quiet(self) -> bool:
        member = self.member
        if member is None:
            return True
        beating = self._heartbeat is not None and not self._heartbeat.done()
        return (
            (beating or not member.subscribed)
            and self._joining is None
            and self._placing is None
            and not member.has_to_join
            and self.cluster.runtime.clock.monotonic_ms() < self._commit_due_ms
        )

    async def _before_join(self, member: GroupMember) -> None:
        for task in (self._heartbeat, self._placing):
            if task is not None:
                task.cancel()
        self._heartbeat = self._placing = None
        held = list(self._positions)
        if member.is_lost:
            await self._lose(held)
        elif not member.cooperative:
            await member.while_beating(self._give_up(held))
        else:
            foreign = [partition for partition in held if partition.topic not in member.topics]
            await member.while_beating(self._give_up(foreign))
            member.assignment = list(self._positions)
        if not self._positions:
            self._let_go()

    async def _joined(self, member: GroupMember, joined: Joined) -> None:
        assigned = dict.fromkeys(joined.assignment)
        held = list(self._positions)
        revoked = [partition for partition in held if joined.kept and partition not in assigned]

        async def begin() -> None:
            fresh = [partition for partition in assigned if partition not in self._positions]
            for partition in fresh:
                self._positions[partition] = Position()
            self._in_doubt.update(fresh)
            if revoked and member.cooperative:
                member.rejoin()  # other members wait for the partitions given up now
            await _told(self._on_assigned, fresh)

        await and_then(self._give_up(revoked) if joined.kept else self._lose(held), begin)

    async def _part(self) -> None:
        """Gives up the partitions that the group assigned; for those assigned by hand it only commits."""
        member = self.member
        if member is None or not member.subscribed:
            await self._commit_positions()
        elif member.is_lost:
            await self._lose(list(self._positions))
        else:
            await self._give_up(list(self._positions))

    async def _give_up(self, partitions: list[TopicPartition]) -> None:
        """Gives partitions to other members, once this one has committed and its callback has returned."""
        if partitions:
            await and_then(self._commit_positions(), lambda: self._tell_and_drop(self._on_revoked, partitions))

    async def _lose(self, partitions: list[TopicPartition]) -> None:
        """Drops partitions that another member may own already."""
        if partitions:
            await self._tell_and_drop(self._on_lost, partitions)

    async def _tell_and_drop(self, callback: RebalanceCallback | None, partitions: list[TopicPartition]) -> None:
        try:
            await _told(callback, partitions)
        finally:
            self._drop(partitions)

    async def _commit_positions(self) -> None:
        """Commits the positions after the records returned so far, if the consumer commits by itself."""
        positions = self.offsets_to_commit()
        if self.member is None or self._auto_commit_interval_ms is None or not positions:
            return
        if self._committing is not None:
            self._committing.cancel()  # it has older positions; a retry of it could overwrite these
            self._committing = None
        timeout_ms = min(self.cluster.retry_timeout_ms, CLOSE_TIMEOUT_MS) if self._closed else None
        try:
            await self.member.commit(positions, timeout_ms=timeout_ms)
        except (KafkaError, OSError) as error:
            logger.warning("positions of group %r were not committed: %s", self.member.group, error)

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._positions.pop(partition, None)
            self._in_doubt.discard(partition)

    def _let_go(self) -> None:
        """Drops all partitions, and every request for them."""
        for task in self._under_way():
            task.cancel()
        self._heartbeat = self._joining = self._placing = self._refreshing = None
        self._committing = self._looking = None
        self._resets.clear()
        self._positions = {}
        self._waiting.clear()
        self._in_doubt = set()
        self._trouble = None

    async def _place(self) -> None:
        """Finds the positions of the partitions that the group has assigned."""
        wanted = [
            partition
            for partition, position in self._positions.items()
            if position.offset == UNKNOWN and position.reset_to is None
        ]
        for partition, place in (await self._places(wanted)).items():
            position = self._positions.get(partition)
            if position is None or position.offset != UNKNOWN or position.reset_to is not None:
                continue  # it was revoked, or got a position by `seek`, meanwhile
            if place.offset < 0:
                position.reset_to = place.offset
            else:
                position.offset, position.leader_epoch = place.offset, place.leader_epoch
        self._due = True

    async def _places(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """The group's committed offsets, else the offsets that `auto_offset_reset` names."""
        if not partitions:
            return {}
        found = dict.fromkeys(partitions, CommittedOffset(-1))
        if self.member is not None:
            group = self.member.group
            found = await self.cluster.committed_offsets(group, partitions, require_stable=True, owner=self.member)
        missing = [partition for partition, place in found.items() if place.offset < 0]
        if missing and self._auto_offset_reset is None:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"no offset is committed for {missing[0]}")
        return found | dict.fromkeys(missing, CommittedOffset(self._auto_offset_reset or 0))

    def _commit_when_due(self, member: GroupMember) -> None:
        """Commits the positions after the returned records, if the consumer commits by itself and it is time."""
        if self._committing is not None and self._committing.done():
            committing, self._committing = self._committing, None
            error = committing.exception()
            if error is not None:
                logger.warning("positions of group %r were not committed: %s", member.group, error)
        now_ms = self.cluster.runtime.clock.monotonic_ms()
        if now_ms < self._commit_due_ms:
            return
        if self._auto_commit_interval_ms is None:
            self._commit_due_ms = _ALL
            return
        self._commit_due_ms = now_ms + self._auto_commit_interval_ms
        positions = self.offsets_to_commit()
        if positions and self._committing is None and not (member.subscribed and member.is_lost):
            self._committing = beside(member.commit(positions))

    # reading

    async def poll(self, timeout_ms: float, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """The next records (at most `max_records`), as soon as there are some; empty after `timeout_ms`, also while the
        group waits for other members to join. Raises `KafkaError` for an error that no retry cures."""
        clock = self.cluster.runtime.clock
        deadline = clock.monotonic_ms() + timeout_ms
        await self._give_way()
        while True:
            self._check_open()
            if self._begins_with and not await self._begun(deadline - clock.monotonic_ms()):
                return []
            if self._trouble is not None:
                trouble, self._trouble = self._trouble, None
                raise trouble
            if self.member is not None:
                self.member.polled()
                await self._follow_group(self.member)
            reads = self.member is None or self.member.holds_assignment
            records: list[ConsumerRecord] = []
            if reads:
                self._take_answers()
                records = self._waiting.taken(self._positions, _ALL if max_records is None else max_records)
            self._due = self._due or bool(records)
            self._see_to_requests()
            self._see_to_changes()
            if records:
                return records
            waiting = self._under_way()
            if reads:
                waiting += [fetch for fetch, _ in self._fetches.values()]
            if self._trouble is not None or any(future.done() for future in waiting):
                continue
            left = deadline - clock.monotonic_ms()
            if left <= 0:
                await asyncio.sleep(0)  # else no task would run when a caller polls with no timeout
                return []
            await self._wait_for_any(waiting, max(min(left, self._next_turn_ms(waiting)), 1))

    def __aiter__(self) -> Self:
        return self

    async def _give_way(self) -> None:
        """Lets other tasks run: a caller that always finds records never waits, and would hold the heartbeats up."""
        now_ms = self.cluster.runtime.clock.monotonic_ms()
        if now_ms - self._gave_way_ms >= _TURN_MS:
            self._gave_way_ms = now_ms
            await asyncio.sleep(0)

    async def __anext__(self) -> ConsumerRecord:
        """The next record, however long it takes; ends when the consumer is closed."""
        await self._give_way()
        if self._waiting and self._group_is_quiet and not self._closed and self._trouble is None:
            if self.member is not None:
                self.member.polled()
            records = self._waiting.taken(self._positions, 1)
            if records:
                self._due = True  # it may have been the partition's last fetched record
                return records[0]
        while True:
            try:
                records = await self.poll(_ITERATION_MS, max_records=1)
            except ConsumerClosed:
                raise StopAsyncIteration from None
            if records:
                return records[0]

    def _next_turn_ms(self, waiting: list[asyncio.Future[Any]]) -> float:
        """How many ms until the consumer has something to do even if no future in `waiting` is done."""
        now_ms = self.cluster.runtime.clock.monotonic_ms()
        due = [self._commit_due_ms or math.inf]
        if self._looking is None:  # a running look-up is in `waiting`; it takes long when no broker answers
            due.append(self._look_due_ms)
        if not waiting:
            due.append(now_ms + RETRY_BACKOFF_MS)
        return min(due) - now_ms

    def _under_way(self) -> list[asyncio.Future[Any]]:
        tasks = (self._heartbeat, self._joining, self._placing, self._refreshing, self._committing, self._looking)
        return [task for task in tasks if task is not None] + [reset for reset, _ in self._resets.values()]

    @property
    def _look_due_ms(self) -> float:
        misses = self.member is not None and self.member.misses_topics
        return self._looked_ms + (RETRY_BACKOFF_MAX_MS if misses else self._metadata_max_age_ms)

    def _see_to_changes(self) -> None:
        now_ms = self.cluster.runtime.clock.monotonic_ms()
        if self._looking is not None and self._looking.done():
            self._trouble = self._looking.exception() or self._trouble
            self._looking = None
        if self.cluster.metadata is not self._looked_at:
            self._looked_at = self.cluster.metadata
            self._let_go_of_deleted_topics()
            if self.member is not None:
                self.member.look_for_changes(self._looked_at)
        if self._looking is None and now_ms >= self._look_due_ms:
            self._looked_ms = now_ms
            self._looking = self._patiently(self._look_for_changes)

    async def _look_for_changes(self) -> None:
        """Looks for new topics, for new partitions, and for new leaders whose predecessors still answer."""
        member = self.member
        if member is None or not member.subscribed:
            if self._positions:
                await self.cluster.refresh(sorted({partition.topic for partition in self._positions}))
            return
        if self._pattern is not None:
            matching = await self._matching(self._pattern)
            if matching != member.topics:
                member.subscribe(matching)
        else:
            await self.cluster.refresh(member.watched_topics)


async def _told(callback: RebalanceCallback | None, partitions: list[TopicPartition]) -> None:
    if callback is not None:
        outcome = callback(partitions)
        if inspect.isawaitable(outcome):
            await outcome


__all__ = ["EARLIEST", "LATEST", "Consumer", "ConsumerRecord", "RebalanceCallback"]
