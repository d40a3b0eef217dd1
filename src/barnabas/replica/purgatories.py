"""The purgatories of a broker, and which change wakes which waiting request.

A waiting request is woken after an append is complete, never in the middle of it. Followers that wait for the log's end
are woken once in a turn of the loop, for all appends of that turn (decision 14). A follower's fetch session does not
watch its resting partitions: a partition that moves notifies the session.
"""

from __future__ import annotations

import asyncio

from barnabas.log.log import AppendInfo, Log
from barnabas.model.ids import TopicPartition
from barnabas.replica.fetch_session import CachedPartition, FetchSession
from barnabas.replica.partition import Partition
from barnabas.replica.purgatory import Purgatory


class Purgatories:
    """The purgatories, one for each kind of request that waits."""

    def __init__(self) -> None:
        self.produce: Purgatory[TopicPartition] = Purgatory()
        self.follower_fetch: Purgatory[TopicPartition] = Purgatory()
        self.consumer_fetch: Purgatory[TopicPartition] = Purgatory()
        self.delete_records: Purgatory[TopicPartition] = Purgatory()
        self._all = self.follower_fetch, self.consumer_fetch, self.produce, self.delete_records
        self._awaiting_high_watermark = self.consumer_fetch, self.produce, self.delete_records
        self._stirred: dict[int, FetchSession] = {}
        """Fetch sessions with resting partitions that changed, and may have something to answer now."""
        self._appended_to: dict[TopicPartition, Log] = {}
        """The logs appended to in this turn of the loop; waiting followers are told next."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def shutdown(self) -> None:
        """Answers all waiting operations."""
        for purgatory in self._all:
            purgatory.shutdown()

    def high_watermark_moved(self, partition: Partition) -> None:
        if partition.resting:
            partition.touch()  # followers learn it with their next fetch; no fetch is answered earlier for it
        for purgatory in self._awaiting_high_watermark:
            if purgatory.delayed:
                purgatory.check_and_complete(partition.topic_partition)

    def follower_advanced(self, partition: Partition, high_watermark_moved: bool) -> None:
        """Wakes consumers that read from this broker as a follower."""
        if high_watermark_moved and self.consumer_fetch.delayed:
            self.consumer_fetch.check_and_complete(partition.topic_partition)

    def wake_all(self, topic_partition: TopicPartition) -> None:
        for purgatory in self._all:
            purgatory.check_and_complete(topic_partition)
        self._wake_stirred()

    def stir(self, partition: Partition) -> None:
        """Has the followers for which `partition` rested look at it again."""
        for fetch in partition.stir():
            if type(fetch) is CachedPartition:
                session = fetch.session
                self._stirred[session.session_id] = session

    def _wake_stirred(self) -> None:
        stirred, self._stirred = self._stirred, {}
        for session in stirred.values():
            waiting = session.waiting
            if waiting is not None and waiting.take_up_stirred():
                waiting.force_complete()

    def appended(self, partition: Partition, info: AppendInfo) -> None:
        """Has resting followers look at the partition again; waiting ones are told at the end of the loop's turn."""
        if partition.resting:
            self.stir(partition)
        if not self.follower_fetch.delayed:
            return
        log = partition.log
        assert log is not None, "it was appended to"
        if not self._appended_to:
            loop = self._loop
            if loop is None:  # kept, because asking for it is a system call before Python 3.12
                loop = self._loop = asyncio.get_running_loop()
            loop.call_soon(self._wake_followers)
        self._appended_to[partition.topic_partition] = log
        log.just_appended = info

    def _wake_followers(self) -> None:
        """Tells waiting followers about all appends of this turn of the loop together.

        So a follower's answer holds all records that came at once over all connections; its next fetch confirms them.
        """
        appended_to, self._appended_to = self._appended_to, {}
        self._wake_stirred()
        for topic_partition in appended_to:
            self.follower_fetch.check_and_complete(topic_partition)
        for log in appended_to.values():
            log.just_appended = None
