"""What a KRaft controller says to a broker in ZooKeeper mode (KIP-866), where it means otherwise than ZooKeeper's."""

from __future__ import annotations

from pathlib import Path

from replica_worlds import TOPIC_ID, state
from test_replicas import TOPIC_PARTITION, Peer, play
from turns import until

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import LEADER_DURING_DELETE, NO_BROKER, TopicPartition, Uuid
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest

FULL, INCREMENTAL = 2, 1
KRAFT = 3000
OTHER_ID = Uuid(b"fedcba9876543210")


def from_kraft(
    peer: Peer,
    *states: LeaderAndIsrRequest.LeaderAndIsrPartitionState,
    kind: int = INCREMENTAL,
    topic_id: Uuid = TOPIC_ID,
    epoch: int = 2,
) -> ErrorCode:
    topics = [LeaderAndIsrRequest.LeaderAndIsrTopicState(TOPIC_PARTITION.topic, topic_id, list(states))]
    request = LeaderAndIsrRequest(
        KRAFT, is_k_raft_controller=True, controller_epoch=epoch, type=kind, topic_states=topics if states else []
    )
    if kind == FULL:
        peer.replicas.set_strays_aside(request)
    response = peer.replicas.become_leader_or_follower(request)
    codes = [each.error_code for topic in response.topics for each in topic.partition_errors]
    return ErrorCode(response.error_code or next(iter(codes), 0))


def test_a_leader_takes_up_new_replicas_within_its_epoch(tmp_path: Path) -> None:
    """A reassignment under KRaft raises the partition epoch alone; ZooKeeper's controller raises both."""

    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 4, (1, 2))
        assert one.leads(1, 4, (1, 2), (1, 2, 3)) is ErrorCode.STALE_CONTROLLER_EPOCH
        assert from_kraft(one, state(1, 4, (1, 2), (1, 2, 3), 5)) is ErrorCode.NONE
        assert set(one.partition.progress) == {2, 3}
        assert one.partition.partition_epoch == 5

    play(tmp_path, story)


def test_an_older_state_of_the_same_leader_epoch_is_passed_over(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 4, (1, 2))
        from_kraft(one, state(1, 4, (1, 2), (1, 2, 3), 6))
        from_kraft(one, state(1, 4, (1,), (1, 2), 5))
        assert one.partition.partition_epoch == 6
        assert one.partition.isr_state.isr == {1, 2}

    play(tmp_path, story)


def test_a_follower_fetches_on_when_its_leader_epoch_stays(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,))
        two.leads(1, 0, (1,))
        assert two.replicas.fetchers.state(TOPIC_PARTITION) is not None
        assert from_kraft(two, state(1, 0, (1, 2), (1, 2, 3), 3)) is ErrorCode.NONE
        assert two.replicas.fetchers.state(TOPIC_PARTITION) is not None
        from_kraft(one, state(1, 0, (1,), (1, 2, 3), 3))
        await one.append(b"x", acks=1)
        await until(lambda: two.end == 1)
        assert two.partition.assigned_replicas == (1, 2, 3)

    play(tmp_path, story)


def test_a_full_request_sets_aside_what_it_does_not_name(tmp_path: Path) -> None:
    """The topic was deleted while this broker heard nothing; an incremental request says nothing of others."""

    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,))
        other = state(1, 0, (1,), (1,), 0)
        other.partition_index = 1
        from_kraft(one, other)
        assert set(one.log_dirs.logs) == {TOPIC_PARTITION, TopicPartition(TOPIC_PARTITION.topic, 1)}
        assert from_kraft(one, other, kind=FULL) is ErrorCode.NONE
        assert set(one.log_dirs.logs) == {TopicPartition(TOPIC_PARTITION.topic, 1)}
        assert one.replicas.partition(TOPIC_PARTITION) is None

    play(tmp_path, story)
    assert len([*tmp_path.glob("1/*-stray")]) == 1


def test_a_full_request_sets_aside_the_log_of_a_topic_that_was_made_again(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,))
        await one.append(b"of the old topic", acks=1)
        assert from_kraft(one, state(1, 0, (1,), (1,), 0), kind=FULL, topic_id=OTHER_ID) is ErrorCode.NONE
        assert one.end == 0
        assert one.partition.topic_id == OTHER_ID

    play(tmp_path, story)


def test_a_full_request_of_a_controller_that_was_replaced_sets_nothing_aside(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,))
        from_kraft(one, state(1, 0, (1,), (1,), 0), epoch=9)
        assert from_kraft(one, kind=FULL, epoch=8) is ErrorCode.STALE_CONTROLLER_EPOCH
        assert set(one.log_dirs.logs) == {TOPIC_PARTITION}

    play(tmp_path, story)


def told(*names: tuple[str, Uuid, int], kind: int = INCREMENTAL, kraft: bool = True) -> UpdateMetadataRequest:
    state = UpdateMetadataRequest.UpdateMetadataPartitionState
    return UpdateMetadataRequest(
        KRAFT,
        is_k_raft_controller=kraft,
        type=kind,
        live_brokers=[
            UpdateMetadataRequest.UpdateMetadataBroker(
                1, endpoints=[UpdateMetadataRequest.UpdateMetadataEndpoint(9092, "here", "PLAINTEXT")]
            )
        ],
        topic_states=[
            UpdateMetadataRequest.UpdateMetadataTopicState(
                name, topic_id, [state("", number, 1, 1, 0, [1], 0, [1]) for number in range(count)]
            )
            for name, topic_id, count in names
        ],
    )


def test_what_a_full_update_does_not_name_is_gone() -> None:
    cache = MetadataCache()
    assert cache.update(told(("a", TOPIC_ID, 3), ("b", OTHER_ID, 1))) == []
    assert cache.update(told(("a", TOPIC_ID, 3))) == []
    assert set(cache.image.topics) == {"a", "b"}
    deleted = cache.update(told(("a", TOPIC_ID, 2), kind=FULL))
    assert sorted(deleted) == [TopicPartition("a", 2), TopicPartition("b", 0)]
    assert set(cache.image.topics["a"].partitions) == {0, 1}
    assert cache.topic_name(OTHER_ID) is None
    assert cache.topic_name(TOPIC_ID) == "a"


def test_a_full_update_is_a_kraft_controllers_alone() -> None:
    cache = MetadataCache()
    cache.update(told(("a", TOPIC_ID, 1), kraft=False))
    cache.update(told(("b", OTHER_ID, 1), kind=FULL, kraft=False))
    assert set(cache.image.topics) == {"a", "b"}


def test_clients_are_told_the_broker_that_they_asked_in_the_place_of_a_kraft_controller() -> None:
    cache = MetadataCache()
    cache.update(told(("a", TOPIC_ID, 1)))
    assert cache.image.controller_id == KRAFT
    assert cache.image.is_kraft_controller
    assert [cache.image.controller_for_clients(asked) for asked in (1, 2)] == [1, NO_BROKER]
    cache.forget_topics({"a": TOPIC_ID})
    assert cache.image.is_kraft_controller
    cache.update(told(kraft=False))
    assert cache.image.controller_for_clients(1) == KRAFT


def test_a_topic_that_a_kraft_controller_deletes_is_forgotten() -> None:
    cache = MetadataCache()
    cache.update(told(("a", TOPIC_ID, 1)))
    deletion = told(("a", TOPIC_ID, 1))
    deletion.topic_states[0].partition_states[0].leader = LEADER_DURING_DELETE
    assert cache.update(deletion) == [TopicPartition("a", 0)]
    assert not cache.image.topics
