"""Replicas of one partition in one process: real logs on a temporary directory, real partitions, no sockets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from barnabas.log.log import AppendOrigin, Log
from barnabas.model.config import broker_config, topic_config
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_EPOCH, NO_OFFSET, TopicPartition, Uuid
from barnabas.model.leadership import LeaderAndIsr
from barnabas.replica.delayed_fetch import FetchedPartition, FetchParams, TopicIdPartition
from barnabas.replica.leading import ProposedIsr
from barnabas.replica.partition import Partition
from barnabas.replica.readable_partition import FetchIsolation
from barnabas.replica.replicas import Replicas
from barnabas.replica.truncation import truncation_offset
from barnabas.runtime.real import RealDisk
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.records import Record, batches, build_batch

TOPIC_PARTITION = TopicPartition("flights", 0)
TOPIC_ID = Uuid(b"0123456789abcdef")
KEY = TopicIdPartition(TOPIC_ID, *TOPIC_PARTITION)
LAG_MS = 30_000
WALL_MS = 1_700_000_000_000


def batch(*values: bytes) -> bytearray:
    return bytearray(build_batch([Record(at, WALL_MS, None, value, ()) for at, value in enumerate(values)]))


async def fetch_one(
    replicas: Replicas,
    params: FetchParams,
    asked: FetchRequest.FetchPartition,
    key: TopicIdPartition = KEY,
) -> FetchResponse.PartitionData:
    """What a fetch of one partition is answered, after waiting where it waits."""
    fetch = await replicas.fetching.fetch(params, [FetchedPartition(key, asked)])
    await fetch.over()
    (partition,) = replicas.fetching.fetch_answers(fetch)
    return partition.answer()


class Node:
    """One broker with a replica; it is the partition's `Surroundings`."""

    def __init__(self, broker_id: int, directory: Path, min_isr: int = 1) -> None:
        self.broker_id = broker_id
        self.replica_lag_time_max_ms = LAG_MS
        self.directory = directory / str(broker_id) / str(TOPIC_PARTITION)
        self.config = topic_config(broker_config({}), {"min.insync.replicas": str(min_isr)})
        self.dead: set[int] = set()
        self.proposed: list[ProposedIsr] = []
        self.woken = 0
        self.checkpointed_high_watermark = 0
        self.partition = Partition(TOPIC_PARTITION, self)

    def open_log(self, partition: Partition, topic_id: Uuid, is_new: bool) -> Log:
        if partition.log is not None:
            return partition.log
        log = Log.open(RealDisk(), str(self.directory), TOPIC_PARTITION, self.config, now_ms=WALL_MS, topic_id=topic_id)
        log.update_high_watermark(self.checkpointed_high_watermark)
        return log

    def is_alive(self, broker_id: int) -> bool:
        return broker_id not in self.dead

    def alter_isr(self, partition: Partition, proposed: ProposedIsr) -> None:
        self.proposed.append(proposed)

    def too_few_in_sync(self, partition: Partition, outcome: ErrorCode) -> None:
        pass

    def high_watermark_moved(self, partition: Partition) -> None:
        self.woken += 1

    @property
    def log(self) -> Log:
        return self.partition.local_log()

    def restart(self, checkpointed_high_watermark: int | None = None) -> None:
        """The process dies and comes back with what it wrote; its high watermark is the one last checkpointed."""
        self.log.close_files()
        if checkpointed_high_watermark is not None:
            self.checkpointed_high_watermark = checkpointed_high_watermark
        self.partition = Partition(TOPIC_PARTITION, self)

    def lead(
        self,
        leader_epoch: int,
        isr: Sequence[int],
        replicas: Sequence[int] = (1, 2, 3),
        partition_epoch: int | None = None,
        now_ms: int = 0,
    ) -> bool:
        return self.partition.make_leader(
            state(self.broker_id, leader_epoch, isr, replicas, partition_epoch), TOPIC_ID, now_ms
        )

    def follow(self, leader: Node | int, leader_epoch: int, replicas: Sequence[int] = (1, 2, 3)) -> bool:
        leader_id = leader if isinstance(leader, int) else leader.broker_id
        return self.partition.make_follower(state(leader_id, leader_epoch, (leader_id,), replicas, None), TOPIC_ID)

    def append(self, *values: bytes, acks: int = 1, now_ms: int = 0) -> int:
        """One batch of `values`; returns its first offset."""
        info, _ = self.partition.append_as_leader(
            batch(*values), acks, now_ms=now_ms, wall_ms=WALL_MS, origin=AppendOrigin.CLIENT
        )
        return info.first_offset

    def fetched_by(self, follower_id: int, offset: int, now_ms: int = 0) -> bool:
        """The follower fetches from `offset`."""
        return self.partition.record_fetch(follower_id, -1, offset, 0, self.log.log_end_offset, now_ms)

    def fetch_from(self, leader: Node, now_ms: int = 0) -> bool:
        """One fetch of this follower, done as fetcher and leader do. False when its log was cut."""
        partition = leader.partition
        offset = self.log.log_end_offset
        result = partition.read(
            offset,
            1 << 20,
            current_leader_epoch=self.partition.leader_epoch,
            last_fetched_epoch=self.log.latest_epoch,
            isolation=FetchIsolation.LOG_END,
            only_leader=True,
            min_one_batch=True,
        )
        if result.diverging is not None:
            epoch, end_offset = result.diverging
            assert epoch != NO_EPOCH
            assert end_offset != NO_OFFSET
            self.log.truncate_to(truncation_offset(self.log, epoch, end_offset), now_ms=WALL_MS)
            return False
        partition.record_fetch(self.broker_id, -1, offset, self.log.log_start_offset, result.log_end_offset, now_ms)
        self.partition.append_as_follower(
            result.records, leader.log.high_watermark, leader.log.log_start_offset, WALL_MS
        )
        return True

    def catch_up(self, leader: Node, now_ms: int = 0) -> None:
        """Fetches until it is where the leader is and the leader knows."""
        for _ in range(20):
            before = self.log.log_end_offset
            if self.fetch_from(leader, now_ms) and before == leader.log.log_end_offset:
                return
        raise AssertionError(f"{self.log} does not catch up with {leader.log}")

    def granted(self, proposed: ProposedIsr | None = None, now_ms: int = 0) -> None:
        """The controller carries the last proposal out."""
        proposed = proposed or self.proposed[-1]
        sent = proposed.sent
        answer = LeaderAndIsr(sent.leader, sent.leader_epoch, sent.isr, partition_epoch=sent.partition_epoch + 1)
        assert self.partition.isr_altered(proposed, answer, now_ms) is False

    def content(self) -> list[tuple[int, int, int]]:
        """(base offset, leader epoch, CRC) of each batch."""
        data = self.log.read(self.log.log_start_offset, 1 << 24)
        return [(header.base_offset, header.partition_leader_epoch, header.crc) for header, _, _ in batches(data)]


def state(
    leader: int, leader_epoch: int, isr: Sequence[int], replicas: Sequence[int], partition_epoch: int | None
) -> LeaderAndIsrRequest.LeaderAndIsrPartitionState:
    return LeaderAndIsrRequest.LeaderAndIsrPartitionState(
        TOPIC_PARTITION.topic,
        TOPIC_PARTITION.partition,
        1,
        leader,
        leader_epoch,
        list(isr),
        leader_epoch if partition_epoch is None else partition_epoch,
        list(replicas),
    )
