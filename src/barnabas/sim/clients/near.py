"""A consumer that names its rack and reads from the replica it is sent to (KIP-392), as Kafka's own does."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

from barnabas.client.fetcher import Asked
from barnabas.client.positions import Place
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_BROKER, NO_EPOCH, TopicPartition
from barnabas.sim.clients.aged import AgedConsumer
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse

LEASE_MS: Final = 60_000
"""Kafka's consumer uses ``metadata.max.age.ms`` for that (``SubscriptionState.preferredReadReplica``)."""


class NearConsumer(AgedConsumer):
    """Reads from that replica until a fetch fails or its lease ends, since a broker that is no replica any more may not
    know it and raise no error. Then it asks the leader, which may send it there again."""

    rack = ""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._near: dict[TopicPartition, tuple[int, int]] = {}
        """By partition: the broker to read from, and until when by the monotonic clock."""

    def _by_leader(
        self, wanted: Mapping[TopicPartition, Asked], busy: Container[int]
    ) -> dict[int, dict[TopicPartition, Asked]]:
        if busy is not self._fetches:
            return super()._by_leader(wanted, busy)  # only leaders know where a partition begins and ends
        now_ms = self.cluster.runtime.clock.monotonic_ms()
        self._near = {partition: near for partition, near in self._near.items() if now_ms < near[1]}
        far = {partition: place for partition, place in wanted.items() if partition not in self._near}
        by_broker = super()._by_leader(far, busy)
        for partition, place in wanted.items():
            broker, _ = self._near.get(partition, (NO_BROKER, 0))
            if broker != NO_BROKER and broker not in busy:
                by_broker.setdefault(broker, {})[partition] = place
        return by_broker

    def _request(self, asked: dict[TopicPartition, Place], *, with_epochs: bool) -> FetchRequest:
        request = super()._request(asked, with_epochs=with_epochs)
        request.rack_id = self.rack
        for partition in (each for topic in request.topics for each in topic.partitions):
            partition.last_fetched_epoch = NO_EPOCH  # a lagging follower does not know it
        return request

    def _answered(self, requests: Any) -> Iterator[tuple[int, Any, Any]]:
        for broker, answer, asked in super()._answered(requests):
            if isinstance(answer, FetchResponse):
                self._note_who_is_near(answer, asked)
            yield broker, answer, asked

    def _note_who_is_near(self, answer: FetchResponse, asked: Mapping[TopicPartition, Place]) -> None:
        names = {self.cluster.metadata.topic_id(partition.topic): partition.topic for partition in asked}
        for topic in answer.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for told in topic.partitions:
                partition = TopicPartition(name, told.partition_index)
                if told.preferred_read_replica != NO_BROKER:
                    lease_ends_ms = self.cluster.runtime.clock.monotonic_ms() + LEASE_MS
                    self._near[partition] = told.preferred_read_replica, lease_ends_ms
                elif partition in self._near and told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    told.error_code = int(ErrorCode.OFFSET_NOT_AVAILABLE)  # it is behind: the leader says what is there

    def _see_to_requests(self) -> None:
        for partition in self._in_doubt:
            self._near.pop(partition, None)
        super()._see_to_requests()
