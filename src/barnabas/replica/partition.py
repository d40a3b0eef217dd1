"""One partition as this broker has it (Kafka's ``Partition``): its log, its role, and who leads it.

The leader knows each follower's `Progress` from its fetches. What follows from that, the high watermark and the ISR, is
decided in `leading`, from values; here it is done.

No method here waits. The change of an ISR goes out through `alter_isr`, and comes back by `isr_altered`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, Protocol

from barnabas.log.following import append_copied
from barnabas.log.log import AppendInfo, AppendOrigin, Log
from barnabas.log.validation import Unpacking
from barnabas.model.cluster import BrokerInfo
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, NO_EPOCH, NO_OFFSET, ZERO_UUID, TopicPartition, Uuid
from barnabas.model.leadership import CommittedIsr, IsrState, LeaderAndIsr, PendingExpandIsr, PendingShrinkIsr
from barnabas.model.sentinels import ACKS_ALL, EARLIEST_LOCAL_TIMESTAMP, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from barnabas.replica.leading import (
    ProposedIsr,
    effective_min_isr,
    expanded_isr,
    lacks_min_isr,
    lowest_log_start,
    next_high_watermark,
    produce_outcome,
    refused_isr,
    shrunk_isr,
)
from barnabas.replica.progress import Progress
from barnabas.replica.replica_selector import ReplicaView, Select
from barnabas.replica.traffic import Traffic
from barnabas.runtime import Bytes
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest

logger = logging.getLogger(__name__)

PartitionState = LeaderAndIsrRequest.LeaderAndIsrPartitionState

HIGH_WATERMARK_OFFSET: Final = -1
"""``DeleteRecordsRequest.HIGH_WATERMARK``: delete up to wherever the high watermark is."""


class Surroundings(Protocol):
    """What a partition needs of its broker."""

    broker_id: int
    replica_lag_time_max_ms: int

    def open_log(self, partition: Partition, topic_id: Uuid, is_new: bool) -> Log:
        """The partition's log, made when it is not there, with its checkpointed high watermark."""
        ...

    def is_alive(self, broker_id: int) -> bool: ...

    def alter_isr(self, partition: Partition, proposed: ProposedIsr) -> None: ...

    def high_watermark_moved(self, partition: Partition) -> None:
        """Wakes what waits for the high watermark, or for the lowest log start offset."""
        ...

    def too_few_in_sync(self, partition: Partition, outcome: ErrorCode) -> None:
        """A produce with acks=all ends with `outcome`, for want of in-sync replicas."""
        ...


class RestingFetch(Protocol):
    """What a follower's fetch session holds of a partition that the follower has all of."""

    @property
    def last_fetch_ms(self) -> int:
        """When the follower fetched last in that session; monotonic."""
        ...

    def stir(self) -> None:
        """The session's next fetch looks at the partition again."""
        ...


class ReadResult:
    """What a fetch from one partition found. The offsets are those before the read, so that they belong together."""

    __slots__ = ("diverging", "high_watermark", "last_stable_offset", "log_end_offset", "log_start_offset", "records")

    def __init__(self, log: Log) -> None:
        self.high_watermark = log.high_watermark
        self.last_stable_offset = log.last_stable_offset
        self.log_start_offset = log.log_start_offset
        self.log_end_offset = log.log_end_offset
        self.records: Bytes = b""
        self.diverging: tuple[int, int] | None = None
        """The epoch and its end offset to which the follower has to truncate (KIP-595)."""


class Partition:
    """Leader or follower of one partition; neither before the first LeaderAndIsr."""

    __slots__ = (
        "_surroundings",
        "adding_replicas",
        "assigned_replicas",
        "controller_epoch",
        "isr_state",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "leading_since_epoch",
        "log",
        "partition_epoch",
        "progress",
        "removing_replicas",
        "resting",
        "topic_partition",
        "traffic",
    )

    def __init__(self, topic_partition: TopicPartition, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self.topic_partition = topic_partition
        self.log: Log | None = None
        self.leader_id = NO_BROKER
        self.leader_epoch = NO_EPOCH
        self.leader_epoch_start_offset: int | None = None
        self.leading_since_epoch = NO_EPOCH
        """The epoch since which this broker leads without a break, while it leads."""
        self.partition_epoch = -1
        self.controller_epoch = 0
        self.assigned_replicas: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        self.removing_replicas: tuple[int, ...] = ()
        self.isr_state: IsrState = CommittedIsr(frozenset(), -1)
        self.progress: dict[int, Progress] = {}
        self.resting: dict[int, RestingFetch] = {}
        """The followers whose fetches pass this partition by until it is stirred."""
        self.traffic = Traffic()

    def __repr__(self) -> str:
        return (
            f"Partition({self.topic_partition}, leader {self.leader_id} epoch {self.leader_epoch}, "
            f"isr {sorted(self.isr_state.isr)})"
        )

    # What it is

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self._surroundings.broker_id and self.log is not None

    def leads_with(self, log: Log, leader_epoch: int) -> bool:
        """Whether this broker still leads in that epoch, and with that log."""
        return self.log is log and self.leader_epoch == leader_epoch and self.leader_id == self._surroundings.broker_id

    @property
    def topic_id(self) -> Uuid:
        return ZERO_UUID if self.log is None or self.log.topic_id is None else self.log.topic_id

    @property
    def is_under_min_isr(self) -> bool:
        return self.is_leader and len(self.isr_state.isr) < self.effective_min_isr

    @property
    def is_under_replicated(self) -> bool:
        return self.is_leader and len(self.isr_state.isr) < len(self.assigned_replicas)

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def effective_min_isr(self) -> int:
        """``min.insync.replicas``, or how many replicas there are where that is less."""
        assert self.log is not None
        return effective_min_isr(self.progress, self.log.settings.min_insync_replicas)

    def local_log(self) -> Log:
        if self.log is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Log for partition {self.topic_partition} is not available on broker"
            )
        return self.log

    def leader_log(self) -> Log:
        log = self.log
        if log is None or self.leader_id != self._surroundings.broker_id:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Leader not local for partition {self.topic_partition} on broker {self._surroundings.broker_id}",
            )
        return log

    def log_with_epoch(self, current_leader_epoch: int, *, only_leader: bool) -> Log:
        """The log for someone who believes in `current_leader_epoch` (-1: does not say). Fences both ways (KIP-320)."""
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(
                    ErrorCode.FENCED_LEADER_EPOCH,
                    f"Leader epoch {current_leader_epoch} of {self.topic_partition} is behind {self.leader_epoch}",
                )
            raise KafkaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"Leader epoch {current_leader_epoch} of {self.topic_partition} is ahead of {self.leader_epoch}",
            )
        return self.leader_log() if only_leader else self.local_log()

    def is_among(self, throttled: frozenset[str]) -> bool:
        """Whether the topic's list of throttled replicas names this one."""
        if not throttled:
            return False
        return "*" in throttled or f"{self.topic_partition.partition}:{self._surroundings.broker_id}" in throttled

    # Becoming leader or follower

    def make_leader(self, state: PartitionState, topic_id: Uuid, now_ms: int) -> bool:
        """Takes the lead in `state`'s epoch. True when this broker did not lead before.

        The epoch's start is entered into the epoch cache at once, before any record: a follower that asks about a later
        epoch than this log has records of must learn where to truncate (KIP-279).
        """
        if state.partition_epoch < self.partition_epoch:
            logger.info("%s: LeaderAndIsr with older partition epoch %d", self, state.partition_epoch)
            return False
        log = self._surroundings.open_log(self, topic_id, state.is_new)
        new_leader = not self.is_leader
        new_epoch = state.leader_epoch > self.leader_epoch
        end_offset = log.log_end_offset
        if new_epoch:
            # The one step that can fail comes before every change, so that the request can be repeated.
            log.maybe_assign_epoch_start_offset(state.leader_epoch, end_offset)
        self.log = log
        self.traffic.look(log, leading=True)
        self.controller_epoch = state.controller_epoch
        self._assign(state)
        followers = [replica for replica in state.replicas if replica != self._surroundings.broker_id]
        self.progress = {follower: self.progress.get(follower) or Progress(follower) for follower in followers}
        self.isr_state = CommittedIsr(frozenset(state.isr), state.partition_epoch)
        if new_epoch:
            # In an epoch that this broker did not hear of another may have led, and cut the followers' logs. (Apache's
            # leader goes on with what it knew of them, and commits what they do not have any more.)
            another_may_have_led = new_leader or state.leader_epoch > self.leader_epoch + 1
            for progress in self.progress.values():
                progress.reset(
                    end_offset,
                    new_leader=another_may_have_led,
                    in_sync=progress.broker_id in state.isr,
                    now_ms=now_ms,
                )
            self.leader_epoch = state.leader_epoch
            self.leader_epoch_start_offset = end_offset
            if new_leader:
                self.leading_since_epoch = state.leader_epoch
            logger.info(
                "leading %s in epoch %d from offset %d, high watermark %d, isr %s",
                self.topic_partition,
                state.leader_epoch,
                end_offset,
                log.high_watermark,
                list(state.isr),
            )
        self.partition_epoch = state.partition_epoch
        self.leader_id = self._surroundings.broker_id
        # The ISR may be down to this replica alone.
        if self.maybe_increment_high_watermark(now_ms):
            self._surroundings.high_watermark_moved(self)
        return new_leader

    def make_follower(self, state: PartitionState, topic_id: Uuid) -> bool:
        """Follows `state.leader` (-1: nobody yet). True when the leader epoch is new: the fetcher has to restart."""
        if state.partition_epoch < self.partition_epoch:
            logger.info("%s: LeaderAndIsr with older partition epoch %d", self, state.partition_epoch)
            return False
        self.log = self._surroundings.open_log(self, topic_id, state.is_new)
        self.traffic.look(self.log, leading=False)
        new_epoch = state.leader_epoch > self.leader_epoch
        self.controller_epoch = state.controller_epoch
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.leader_epoch_start_offset = None
        self.partition_epoch = state.partition_epoch
        self._assign(state)
        self.progress = {}
        self.isr_state = CommittedIsr(frozenset(), state.partition_epoch)
        logger.info(
            "following %d in %s, epoch %d, from offset %d, high watermark %d",
            state.leader,
            self.topic_partition,
            state.leader_epoch,
            self.log.log_end_offset,
            self.log.high_watermark,
        )
        return new_epoch

    def _assign(self, state: PartitionState) -> None:
        self.assigned_replicas = tuple(state.replicas)
        self.adding_replicas = tuple(state.adding_replicas)
        self.removing_replicas = tuple(state.removing_replicas)

    def forget(self) -> None:
        """The replica is deleted, or its log directory is offline: nothing is led or followed any more."""
        self.log = None
        self.traffic.look(None, leading=False)
        self.leader_id = NO_BROKER
        self.leader_epoch_start_offset = None
        self.assigned_replicas = self.adding_replicas = self.removing_replicas = ()
        self.isr_state = CommittedIsr(frozenset(), -1)
        self.progress = {}

    # The leader: appending

    def append_as_leader(
        self,
        records: bytearray | memoryview,
        required_acks: int,
        *,
        now_ms: int,
        wall_ms: int,
        origin: AppendOrigin,
        unpacking: Unpacking | None = None,
    ) -> tuple[AppendInfo, bool]:
        """Appends, and tells whether the high watermark rose by it. NOT_ENOUGH_REPLICAS means nothing was appended."""
        log = self.log
        if log is None or self.leader_id != self._surroundings.broker_id:
            log = self.leader_log()
        minimum = log.settings.min_insync_replicas
        if (
            required_acks == ACKS_ALL
            and len(self.isr_state.isr) < minimum
            and lacks_min_isr(self.isr_state, self.progress, minimum)
        ):
            self._surroundings.too_few_in_sync(self, ErrorCode.NOT_ENOUGH_REPLICAS)
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {sorted(self.isr_state.isr)} is insufficient to satisfy the min.isr "
                f"requirement of {self.effective_min_isr} for partition {self.topic_partition}",
            )
        info = log.append_as_leader(records, self.leader_epoch, now_ms=wall_ms, origin=origin, unpacking=unpacking)
        self.traffic.produces += 1
        return info, self.maybe_increment_high_watermark(now_ms)

    def check_enough_replicas_reach_offset(
        self, required_offset: int, leading_since_epoch: int
    ) -> tuple[bool, ErrorCode]:
        """Whether a produce request with acks=all is over, and with which error.

        A request that was appended before this broker ceased to lead is over, although it may lead again: what stands
        at the request's offsets now may be something else.
        """
        log = self.log
        if (
            log is None
            or self.leader_id != self._surroundings.broker_id
            or self.leading_since_epoch != leading_since_epoch
        ):
            return False, ErrorCode.NOT_LEADER_OR_FOLLOWER
        outcome = produce_outcome(
            required_offset,
            log.high_watermark,
            self.isr_state,
            self.progress,
            log.settings.min_insync_replicas,
        )
        if outcome[1] is not _NONE:
            self._surroundings.too_few_in_sync(self, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return outcome

    # The leader: its followers

    def record_fetch(
        self,
        follower_id: int,
        broker_epoch: int,
        fetch_offset: int,
        follower_start_offset: int,
        leader_end_offset: int,
        now_ms: int,
    ) -> bool:
        """A follower fetched from `fetch_offset`. True when the high watermark rose by it."""
        progress = self.progress[follower_id]
        moved = progress.log_end_offset != fetch_offset
        low_watermark_moved = progress.log_start_offset != follower_start_offset
        progress.record_fetch(fetch_offset, follower_start_offset, leader_end_offset, broker_epoch, now_ms)
        if follower_id not in self.isr_state.isr:
            self.maybe_expand_isr(progress)
        raised = moved and self.maybe_increment_high_watermark(now_ms)
        if raised or low_watermark_moved:
            self._surroundings.high_watermark_moved(self)
        return raised

    def has_all(self, follower_id: int, fetch_offset: int) -> bool:
        """Whether a member of the ISR that fetches from `fetch_offset` has all, and no change of the ISR is in flight:
        until something moves, its fetches would change nothing here."""
        progress = self.progress.get(follower_id)
        return (
            self.is_leader
            and progress is not None
            and self.log is not None
            and progress.log_end_offset == fetch_offset == self.log.log_end_offset
            and isinstance(self.isr_state, CommittedIsr)
            and follower_id in self.isr_state.isr
        )

    def rest(self, follower_id: int, fetch: RestingFetch) -> None:
        before = self.resting.get(follower_id)
        self.resting[follower_id] = fetch
        if before is not None and before is not fetch:
            before.stir()

    def touch(self) -> None:
        """There is something to tell to followers at rest, with their next fetch."""
        for fetch in self.resting.values():
            fetch.stir()

    def stir(self) -> Iterable[RestingFetch]:
        """Ends every rest, before or after whatever moved; returns the fetches that may have something to answer now.

        A follower that rested was caught up at its last fetch, as if that fetch had asked for this partition.
        """
        resting, self.resting = self.resting, {}
        for follower_id, fetch in resting.items():
            progress = self.progress.get(follower_id)
            if progress is not None:
                progress.rested_until(fetch.last_fetch_ms)
            fetch.stir()
        return resting.values()

    def maybe_increment_high_watermark(self, now_ms: int) -> bool:
        """Raises the high watermark as far as the maximal ISR allows; True when it rose."""
        log, surroundings = self.log, self._surroundings
        if log is None or self.leader_id != surroundings.broker_id:
            return False
        before = log.high_watermark
        high_watermark = next_high_watermark(
            before,
            log.log_end_offset,
            self.isr_state,
            self.progress,
            log.settings.min_insync_replicas,
            surroundings.is_alive,
            surroundings.replica_lag_time_max_ms,
            now_ms,
        )
        if high_watermark == before:
            return False
        log.update_high_watermark(high_watermark)
        return True

    @property
    def low_watermark(self) -> int:
        """Below it, records are deleted on every live replica."""
        return lowest_log_start(self.leader_log().log_start_offset, self.progress, self._surroundings.is_alive)

    # The leader: its ISR

    def maybe_expand_isr(self, progress: Progress) -> bool:
        """Proposes the follower for the ISR when it may join."""
        if self.log is None or self.leader_epoch_start_offset is None:
            return False
        pending = expanded_isr(
            self.isr_state,
            progress,
            self.log.high_watermark,
            self.leader_epoch_start_offset,
            self._surroundings.is_alive,
        )
        if pending is None:
            return False
        self._propose(pending, pending.isr | pending.new_in_sync)
        return True

    def maybe_shrink_isr(self, now_ms: int) -> bool:
        """Proposes to drop the followers that have not been caught up for ``replica.lag.time.max.ms``."""
        log, surroundings = self.log, self._surroundings
        if log is None or not self.is_leader:
            return False
        end_offset, lag_max_ms = log.log_end_offset, surroundings.replica_lag_time_max_ms
        pending = shrunk_isr(self.isr_state, surroundings.broker_id, self.progress, end_offset, lag_max_ms, now_ms)
        if pending is None:
            return False
        logger.info(
            "shrinking the isr of %s from %s: out of sync are %s, log end offset %d, high watermark %d",
            self.topic_partition,
            sorted(pending.isr),
            [self.progress.get(broker_id, broker_id) for broker_id in sorted(pending.out_of_sync)],
            end_offset,
            log.high_watermark,
        )
        self._propose(pending, pending.isr - pending.out_of_sync)
        return True

    def _propose(self, state: PendingExpandIsr | PendingShrinkIsr, isr: frozenset[int]) -> None:
        self.isr_state = state
        sent = LeaderAndIsr(
            self._surroundings.broker_id,
            self.leader_epoch,
            tuple(sorted(isr)),
            partition_epoch=self.partition_epoch,
        )
        self._surroundings.alter_isr(self, ProposedIsr(state, sent))

    def isr_altered(self, proposed: ProposedIsr, outcome: LeaderAndIsr | ErrorCode, now_ms: int) -> bool:
        """The controller answered `proposed`. True when the same proposal should be sent again.

        An answer to a proposal that is not the pending one any more (a LeaderAndIsr came between) changes nothing.
        """
        if self.isr_state is not proposed.state:
            return False
        if isinstance(outcome, ErrorCode):
            self.isr_state, again = refused_isr(proposed, outcome)
            if self.isr_state is proposed.state:
                logger.log(
                    logging.WARNING if again else logging.INFO,
                    "the controller refused the isr %s for %s (%s)%s",
                    proposed.sent.isr,
                    self.topic_partition,
                    outcome.name,
                    "; asking again" if again else "",
                )
            return again
        if outcome.leader_epoch != self.leader_epoch or outcome.partition_epoch < self.partition_epoch:
            logger.info("%s: the controller answered with an older state %s", self, outcome)
            return False
        self.isr_state = CommittedIsr(frozenset(outcome.isr), outcome.partition_epoch)
        self.partition_epoch = outcome.partition_epoch
        self.touch()  # who is no member any more must not be passed by when it fetches
        logger.info(
            "isr of %s is %s, partition epoch %d", self.topic_partition, sorted(outcome.isr), outcome.partition_epoch
        )
        if self.maybe_increment_high_watermark(now_ms):
            self._surroundings.high_watermark_moved(self)
        return False

    # Reading

    def read(
        self,
        fetch_offset: int,
        max_bytes: int,
        *,
        current_leader_epoch: int,
        last_fetched_epoch: int,
        isolation: FetchIsolation,
        only_leader: bool,
        min_one_batch: bool,
        incomplete: bool = False,
        in_place: bool = False,
    ) -> ReadResult:
        """Records from `fetch_offset` up to what `isolation` allows, or where the reader's log diverges."""
        log = self.log
        if (
            log is None
            or (current_leader_epoch != self.leader_epoch and current_leader_epoch != NO_EPOCH)
            or (only_leader and self.leader_id != self._surroundings.broker_id)
        ):
            log = self.log_with_epoch(current_leader_epoch, only_leader=only_leader)
        result = ReadResult(log)
        log_end_offset = result.log_end_offset
        if last_fetched_epoch != NO_EPOCH and not (
            # As with nearly every fetch of a follower, whose log then cannot part from this one below its end.
            last_fetched_epoch == log.leader_epochs.latest_epoch
            and result.log_start_offset <= fetch_offset <= log_end_offset
        ):
            epoch, end_offset = log.end_offset_for_epoch(last_fetched_epoch)
            if epoch == NO_EPOCH or end_offset == NO_OFFSET:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"Could not determine the end offset of the last fetched epoch {last_fetched_epoch}",
                )
            if fetch_offset < result.log_start_offset:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"Offset {fetch_offset} of {self.topic_partition} is below the log's start "
                    f"{result.log_start_offset}",
                )
            if epoch < last_fetched_epoch or end_offset < fetch_offset:
                result.diverging = (epoch, end_offset)
                return result
        if isolation is _LOG_END:
            bound = log_end_offset
        elif isolation is _HIGH_WATERMARK:
            bound = result.high_watermark
        else:
            bound = result.last_stable_offset
        if not bound <= fetch_offset <= log_end_offset or fetch_offset < result.log_start_offset:
            # Between the bound and the log's end there is nothing to be read yet; outside of the log this raises
            # OFFSET_OUT_OF_RANGE.
            result.records = log.read(
                fetch_offset,
                max_bytes,
                bound=bound,
                min_one_batch=min_one_batch,
                incomplete=incomplete,
                in_place=in_place,
            )
        return result

    def bound(self, isolation: FetchIsolation) -> int:
        """The offset up to which a reader of that kind may read now."""
        log = self.local_log()
        if isolation is _LOG_END:
            return log.log_end_offset
        return log.high_watermark if isolation is _HIGH_WATERMARK else log.last_stable_offset

    def follower(self, follower_id: int, current_leader_epoch: int) -> Progress:
        progress = self.progress.get(follower_id)
        if progress is None:
            # A follower that speaks of epochs learns that it knows more than this leader, and tries again.
            code = (
                ErrorCode.NOT_LEADER_OR_FOLLOWER if current_leader_epoch == NO_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
            raise KafkaError(
                code, f"Replica {follower_id} is not recognized as a valid replica of {self.topic_partition}"
            )
        return progress

    def preferred_read_replica(
        self, select: Select, rack: str, fetch_offset: int, brokers: Mapping[int, BrokerInfo], now_ms: int
    ) -> int:
        """The follower from which a consumer in `rack` should read; -1: this leader, or whom it is asked.

        Only `brokers` that the consumer can reach count, and only members of the ISR: a follower that lags would keep
        the consumer behind for as long as it does.
        """
        leader_id = self._surroundings.broker_id
        if not self.is_leader or leader_id not in brokers:
            return NO_BROKER
        leader = ReplicaView(leader_id, brokers[leader_id].rack, self.local_log().log_end_offset, 0)
        followers = [
            ReplicaView(
                broker_id, brokers[broker_id].rack, progress.log_end_offset, now_ms - progress.last_caught_up_ms
            )
            for broker_id, progress in self.progress.items()
            if broker_id in brokers
            and broker_id in self.isr_state.isr
            and progress.log_start_offset <= fetch_offset <= progress.log_end_offset
        ]
        selected = select(rack, leader, followers)
        return NO_BROKER if selected is leader else selected.broker_id

    def last_offset_for_leader_epoch(
        self, current_leader_epoch: int, leader_epoch: int, *, only_leader: bool
    ) -> tuple[int, int]:
        """The largest epoch not above `leader_epoch` and its end offset; (-1, -1) where the log does not know."""
        return self.log_with_epoch(current_leader_epoch, only_leader=only_leader).end_offset_for_epoch(leader_epoch)

    def offset_for_timestamp(
        self, timestamp: int, isolation: FetchIsolation, current_leader_epoch: int, *, only_leader: bool
    ) -> tuple[int, int, int]:
        """ListOffsets: (timestamp, offset, leader epoch), the offset -1 where there is no such record.

        A new leader does not answer consumers before its high watermark has reached the start of its epoch: it might
        name a smaller offset than the leader before did (KIP-207).
        """
        log = self.log_with_epoch(current_leader_epoch, only_leader=only_leader)
        last_fetchable = self.bound(isolation)
        start = self.leader_epoch_start_offset
        lagging = isolation is not FetchIsolation.LOG_END and start is not None and start > log.high_watermark
        if timestamp == LATEST_TIMESTAMP:
            if lagging:
                raise self._offset_not_available()
            return -1, last_fetchable, self.leader_epoch
        found = log.fetch_offset_by_timestamp(timestamp)
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return (-1, -1, -1) if found is None else (found[0], found[1], found[2])
        if found is not None and found[1] < last_fetchable:
            return found[0], found[1], found[2]
        if lagging:
            raise self._offset_not_available()
        return -1, -1, -1

    def _offset_not_available(self) -> KafkaError:
        return KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"The high watermark of {self.topic_partition} is behind the start of leader epoch {self.leader_epoch}",
        )

    def delete_records(self, offset: int) -> int:
        """Deletes the records before `offset` (-1: the high watermark) on this leader; returns the offset meant."""
        log = self.leader_log()
        if "delete" not in log.config.items("cleanup.policy"):
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Records of partition {self.topic_partition} can not be deleted due to the configured policy",
            )
        wanted = log.high_watermark if offset == HIGH_WATERMARK_OFFSET else offset
        if not 0 <= wanted <= log.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"The offset {wanted} for partition {self.topic_partition} is not valid"
            )
        log.maybe_increment_log_start_offset(wanted)
        self.touch()
        return wanted

    # The follower

    def append_as_follower(
        self, records: Bytes, leader_high_watermark: int, leader_log_start_offset: int, wall_ms: int
    ) -> tuple[int, bool]:
        """Appends what the leader sent; returns the next offset to fetch and whether the high watermark moved.

        The high watermark follows the leader's only now, after divergent records would have been cut (KAFKA-14704).
        """
        log = self.local_log()
        if len(records):
            append_copied(log, records, wall_ms)
        before, end_offset = log.high_watermark, log.log_end_offset
        if leader_high_watermark != before:
            log.update_high_watermark(leader_high_watermark if leader_high_watermark < end_offset else end_offset)
        if leader_log_start_offset > log.log_start_offset:
            log.maybe_increment_log_start_offset(min(leader_log_start_offset, log.high_watermark))
        return end_offset, log.high_watermark > before


class FetchIsolation(Enum):
    """Up to where a reader may read: followers to the end, consumers to the high watermark or last stable offset."""

    LOG_END = 0
    HIGH_WATERMARK = 1
    TXN_COMMITTED = 2


_NONE: Final = ErrorCode.NONE
_LOG_END: Final = FetchIsolation.LOG_END
_HIGH_WATERMARK: Final = FetchIsolation.HIGH_WATERMARK
"""An enum's member as a global: CPython 3.11 takes a fifth of a microsecond to find it in its class."""
