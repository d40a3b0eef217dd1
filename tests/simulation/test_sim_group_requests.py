"""What a broker answers about one group, its members and its offsets, to clients of each age."""

from __future__ import annotations

from typing import Any

import pytest
from test_sim_requests import GROUP, TOPIC, commit, committed, pause, seen_in

from barnabas.client.connection import Connection
from barnabas.model.errors import ErrorCode
from barnabas.sim.world.world import World
from barnabas.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.offset_delete import OffsetDeleteRequest
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest

SUBSCRIPTION = b"\0\0" + ConsumerProtocolSubscription(topics=[TOPIC]).encode(0)


async def member(connection: Connection, **more: Any) -> str:
    """The id of the one member that has joined the group and got its share."""
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", SUBSCRIPTION)]
    request = JoinGroupRequest(GROUP, 10_000, 10_000, protocol_type="consumer", protocols=protocols, **more)
    joined = await connection.send(request, 5 if more else 3)
    assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
    share = [SyncGroupRequest.SyncGroupRequestAssignment(joined.member_id, b"share")]
    synced = await connection.send(SyncGroupRequest(GROUP, 1, joined.member_id, assignments=share), 2)
    assert (synced.error_code, bytes(synced.assignment)) == (ErrorCode.NONE, b"share")
    return str(joined.member_id)


async def heartbeat(connection: Connection, member_id: str, generation: int = 1, **more: Any) -> ErrorCode:
    return ErrorCode((await connection.send(HeartbeatRequest(GROUP, generation, member_id, **more))).error_code)


def test_a_group_is_described_with_who_is_in_it() -> None:
    async def story(world: World, connection: Connection) -> None:
        member_id = await member(connection, group_instance_id="one")
        asked = DescribeGroupsRequest([GROUP, "nobody", GROUP], include_authorized_operations=True)
        first, absent, again = (await connection.send(asked, 5)).groups
        assert first == again
        assert (first.group_state, first.protocol_type, first.protocol_data) == ("Stable", "consumer", "range")
        (described,) = first.members
        assert (described.member_id, described.group_instance_id, described.client_id) == (member_id, "one", "client")
        assert described.client_host == "/client"
        assert (bytes(described.member_metadata), bytes(described.member_assignment)) == (SUBSCRIPTION, b"share")
        assert first.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8
        assert (absent.error_code, absent.group_state, absent.members) == (ErrorCode.NONE, "Dead", [])
        bare = await connection.send(DescribeGroupsRequest([GROUP]), 5)
        assert bare.groups[0].authorized_operations == -(1 << 31)

    seen_in(story)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, True),
        ({"states_filter": ["Stable"]}, True),
        ({"states_filter": ["stable", "Dead"]}, True),
        ({"states_filter": ["Empty"]}, False),
        ({"types_filter": ["classic"]}, True),
        ({"types_filter": ["Classic"]}, True),
        ({"types_filter": ["consumer"]}, False),
        ({"types_filter": ["classic"], "states_filter": ["Empty"]}, False),
    ],
)
def test_groups_are_listed_by_state_and_type(filters: dict[str, list[str]], found: bool) -> None:
    async def story(world: World, connection: Connection) -> list[tuple[str, ...]]:
        await member(connection)
        answer = await connection.send(ListGroupsRequest(**filters), 5)
        return [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in answer.groups]

    assert seen_in(story) == [(GROUP, "consumer", "Stable", "classic")] * found


def test_a_group_is_deleted_when_nobody_is_in_it_and_its_offsets_go_with_it() -> None:
    async def delete(connection: Connection, *names: str) -> dict[str, ErrorCode]:
        answer = await connection.send(DeleteGroupsRequest([*names]))
        return {each.group_id: ErrorCode(each.error_code) for each in answer.results}

    async def story(world: World, connection: Connection) -> None:
        assert await commit(connection, 8, 2) is ErrorCode.NONE
        member_id = await member(connection)
        assert await delete(connection, GROUP, "nobody", "") == {
            GROUP: ErrorCode.NON_EMPTY_GROUP,
            "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
            "": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        assert (await committed(connection))[1] == 2
        await connection.send(LeaveGroupRequest(GROUP, member_id), 0)
        assert await delete(connection, GROUP) == {GROUP: ErrorCode.NONE}
        assert (await committed(connection))[1] == -1
        assert await delete(connection, GROUP) == {GROUP: ErrorCode.GROUP_ID_NOT_FOUND}
        await member(connection)  # of a new group by the same name

    seen_in(story)


def test_offsets_are_deleted_where_the_group_does_not_read_the_topic() -> None:
    async def delete(connection: Connection, *partitions: int, topic: str = TOPIC) -> tuple[ErrorCode, list[ErrorCode]]:
        named = [OffsetDeleteRequest.OffsetDeleteRequestPartition(each) for each in partitions]
        asked = OffsetDeleteRequest(GROUP, [OffsetDeleteRequest.OffsetDeleteRequestTopic(topic, named)])
        answer = await connection.send(asked)
        codes = [ErrorCode(each.error_code) for each in answer.topics[0].partitions] if answer.topics else []
        return ErrorCode(answer.error_code), codes

    async def story(world: World, connection: Connection) -> None:
        assert (await delete(connection, 0))[0] is ErrorCode.GROUP_ID_NOT_FOUND
        assert await commit(connection, 8, 2) is ErrorCode.NONE
        member_id = await member(connection)
        assert await delete(connection, 0) == (ErrorCode.NONE, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
        assert (await committed(connection))[1] == 2
        await connection.send(LeaveGroupRequest(GROUP, member_id), 0)
        assert await delete(connection, 0, 9) == (
            ErrorCode.NONE,
            [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        )
        assert (await committed(connection))[1] == -1

    seen_in(story)


def test_an_old_member_leaves_by_itself_and_several_are_taken_out_at_once() -> None:
    async def story(world: World, connection: Connection) -> None:
        member_id = await member(connection, group_instance_id="one")
        assert (await connection.send(LeaveGroupRequest(GROUP, "stranger"), 2)).error_code == (
            ErrorCode.UNKNOWN_MEMBER_ID
        )
        identity = LeaveGroupRequest.MemberIdentity
        out = LeaveGroupRequest(GROUP, members=[identity("", "two"), identity("x", "one"), identity("", "one")])
        answer = await connection.send(out, 3)
        assert answer.error_code == ErrorCode.NONE
        assert [(each.group_instance_id, ErrorCode(each.error_code)) for each in answer.members] == [
            ("two", ErrorCode.UNKNOWN_MEMBER_ID),
            ("one", ErrorCode.FENCED_INSTANCE_ID),
            ("one", ErrorCode.NONE),
        ]
        assert await heartbeat(connection, member_id) is ErrorCode.UNKNOWN_MEMBER_ID

    seen_in(story)


def test_who_is_not_heard_of_is_out_of_the_group_when_its_session_is_over() -> None:
    async def story(world: World, connection: Connection) -> None:
        member_id = await member(connection)
        for _ in range(3):
            await pause(world, 9_900)
            assert await heartbeat(connection, member_id) is ErrorCode.NONE
        assert await heartbeat(connection, member_id, 0) is ErrorCode.ILLEGAL_GENERATION
        assert await heartbeat(connection, member_id, group_instance_id="one") is ErrorCode.UNKNOWN_MEMBER_ID
        await pause(world, 10_100)
        assert await heartbeat(connection, member_id) is ErrorCode.UNKNOWN_MEMBER_ID

    seen_in(story)


@pytest.mark.parametrize(("version", "code"), [(4, ErrorCode.NONE), (5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)])
def test_since_version_5_a_share_is_asked_for_with_its_protocol(version: int, code: ErrorCode) -> None:
    async def story(world: World, connection: Connection) -> None:
        member_id = await member(connection)
        assert (await connection.send(SyncGroupRequest(GROUP, 1, member_id), version)).error_code == code
        named = SyncGroupRequest(GROUP, 1, member_id, protocol_type="consumer", protocol_name="range")
        answer = await connection.send(named, 5)
        assert (answer.error_code, answer.protocol_type, answer.protocol_name) == (0, "consumer", "range")
        named.protocol_name = "roundrobin"
        answer = await connection.send(named, 5)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    seen_in(story)


@pytest.mark.parametrize(
    ("generation", "member_id", "code"),
    [
        (1, None, ErrorCode.NONE),
        (0, None, ErrorCode.ILLEGAL_GENERATION),
        (1, "stranger", ErrorCode.UNKNOWN_MEMBER_ID),
        (-1, "", ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_only_who_is_in_the_group_commits_for_it(generation: int, member_id: str | None, code: ErrorCode) -> None:
    async def story(world: World, connection: Connection) -> None:
        known = await member(connection)
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, 2)
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(TOPIC, [partition])
        sender = known if member_id is None else member_id
        asked = OffsetCommitRequest(GROUP, generation, sender, topics=[topic])
        assert (await connection.send(asked)).topics[0].partitions[0].error_code == code
        assert (await committed(connection))[1] == (2 if code is ErrorCode.NONE else -1)

    seen_in(story)


@pytest.mark.parametrize(("generation", "code"), [(-1, ErrorCode.NONE), (0, ErrorCode.ILLEGAL_GENERATION)])
def test_for_a_group_that_is_not_there_only_an_administrator_commits(generation: int, code: ErrorCode) -> None:
    async def story(world: World, connection: Connection) -> None:
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, 2)
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(TOPIC, [partition])
        asked = OffsetCommitRequest(GROUP, generation, "", topics=[topic])
        assert (await connection.send(asked)).topics[0].partitions[0].error_code == code
        listed = await connection.send(ListGroupsRequest())
        assert [each.group_id for each in listed.groups] == [GROUP] * (code is ErrorCode.NONE)

    seen_in(story)


def test_of_a_partition_that_is_not_there_an_offset_is_not_kept() -> None:
    async def story(world: World, connection: Connection) -> list[list[int]]:
        def topic(name: str, *partitions: int) -> OffsetCommitRequest.OffsetCommitRequestTopic:
            made = [OffsetCommitRequest.OffsetCommitRequestPartition(each, 5) for each in partitions]
            return OffsetCommitRequest.OffsetCommitRequestTopic(name, made)

        answer = await connection.send(OffsetCommitRequest(GROUP, topics=[topic(TOPIC, 1, 2), topic("absent", 0)]))
        everything = await connection.send(OffsetFetchRequest(GROUP, None), 7)
        assert [(each.name, [part.partition_index for part in each.partitions]) for each in everything.topics] == [
            (TOPIC, [1])
        ]
        return [[partition.error_code for partition in each.partitions] for each in answer.topics]

    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert seen_in(story) == [[ErrorCode.NONE, missing], [missing]]


def test_a_commit_keeps_the_leader_epoch_that_it_was_read_in_and_several_groups_are_told_at_once() -> None:
    async def story(world: World, connection: Connection) -> None:
        assert await commit(connection, 8, 2, committed_leader_epoch=0) is ErrorCode.NONE
        wanted = OffsetFetchRequest.OffsetFetchRequestGroup
        topics = [OffsetFetchRequest.OffsetFetchRequestTopics(TOPIC, [0, 1])]
        asked = OffsetFetchRequest(groups=[wanted(GROUP, topics=topics), wanted("nobody", topics=None)])
        first, second = (await connection.send(asked, 8)).groups
        assert [(each.committed_offset, each.committed_leader_epoch) for each in first.topics[0].partitions] == [
            (2, 0),
            (-1, -1),
        ]
        assert (second.group_id, second.error_code, second.topics) == ("nobody", ErrorCode.NONE, [])

    seen_in(story)


def test_a_group_of_another_kind_keeps_its_offsets_while_somebody_is_in_it() -> None:
    async def story(world: World, connection: Connection) -> int:
        protocols = [JoinGroupRequest.JoinGroupRequestProtocol("default", b"")]
        request = JoinGroupRequest(GROUP, 10_000, 10_000, protocol_type="connect", protocols=protocols)
        assert (await connection.send(request, 3)).error_code == ErrorCode.NONE
        partition = OffsetDeleteRequest.OffsetDeleteRequestPartition(0)
        asked = OffsetDeleteRequest(GROUP, [OffsetDeleteRequest.OffsetDeleteRequestTopic(TOPIC, [partition])])
        return int((await connection.send(asked)).error_code)

    assert seen_in(story) == ErrorCode.NON_EMPTY_GROUP


def test_who_is_not_let_in_leaves_no_group_behind() -> None:
    async def story(world: World, connection: Connection) -> None:
        refused = JoinGroupRequest(GROUP, 10_000, 10_000, protocol_type="consumer", protocols=[])
        assert (await connection.send(refused, 3)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        unknown = JoinGroupRequest(GROUP, 10_000, 10_000, "stranger", protocol_type="consumer", protocols=[])
        assert (await connection.send(unknown, 3)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await connection.send(ListGroupsRequest())).groups == []

    seen_in(story)
