"""The lag of the groups that this broker coordinates: in records, and by the age of the first unread record.

The broker knows the committed offsets of its groups. A partition's leader knows its end: this broker, or another one,
which is asked as a consumer would ask it. The age comes from the batch of the first unread record. The batch is read
from this broker's replica; without a replica it is fetched, from up to `FETCHED_AT_ONCE` partitions at a time.

The lag is computed only on request (`want`), and at most every `FRESH_MS`: a request gets the last known values, and
never waits for another broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from barnabas.broker.peers import Peers, PeerTooOld
from barnabas.broker.server import Broker
from barnabas.client.offsets import (
    FIRST_BATCH_VERSION,
    LATEST,
    first_batch_request,
    list_offsets_request,
    read_first_timestamp,
    read_list_offsets,
)
from barnabas.log.batches import CorruptBatch
from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import NO_TIMESTAMP
from barnabas.runtime import Tasks
from barnabas.runtime.turns import SLICE
from barnabas.web.metrics import Kind, Metric, Reading
from barnabas.wire.errors import WireError

logger = logging.getLogger(__name__)

FRESH_MS: Final = 5_000
REQUEST_TIMEOUT_MS: Final = 5_000
PARTITIONS_IN_A_REQUEST: Final = 1_000
FETCHED_AT_ONCE: Final = 64
"""The most batches fetched from other brokers in one look. A broker with replicas of all that its groups read fetches
none."""
_LABELS: Final = ("group", "topic", "partition")


class PartitionLag(NamedTuple):
    """The lag of one group in one partition. `end` is the high watermark, None if no leader has answered. `oldest_ms`
    is the timestamp of the batch with the first unread record, None if there is none or it is unknown."""

    group: str
    topic_partition: TopicPartition
    committed: int
    end: int | None = None
    oldest_ms: int | None = None

    @property
    def records(self) -> int | None:
        return None if self.end is None else max(0, self.end - self.committed)

    def seconds(self, now_ms: int) -> float | None:
        """The age of the first unread record; None if unknown, 0 for a group that has read everything."""
        if self.records == 0:
            return 0.0
        return None if self.oldest_ms is None else max(0, now_ms - self.oldest_ms) / 1000


class GroupLag:
    """The lag of one broker's groups, from `start` to `stop`. `known` is replaced as a whole."""

    def __init__(self) -> None:
        self.known: tuple[PartitionLag, ...] = ()
        self.looked_ms: int | None = None
        """When `known` was determined, on the monotonic clock."""
        self._broker: Broker | None = None
        self._peers: Peers | None = None
        self._tasks = Tasks(_failed)
        self._look: asyncio.Task[None] | None = None
        self._fetched: dict[tuple[TopicPartition, int], int] = {}
        """Timestamps that were fetched, which never change."""
        self.metrics = (
            Metric(
                "barnabas_group_lag_records",
                Kind.GAUGE,
                _LABELS,
                "",
                "Records that a group has not committed, by the group's coordinator.",
                self._records,
            ),
            Metric(
                "barnabas_group_lag_seconds",
                Kind.GAUGE,
                _LABELS,
                "",
                "The age of the first record that a group has not committed; 0 if there is none.",
                self._seconds,
            ),
        )

    def start(self, broker: Broker) -> None:
        self._broker = broker
        self._peers = Peers(
            broker.connect_to,
            lambda broker_id: broker.metadata.endpoint(broker_id, broker.listeners.inter_broker),
            f"broker-{broker.broker_id}-group-lag",
            negotiate=True,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )

    def stop(self) -> None:
        if self._look is not None:
            self._look.cancel()
        if self._peers is not None:
            self._peers.close()

    def want(self) -> None:
        """Starts a look, unless one is under way or `known` is fresh."""
        broker = self._broker
        if broker is None or (self._look is not None and not self._look.done()):
            return
        now_ms = broker.runtime.clock.monotonic_ms()
        if self.looked_ms is None or now_ms - self.looked_ms >= FRESH_MS:
            self._look = self._tasks.begin(self.look(), "group-lag")

    def _records(self, broker: Broker) -> Iterator[Reading]:
        for lag in self.known:
            records = lag.records
            if records is not None:
                yield (lag.group, lag.topic_partition.topic, str(lag.topic_partition.partition)), records

    def _seconds(self, broker: Broker) -> Iterator[Reading]:
        now_ms = broker.runtime.clock.now_ms()
        for lag in self.known:
            seconds = lag.seconds(now_ms)
            if seconds is not None:
                yield (lag.group, lag.topic_partition.topic, str(lag.topic_partition.partition)), seconds

    async def look(self) -> None:
        """Determines `known` anew."""
        broker, turn = self._looking()
        committed = [
            PartitionLag(group.group_id, key, offset.committed.offset)
            for part in broker.groups.owned
            for group in part.groups.values()
            for key, offset in group.offsets.committed.items()
        ]
        await turn()
        ends = await self._ends(dict.fromkeys(lag.topic_partition for lag in committed))
        found: list[PartitionLag] = []
        elsewhere: dict[tuple[TopicPartition, int], None] = {}
        for at, lag in enumerate(committed, 1):
            end = ends.get(lag.topic_partition)
            oldest_ms = None
            if end is not None and lag.committed < end:
                place = lag.topic_partition, lag.committed
                oldest_ms = self._stored_timestamp(*place)
                if oldest_ms is None:
                    oldest_ms = self._fetched.get(place)
                    elsewhere[place] = None
            found.append(lag._replace(end=end, oldest_ms=oldest_ms))
            if not at % SLICE:
                await turn()
        found.sort()
        self.known = tuple(found)
        self.looked_ms = broker.runtime.clock.monotonic_ms()
        await self._fetch(elsewhere)

    def _looking(self) -> tuple[Broker, Callable[[], Awaitable[None]]]:
        assert self._broker is not None
        return self._broker, self._broker.request_channel.long_requests.turns.next

    async def _ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of partitions for a consumer, for partitions whose leader answers."""
        broker, turn = self._looking()
        ends: dict[TopicPartition, int] = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for at, partition in enumerate(partitions, 1):
            here = broker.replicas.partition(partition)
            if here is not None and here.is_leader and here.log is not None:
                ends[partition] = here.log.high_watermark
            else:
                known = broker.metadata.partition(partition)
                if known is not None and known.leader in broker.metadata.image.brokers:
                    by_leader.setdefault(known.leader, []).append(partition)
            if not at % SLICE:
                await turn()
        for leader, asked in by_leader.items():
            for first in range(0, len(asked), PARTITIONS_IN_A_REQUEST):
                ends |= await self._ends_at(leader, asked[first : first + PARTITIONS_IN_A_REQUEST])
        return ends

    async def _ends_at(self, leader: int, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        assert self._peers is not None
        try:
            answer = await self._peers.send(leader, list_offsets_request(dict.fromkeys(partitions, LATEST)), lowest=1)
        except (OSError, WireError, PeerTooOld) as error:
            logger.debug("broker %d does not tell the ends of its partitions: %s", leader, error)
            return {}
        return {partition: listed.offset for partition, listed in read_list_offsets(answer).items() if not listed.error}

    def _stored_timestamp(self, topic_partition: TopicPartition, offset: int) -> int | None:
        """The timestamp of the record's batch; None if no replica of this broker has it."""
        broker, _ = self._looking()
        partition = broker.replicas.partition(topic_partition)
        log = None if partition is None else partition.log
        if log is None or not offset < log.log_end_offset:
            return None
        try:
            batch = log.segments.batch_at(max(offset, log.log_start_offset))
        except (OSError, CorruptBatch) as error:
            # Readers and the cleaner report the fault, and handle it.
            logger.debug("%s at offset %d cannot be read: %s", topic_partition, offset, error)
            return None
        return None if batch is None or batch.base_timestamp == NO_TIMESTAMP else batch.base_timestamp

    async def _fetch(self, wanted: dict[tuple[TopicPartition, int], None]) -> None:
        """Fetches timestamps of some of the records that no replica here has; the next look uses them."""
        assert self._peers is not None
        broker, turn = self._looking()
        self._fetched = {place: self._fetched[place] for place in wanted if place in self._fetched}
        for topic_partition, offset in islice(
            (place for place in wanted if place not in self._fetched), FETCHED_AT_ONCE
        ):
            known = broker.metadata.partition(topic_partition)
            if known is None or known.leader not in broker.metadata.image.brokers or known.leader == broker.broker_id:
                continue
            request = first_batch_request(topic_partition, offset)
            try:
                answer = await self._peers.send(known.leader, request, FIRST_BATCH_VERSION)
                timestamp = read_first_timestamp(answer)
            except (OSError, WireError) as error:
                logger.debug("broker %d does not send %s: %s", known.leader, topic_partition, error)
                return
            if timestamp is not None:
                self._fetched[topic_partition, offset] = timestamp
            await turn()


def _failed(name: str, error: BaseException) -> None:
    """The broker goes on without it; `Tasks` has logged the error."""
