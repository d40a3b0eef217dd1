"""This broker's replica of one partition (Kafka's ``Partition``): its log, its role, and the partition's leader.

The leader knows each follower's `Progress` from its fetches. `leading` decides from it the high watermark and the ISR;
this module carries the decisions out.

No method here waits. A change of the ISR is requested by `alter_isr`, and its outcome arrives in `isr_altered`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from barnabas.log.copying import append_copied
from barnabas.log.log import AppendInfo, AppendOrigin
from barnabas.log.validation import Unpacking
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, ZERO_UUID, Uuid, broker_ids
from barnabas.model.leadership import CommittedIsr, LeaderAndIsr, PendingExpandIsr, PendingShrinkIsr
from barnabas.model.sentinels import ACKS_ALL
from barnabas.replica.leading import (
    ProposedIsr,
    expanded_isr,
    lacks_min_isr,
    lowest_log_start,
    next_high_watermark,
    produce_outcome,
    refused_isr,
    shrunk_isr,
)
from barnabas.replica.progress import Progress
from barnabas.replica.readable_partition import ReadablePartition, RestingFetch
from barnabas.runtime import Bytes
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest

logger = logging.getLogger(__name__)

PartitionState = LeaderAndIsrRequest.LeaderAndIsrPartitionState

HIGH_WATERMARK_OFFSET: Final = -1
"""``DeleteRecordsRequest.HIGH_WATERMARK``: delete up to the present high watermark."""


class Partition(ReadablePartition):
    """Leader or follower of one partition; neither before the first LeaderAndIsr."""

    __slots__ = ()

    # Becoming leader or follower

    def make_leader(self, state: PartitionState, topic_id: Uuid, now_ms: int) -> bool:
        """Becomes leader in `state`'s epoch. True when this broker did not lead before.

        The epoch cache gets the epoch's start at once, before any record: a follower that asks about a later epoch than
        this log's records must learn where to truncate (KIP-279).
        """
        if state.partition_epoch < self.partition_epoch:
            logger.info("%s: LeaderAndIsr with older partition epoch %d", self, state.partition_epoch)
            return False
        log = self._surroundings.open_log(self, topic_id, state.is_new)
        new_leader = not self.is_leader
        new_epoch = state.leader_epoch > self.leader_epoch
        end_offset = log.log_end_offset
        if new_epoch:
            # The only step that can fail comes before every change, so that the request can be repeated.
            log.maybe_assign_epoch_start_offset(state.leader_epoch, end_offset)
        self.log = log
        self.traffic.look(log, leading=True)
        self.controller_epoch = state.controller_epoch
        self._assign(state)
        followers = [replica for replica in state.replicas if replica != self._surroundings.broker_id]
        self.progress = {follower: self.progress.get(follower) or Progress(follower) for follower in followers}
        self.isr_state = CommittedIsr(frozenset(state.isr), state.partition_epoch)
        if new_epoch:
            # Another broker may have led in an epoch unknown here, and truncated the followers' logs. (Apache's leader
            # keeps its old knowledge of them, and commits records that they no longer have.)
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

    def step_down(self) -> None:
        """Stops leading, and is no leader or follower until the controller decides."""
        assert self.log is not None, "a leader has one"
        self.traffic.look(self.log, leading=False)
        self.assigned_replicas = self.adding_replicas = self.removing_replicas = ()
        self.leader_id = NO_BROKER
        self.leader_epoch_start_offset = None
        self.progress = {}
        self.isr_state = CommittedIsr(frozenset(), self.partition_epoch)

    def _assign(self, state: PartitionState) -> None:
        self.assigned_replicas = broker_ids(*state.replicas)
        self.adding_replicas = broker_ids(*state.adding_replicas)
        self.removing_replicas = broker_ids(*state.removing_replicas)

    def forget(self) -> None:
        """Stops leading and following: the replica is deleted, or its log directory is offline."""
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
        """Appends; returns also whether the high watermark rose. Raises NOT_ENOUGH_REPLICAS before it appends."""
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
        # Another member of the ISR has not fetched this yet; its next fetch raises it.
        return info, len(self.isr_state.isr) <= 1 and self.maybe_increment_high_watermark(now_ms)

    def check_enough_replicas_reach_offset(
        self, required_offset: int, leading_since_epoch: int
    ) -> tuple[bool, ErrorCode]:
        """Whether a produce request with acks=all is over, and with which error.

        A request appended before this broker ceased to lead is over, even if it leads again: other records may have the
        request's offsets now.
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
        """Notes that a follower fetched from `fetch_offset`. True when the high watermark rose by it."""
        progress = self.progress[follower_id]
        moved = progress.log_end_offset != fetch_offset
        low_watermark_moved = progress.log_start_offset != follower_start_offset
        if (rest := self.resting.get(follower_id)) is not None:
            # The follower may have restarted and lost its log: its lag is counted from its rest.
            progress.rested_until(rest.last_fetch_ms)
        progress.record_fetch(fetch_offset, follower_start_offset, leader_end_offset, broker_epoch, now_ms)
        if follower_id not in self.isr_state.isr:
            self.maybe_expand_isr(progress)
        raised = moved and self.maybe_increment_high_watermark(now_ms)
        if raised or low_watermark_moved:
            self._surroundings.high_watermark_moved(self)
        return raised

    def record_fetch_of_all(
        self,
        follower_id: int,
        broker_epoch: int,
        topic_id: Uuid,
        asked: FetchRequest.FetchPartition,
        now_ms: int,
    ) -> bool:
        """As `record_fetch`, for a member of the ISR that has all records. Returns False, and notes nothing, if it has
        not, or if there may be anything else to tell."""
        log, isr_state = self.log, self.isr_state
        if (
            log is None
            or asked.fetch_offset != log.log_end_offset
            or asked.current_leader_epoch != self.leader_epoch
            or self.leader_id != self._surroundings.broker_id
            or asked.last_fetched_epoch != log.leader_epochs.latest_epoch
            or type(isr_state) is not CommittedIsr
            or follower_id not in isr_state.isr
            or follower_id not in self.progress
            or (topic_id != log.topic_id and topic_id != ZERO_UUID)
        ):
            return False
        end_offset = log.log_end_offset
        self.record_fetch(follower_id, broker_epoch, end_offset, asked.log_start_offset, end_offset, now_ms)
        return True

    def has_all(self, follower_id: int, fetch_offset: int) -> bool:
        """Whether a member of the ISR that fetches from `fetch_offset` has all records, and no ISR change is in flight:
        until something changes, its fetches have no effect here."""
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
        """Has the next fetches of resting followers look at the partition: there is something to tell."""
        for fetch in self.resting.values():
            fetch.stir()

    def stir(self) -> Iterable[RestingFetch]:
        """Ends every rest, before or after a change; returns the fetches that may have something to answer now.

        A follower that rested was caught up at its last fetch, as if that fetch had named this partition.
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
        """The offset below which records are deleted on every live replica."""
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
        self.propose_isr(pending, pending.isr | pending.new_in_sync)
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
        self.propose_isr(pending, pending.isr - pending.out_of_sync)
        return True

    def propose_isr(self, state: PendingExpandIsr | PendingShrinkIsr, isr: frozenset[int]) -> None:
        """Goes into `state`, which waits for the controller's word on `isr`."""
        self.isr_state = state
        sent = LeaderAndIsr(
            self._surroundings.broker_id,
            self.leader_epoch,
            tuple(sorted(isr)),
            partition_epoch=self.partition_epoch,
        )
        self._surroundings.alter_isr(self, ProposedIsr(state, sent))

    def isr_altered(self, proposed: ProposedIsr, outcome: LeaderAndIsr | ErrorCode, now_ms: int) -> bool:
        """Processes the controller's answer to `proposed`. True when the same proposal should be sent again.

        An answer to a proposal that is no longer pending, since a LeaderAndIsr came between, changes nothing.
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
        self.touch()  # the next fetch of a former member must look at it
        logger.info(
            "isr of %s is %s, partition epoch %d", self.topic_partition, sorted(outcome.isr), outcome.partition_epoch
        )
        if self.maybe_increment_high_watermark(now_ms):
            self._surroundings.high_watermark_moved(self)
        return False

    # The leader: deleting

    def delete_records(self, offset: int) -> int:
        """Deletes the records before `offset` (-1: the high watermark) on this leader; returns the actual offset."""
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
        """Appends the leader's records; returns the next offset to fetch and whether the high watermark moved.

        The high watermark follows the leader's only now, after divergent records are cut (KAFKA-14704).
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


_NONE: Final = ErrorCode.NONE
"""An enum's member as a global: CPython 3.11 takes a fifth of a microsecond to find it in its class."""
