"""What a broker must not believe while leaders change: three of Kafka's old bugs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from lone_broker import Broker
from replica_worlds import TOPIC_ID, Node, state
from test_replicas import TOPIC_PARTITION, Hesitant, Peer, play
from turns import until

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import LEADER_DURING_DELETE, Uuid
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.list_offsets import ListOffsetsResponse
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest


def test_b19_a_leader_that_is_not_known_yet_is_followed_when_the_request_comes_again(tmp_path: Path) -> None:
    """KAFKA-9769: with the epoch taken at the first attempt, the second would count as old news."""

    async def story(one: Peer, two: Peer) -> None:
        assert two.leads(9, 1, (9,), (2, 9)) is ErrorCode.NONE
        assert two.replicas.fetchers.state(TOPIC_PARTITION) is None
        alive = [
            UpdateMetadataRequest.UpdateMetadataBroker(
                each, endpoints=[UpdateMetadataRequest.UpdateMetadataEndpoint(1, "here", "PLAINTEXT")]
            )
            for each in (2, 9)
        ]
        two.metadata.update(UpdateMetadataRequest(live_brokers=alive))
        assert two.leads(9, 1, (9,), (2, 9)) is ErrorCode.NONE
        following = two.replicas.fetchers.state(TOPIC_PARTITION)
        assert following is not None
        assert following.current_leader_epoch == 1

    play(tmp_path, story)


def test_b20_a_replica_that_is_assigned_no_more_counts_no_more(tmp_path: Path) -> None:
    """KAFKA-9672: fetching on, it would come back into the ISR, or hold the high watermark back."""
    node = Node(1, tmp_path)
    node.lead(0, (1, 2, 3), (1, 2, 3))
    node.append(b"x")
    node.lead(1, (1, 2), (1, 2))
    assert set(node.partition.progress) == {2}
    with pytest.raises(KafkaError) as refused:
        node.partition.follower(3, 1)
    assert refused.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH
    node.fetched_by(2, 1)
    assert node.log.high_watermark == 1


class HesitantAboutOffsets(Hesitant):
    def hesitates(self, answer: Any) -> bool:
        return isinstance(answer, ListOffsetsResponse)


def follows_another_partition(peer: Peer) -> None:
    """Broker 1 leads it; so the fetcher from there goes on when the first partition leaves it."""
    other = state(1, 0, (1,), (1, 2), 0)
    other.partition_index = 1
    topic = LeaderAndIsrRequest.LeaderAndIsrTopicState(TOPIC_PARTITION.topic, TOPIC_ID, [other])
    peer.replicas.become_leader_or_follower(LeaderAndIsrRequest(1, controller_epoch=1, topic_states=[topic]))


def test_b21_a_late_answer_cuts_nothing_of_what_this_broker_leads_by_now(tmp_path: Path) -> None:
    """KAFKA-10371: the follower asks where its leader's log begins; before it hears that, it is the leader itself."""

    async def story(one: Peer, two: Peer) -> None:
        assert isinstance(one, Hesitant)
        one.leads(1, 0, (1,))
        for _ in range(4):
            await one.append(b"x", acks=1)
        await one.replicas.delete_records([(TOPIC_PARTITION, 4)], 1)
        follows_another_partition(two)
        two.leads(1, 0, (1,))
        await one.asked.wait()
        two.leads(2, 1, (2,))
        for _ in range(2):
            await two.append(b"own", acks=1)
        one.answers.set()
        for _ in range(50):  # whatever would be done with the answers is done by then
            await asyncio.sleep(0)
        log = two.partition.local_log()
        assert (log.log_start_offset, log.log_end_offset) == (0, 2)

    play(tmp_path, story, HesitantAboutOffsets)


class CutOffWhileAskedForOffsets(HesitantAboutOffsets):
    async def answer(self, request: Any, version: int) -> Any:
        cut_off = not self.answers.is_set()
        answer = await super().answer(request, version)
        if cut_off and self.hesitates(answer):
            raise ConnectionResetError(self.broker_id)
        return answer


def test_a_leader_that_is_elected_again_while_it_is_asked_for_offsets_is_followed_on(tmp_path: Path) -> None:
    """What goes wrong with the question concerns the epoch in which it was asked, and not the one after it."""

    async def story(one: Peer, two: Peer) -> None:
        assert isinstance(one, Hesitant)
        one.leads(1, 0, (1,))
        for _ in range(4):
            await one.append(b"x", acks=1)
        await one.replicas.delete_records([(TOPIC_PARTITION, 4)], 1)
        two.leads(1, 0, (1,))
        await one.asked.wait()
        one.leads(1, 1, (1,))
        two.leads(1, 1, (1,))
        one.answers.set()
        await one.append(b"y", acks=1)
        await until(lambda: two.partition.local_log().log_start_offset == 4 and two.end == 5)

    play(tmp_path, story, CutOffWhileAskedForOffsets)


def test_a_log_whose_topic_was_made_anew_while_its_broker_was_away_is_set_aside(tmp_path: Path) -> None:
    """Nobody tells a broker that is back which replicas it was relieved of; its old log may not serve the new topic."""

    async def story() -> None:
        before = Broker(tmp_path)
        await before.startup()
        before.append(b"of the topic that is gone")
        before.replicas.checkpoint_high_watermarks()
        await before.stop()

        broker = Broker(tmp_path)
        await broker.log_dirs.load()
        broker.replicas.startup()
        anew = Uuid(b"another topic id")
        topic = LeaderAndIsrRequest.LeaderAndIsrTopicState("flights", anew, [state(1, 0, (1,), (1,), 0)])
        request = LeaderAndIsrRequest(1, controller_epoch=1, topic_states=[topic])
        broker.replicas.become_leader_or_follower(request)
        assert broker.log.topic_id == anew
        assert (broker.log.log_end_offset, broker.log.high_watermark) == (0, 0)
        broker.append(b"of the new one")
        await broker.stop()

        (stray,) = Path(before.a).parent.glob("*/*-stray")
        assert b"of the topic that is gone" in (stray / f"{0:020}.log").read_bytes()
        again = Broker(tmp_path)
        await again.log_dirs.load()
        found = again.log_dirs.get(TOPIC_PARTITION)
        assert found is not None
        assert (found.topic_id, found.log_end_offset) == (anew, 1)
        again.log_dirs.close()

    asyncio.run(story())


def test_a_replica_whose_topic_was_made_anew_while_it_had_no_session_is_let_go(tmp_path: Path) -> None:
    """The process lived on, unassigned and untold; that its topic went is all that the controller tells everybody."""

    async def story() -> None:
        broker = Broker(tmp_path)
        await broker.startup()
        broker.append(b"of the topic that is gone")
        told = UpdateMetadataRequest.UpdateMetadataPartitionState(leader=1, isr=[1], replicas=[1])
        topic_state = UpdateMetadataRequest.UpdateMetadataTopicState("flights", TOPIC_ID, [told])
        broker.metadata.update(UpdateMetadataRequest(topic_states=[topic_state]))
        anew = Uuid(b"another topic id")
        topic = LeaderAndIsrRequest.LeaderAndIsrTopicState("flights", anew, [state(1, 0, (1,), (1,), 0)])
        request = LeaderAndIsrRequest(1, controller_epoch=1, topic_states=[topic])
        refused = broker.replicas.become_leader_or_follower(request)
        assert refused.topics[0].partition_errors[0].error_code == ErrorCode.INCONSISTENT_TOPIC_ID
        told.leader = LEADER_DURING_DELETE
        broker.metadata.update(UpdateMetadataRequest(topic_states=[topic_state]))
        taken = broker.replicas.become_leader_or_follower(request)
        assert taken.topics[0].partition_errors[0].error_code == ErrorCode.NONE
        assert (broker.log.topic_id, broker.log.log_end_offset) == (anew, 0)
        assert broker.append(b"of the new one") == 0
        await broker.stop()
        (stray,) = Path(broker.a).parent.glob("*/*-stray")
        assert b"of the topic that is gone" in (stray / f"{0:020}.log").read_bytes()

    asyncio.run(story())
