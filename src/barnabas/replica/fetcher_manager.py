"""Which fetcher follows which partition: one for each leader and fetcher id (Kafka's ``ReplicaFetcherManager``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.model.config import Config
from barnabas.model.ids import TopicPartition
from barnabas.model.java_hash import string_hash
from barnabas.replica.fetch_state import Connect, FetchState, Follower
from barnabas.replica.fetchers import ReplicaFetcher
from barnabas.replica.partition import Partition
from barnabas.runtime import Runtime, Tasks, ended

NUM_FETCHERS: Final = "num.replica.fetchers"


class ReplicaFetcherManager:
    """Gives each followed partition to its fetcher, and takes it away again."""

    def __init__(self, runtime: Runtime, config: Config, follower: Follower, connect: Connect, tasks: Tasks) -> None:
        self._runtime = runtime
        self._config = config
        self._follower = follower
        self._connect = connect
        self._tasks = tasks
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._fetcher_of: dict[TopicPartition, ReplicaFetcher] = {}
        self.failed_partitions: dict[TopicPartition, None] = {}

    def add(self, partition: Partition) -> None:
        """Begins to follow `partition`, from its log's end, at its present leader and epoch."""
        topic_partition = partition.topic_partition
        self.remove(topic_partition)
        leader_id, fetcher_id = key = (partition.leader_id, self._fetcher_id(topic_partition))
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = ReplicaFetcher(
                self._runtime, self._config, self._follower, self._connect, *key, on_failed=self._failed
            )
            fetcher.task = self._tasks.begin(fetcher.run(), f"fetcher-{fetcher_id}-from-{leader_id}")
            self._fetchers[key] = fetcher
        self._fetcher_of[topic_partition] = fetcher
        fetcher.add(partition)

    def remove(self, topic_partition: TopicPartition) -> None:
        self.failed_partitions.pop(topic_partition, None)
        fetcher = self._fetcher_of.pop(topic_partition, None)
        if fetcher is not None:
            fetcher.remove(topic_partition)

    def state(self, topic_partition: TopicPartition) -> FetchState | None:
        fetcher = self._fetcher_of.get(topic_partition)
        return None if fetcher is None else fetcher.states.get(topic_partition)

    def log_start_moved(self, topic_partition: TopicPartition) -> None:
        """Tells the leader that retention moved this log's start."""
        fetcher = self._fetcher_of.get(topic_partition)
        if fetcher is not None:
            fetcher.log_start_moved(topic_partition)

    def shutdown_idle_fetchers(self) -> None:
        for key, fetcher in list(self._fetchers.items()):
            if not fetcher.states:
                del self._fetchers[key]
                fetcher.stop()

    async def shutdown(self) -> None:
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        self._fetcher_of.clear()
        for fetcher in fetchers:
            fetcher.stop()
        for fetcher in fetchers:
            if fetcher.task is not None:
                await ended(fetcher.task)

    def take_config(self, config: Config, partitions: Iterable[Partition]) -> None:
        """If the number of fetchers changes, the followed ones of `partitions` move to their new fetchers."""
        before, self._config = self._config, config
        if before.number(NUM_FETCHERS) == config.number(NUM_FETCHERS):
            return
        for partition in partitions:
            fetcher = self._fetcher_of.get(partition.topic_partition)
            key = partition.leader_id, self._fetcher_id(partition.topic_partition)
            if fetcher is not None and fetcher is not self._fetchers.get(key):
                self.add(partition)
        self.shutdown_idle_fetchers()

    def _failed(self, topic_partition: TopicPartition) -> None:
        self._fetcher_of.pop(topic_partition, None)
        self.failed_partitions[topic_partition] = None

    def _fetcher_id(self, topic_partition: TopicPartition) -> int:
        """``AbstractFetcherManager.getFetcherId``, with Java's hash of the topic's name."""
        mixed = (31 * string_hash(topic_partition.topic) + topic_partition.partition) & 0x7FFFFFFF
        return mixed % self._config.number(NUM_FETCHERS)
