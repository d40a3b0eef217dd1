"""The coordinator of consumer groups: the groups of this broker, their clocks, and their log.

A group belongs to one partition of ``__consumer_offsets``, and that partition's leader coordinates it. When the broker
becomes leader it reads the partition to its end; until then requests get COORDINATOR_LOAD_IN_PROGRESS. When it ceases
to lead, it answers all waiting requests with an error and forgets the groups; the log has all that counts.

`groups` decides; this module carries the decisions out: answers to waiting requests, records to the log, a timer for
the next deadline. There is no ``await`` between a group's decision and its execution.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from barnabas.coordinator.coordinator_log import CoordinatorLog
from barnabas.coordinator.group_answers import (
    NOTHING_COMMITTED,
    FetchedOffset,
    GroupOverview,
    GroupSummary,
    Leaver,
    group_store_error,
    offset_commit_error,
    partition_for,
)
from barnabas.coordinator.group_members import MEMBER_NAME_MAX, UNKNOWN_MEMBER_ID, Join, JoinResult, Sync, SyncResult
from barnabas.coordinator.group_values import (
    CONSUMER_PROTOCOL_TYPE,
    DEAD,
    EMPTY,
    GroupDecision,
    GroupLimits,
    Now,
    Write,
)
from barnabas.coordinator.groups import Group
from barnabas.coordinator.leader_epochs import LeaderEpochs
from barnabas.coordinator.offsets_partition import OffsetsPartition
from barnabas.coordinator.offsets_records import BATCH_BYTES_MAX, KeyValue, OffsetAndMetadata, offset_record
from barnabas.coordinator.partition_loading import load_partition
from barnabas.model.config import Config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC
from barnabas.model.sentinels import ACKS_OF_LEADER
from barnabas.runtime import Runtime, Tasks, drive
from barnabas.runtime.turns import SLICE, Turns
from barnabas.runtime.unreadable import Unreadable
from barnabas.wire.records import Record, build_batch

logger = logging.getLogger(__name__)

PROTOCOLS_MAX: Final = 100
"""Per member: a joining member's protocols are compared with all those of all others. Clients have five at most."""
COMPRESSION_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

Verify: TypeAlias = Callable[[TopicPartition], Awaitable[ErrorCode]]
"""Asks the transaction coordinator whether a producer's open transaction has the partition."""


class GroupCoordinator:
    """See the module's text. `startup` once; `elected` and `resigned` as leadership changes; `shutdown` at the end."""

    def __init__(self, runtime: Runtime, config: Config, log: CoordinatorLog, *, tasks: Tasks) -> None:
        self._clock = runtime.clock
        self._entropy = runtime.entropy
        self._config = config
        self._log = log
        self._tasks = tasks
        self._active = False
        self._partitions: dict[int, OffsetsPartition] = {}
        self._epochs = LeaderEpochs()
        self.unreadable = Unreadable(runtime.clock)
        self._turns = Turns()
        self._timers: dict[Group, tuple[asyncio.TimerHandle, int]] = {}
        self.partition_count = config.number("offsets.topic.num.partitions")
        self.limits = GroupLimits(
            *map(config.number, ("group.initial.rebalance.delay.ms", "group.max.size")),
            *map(config.number, ("group.min.session.timeout.ms", "group.max.session.timeout.ms")),
        )

    # --- life -------------------------------------------------------------------------------------------------

    def startup(self) -> None:
        self._active = True
        self._tasks.begin(self._expire_offsets(), "offsets-expiry")

    def shutdown(self) -> None:
        """Answers all waiting requests. The background tasks end with the broker's."""
        self._active = False
        for number in list(self._partitions):
            self._unload(number)

    @property
    def owned(self) -> list[OffsetsPartition]:
        """The partitions that this broker coordinates and has loaded."""
        return [partition for partition in self._partitions.values() if not partition.loading]

    @property
    def hosted(self) -> list[OffsetsPartition]:
        """The partitions that this broker coordinates, including those that it still loads."""
        return list(self._partitions.values())

    def partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self.partition_count)

    def elected(self, number: int, leader_epoch: int) -> None:
        """Loads the groups of partition `number` of ``__consumer_offsets``, which this broker leads now."""
        if not self._epochs.elected(number, leader_epoch):
            return
        if number in self._partitions:
            return  # this broker has led all the time: no other has written to the log
        partition = self._partitions[number] = OffsetsPartition(number, leader_epoch, self.limits)
        self._tasks.begin(self._load(partition), f"load {GROUP_METADATA_TOPIC}-{number}")

    def resigned(self, number: int, leader_epoch: int | None) -> None:
        """Forgets the partition: another broker leads it, or (None) it is no longer on this broker."""
        if not self._epochs.resigned(number, leader_epoch):
            return
        self._unload(number)

    def _is_current(self, partition: OffsetsPartition) -> bool:
        return self._partitions.get(partition.partition) is partition

    async def _load(self, partition: OffsetsPartition) -> None:
        """Reads the partition's log to its end; ends early when this broker loses the partition."""
        key = TopicPartition(GROUP_METADATA_TOPIC, partition.partition)
        began_ms = self._clock.monotonic_ms()
        try:
            await load_partition(
                self._log,
                key,
                lambda header, record: partition.replay_stored(header, record, self._now()),
                buffer_bytes=self._config.number("offsets.load.buffer.size"),
                is_current=lambda: self._is_current(partition),
                unreadable=self.unreadable,
                turns=self._turns,
            )
        except KafkaError as error:
            # This broker no longer leads, or its disk failed: in both cases another will coordinate these groups.
            logger.warning("groups of %s are not loaded: %s", key, error)
            if self._is_current(partition):
                self._unload(partition.partition)
            return
        if not self._is_current(partition):
            return
        partition.complete()
        now = self._now()
        for group in list(partition.groups.values()):
            self._carry_out(partition, group, group.loaded(now))
        count, took_ms = len(partition.groups), self._clock.monotonic_ms() - began_ms
        logger.info("loaded %d groups from %s in epoch %d in %d ms", count, key, partition.leader_epoch, took_ms)
        if partition.unknown_keys:
            logger.warning("%s holds %d records of unknown types; ignored", key, partition.unknown_keys)

    def _unload(self, number: int) -> None:
        partition = self._partitions.pop(number, None)
        if partition is None:
            return
        now = self._now()
        for group in list(partition.groups.values()):
            self._carry_out(partition, group, group.unloaded(now))
        logger.info("unloaded %d groups of %s-%d", len(partition.groups), GROUP_METADATA_TOPIC, number)

    # --- groups of this broker --------------------------------------------------------------------------------

    def _partition_of(self, group_id: str, *, may_be_empty: bool = False) -> OffsetsPartition:
        """The loaded partition that holds the group; otherwise raises the client's error."""
        if not group_id and not may_be_empty:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        if not self._active:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        partition = self._partitions.get(self.partition_for(group_id))
        if partition is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if partition.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return partition

    def _now(self) -> Now:
        return Now(self._clock.monotonic_ms(), self._clock.now_ms())

    # --- carrying out -----------------------------------------------------------------------------------------

    def _carry_out(self, partition: OffsetsPartition, group: Group, outcome: GroupDecision) -> None:
        for ticket, result in outcome.answers:
            assert isinstance(ticket, asyncio.Future)
            if not ticket.done():
                ticket.set_result(result)
        for write in outcome.writes:
            drive(self._store(partition, group, write), self._stored)
        self._set_timer(partition, group, outcome.due_ms)

    async def _store(self, partition: OffsetsPartition, group: Group, write: Write) -> None:
        try:
            await self._append(partition, [write.record])
            error = ErrorCode.NONE
        except KafkaError as failed:
            error = group_store_error(failed.code)
            name, number, why = group.group_id, write.generation_id, write.purpose.value
            logger.warning("group %s generation %d (%s) was not written: %s", name, number, why, failed)
        if group.state is not DEAD:
            self._carry_out(partition, group, group.stored(write, error, self._now()))

    def _stored(self, _: None, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, asyncio.CancelledError):
            self._tasks.begin(_raised(error), "group store")

    def _set_timer(self, partition: OffsetsPartition, group: Group, set_ms: int | None = None) -> None:
        """Sets the group's timer for its next deadline; it may go off too early when that deadline has moved. `set_ms`
        is the earliest new deadline: with it a running timer is adjusted without a look at all members."""
        if group in self._timers:
            handle, timed_ms = self._timers[group]
            if group.state is not DEAD and (set_ms is None or timed_ms <= set_ms):
                return
            handle.cancel()
            del self._timers[group]
            due_ms = set_ms
        else:
            due_ms = group.next_deadline_ms()
        if due_ms is not None and group.state is not DEAD:
            delay_ms = max(0, due_ms - self._clock.monotonic_ms())
            handle = asyncio.get_running_loop().call_later(delay_ms / 1000, self._tick, partition, group)
            self._timers[group] = handle, due_ms

    def _tick(self, partition: OffsetsPartition, group: Group) -> None:
        self._timers.pop(group, None)
        self._carry_out(partition, group, group.tick(self._now()))

    async def _append(
        self,
        partition: OffsetsPartition,
        records: Sequence[KeyValue],
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        acks: int | None = None,
        appended: Callable[[int], None] | None = None,
    ) -> int:
        """Writes records as one batch, in its transaction with a producer id; returns the first offset or raises."""
        if sum(len(record.value or b"") for record in records) > BATCH_BYTES_MAX:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        timestamp_ms = self._clock.now_ms()
        batch = build_batch(
            [Record(index, timestamp_ms, record.key, record.value, []) for index, record in enumerate(records)],
            compression=COMPRESSION_CODECS[self._config.number("offsets.topic.compression.codec")],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=-1 if producer_id < 0 else 0,
            is_transactional=producer_id >= 0,
        )
        return await self._log.append(
            TopicPartition(GROUP_METADATA_TOPIC, partition.partition),
            batch,
            acks=self._config.number("offsets.commit.required.acks") if acks is None else acks,
            timeout_ms=self._config.number("offsets.commit.timeout.ms"),
            appended=appended,
        )

    # --- membership -------------------------------------------------------------------------------------------

    def new_member_id(self, client_id: str, group_instance_id: str | None) -> str:
        """A new member id as Kafka makes it: the instance's or client's name and a UUID."""
        digits = bytes(self._entropy.uuid()).hex()
        uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        return f"{(client_id if group_instance_id is None else group_instance_id)[:MEMBER_NAME_MAX]}-{uuid}"

    async def join(self, group_id: str, join: Join) -> JoinResult:
        """Returns when the generation begins, or at once with an error."""
        partition = self._partition_of(group_id)
        if not self.limits.min_session_timeout_ms <= join.session_timeout_ms <= self.limits.max_session_timeout_ms:
            return JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, join.member_id)
        if len(join.protocols) > PROTOCOLS_MAX:
            return JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, join.member_id)
        now = self._now()
        if join.member_id != UNKNOWN_MEMBER_ID and group_id not in partition.groups:
            return JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, join.member_id)
        group = partition.group(group_id, now)
        ticket: asyncio.Future[JoinResult] = asyncio.get_running_loop().create_future()
        self._carry_out(partition, group, group.join(join, ticket, now))
        self._drop_if_nothing(partition, group)
        return await ticket

    async def sync(self, group_id: str, sync: Sync) -> SyncResult:
        try:
            partition = self._partition_of(group_id)
        except KafkaError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # The old coordinator's rebalance is lost with its memory: the member has to join anew.
                return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
            raise
        group = partition.groups.get(group_id)
        if group is None:
            return SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
        ticket: asyncio.Future[SyncResult] = asyncio.get_running_loop().create_future()
        self._carry_out(partition, group, group.sync(sync, ticket, self._now()))
        return await ticket

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        try:
            partition = self._partition_of(group_id)
        except KafkaError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return ErrorCode.NONE  # once the group is loaded each member's session timeout begins anew
            raise
        group = partition.groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return group.heartbeat(member_id, group_instance_id, generation_id, self._now())

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[ErrorCode]:
        """The result for each leaving member, in order."""
        partition = self._partition_of(group_id)
        group = partition.groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leavers)
        errors = []
        for member_id, group_instance_id in leavers:
            error, outcome = group.leave(member_id, group_instance_id, self._now())
            self._carry_out(partition, group, outcome)
            errors.append(error)
        return errors

    # --- offsets ----------------------------------------------------------------------------------------------

    async def commit_offsets(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> dict[TopicPartition, ErrorCode]:
        """The result for each partition once the commit is in the log."""
        partition = self._partition_of(group_id, may_be_empty=True)
        now = self._now()
        if group_id not in partition.groups and generation_id >= 0:
            return dict.fromkeys(offsets, ErrorCode.ILLEGAL_GENERATION)
        group = partition.group(group_id, now)
        error = group.commit_error(member_id, group_instance_id, generation_id, now)
        if error is not ErrorCode.NONE:
            self._drop_if_nothing(partition, group)
            return dict.fromkeys(offsets, error)
        fitting = self._with_fitting_metadata(offsets)
        outcome = dict.fromkeys(offsets, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        if fitting:
            outcome.update(dict.fromkeys(fitting, await self._commit(partition, group, fitting)))
        self._drop_if_nothing(partition, group)
        return outcome

    def _commit(
        self, partition: OffsetsPartition, group: Group, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> asyncio.Future[ErrorCode]:
        """Writes offsets. They count once they are in the log, even if the committing member is gone by then."""
        told: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def written(record_offset: int | None, error: BaseException | None) -> None:
            group.offsets.written(offsets, record_offset)
            if isinstance(error, KafkaError):
                told.set_result(offset_commit_error(error.code))
            elif error is not None:
                told.set_exception(error)
            else:
                told.set_result(ErrorCode.NONE)

        drive(self._append(partition, group.offsets.prepare(offsets)), written)
        return told

    def _drop_if_nothing(self, partition: OffsetsPartition, group: Group) -> None:
        """Drops a group that was created for a request and has stayed empty."""
        if group.generation_id == 0 and partition.groups.get(group.group_id) is group:
            group.maybe_die(self._now())
            if group.state is DEAD:
                partition.drop([group.group_id])
                self._set_timer(partition, group)

    def _with_fitting_metadata(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        bytes_max = self._config.number("offset.metadata.max.bytes")
        return {key: committed for key, committed in offsets.items() if len(committed.metadata) <= bytes_max}

    async def commit_transactional_offsets(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        producer_id: int,
        producer_epoch: int,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        verify: Verify,
    ) -> dict[TopicPartition, ErrorCode]:
        """The result for each partition once the offsets are in the log. They count when the transaction commits."""
        self._partition_of(group_id)
        error = await verify(TopicPartition(GROUP_METADATA_TOPIC, self.partition_for(group_id)))
        if error is not ErrorCode.NONE:
            return dict.fromkeys(offsets, offset_commit_error(error))
        partition = self._partition_of(group_id)
        now = self._now()
        group = partition.group(group_id, now)
        error = group.commit_error(member_id, group_instance_id, generation_id, now, transactional=True)
        if error is not ErrorCode.NONE:
            self._drop_if_nothing(partition, group)
            return dict.fromkeys(offsets, error)
        fitting = self._with_fitting_metadata(offsets)
        outcome = dict.fromkeys(offsets, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        if fitting:

            def appended(record_offset: int) -> None:
                group.offsets.append_transactional(fitting, record_offset, producer_id)
                partition.open_groups.setdefault(producer_id, {})[group_id] = None

            records = [offset_record(group_id, key, committed) for key, committed in fitting.items()]
            error = ErrorCode.NONE
            try:
                await self._append(
                    partition, records, producer_id=producer_id, producer_epoch=producer_epoch, appended=appended
                )
            except KafkaError as failed:
                error = offset_commit_error(failed.code)
            outcome.update(dict.fromkeys(fitting, error))
        self._drop_if_nothing(partition, group)
        return outcome

    def transaction_completed(self, producer_id: int, numbers: Iterable[int], committed: bool) -> None:
        """Applies a replicated marker of these partitions: the transaction's offsets count from now on, or never.

        A partition that is still loading finds the marker in its log.
        """
        for number in numbers:
            partition = self._partitions.get(number)
            if partition is not None and not partition.loading:
                partition.replay_marker(producer_id, committed)

    def fetch_offsets(
        self, group_id: str, topic_partitions: Sequence[TopicPartition] | None, *, require_stable: bool
    ) -> dict[TopicPartition, FetchedOffset]:
        """Committed offsets of the partitions asked for, or (None) of all."""
        group = self._partition_of(group_id, may_be_empty=True).groups.get(group_id)
        if group is None or group.state is DEAD:
            return dict.fromkeys(topic_partitions or (), NOTHING_COMMITTED)
        fetched = {}
        for key in list(group.offsets.committed) if topic_partitions is None else topic_partitions:
            known = group.offsets.committed.get(key)
            if require_stable and group.offsets.is_unstable(key):
                fetched[key] = FetchedOffset(error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
            elif known is None:
                fetched[key] = NOTHING_COMMITTED
            else:
                committed = known.committed
                fetched[key] = FetchedOffset(committed.offset, committed.leader_epoch, committed.metadata)
        return fetched

    async def delete_offsets(
        self, group_id: str, topic_partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Deletes offsets of a group; if it has members, only those of topics to which none subscribes."""
        partition = self._partition_of(group_id)
        group = partition.groups.get(group_id)
        if group is None or group.state is DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        outcome = dict.fromkeys(topic_partitions, ErrorCode.NONE)
        for key in topic_partitions:
            if group.state is not EMPTY and group.is_subscribed_to(key.topic):
                outcome[key] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        forgotten = [key for key, error in outcome.items() if error is ErrorCode.NONE]
        if forgotten:  # else an empty group stays, as in Kafka
            await self._clean_up(partition, group, forgotten, is_waited_for=True)
        return outcome

    async def partitions_deleted(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Deletes the committed offsets of deleted topics before topics of these names are created again: readers of
        the new topics must not begin at old offsets, and new commits must not be deleted."""
        deleted = dict.fromkeys(topic_partitions)
        looked_at = 0
        for partition in list(self._partitions.values()):
            for group in list(partition.groups.values()):
                looked_at += 1
                if looked_at % SLICE == 0:
                    await self._turns.next()
                held = [key for key in group.offsets.keys if key in deleted]
                if held and not partition.loading and self._is_current(partition):
                    await self._clean_up(partition, group, held)

    async def _clean_up(
        self, partition: OffsetsPartition, group: Group, keys: Iterable[TopicPartition], *, is_waited_for: bool = False
    ) -> None:
        """Deletes offsets, and the group itself if it is empty then; writes tombstones to the log.

        If no client waits, replication is not awaited: a slow follower must not delay the next deletion. A waiting
        client gets NOT_COORDINATOR if another broker leads the log by then and still has the offsets; Kafka reports
        success (``GroupMetadataManager.cleanupGroupMetadata``).
        """
        tombstones = group.offsets.remove(keys)
        last = group.maybe_die(self._now())
        if group.state is DEAD:
            if last is not None:
                tombstones.append(last)
            if partition.groups.get(group.group_id) is group:
                partition.drop([group.group_id])
            self._set_timer(partition, group)
        if not tombstones:
            return
        # With too few in-sync replicas the leader writes the tombstones unacknowledged: the client is told that the
        # deletion succeeded.
        required = (self._config.number("offsets.commit.required.acks"),) if is_waited_for else ()
        for acks in (*required, ACKS_OF_LEADER):
            try:
                await self._append(partition, tombstones, acks=acks)
                break
            except KafkaError as error:
                if is_waited_for and offset_commit_error(error.code) is ErrorCode.NOT_COORDINATOR:
                    raise KafkaError(ErrorCode.NOT_COORDINATOR) from None
                # The log still has the offsets: the next load brings them back, and they expire again.
                logger.warning("tombstones of group %s were not written: %s", group.group_id, error)
                if error.code is not ErrorCode.NOT_ENOUGH_REPLICAS:
                    break

    async def _expire_offsets(self) -> None:
        interval_ms = self._config.number("offsets.retention.check.interval.ms")
        while True:
            await asyncio.sleep(interval_ms / 1000)
            await self.expire_offsets()

    async def expire_offsets(self) -> None:
        """Deletes every expired offset, and groups that are empty then."""
        retention_ms = self._config.number("offsets.retention.minutes") * 60_000
        looked_at = 0
        for partition in self.owned:
            for group in list(partition.groups.values()):
                looked_at += 1
                if looked_at % SLICE == 0:
                    await self._turns.next()
                if not self._is_current(partition):
                    break
                await self._clean_up(partition, group, group.expired_offsets(retention_ms, self._now()))

    # --- administration ---------------------------------------------------------------------------------------

    def describe_group(self, group_id: str) -> GroupSummary:
        """Describes a group; an unknown one is Dead."""
        try:
            group = self._partition_of(group_id, may_be_empty=True).groups.get(group_id)
        except KafkaError as error:
            return GroupSummary(error.code)
        return GroupSummary(ErrorCode.NONE, DEAD.value) if group is None else group.summary()

    def list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> tuple[ErrorCode, list[GroupOverview]]:
        """Groups of this broker, filtered by the given states and types, if any."""
        if not self._active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        wanted_states = {state.lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        loading = any(partition.loading for partition in self._partitions.values())
        found = [
            GroupOverview(group.group_id, group.protocol_type or "", group.state.value)
            for partition in self._partitions.values()
            if not partition.loading
            for group in partition.groups.values()
            if (not wanted_states or group.state.value.lower() in wanted_states)
            and (not wanted_types or "classic" in wanted_types)
        ]
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE, found

    async def delete_groups(self, group_ids: Iterable[str]) -> dict[str, ErrorCode]:
        outcome: dict[str, ErrorCode] = {}
        for group_id in group_ids:
            try:
                outcome[group_id] = await self._delete_group(group_id)
            except KafkaError as error:
                outcome[group_id] = error.code
        return outcome

    async def _delete_group(self, group_id: str) -> ErrorCode:
        partition = self._partition_of(group_id, may_be_empty=True)
        group = partition.groups.get(group_id)
        if group is None or group.state is DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        group.pending_members.clear()
        await self._clean_up(partition, group, group.offsets.keys, is_waited_for=True)
        return ErrorCode.NONE


async def _raised(error: BaseException) -> None:
    raise error
