"""The fetches of a consumer: one under way at each leader, and their results.

Every request runs in a task of its own, so that a silent or connecting broker does not delay the records of others. A
partition whose leader refuses the fetch, or is gone, is in doubt: it is fetched again after newer metadata arrive.

A fetch names the leader epoch of the record before its offset. If the leader's log has another epoch there, it answers
with the offset where the logs diverge (KIP-595), and the consumer goes on from there, so that it misses no record.
Kafka's consumer asks for that offset by a request of its own (KIP-320).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from barnabas.client.asking import RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS
from barnabas.client.cluster import ClusterClient
from barnabas.client.offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    CommittedOffset,
    ListedOffset,
    committed_offset,
    list_offsets_request,
    read_list_offsets,
)
from barnabas.client.positions import UNKNOWN, PartitionsInTurn, Place, Position, read
from barnabas.model.errors import ErrorCode, KafkaError, check_code
from barnabas.model.ids import NO_BROKER, NO_EPOCH, ZERO_UUID, TopicPartition, Uuid
from barnabas.runtime import within
from barnabas.wire.errors import WireError
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse

logger = logging.getLogger(__name__)

FETCH_MAX_WAIT_MS: Final = 500
FETCH_MAX_BYTES: Final = 50 * 1024 * 1024
PARTITION_MAX_BYTES: Final = 1024 * 1024
DISBELIEF_MS: Final = 30_000
"""How long a former leader may take to learn of the next one. A recreated topic begins with new leader epochs: after
this time a position of the old topic is reset, since no leader will reach the old epoch."""
_FIRST_VERSION_WITH_LAST_FETCHED_EPOCH: Final = 12
_LAST_NAMED_FETCH_VERSION: Final = 12
"""From 13 on a fetch names topics by their ids (KIP-516)."""

_DISOWNED: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)
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
"""Errors that new metadata and a retry cure."""

Asked = TypeVar("Asked")
Outcome = TypeVar("Outcome")


class ConsumerClosed(RuntimeError):
    """The consumer was closed, perhaps while somebody polled it."""


class Fetcher:
    """Positions, and the requests that move them. Only `_wait_for_any` waits."""

    def __init__(
        self,
        cluster: ClusterClient,
        *,
        isolation_level: int = READ_UNCOMMITTED,
        auto_offset_reset: int | None = EARLIEST,
        max_wait_ms: int = FETCH_MAX_WAIT_MS,
        min_bytes: int = 1,
        max_bytes: int = FETCH_MAX_BYTES,
        partition_max_bytes: int = PARTITION_MAX_BYTES,
        check_crcs: bool = True,
    ) -> None:
        self.cluster = cluster
        self._isolation_level = isolation_level
        self._auto_offset_reset = auto_offset_reset
        self._max_wait_ms = max_wait_ms
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes
        self._check_crcs = check_crcs
        self._positions: dict[TopicPartition, Position] = {}
        self._waiting = PartitionsInTurn()
        self._fetches: dict[int, tuple[asyncio.Task[FetchResponse], dict[TopicPartition, Place]]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._resets: dict[int, tuple[asyncio.Task[dict[TopicPartition, ListedOffset]], dict[TopicPartition, int]]] = {}
        self._trouble: BaseException | None = None
        """The error that the next `poll` raises; the last one had records to return."""
        self._due = False
        """Whether a fetch may be sent: an answer was taken, or is no longer awaited."""
        self._in_doubt: set[TopicPartition] = set()
        """Partitions that are fetched only after their leaders have been looked up."""
        self._disowned: set[TopicPartition] = set()
        """Partitions whose leaders do not know the topic's id (any more)."""
        self._deleted_topics: dict[Uuid, None] = {}
        """The ids of topics whose names are other topics' now."""
        self._refreshed_ms = -math.inf
        self._refresh_backoff_ms = RETRY_BACKOFF_MS
        """The pause before the next look-up of leaders; it grows while there are none."""

    def position(self, topic_partition: TopicPartition) -> int:
        """The offset of the next record that `poll` will return. Raises ``LookupError`` while it is unknown."""
        position = self._positions.get(topic_partition)
        if position is None or position.offset == UNKNOWN:
            raise LookupError(f"{topic_partition} {'has no position yet' if position else 'is not assigned'}")
        return position.offset

    def positions(self) -> dict[TopicPartition, int]:
        """The position of every assigned partition where it is known."""
        return {
            partition: position.offset for partition, position in self._positions.items() if position.offset != UNKNOWN
        }

    def offsets_to_commit(self) -> dict[TopicPartition, CommittedOffset]:
        """The positions with their leader epochs: by these a later reader detects that records before were lost."""
        return {
            partition: CommittedOffset(position.offset, leader_epoch=position.leader_epoch)
            for partition, position in self._positions.items()
            if position.offset != UNKNOWN
        }

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """The partition's end in the last fetch response (the last stable offset for committed reads); -1 before."""
        return self._positions[topic_partition].high_watermark

    def seek(self, topic_partition: TopicPartition, offset: int | CommittedOffset) -> None:
        """`poll` goes on from `offset`, which may be `EARLIEST` or `LATEST`. Raises ``LookupError``."""
        if topic_partition not in self._positions:
            raise LookupError(f"{topic_partition} is not assigned")
        place = committed_offset(offset)
        if place.offset < 0:
            self._positions[topic_partition].seek(UNKNOWN, place.offset)
        else:
            self._positions[topic_partition].seek(place.offset, leader_epoch=place.leader_epoch)
        self._due = True

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """`poll` goes on from the beginning of these partitions, or of all."""
        for partition in partitions or self._positions:
            self.seek(partition, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """`poll` goes on from the end of these partitions, or of all."""
        for partition in partitions or self._positions:
            self.seek(partition, LATEST)

    def pause(self, *partitions: TopicPartition) -> None:
        """`poll` returns nothing of these (or of all), until `resume`; they stay assigned."""
        for partition in partitions or self._positions:
            self._positions[partition].paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """`poll` returns records of these partitions, or of all, again."""
        for partition in partitions or self._positions:
            self._positions[partition].paused = False
        self._due = True

    @property
    def paused(self) -> list[TopicPartition]:
        return [partition for partition, position in self._positions.items() if position.paused]

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        listed = await self._listed(dict.fromkeys(partitions, EARLIEST))
        return {partition: found.offset for partition, found in listed.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record that a reader sees; with committed reads the last stable offset."""
        listed = await self._listed(dict.fromkeys(partitions, LATEST))
        return {partition: found.offset for partition, found in listed.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | None]:
        """For each partition the first record at or after its timestamp (ms); None if there is none."""
        if any(timestamp < 0 for timestamp in timestamps.values()):
            raise ValueError("a timestamp cannot be before 1970: negative ones have another meaning to brokers")
        listed = await self._listed(timestamps)
        return {partition: found if found.offset >= 0 else None for partition, found in listed.items()}

    async def _listed(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        return await self.cluster.list_offsets(timestamps, isolation_level=self._isolation_level)

    def _patiently(self, work: Callable[[], Awaitable[Outcome]]) -> asyncio.Task[Outcome]:
        """Has `work` done beside the polls, again and again after errors that another attempt may cure."""

        async def attempt() -> Outcome:
            try:
                return await work()
            except (KafkaError, OSError) as error:
                if not isinstance(error, KafkaError) or error.code.retriable:
                    logger.warning("a consumer goes on trying: %s", error)
                raise

        async def with_patience() -> Outcome:
            if not self.cluster.metadata.brokers:
                await self.cluster.refresh([])  # else its address is probably wrong, which is told soon
            return await self.cluster.retrying(attempt, timeout_ms=math.inf)

        return beside(with_patience())

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
        if self._refreshing is not None and self._refreshing.done():
            self._trouble = self._refreshing.exception() or self._trouble
        self._take_resets()
        if self._due:
            self._send_fetches()
        self._send_resets()
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = self._patiently(self._ask_who_leads) if self._in_doubt else None

    def _send_resets(self) -> None:
        """Asks leaders for the offsets of positions that are a timestamp, the beginning or the end. Each leader is
        asked on its own, so that a silent one does not hold up the others' partitions."""
        wanted = {
            partition: position.reset_to
            for partition, position in self._positions.items()
            if position.reset_to is not None and partition not in self._in_doubt
        }
        for leader, asked in self._by_leader(wanted, self._resets).items():
            self._resets[leader] = beside(self._list(leader, asked)), asked

    async def _list(self, leader: int, asked: dict[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        request = list_offsets_request(asked, self.cluster.metadata, isolation_level=self._isolation_level)
        return read_list_offsets(await (await self.cluster.broker(leader)).send(request))

    def _take_resets(self) -> None:
        for _, listed, asked in self._answered(self._resets):
            for partition, found in listed.items():
                position = self._positions.get(partition)
                if position is None or position.reset_to != asked.get(partition):
                    continue  # the partition was revoked, or sought elsewhere, meanwhile
                if found.error is ErrorCode.NONE:
                    position.seek(found.offset)
                    continue
                self._in_doubt.add(partition)
                if not found.error.retriable:
                    self._trouble = KafkaError(found.error, f"{partition}: {found.error.name}")

    async def _ask_who_leads(self) -> None:
        """Looks up the leaders of partitions in doubt. Raises `KafkaError` for a topic that stays unreadable."""
        clock, backoff_ms = self.cluster.runtime.clock, self._refresh_backoff_ms
        await asyncio.sleep(max(0, self._refreshed_ms + backoff_ms - clock.monotonic_ms()) / 1000)
        self._refreshed_ms = clock.monotonic_ms()
        asked = set(self._in_doubt)
        names = sorted({partition.topic for partition in asked})
        metadata = await self.cluster.refresh(names)
        self._in_doubt -= asked
        self._due = True
        self._refresh_backoff_ms = RETRY_BACKOFF_MS
        if any(metadata.leader(partition) == NO_BROKER for partition in asked):
            self._refresh_backoff_ms = min(2 * backoff_ms, RETRY_BACKOFF_MAX_MS)
        for name in names:
            topic = metadata.topics.get(name)
            if topic is not None and topic.error is not ErrorCode.NONE and not topic.error.retriable:
                raise KafkaError(topic.error, f"topic {name}: {topic.error.name}")

    def _send_fetches(self) -> None:
        """Sends a fetch to every leader that has none in flight."""
        self._due = False
        not_now = self._in_doubt.union(*(asked for _, asked in self._fetches.values()))
        wanted = {
            partition: position.place
            for partition, position in self._positions.items()
            if position.is_fetchable and partition not in not_now
        }
        for leader, asked in self._by_leader(wanted, self._fetches).items():
            self._fetches[leader] = beside(self._fetch(leader, asked)), asked

    def _by_leader(
        self, wanted: Mapping[TopicPartition, Asked], busy: Container[int]
    ) -> dict[int, dict[TopicPartition, Asked]]:
        """The partitions to fetch from each leader that is not `busy`; a partition without a leader is in doubt."""
        metadata = self.cluster.metadata
        by_leader: dict[int, dict[TopicPartition, Asked]] = {}
        for partition, place in wanted.items():
            leader = metadata.leader(partition)
            if leader == NO_BROKER:
                self._in_doubt.add(partition)
            elif leader not in busy:
                by_leader.setdefault(leader, {})[partition] = place
        return by_leader

    def _answered(
        self, requests: dict[int, tuple[asyncio.Task[Outcome], dict[TopicPartition, Asked]]]
    ) -> Iterator[tuple[int, Outcome, dict[TopicPartition, Asked]]]:
        """The answers that have arrived, each with its broker and its request; partitions of a failed request are in
        doubt."""
        for leader, (request, asked) in list(requests.items()):
            if not request.done():
                continue
            del requests[leader]
            self._due = True
            try:
                answer = request.result()
            except (OSError, KafkaError, WireError) as error:
                self._in_doubt.update(self._positions.keys() & asked)
                if not _is_cured_by_another_attempt(error):
                    self._trouble = error
                continue
            yield leader, answer, asked

    async def _fetch(self, leader: int, asked: dict[TopicPartition, Place]) -> FetchResponse:
        connection = await self.cluster.broker(leader)
        version = connection.best_version(FetchRequest())
        if any(self._topic_id(partition) == ZERO_UUID for partition in asked):
            version = min(version, _LAST_NAMED_FETCH_VERSION)
        request = self._request(asked, with_epochs=version >= _FIRST_VERSION_WITH_LAST_FETCHED_EPOCH)
        response: FetchResponse = await connection.send(request, version, self._max_wait_ms + 30_000)
        check_code(response.error_code, what="fetch")
        return response

    def _request(self, asked: dict[TopicPartition, Place], *, with_epochs: bool) -> FetchRequest:
        metadata = self.cluster.metadata
        topics: dict[tuple[str, Uuid], list[Any]] = {}
        for partition, (offset, leader_epoch) in asked.items():
            current = metadata.leader_epoch(partition)
            topics.setdefault((partition.topic, self._topic_id(partition)), []).append(
                FetchRequest.FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=current,
                    fetch_offset=offset,
                    # A leader that is cut off, or leads a recreated topic, does not know later epochs: it would call
                    # the offset out of range, and the position would be reset.
                    last_fetched_epoch=leader_epoch if with_epochs and leader_epoch <= current else NO_EPOCH,
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
                FetchRequest.FetchTopic(topic=name, topic_id=topic_id, partitions=partitions)
                for (name, topic_id), partitions in topics.items()
            ],
        )

    def _topic_id(self, partition: TopicPartition) -> Uuid:
        """The id of the topic that the position is in. Metadata may name another topic by now, or still."""
        position = self._positions.get(partition)
        if position is None or position.topic_id == ZERO_UUID:
            return self.cluster.metadata.topic_id(partition.topic)
        return position.topic_id

    def _take_answers(self) -> None:
        """Takes the records of all answers that have arrived. `poll` raises the error of a partition or broker only
        when it has no records to return: the positions are after those already."""
        for leader, answer, asked in self._answered(self._fetches):
            names = {self._topic_id(partition): partition.topic for partition in asked}
            for topic in answer.responses:
                name = topic.topic or names.get(topic.topic_id, "")
                for part in topic.partitions:
                    partition = TopicPartition(name, part.partition_index)
                    try:
                        self._take(partition, part, asked, leader)
                        self._note_topic(partition, part.error_code, topic.topic_id)
                    except (KafkaError, WireError) as error:
                        self._trouble = error

    def _take(
        self, topic_partition: TopicPartition, part: Any, asked: dict[TopicPartition, Place], leader: int
    ) -> None:
        position = self._positions.get(topic_partition)
        if position is None or position.reset_to is not None or asked.get(topic_partition) != position.place:
            return  # the partition was revoked or sought elsewhere while the fetch was in flight
        code = ErrorCode(part.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if self._may_have_led_before(topic_partition, position, leader):
                self._in_doubt.add(topic_partition)
                return
            if self._auto_offset_reset is None:
                raise KafkaError(code, f"{topic_partition} has no offset {position.offset}. Seek to go on.")
            position.seek(UNKNOWN, self._auto_offset_reset)
            return
        if code in _MOVED:
            self._in_doubt.add(topic_partition)
            return
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"{topic_partition}: {code.name}")
        if part.diverging_epoch.epoch != NO_EPOCH:
            self._go_back(topic_partition, position, part.diverging_epoch)
            return
        committed = self._isolation_level == READ_COMMITTED
        position.high_watermark = part.last_stable_offset if committed else part.high_watermark
        if not part.records:
            return
        aborted = part.aborted_transactions if committed else None
        try:
            position.fetched(*read(part.records, position.offset, aborted or (), check_crcs=self._check_crcs))
        except WireError as error:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"{topic_partition} at offset {position.offset} cannot be read ({error}). Seek past it to go on.",
            ) from None
        if position.has_records or position.paused:
            self._waiting.add(topic_partition)

    def _note_topic(self, partition: TopicPartition, code: int, topic_id: Uuid) -> None:
        """Keeps the topic's id that the leader has served, and that a leader does not know it."""
        position = self._positions.get(partition)
        if position is None:
            return
        if code == ErrorCode.NONE:
            position.topic_id = topic_id  # none by older requests, which name topics
            self._disowned.discard(partition)
        elif code in _DISOWNED and position.topic_id != ZERO_UUID:
            self._disowned.add(partition)

    def _let_go_of_deleted_topics(self) -> None:
        """A topic that was deleted and made anew has another id: no position in the old one means anything in it. Its
        leader and metadata have to agree: a broker that is cut off may still name the old one."""
        gone = []
        for partition in sorted(self._disowned & self._positions.keys()):
            position, topic_id = self._positions[partition], self.cluster.metadata.topic_id(partition.topic)
            if topic_id in (ZERO_UUID, position.topic_id) or topic_id in self._deleted_topics:
                continue
            self._disowned.discard(partition)
            self._deleted_topics[position.topic_id] = None
            position.topic_id = ZERO_UUID
            if position.offset != UNKNOWN:
                gone.append(f"offset {position.offset} of {partition}")
                position.seek(UNKNOWN, self._auto_offset_reset)
        if gone:
            anew = f"deleted with its topic, which was made anew: {', '.join(gone)}"
            logger.info("%s", anew)
            if self._auto_offset_reset is None:
                self._trouble = KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{anew}. Seek to go on.")

    def _may_have_led_before(self, topic_partition: TopicPartition, position: Position, broker: int) -> bool:
        """Whether `broker` may be a former leader that was paused or is cut off: its log may end before records read
        from later leaders. Clients ignore its older metadata (KIP-320); for a while its error is ignored, too."""
        metadata = self.cluster.metadata
        current = metadata.leader_epoch(topic_partition)
        if broker == metadata.leader(topic_partition) and not NO_EPOCH < current < position.leader_epoch:
            return False
        now = self.cluster.runtime.clock.monotonic_ms()
        position.disbelieved_ms = min(position.disbelieved_ms, now)
        return now < position.disbelieved_ms + DISBELIEF_MS

    def _go_back(self, topic_partition: TopicPartition, position: Position, diverging: Any) -> None:
        """Moves back to the offset from which the leader's log differs from the records read, if that is before the
        position. A compacted log may lack an epoch without lacking a record."""
        offset = min(position.offset, diverging.end_offset)
        if offset < position.offset:
            truncated = f"{topic_partition}: the log was truncated to offset {offset}, below position {position.offset}"
            if self._auto_offset_reset is None:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{truncated}. Seek to go on.")
            logger.info("%s", truncated)
        position.seek(offset, leader_epoch=diverging.epoch)


def _is_cured_by_another_attempt(error: Exception) -> bool:
    if isinstance(error, KafkaError):
        return error.code.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE
    return isinstance(error, OSError)


def beside(work: Coroutine[Any, Any, Outcome]) -> asyncio.Task[Outcome]:
    task = asyncio.get_running_loop().create_task(work)
    # A closed consumer does not read the results of its tasks.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
