"""Sends the end markers of transactions to their partitions' leaders (``TransactionMarkerChannelManager``).

Each leader has a queue. All its markers go out in one WriteTxnMarkers; the next request follows the answer. If a marker
is refused for now, or its leader is unknown or unreachable, it is sent again a little later to the current leader, for
as long as it takes. A deleted partition needs no marker (KAFKA-5610). But a partition that is missing in the metadata
need not be deleted: a broker that has just started may coordinate before it knows all partitions, and a transaction
without one of its markers would be torn. So the partition is looked up in ZooKeeper.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_BROKER, TopicPartition, numbers_by_topic
from barnabas.runtime import SparingLog, Tasks
from barnabas.wire.errors import WireError
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersRequest

logger = logging.getLogger(__name__)

RETRY_BACKOFF_MS: Final = 50

Marker: TypeAlias = WriteTxnMarkersRequest.WritableTxnMarker
LeaderOf: TypeAlias = Callable[[TopicPartition], int | None]
"""The broker that leads a partition: NO_BROKER while no live one does, None for an unknown partition."""
Exists: TypeAlias = Callable[[TopicPartition], Awaitable[bool]]
"""Whether a partition that is missing in the metadata exists, or may exist."""
WriteMarkers: TypeAlias = Callable[[int, WriteTxnMarkersRequest], Awaitable[Any]]
"""Sends the request to a broker; returns the response. Raises ``OSError``, or `WireError` for a garbled answer."""

_LATER: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
_NO_MARKERS_THERE: Final = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})


class EndedTransaction:
    """A prepared transaction and the partitions that have no marker yet. `is_current` until the coordinator changes."""

    __slots__ = (
        "committed",
        "coordinator_epoch",
        "is_current",
        "on_complete",
        "partitions",
        "producer_epoch",
        "producer_id",
        "transactional_id",
    )

    def __init__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        partitions: Iterable[TopicPartition],
        *,
        is_current: Callable[[], bool],
        on_complete: Callable[[], None],
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.committed = committed
        self.partitions = dict.fromkeys(sorted(partitions))
        self.is_current = is_current
        self.on_complete = on_complete

    def marker(self, partitions: Iterable[TopicPartition]) -> Marker:
        return WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            transaction_result=self.committed,
            topics=[
                WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
                for topic, indexes in numbers_by_topic(partitions).items()
            ],
            coordinator_epoch=self.coordinator_epoch,
        )


_Entry: TypeAlias = tuple[EndedTransaction, list[TopicPartition]]


class TransactionMarkers:
    """See the module's text."""

    def __init__(self, leader_of: LeaderOf, exists: Exists, write: WriteMarkers, tasks: Tasks) -> None:
        self._leader_of = leader_of
        self._exists = exists
        self._write = write
        self._tasks = tasks
        self._untaken = SparingLog(logger, logging.INFO)
        self._queues: dict[int, list[_Entry]] = {}
        """Markers by broker; a broker with a queue, even an empty one, has a running sender."""

    def send(self, ended: EndedTransaction) -> None:
        """Sends every partition its marker, then calls `ended.on_complete`."""
        self._enqueue(ended, list(ended.partitions))
        self._maybe_complete(ended)

    def _enqueue(self, ended: EndedTransaction, partitions: list[TopicPartition]) -> None:
        by_leader: dict[int, list[TopicPartition]] = {}
        unknown: list[TopicPartition] = []
        for topic_partition in partitions:
            leader = self._leader_of(topic_partition)
            if leader is None:
                unknown.append(topic_partition)
            else:
                by_leader.setdefault(leader, []).append(topic_partition)
        if unknown:
            self._tasks.begin(self._look_up(ended, unknown), f"partitions of {ended.transactional_id}")
        for leader, led in by_leader.items():
            queue = self._queues.get(leader)
            if leader == NO_BROKER:
                self._retry_later([(ended, led)])
            elif queue is None:
                self._queues[leader] = [(ended, led)]
                self._tasks.begin(self._send_to(leader), f"transaction markers to {leader}")
            else:
                queue.append((ended, led))

    def _maybe_complete(self, ended: EndedTransaction) -> None:
        if not ended.partitions and ended.is_current():
            ended.on_complete()

    async def _look_up(self, ended: EndedTransaction, unknown: list[TopicPartition]) -> None:
        """Gives up partitions that were deleted; the metadata will have the others soon."""
        there = []
        for topic_partition in unknown:
            if await self._exists(topic_partition):
                there.append(topic_partition)
            else:
                logger.info("no marker of %r for %s, which was deleted", ended.transactional_id, topic_partition)
                ended.partitions.pop(topic_partition, None)
        if there:
            self._retry_later([(ended, there)])
        else:
            self._maybe_complete(ended)

    def _retry_later(self, entries: list[_Entry]) -> None:
        if entries:
            asyncio.get_running_loop().call_later(RETRY_BACKOFF_MS / 1000, self._retry, entries)

    def _retry(self, entries: list[_Entry]) -> None:
        for ended, partitions in entries:
            if ended.is_current():
                self._enqueue(ended, partitions)
                self._maybe_complete(ended)

    async def _send_to(self, broker_id: int) -> None:
        """Sends a broker's queue until it is empty."""
        while entries := [(ended, asked) for ended, asked in self._queues[broker_id] if ended.is_current()]:
            self._queues[broker_id] = []
            self._retry_later(await self._send_once(broker_id, entries))
        del self._queues[broker_id]

    async def _send_once(self, broker_id: int, entries: list[_Entry]) -> list[_Entry]:
        """Sends one request; returns the markers to send again."""
        request = WriteTxnMarkersRequest(markers=[ended.marker(partitions) for ended, partitions in entries])
        try:
            response = await self._write(broker_id, request)
        except (OSError, WireError) as error:
            self._untaken.log(
                broker_id, "broker %d did not take %d transaction markers: %s", broker_id, len(entries), error
            )
            return entries
        errors = {
            (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): ErrorCode(partition.error_code)
            for marker in response.markers
            for topic in marker.topics
            for partition in topic.partitions
        }
        again = []
        for ended, partitions in entries:
            later = self._take(
                ended,
                {topic_partition: errors.get((ended.producer_id, topic_partition)) for topic_partition in partitions},
            )
            if later:
                again.append((ended, later))
            else:
                self._maybe_complete(ended)
        return again

    def _take(self, ended: EndedTransaction, answers: dict[TopicPartition, ErrorCode | None]) -> list[TopicPartition]:
        """Takes the results of one transaction; returns the partitions to try again."""
        later = []
        for topic_partition, error in answers.items():
            if error is ErrorCode.NONE or error in _NO_MARKERS_THERE:
                ended.partitions.pop(topic_partition, None)
            elif error in _FENCED:
                # A newer coordinator has ended the transaction, or will: this one no longer completes it.
                logger.info("the marker of %r for %s is fenced: %s", ended.transactional_id, topic_partition, error)
                ended.is_current = _never
                return []
            else:
                if error not in _LATER:
                    logger.error("the marker of %r for %s: %s", ended.transactional_id, topic_partition, error)
                later.append(topic_partition)
        return later


def _never() -> bool:
    return False
