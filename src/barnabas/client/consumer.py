"""A consumer: reads assigned partitions by one pipelined fetch a leader, alone or as a member of a classic group.

`poll` returns what came, by partition and in offset order. Positions are the next offset to be returned. A fetch that
is under way when partitions are taken away or moved is read only as far as it still fits a partition's position.

Whatever is asked of a broker is asked beside what is read, by a task of its own: one that is silent, or is to be
connected to, holds up no `poll` and nobody else's records. A partition whose leader refuses, or is gone, is in doubt:
it is fetched again when newer metadata have come.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from barnabas.client.cluster import RETRY_BACKOFF_MS, ClusterClient
from barnabas.client.group import GroupMember, Joined
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, ZERO_UUID, TopicPartition
from barnabas.runtime import within
from barnabas.wire.errors import WireError
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.records import BatchHeader, Record, batches, check_crc, records_of

FETCH_MAX_WAIT_MS: Final = 500
FETCH_MAX_BYTES: Final = 50 * 1024 * 1024
PARTITION_MAX_BYTES: Final = 1024 * 1024
_LAST_NAMED_FETCH_VERSION: Final = 12
"""From 13 on a fetch names topics by their ids (KIP-516)."""

_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors that new metadata and another attempt will cure."""


Outcome = TypeVar("Outcome")


class Fetched(NamedTuple):
    """One record and where it was."""

    topic: str
    partition: int
    record: Record


@dataclass(slots=True)
class _Position:
    offset: int
    high_watermark: int = -1
    out_of_range: bool = False
    """Nothing is fetched until `auto_offset_reset` says from where on."""


class Consumer:
    """Call `assign` for partitions of one's own choice, or `subscribe` to share topics with a group; then `poll`."""

    def __init__(
        self,
        cluster: ClusterClient,
        *,
        group: str | None = None,
        isolation_level: int = READ_UNCOMMITTED,
        auto_offset_reset: int | None = EARLIEST,
        max_wait_ms: int = FETCH_MAX_WAIT_MS,
        min_bytes: int = 1,
        max_bytes: int = FETCH_MAX_BYTES,
        partition_max_bytes: int = PARTITION_MAX_BYTES,
        check_crcs: bool = True,
        session_timeout_ms: int = 45_000,
    ) -> None:
        self.cluster = cluster
        self._isolation_level = isolation_level
        self._auto_offset_reset = auto_offset_reset
        self._max_wait_ms = max_wait_ms
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes
        self._check_crcs = check_crcs
        self._positions: dict[TopicPartition, _Position] = {}
        self._fetches: dict[int, tuple[asyncio.Task[FetchResponse], dict[TopicPartition, int]]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._resetting: asyncio.Task[None] | None = None
        self._heartbeat: asyncio.Task[tuple[int, int]] | None = None
        self._joining: asyncio.Task[Joined] | None = None
        self._placing: asyncio.Task[dict[TopicPartition, _Position]] | None = None
        self._placed = True
        """Whether the positions are those of what the group has assigned."""
        self._trouble: BaseException | None = None
        """What the next `poll` raises: the one before had records to return."""
        self._due = False
        """There may be a fetch to send: an answer was taken, or is no longer waited for."""
        self._in_doubt: set[TopicPartition] = set()
        """Who leads these is asked for before they are fetched."""
        self._refreshed_ms = -math.inf
        self.member = None if group is None else GroupMember(cluster, group, session_timeout_ms=session_timeout_ms)

    async def close(self) -> None:
        """Leaves the group, if there is one. Offsets are committed only by `commit`."""
        for fetch, _ in self._fetches.values():
            fetch.cancel()
        self._fetches.clear()
        self._let_go()
        if self.member is not None:
            await self.member.leave()

    # which partitions, from where

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Reads these partitions from these offsets; `EARLIEST` and `LATEST` are looked up."""
        self._begin_at(await self._looked_up(positions))

    async def _looked_up(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, _Position]:
        asked = {each: offset for each, offset in positions.items() if offset < 0}
        listed = await self.cluster.list_offsets(asked, isolation_level=self._isolation_level) if asked else {}
        return {each: _Position(listed[each].offset if offset < 0 else offset) for each, offset in positions.items()}

    def _begin_at(self, positions: dict[TopicPartition, _Position]) -> None:
        self._positions = positions
        self._in_doubt = set(positions)
        self._trouble = None

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Joins the group (from the next `poll` on) for these topics."""
        assert self.member is not None, "a subscription needs a group"
        self.member.subscribe(list(topics))
        self._let_go()

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self._positions)

    def position(self, topic_partition: TopicPartition) -> int:
        """The offset of the next record that `poll` will return."""
        return self._positions[topic_partition].offset

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """The partition's end as the last fetch told it (the last stable offset for committed reads); -1 before."""
        return self._positions[topic_partition].high_watermark

    async def commit(self) -> None:
        """Commits every position for the group."""
        assert self.member is not None, "only a member of a group commits offsets"
        await self.member.commit({each: position.offset for each, position in self._positions.items()})

    def _follow_group(self) -> None:
        """Only here, between what one `poll` returned and what the next one will, the generation changes: heartbeats,
        joins and the positions to begin at are asked for beside what is read."""
        member = self.member
        if member is None:
            return
        if self._heartbeat is not None and self._heartbeat.done():
            heartbeat, self._heartbeat = self._heartbeat, None
            member.take_heartbeat(heartbeat)
        if self._joining is not None and self._joining.done():
            joining, self._joining = self._joining, None
            member.take_join(joining.result())
            self._placed = False
        if self._placing is not None and self._placing.done():
            placing, self._placing = self._placing, None
            self._begin_at(placing.result())
            self._placed = True
        if member.has_to_join:
            if self._joining is None:
                self._let_go()
                self._joining = _beside(member.join())
        else:
            if not self._placed and self._placing is None:
                self._placing = _beside(self._places(member))
            if self._heartbeat is None and member.heartbeat_in_ms() == 0:
                self._heartbeat = _beside(member.heartbeat())

    def _let_go(self) -> None:
        """No partition is the consumer's any more, nor is anything asked for one."""
        for task in self._under_way():
            task.cancel()
        self._heartbeat = self._joining = self._placing = self._refreshing = self._resetting = None
        self._positions = {}
        self._in_doubt = set()
        self._trouble = None

    async def _places(self, member: GroupMember) -> dict[TopicPartition, _Position]:
        """Where to read on what the group has assigned."""
        committed = await member.committed(member.assignment, require_stable=self._isolation_level == READ_COMMITTED)
        missing = [each for each in member.assignment if committed[each] < 0]
        if missing and self._auto_offset_reset is None:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"no offset is committed for {missing[0]}")
        return await self._looked_up({each: self._start(committed[each]) for each in member.assignment})

    def _start(self, committed: int) -> int:
        if committed >= 0 or self._auto_offset_reset is None:
            return committed
        return self._auto_offset_reset

    # reading

    async def poll(self, timeout_ms: int) -> list[Fetched]:
        """The next records, as soon as there are some; empty when `timeout_ms` is over, also while its group waits for
        the others to join."""
        clock = self.cluster.runtime.clock
        deadline = clock.monotonic_ms() + timeout_ms
        while True:
            if self._trouble is not None:
                trouble, self._trouble = self._trouble, None
                raise trouble
            self._follow_group()
            reads = self.member is None or self.member.holds_assignment
            records = self._take_answers() if reads else []
            self._see_to_requests()
            if records:
                return records
            waiting = self._under_way()
            if reads:
                waiting += [fetch for fetch, _ in self._fetches.values()]
            if self._trouble is not None or any(future.done() for future in waiting):
                continue
            left = deadline - clock.monotonic_ms()
            if left <= 0:
                await asyncio.sleep(0)  # else nobody would have a turn where a caller polls without waiting
                return []
            pause_ms: float = left if waiting else min(left, RETRY_BACKOFF_MS)
            if self.member is not None and self._heartbeat is None:
                pause_ms = min(pause_ms, self.member.heartbeat_in_ms())
            await self._wait_for_any(waiting, max(pause_ms, 1))

    async def _wait_for_any(self, waiting: list[asyncio.Future[Any]], timeout_ms: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake(_: object) -> None:
            if not woken.done():
                woken.set_result(None)

        for future in waiting:
            future.add_done_callback(wake)
        try:
            await within(woken, timeout_ms)
        finally:
            for future in waiting:
                future.remove_done_callback(wake)

    def _see_to_requests(self) -> None:
        for task in (self._refreshing, self._resetting):
            if task is not None and task.done():
                self._trouble = task.exception() or self._trouble
        if self._due:
            self._send_fetches()
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = _beside(self._ask_who_leads()) if self._in_doubt else None
        if self._resetting is None or self._resetting.done():
            due = any(each.out_of_range for each in self._positions.values())
            self._resetting = _beside(self._reset_offsets()) if due else None

    def _under_way(self) -> list[asyncio.Future[Any]]:
        tasks = (self._heartbeat, self._joining, self._placing, self._refreshing, self._resetting)
        return [task for task in tasks if task is not None]

    async def _reset_offsets(self) -> None:
        """Gives positions that are out of range a new offset."""
        assert self._auto_offset_reset is not None
        asked = {each: position for each, position in self._positions.items() if position.out_of_range}
        timestamps = dict.fromkeys(asked, self._auto_offset_reset)
        listed = await self.cluster.list_offsets(timestamps, isolation_level=self._isolation_level)
        for each, position in asked.items():
            position.offset = listed[each].offset
            position.out_of_range = False
        self._due = True

    async def _ask_who_leads(self) -> None:
        """Ends the doubt. Raises `KafkaError` for a topic that no other attempt will make readable."""
        clock = self.cluster.runtime.clock
        await asyncio.sleep(max(0, self._refreshed_ms + RETRY_BACKOFF_MS - clock.monotonic_ms()) / 1000)
        self._refreshed_ms = clock.monotonic_ms()
        asked = set(self._in_doubt)
        names = sorted({each.topic for each in asked})
        metadata = await self.cluster.refresh(names)
        self._in_doubt -= asked
        self._due = True
        for name in names:
            topic = metadata.topics.get(name)
            if topic is not None and topic.error is not ErrorCode.NONE and not topic.error.retriable:
                raise KafkaError(topic.error, f"topic {name}: {topic.error.name}")

    def _send_fetches(self) -> None:
        """A fetch to every leader that has none under way."""
        self._due = False
        metadata = self.cluster.metadata
        not_now = self._in_doubt.union(*(asked for _, asked in self._fetches.values()))
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for each, position in self._positions.items():
            if position.out_of_range or each in not_now:
                continue
            leader = metadata.leader(each)
            if leader == NO_BROKER:
                self._in_doubt.add(each)
            elif leader not in self._fetches:
                by_leader.setdefault(leader, {})[each] = position.offset
        for leader, asked in by_leader.items():
            self._fetches[leader] = _beside(self._fetch(leader, asked)), asked

    async def _fetch(self, leader: int, asked: dict[TopicPartition, int]) -> FetchResponse:
        connection = await self.cluster.broker(leader)
        request = self._request(asked)
        version = connection.best_version(request)
        if any(self.cluster.metadata.topic_id(each.topic) == ZERO_UUID for each in asked):
            version = min(version, _LAST_NAMED_FETCH_VERSION)
        response: FetchResponse = await connection.send(request, version, self._max_wait_ms + 30_000)
        if response.error_code:
            code = ErrorCode(response.error_code)
            raise KafkaError(code, f"fetch: {code.name}")
        return response

    def _request(self, asked: dict[TopicPartition, int]) -> FetchRequest:
        metadata = self.cluster.metadata
        topics: dict[str, list[Any]] = {}
        for each, offset in asked.items():
            topics.setdefault(each.topic, []).append(
                FetchRequest.FetchPartition(
                    partition=each.partition,
                    current_leader_epoch=metadata.leader_epoch(each),
                    fetch_offset=offset,
                    partition_max_bytes=self._partition_max_bytes,
                )
            )
        return FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation_level,
            session_id=0,
            session_epoch=-1,
            topics=[
                FetchRequest.FetchTopic(topic=name, topic_id=metadata.topic_id(name), partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

    def _take_answers(self) -> list[Fetched]:
        """The records of all answers that are there. What one partition, or one broker, has to complain of is for
        `poll` to raise when it has no records to return: the positions are behind them."""
        records: list[Fetched] = []
        for leader, (fetch, asked) in list(self._fetches.items()):
            if not fetch.done():
                continue
            del self._fetches[leader]
            self._due = True
            try:
                answer = fetch.result()
            except (OSError, KafkaError, WireError) as error:
                self._in_doubt.update(self._positions.keys() & asked)
                if not _is_cured_by_another_attempt(error):
                    self._trouble = error
                continue
            names = {self.cluster.metadata.topic_id(each.topic): each.topic for each in asked}
            for topic in answer.responses:
                name = topic.topic or names.get(topic.topic_id, "")
                for part in topic.partitions:
                    try:
                        records += self._take(TopicPartition(name, part.partition_index), part, asked)
                    except (KafkaError, WireError) as error:
                        self._trouble = error
        return records

    def _take(self, topic_partition: TopicPartition, part: Any, asked: dict[TopicPartition, int]) -> Iterable[Fetched]:
        position = self._positions.get(topic_partition)
        if position is None or asked.get(topic_partition) != position.offset:
            return ()  # taken away or moved while the fetch was under way
        code = ErrorCode(part.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if self._auto_offset_reset is None:
                raise KafkaError(code, f"{topic_partition}: the position has no record")
            position.out_of_range = True
            return ()
        if code in _MOVED:
            self._in_doubt.add(topic_partition)
            return ()
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"{topic_partition}: {code.name}")
        committed = self._isolation_level == READ_COMMITTED
        position.high_watermark = part.last_stable_offset if committed else part.high_watermark
        if not part.records:
            return ()
        read, position.offset = self._read(
            part.records, position.offset, part.aborted_transactions if committed else None
        )
        return (Fetched(topic_partition.topic, topic_partition.partition, record) for record in read)

    def _read(self, data: Any, position: int, aborted: list[Any] | None) -> tuple[list[Record], int]:
        """The records from `position` on that a reader sees, and the offset after the last batch."""
        found: list[Record] = []
        offset = position
        beginning = sorted(aborted or (), key=lambda each: int(each.first_offset))
        aborting: dict[int, None] = {}
        for header, start, end in batches(data):
            try:
                if self._check_crcs:
                    check_crc(data, start, end)
            except WireError:
                if offset > position:
                    break  # the next fetch begins with it
                raise
            while beginning and beginning[0].first_offset <= header.last_offset:
                aborting[beginning.pop(0).producer_id] = None
            if header.is_control:
                if is_abort_marker(data, header, start, end):
                    aborting.pop(header.producer_id, None)
            elif not (header.is_transactional and header.producer_id in aborting):
                found.extend(record for record in records_of(data, start, end) if record.offset >= offset)
            offset = max(offset, header.next_offset)
        return found, offset


def _is_cured_by_another_attempt(error: Exception) -> bool:
    if isinstance(error, KafkaError):
        return error.code.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE
    return isinstance(error, OSError)


def _beside(work: Coroutine[Any, Any, Outcome]) -> asyncio.Task[Outcome]:
    task = asyncio.get_running_loop().create_task(work)
    # A consumer that is given up does not ask how it went.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


def is_abort_marker(data: Any, header: BatchHeader, start: int, end: int) -> bool:
    """Whether a control batch ends a transaction by abort: its key is a version and a type, 0 for abort."""
    assert header.is_control
    key = records_of(data, start, end)[0].key
    return key is not None and bytes(key[2:4]) == b"\x00\x00"


__all__ = ["EARLIEST", "LATEST", "Consumer", "Fetched", "is_abort_marker"]
