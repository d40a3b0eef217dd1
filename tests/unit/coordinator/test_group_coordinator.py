"""The group coordinator on a real loop, above a log that is kept in memory."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from turns import until

from barnabas.coordinator.coordinator_log import Stretch
from barnabas.coordinator.group_answers import FetchedOffset, Leaver, partition_for
from barnabas.coordinator.group_coordinator import PROTOCOLS_MAX, GroupCoordinator
from barnabas.coordinator.group_members import Join, Sync
from barnabas.coordinator.offsets_records import BATCH_BYTES_MAX, OffsetAndMetadata
from barnabas.model.config import broker_config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC
from barnabas.model.sentinels import ACKS_ALL, ACKS_OF_LEADER
from barnabas.runtime import Tasks, drive
from barnabas.runtime.real import real_runtime
from barnabas.runtime.turns import SLICE
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.records import batches, stamp

T0 = TopicPartition("t", 0)
PARTITION = partition_for("g", 50)


class MemoryLog:
    """Partitions of ``__consumer_offsets`` as byte strings. `error` fails appends, `read_error` reads.

    NOT_ENOUGH_REPLICAS fails only those with acks=all.
    """

    def __init__(self) -> None:
        self.partitions: dict[int, bytearray] = {}
        self.error: ErrorCode | None = None
        self.held: asyncio.Future[None] | None = None
        self.read_error: ErrorCode | None = None

    async def append(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        *,
        acks: int,
        timeout_ms: int,
        appended: Callable[[int], None] | None = None,
    ) -> int:
        assert (topic_partition.topic, timeout_ms) == (GROUP_METADATA_TOPIC, 5000)
        assert acks in (ACKS_ALL, ACKS_OF_LEADER)
        if self.error is not None and acks == ACKS_ALL:
            raise KafkaError(self.error)
        log = self.partitions.setdefault(topic_partition.partition, bytearray())
        base_offset = 0
        for header, _, _ in batches(log):
            base_offset = header.next_offset
        data = bytearray(batch)
        stamp(data, 0, base_offset, 0)
        log += data
        if appended is not None:
            appended(base_offset)
        if self.held is not None and acks == ACKS_ALL:
            await self.held
        return base_offset

    async def replicated(self, topic_partition: TopicPartition, timeout_ms: int) -> None:
        pass

    def read(self, topic_partition: TopicPartition, offset: int, max_bytes: int) -> Stretch:
        if self.read_error is not None:
            raise KafkaError(self.read_error)
        log = self.partitions.get(topic_partition.partition, bytearray())
        for header, start, _ in batches(log):
            if header.next_offset > offset:
                return Stretch(bytes(log[start:]), None)
        return Stretch(b"", None)

    def start_offset(self, topic_partition: TopicPartition) -> int:
        return 0

    def next_segment(self, topic_partition: TopicPartition, offset: int) -> int | None:
        return None


def play(story: Callable[[GroupCoordinator, MemoryLog], Awaitable[None]], log: MemoryLog | None = None) -> None:
    async def run() -> None:
        failures: list[BaseException] = []
        tasks = Tasks(lambda name, error: failures.append(error))
        memory = log or MemoryLog()
        config = broker_config({"group.initial.rebalance.delay.ms": "0"})
        groups = GroupCoordinator(real_runtime(), config, memory, tasks=tasks)
        groups.startup()
        groups.elected(PARTITION, 1)
        await until(lambda: not groups._partitions[PARTITION].loading)
        await story(groups, memory)
        groups.shutdown()
        await tasks.end()
        assert failures == []

    asyncio.run(run())


def join(member_id: str, **changes: Any) -> Join:
    return Join(member_id, "a", "consumer", (("range", b"\x00\x00\x00\x00\x00\x00"),), 10_000, 10_000, **changes)


async def joined(groups: GroupCoordinator) -> None:
    result = await groups.join("g", join(""))
    assert (result.error, result.generation_id) == (ErrorCode.NONE, 1)
    assert (await groups.sync("g", Sync("a", 1, {"a": b"x"}))).assignment == b"x"


def refused(error: ErrorCode) -> Any:
    return pytest.raises(KafkaError, match=error.name)


def test_a_member_joins_syncs_commits_and_leaves() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        await joined(groups)
        assert groups.heartbeat("g", "a", None, 1) is ErrorCode.NONE
        committed = {T0: OffsetAndMetadata(7, 2, "note", 1)}
        assert await groups.commit_offsets("g", "a", None, 1, committed) == {T0: ErrorCode.NONE}
        assert groups.fetch_offsets("g", [T0], require_stable=True) == {T0: FetchedOffset(7, 2, "note")}
        assert groups.fetch_offsets("g", None, require_stable=True) == {T0: FetchedOffset(7, 2, "note")}
        assert groups.leave("g", [Leaver("a", None), Leaver("b", None)]) == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_MEMBER_ID,
        ]
        assert groups.describe_group("g").state == "Empty"

    play(story)


def test_another_coordinator_goes_on_from_the_log() -> None:
    log = MemoryLog()

    async def first(groups: GroupCoordinator, log: MemoryLog) -> None:
        await joined(groups)
        await groups.commit_offsets("g", "a", None, 1, {T0: OffsetAndMetadata(7)})

    async def second(groups: GroupCoordinator, log: MemoryLog) -> None:
        assert groups.heartbeat("g", "a", None, 1) is ErrorCode.NONE
        assert groups.fetch_offsets("g", [T0], require_stable=True)[T0].offset == 7
        (member,) = groups.describe_group("g").members
        assert (member.member_id, member.assignment) == ("a", b"x")

    play(first, log)
    play(second, log)


def test_what_is_not_here_or_not_yet_loaded_is_said_so() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        other = next(name for name in map(str, range(1000)) if partition_for(name, 50) != PARTITION)
        with refused(ErrorCode.NOT_COORDINATOR):
            await groups.join(other, join(""))
        with refused(ErrorCode.INVALID_GROUP_ID):
            await groups.join("", join(""))
        groups.elected(partition_for(other, 50), 3)
        with refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            await groups.join(other, join(""))
        assert groups.heartbeat(other, "a", None, 1) is ErrorCode.NONE
        assert (await groups.sync(other, Sync("a", 1))).error is ErrorCode.REBALANCE_IN_PROGRESS
        assert groups.list_groups()[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await until(lambda: groups.list_groups()[0] is ErrorCode.NONE)
        assert (await groups.join("g", join("x"))).error is ErrorCode.UNKNOWN_MEMBER_ID

    play(story)


def test_who_waits_is_told_when_another_broker_takes_over() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        await joined(groups)
        late = asyncio.create_task(groups.join("g", Join("", "b", "consumer", join("").protocols, 10_000, 10_000)))
        await until(lambda: groups.describe_group("g").state == "PreparingRebalance")
        groups.resigned(PARTITION, 2)
        assert (await late).error is ErrorCode.NOT_COORDINATOR
        with refused(ErrorCode.NOT_COORDINATOR):
            groups.heartbeat("g", "a", None, 1)
        groups.elected(PARTITION, 1)  # an old request that was overtaken
        with refused(ErrorCode.NOT_COORDINATOR):
            groups.heartbeat("g", "a", None, 1)
        groups.elected(PARTITION, 3)
        await until(lambda: groups.list_groups()[0] is ErrorCode.NONE)
        assert groups.heartbeat("g", "a", None, 1) is ErrorCode.NONE

    play(story)


def test_a_load_overtaken_by_a_resignation_leaves_nothing_behind() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        await joined(groups)
        groups.resigned(PARTITION, 2)
        groups.elected(PARTITION, 3)
        groups.resigned(PARTITION, 4)
        groups.elected(PARTITION, 5)
        await until(lambda: groups.list_groups()[0] is ErrorCode.NONE)
        assert groups.heartbeat("g", "a", None, 1) is ErrorCode.NONE
        log.read_error = ErrorCode.KAFKA_STORAGE_ERROR
        groups.resigned(PARTITION, 6)
        groups.elected(PARTITION, 7)
        await until(lambda: PARTITION not in groups._partitions)
        with refused(ErrorCode.NOT_COORDINATOR):
            groups.heartbeat("g", "a", None, 1)

    play(story)


@pytest.mark.parametrize(
    ("failed", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_a_commit_that_was_not_written_is_told_in_the_clients_words(failed: ErrorCode, told: ErrorCode) -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        log.error = failed
        assert await groups.commit_offsets("g", "", None, -1, {T0: OffsetAndMetadata(7)}) == {T0: told}
        assert groups.fetch_offsets("g", [T0], require_stable=True) == {T0: FetchedOffset()}

    play(story)


def test_an_offset_on_its_way_to_the_log_is_unstable() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        log.held = asyncio.get_running_loop().create_future()
        committing = asyncio.create_task(groups.commit_offsets("g", "", None, -1, {T0: OffsetAndMetadata(7)}))
        await until(lambda: bool(log.partitions))
        stable = groups.fetch_offsets("g", [T0], require_stable=True)[T0]
        assert stable.error is ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert groups.fetch_offsets("g", [T0], require_stable=False)[T0] == FetchedOffset()
        log.held.set_result(None)
        await committing
        assert groups.fetch_offsets("g", [T0], require_stable=True)[T0].offset == 7

    play(story)


def test_an_offset_counts_when_it_is_in_the_log_though_who_committed_it_is_gone() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        log.held = asyncio.get_running_loop().create_future()
        asking = drive(groups.commit_offsets("g", "", None, -1, {T0: OffsetAndMetadata(7)}), lambda *_: None)
        assert asking is not None
        asking.abandon()
        log.held.set_result(None)
        await until(lambda: groups.fetch_offsets("g", [T0], require_stable=True)[T0].offset == 7)

    play(story)


def test_too_long_metadata_is_refused_and_the_rest_is_committed() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        other = TopicPartition("t", 1)
        offsets = {T0: OffsetAndMetadata(1, metadata="x" * 4097), other: OffsetAndMetadata(2)}
        outcome = await groups.commit_offsets("g", "", None, -1, offsets)
        assert outcome == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE, other: ErrorCode.NONE}

    play(story)


def test_groups_are_listed_and_deleted_for_good() -> None:
    log = MemoryLog()

    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        await joined(groups)
        await groups.commit_offsets("g", "a", None, 1, {T0: OffsetAndMetadata(7)})
        assert [listed.state for listed in groups.list_groups()[1]] == ["Stable"]
        assert groups.list_groups(["empty"])[1] == []
        assert groups.list_groups([], ["consumer"])[1] == []
        assert await groups.delete_groups(["g", "nobody"]) == {
            "g": ErrorCode.NON_EMPTY_GROUP,
            "nobody": ErrorCode.NOT_COORDINATOR,
        }
        groups.leave("g", [Leaver("a", None)])
        assert await groups.delete_groups(["g"]) == {"g": ErrorCode.NONE}
        assert groups.describe_group("g").state == "Dead"
        assert groups.list_groups()[1] == []

    async def afterwards(groups: GroupCoordinator, log: MemoryLog) -> None:
        assert groups.list_groups()[1] == []

    play(story, log)
    play(afterwards, log)


class Word(str):
    """Counts how often it is compared."""

    __slots__ = ()
    times = 0

    def lower(self) -> str:
        return self

    def __eq__(self, other: object) -> bool:
        Word.times += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_a_group_is_not_compared_with_each_state_that_is_asked_for() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        await joined(groups)
        words = [Word(number) for number in range(1_000)]
        Word.times = 0
        assert groups.list_groups([*words, "stable"], [*words, "classic"])[1] != []
        assert Word.times < 10

    play(story)


def test_who_names_more_protocols_than_any_client_has_does_not_get_in() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        many = tuple((f"p{number}", b"") for number in range(PROTOCOLS_MAX + 1))
        result = await groups.join("g", replace(join(""), protocols=many))
        assert result.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert groups.list_groups()[1] == []
        result = await groups.join("g", replace(join(""), protocols=many[1:]))
        assert result.error is ErrorCode.NONE

    play(story)


@pytest.mark.parametrize(("client_id", "instance"), [("c" * 32_767, None), ("c", "\N{GRINNING FACE}" * 8_191)])
def test_a_leader_is_told_of_a_member_however_long_its_name_is(client_id: str, instance: str | None) -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        member_id = groups.new_member_id(client_id, instance)
        assert member_id != groups.new_member_id(client_id, instance)
        member = JoinGroupResponse.JoinGroupResponseMember(member_id=member_id, group_instance_id=instance)
        JoinGroupResponse(members=[member]).encode(5)

    play(story)


def test_an_assignment_that_no_log_takes_is_not_made_a_batch_of() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        await groups.join("g", join(""))
        result = await groups.sync("g", Sync("a", 1, {"a": bytes(BATCH_BYTES_MAX + 1)}))
        assert result.error is ErrorCode.UNKNOWN_SERVER_ERROR, "as of any record that is too large"
        assert log.partitions == {}

    play(story)


def test_a_topic_that_was_deleted_and_made_anew_is_coordinated_again() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        groups.resigned(PARTITION, None)
        groups.elected(PARTITION, 0)
        await until(lambda: [partition.leader_epoch for partition in groups.owned] == [0])

    play(story)


def test_offsets_are_deleted_where_nobody_reads_them() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        with refused(ErrorCode.GROUP_ID_NOT_FOUND):
            await groups.delete_offsets("g", [T0])
        await groups.commit_offsets("g", "", None, -1, {T0: OffsetAndMetadata(7)})
        assert await groups.delete_offsets("g", [T0]) == {T0: ErrorCode.NONE}
        assert groups.list_groups()[1] == []

    play(story)


def test_a_group_without_members_stays_where_no_offset_is_deleted() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        joined = await groups.join("g", join(""))
        groups.leave("g", [Leaver(joined.member_id, None)])
        assert await groups.delete_offsets("g", []) == {}
        assert [each.group_id for each in groups.list_groups()[1]] == ["g"]

    play(story)


def test_offsets_of_a_deleted_topic_are_forgotten() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        other = TopicPartition("u", 0)
        await groups.commit_offsets("g", "", None, -1, {T0: OffsetAndMetadata(7), other: OffsetAndMetadata(8)})
        await groups.partitions_deleted([T0])
        assert list(groups.fetch_offsets("g", None, require_stable=True)) == [other]

    play(story)


MANY = [name for name in map(str, range(20_000)) if partition_for(name, 50) == PARTITION][: SLICE + 1]
"""More groups than are looked at in one turn, all in the partition of the group ``g``."""
OTHER = MANY[0]


async def deleted_while_a_follower_is_slow(groups: GroupCoordinator, log: MemoryLog) -> asyncio.Future[None]:
    """Two groups have committed for a topic, which is deleted. Done when `log.held` is, and the tombstones written."""
    for group_id in ("g", OTHER):
        await groups.commit_offsets(group_id, "", None, -1, {T0: OffsetAndMetadata(7)})
    log.held = asyncio.get_running_loop().create_future()
    deletion = asyncio.ensure_future(groups.partitions_deleted([T0]))
    await asyncio.sleep(0)
    return deletion


def test_a_deleted_topics_offsets_are_gone_from_all_groups_though_a_follower_is_slow() -> None:
    """Who reads a new topic of that name would begin where the old one was left, and miss what is before that."""

    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        deletion = await deleted_while_a_follower_is_slow(groups, log)
        assert [groups.fetch_offsets(group_id, [T0], require_stable=True)[T0].offset for group_id in ("g", OTHER)] == [
            -1,
            -1,
        ]
        log.held.set_result(None)
        await deletion

    play(story)


def test_what_is_committed_for_a_deleted_topics_successor_stays() -> None:
    log = MemoryLog()

    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        deletion = await deleted_while_a_follower_is_slow(groups, log)
        held, log.held = log.held, None
        await groups.commit_offsets(OTHER, "", None, -1, {T0: OffsetAndMetadata(1)})
        held.set_result(None)
        await deletion
        assert groups.fetch_offsets(OTHER, [T0], require_stable=True)[T0].offset == 1

    async def next_coordinator(groups: GroupCoordinator, log: MemoryLog) -> None:
        assert groups.fetch_offsets("g", [T0], require_stable=True)[T0].offset == -1
        assert groups.fetch_offsets(OTHER, [T0], require_stable=True)[T0].offset == 1

    play(story, log)
    play(next_coordinator, log)


def test_a_group_is_deleted_for_good_also_while_too_few_replicas_are_in_sync() -> None:
    log = MemoryLog()

    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        await groups.commit_offsets("g", "", None, -1, {T0: OffsetAndMetadata(7)})
        log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert await groups.delete_groups(["g"]) == {"g": ErrorCode.NONE}

    async def next_coordinator(groups: GroupCoordinator, log: MemoryLog) -> None:
        assert groups.list_groups()[1] == []

    play(story, log)
    log.error = None
    play(next_coordinator, log)


@pytest.mark.parametrize("lost", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR])
def test_who_leads_the_log_no_more_says_of_no_group_that_it_is_deleted(lost: ErrorCode) -> None:
    """The next leader of the log has it still."""

    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        for group_id in ("g", OTHER):
            await groups.commit_offsets(group_id, "", None, -1, {T0: OffsetAndMetadata(7)})
        log.error = lost
        with refused(ErrorCode.NOT_COORDINATOR):
            await groups.delete_offsets("g", [T0])
        assert await groups.delete_groups([OTHER]) == {OTHER: ErrorCode.NOT_COORDINATOR}

    play(story)


def test_who_coordinates_no_more_forgets_nothing_for_a_deleted_topic() -> None:
    """Others have their turn in between, and coordinators change meanwhile."""

    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        for group_id in MANY:
            await groups.commit_offsets(group_id, "", None, -1, {T0: OffsetAndMetadata(7)})
        deletion = asyncio.ensure_future(groups.partitions_deleted([T0]))
        await asyncio.sleep(0)
        groups.resigned(PARTITION, 2)
        written = bytes(log.partitions[PARTITION])
        await deletion
        assert log.partitions[PARTITION] == written

    play(story)


def test_others_have_their_turn_while_many_groups_expire() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        for group_id in MANY:
            await groups.commit_offsets(group_id, "", None, -1, {T0: OffsetAndMetadata(7, commit_timestamp_ms=0)})
        expiry = asyncio.ensure_future(groups.expire_offsets())
        await asyncio.sleep(0)
        assert not expiry.done()
        await expiry
        assert groups.list_groups()[1] == []

    play(story)


@pytest.mark.parametrize("forget", ["partitions_deleted", "delete_offsets", "delete_groups"])
@pytest.mark.parametrize("before", [True, False])
def test_an_offset_that_is_forgotten_on_its_way_to_the_log_stays_forgotten(forget: str, before: bool) -> None:
    log = MemoryLog()

    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        if before:
            others = {T0: OffsetAndMetadata(6), TopicPartition("u", 0): OffsetAndMetadata(6)}
            await groups.commit_offsets("g", "", None, -1, others)
        log.held = asyncio.get_running_loop().create_future()
        commit = asyncio.ensure_future(groups.commit_offsets("g", "", None, -1, {T0: OffsetAndMetadata(7)}))
        await asyncio.sleep(0)
        forgotten: dict[str, Callable[[], Awaitable[object]]] = {
            "partitions_deleted": lambda: groups.partitions_deleted([T0]),
            "delete_offsets": lambda: groups.delete_offsets("g", [T0]),
            "delete_groups": lambda: groups.delete_groups(["g"]),
        }
        over = asyncio.ensure_future(forgotten[forget]())
        await asyncio.sleep(0)
        log.held.set_result(None)
        assert await commit == {T0: ErrorCode.NONE}
        await over
        assert groups.fetch_offsets("g", [T0], require_stable=True)[T0].offset == -1

    async def next_coordinator(groups: GroupCoordinator, log: MemoryLog) -> None:
        assert groups.fetch_offsets("g", [T0], require_stable=True)[T0].offset == -1

    play(story, log)
    log.held = None
    play(next_coordinator, log)


def test_a_session_that_ends_is_noticed_by_the_groups_timer() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        groups.limits = groups._partitions[PARTITION].limits = type(groups.limits)(0, min_session_timeout_ms=1)
        changed = Join("", "a", "consumer", join("").protocols, 30, 30)
        assert (await groups.join("g", changed)).error is ErrorCode.NONE
        await groups.sync("g", Sync("a", 1, {}))
        await until(lambda: groups.describe_group("g").state == "Empty")

    play(story)


async def committed_in_transaction(groups: GroupCoordinator, offset: int, group: str = "g") -> ErrorCode:
    async def verify(topic_partition: TopicPartition) -> ErrorCode:
        assert topic_partition == TopicPartition(GROUP_METADATA_TOPIC, PARTITION)
        return ErrorCode.NONE

    offsets = {T0: OffsetAndMetadata(offset)}
    return (await groups.commit_transactional_offsets(group, "", None, -1, 7, 0, offsets, verify))[T0]


def test_offsets_of_a_transaction_count_with_its_marker_or_never() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        assert await committed_in_transaction(groups, 5) is ErrorCode.NONE
        assert groups.fetch_offsets("g", [T0], require_stable=False)[T0].offset == -1
        unstable = groups.fetch_offsets("g", [T0], require_stable=True)[T0]
        assert unstable.error is ErrorCode.UNSTABLE_OFFSET_COMMIT
        groups.transaction_completed(7, [PARTITION], True)
        assert groups.fetch_offsets("g", [T0], require_stable=True)[T0].offset == 5
        assert await committed_in_transaction(groups, 6) is ErrorCode.NONE
        groups.transaction_completed(7, [PARTITION], False)
        assert groups.fetch_offsets("g", [T0], require_stable=True)[T0].offset == 5

    play(story)


def test_a_commits_batch_names_a_producer_only_within_a_transaction() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        await groups.commit_offsets("g", "", None, -1, {T0: OffsetAndMetadata(4)})
        await committed_in_transaction(groups, 5)
        headers = [header for header, _, _ in batches(log.partitions[PARTITION])]
        assert [(h.producer_id, h.producer_epoch, h.base_sequence, h.is_transactional) for h in headers] == [
            (-1, -1, -1, False),
            (7, 0, 0, True),
        ]

    play(story)


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_that_one_transaction_commits_for_two_groups_end_with_it_for_both(committed: bool) -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        for group_id in ("g", OTHER):
            assert await committed_in_transaction(groups, 5, group_id) is ErrorCode.NONE
        groups.transaction_completed(7, [PARTITION], committed)
        found = [groups.fetch_offsets(group_id, [T0], require_stable=True)[T0] for group_id in ("g", OTHER)]
        assert [(each.error, each.offset) for each in found] == [(ErrorCode.NONE, 5 if committed else -1)] * 2

    play(story)


def test_kafka_17507_offsets_count_also_when_the_marker_overtakes_the_answer_to_their_commit() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        log.held = asyncio.get_running_loop().create_future()
        committing = asyncio.ensure_future(committed_in_transaction(groups, 5))
        await until(lambda: PARTITION in log.partitions)
        groups.transaction_completed(7, [PARTITION], True)
        assert groups.fetch_offsets("g", [T0], require_stable=True)[T0].offset == 5
        log.held.set_result(None)
        assert await committing is ErrorCode.NONE
        assert groups.fetch_offsets("g", [T0], require_stable=True)[T0].offset == 5

    play(story)


@pytest.mark.parametrize("forget", ["partitions_deleted", "delete_offsets", "delete_groups"])
@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("moved", [True, False])
def test_offsets_of_an_open_transaction_are_forgotten_also_by_the_next_coordinator(
    forget: str, beside: bool, moved: bool
) -> None:
    log = MemoryLog()

    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        assert await committed_in_transaction(groups, 5) is ErrorCode.NONE
        if beside:
            await groups.commit_offsets("g", "", None, -1, {T0: OffsetAndMetadata(4)})
        forgotten: dict[str, Callable[[], Awaitable[object]]] = {
            "partitions_deleted": lambda: groups.partitions_deleted([T0]),
            "delete_offsets": lambda: groups.delete_offsets("g", [T0]),
            "delete_groups": lambda: groups.delete_groups(["g"]),
        }
        await forgotten[forget]()
        if not moved:
            await marked(groups, log)

    async def marked(groups: GroupCoordinator, log: MemoryLog) -> None:
        groups.transaction_completed(7, [PARTITION], True)
        assert groups.fetch_offsets("g", [T0], require_stable=True)[T0].offset == -1
        assert groups.list_groups()[1] == []

    play(story, log)
    if moved:
        play(marked, log)


def test_an_offset_committed_after_those_of_an_open_transaction_outlives_them() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        assert await committed_in_transaction(groups, 5) is ErrorCode.NONE
        await groups.commit_offsets("g", "", None, -1, {T0: OffsetAndMetadata(9)})
        groups.transaction_completed(7, [PARTITION], True)
        assert groups.fetch_offsets("g", [T0], require_stable=True)[T0].offset == 9

    play(story)


def test_another_coordinator_knows_open_transactions_from_the_log() -> None:
    log = MemoryLog()

    async def first(groups: GroupCoordinator, log: MemoryLog) -> None:
        assert await committed_in_transaction(groups, 5) is ErrorCode.NONE

    async def second(groups: GroupCoordinator, log: MemoryLog) -> None:
        unstable = groups.fetch_offsets("g", [T0], require_stable=True)[T0]
        assert unstable.error is ErrorCode.UNSTABLE_OFFSET_COMMIT
        groups.transaction_completed(7, [PARTITION], True)
        assert groups.fetch_offsets("g", [T0], require_stable=True)[T0].offset == 5

    play(first, log)
    play(second, log)


def test_transactional_offsets_that_are_refused_leave_nothing_behind() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        async def not_in_transaction(topic_partition: TopicPartition) -> ErrorCode:
            return ErrorCode.INVALID_TXN_STATE

        async def no_answer(topic_partition: TopicPartition) -> ErrorCode:
            return ErrorCode.NETWORK_EXCEPTION

        offsets = {T0: OffsetAndMetadata(5)}
        commit = groups.commit_transactional_offsets
        refusal = await commit("g", "", None, -1, 7, 0, offsets, not_in_transaction)
        assert refusal == {T0: ErrorCode.INVALID_TXN_STATE}
        assert await commit("g", "", None, -1, 7, 0, offsets, no_answer) == {T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert await committed_in_transaction(groups, 5) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        log.error = None
        with refused(ErrorCode.INVALID_GROUP_ID):
            await committed_in_transaction(groups, 5, group="")
        await joined(groups)
        assert (await commit("g", "stranger", None, 1, 7, 0, offsets, not_in_transaction))[T0]
        groups.transaction_completed(7, [PARTITION], True)
        assert groups.fetch_offsets("g", [T0], require_stable=True)[T0].offset == -1

    play(story)


def test_a_group_that_did_not_come_about_is_not_kept() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        def known() -> list[str]:
            return list(groups._partitions[PARTITION].groups)

        nothing = Join("", "a", "consumer", (), 10_000, 10_000)
        assert (await groups.join("g", nothing)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert known() == []
        too_large = {T0: OffsetAndMetadata(5, metadata="x" * 5000)}
        assert await groups.commit_offsets("g", "", None, -1, too_large) == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
        assert known() == []
        log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        await groups.commit_offsets("g", "", None, -1, {T0: OffsetAndMetadata(5)})
        assert known() == []
        log.error = None
        required = await groups.join("g", join("", require_known_member_id=True))
        assert required.error is ErrorCode.MEMBER_ID_REQUIRED
        assert known() == ["g"], "an id was given out"
        await groups.commit_offsets("g", "", None, -1, {T0: OffsetAndMetadata(5)})
        assert known() == ["g"]

    play(story)


def test_a_join_does_not_look_at_all_other_members() -> None:
    """Two thousand that join anew, each on a connection of its own, would hold the loop for seconds."""

    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        waiting = []
        calls = 0

        def seen(frame: object, event: str, _: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        await groups.join("g", join(""))
        for number in range(200):
            joining = groups.join("g", replace(join(""), new_member_id=f"member-{number}"))
            waiting.append(joining)
            calls = 0
            sys.setprofile(seen)
            joining.send(None)
            sys.setprofile(None)
        assert calls < 100
        for joining in waiting:
            joining.close()

    play(story)
