"""What brokers of a whole cluster tell, and leave undone, while leaders move."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.client.admin import Admin
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_OFFSET, TopicPartition
from barnabas.testing import ClusterError, KafkaCluster
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest

PARTITIONS = [TopicPartition("t", number) for number in range(2)]


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    """Two brokers with a topic of two partitions, of which the controller is not to lead any."""
    with KafkaCluster(2) as made:
        controller, leader = controller_and_leader(made)
        made.create_topic("t", assignment={number: [leader, controller] for number in range(2)})
        yield made


def test_a_broker_that_hands_over_what_it_leads_does_not_follow_it(cluster: KafkaCluster) -> None:
    """The next leader would wait for it with all that it commits, until it is gone."""
    staying, leaving = controller_and_leader(cluster)
    asked = cluster.fail("CONTROLLED_SHUTDOWN", "UNKNOWN_SERVER_ERROR", times=3, from_=leaving, applied=True)
    cluster.broker(leaving).stop()
    assert asked.hits == 3, "it was told to ask again, and had the time to follow"
    for number in PARTITIONS:
        cluster.partition(*number).wait(leader=staying)
        partition = cluster.host._brokers[staying].replicas.partition(number)
        assert partition is not None
        assert partition.is_leader
        assert partition.progress[leaving].log_end_offset == NO_OFFSET


def test_an_election_is_over_when_the_broker_that_was_asked_knows_the_leader(cluster: KafkaCluster) -> None:
    controller, preferred = controller_and_leader(cluster)
    cluster.broker(preferred).restart()
    for number in range(2):
        cluster.partition("t", number).wait(leader=controller, isr={0, 1})
    slow = cluster.delay("UPDATE_METADATA", 0.3, times=None, broker=controller, from_=controller)
    first, second = PARTITIONS
    asked = [ElectLeadersRequest.TopicPartitions(first.topic, [first.partition])]
    impatient = ElectLeadersRequest(topic_partitions=asked, timeout_ms=1)

    async def elect() -> tuple[int, object, int]:
        told = await (await cluster.client.controller()).send(impatient)
        (late,) = told.replica_election_results[0].partition_result
        outcomes = await Admin(cluster.client).elect_leaders([second])
        known = cluster.host._brokers[controller].metadata.partition(second)
        assert known is not None
        return late.error_code, outcomes[second], known.leader

    assert cluster.run(elect()) == (ErrorCode.REQUEST_TIMED_OUT, None, preferred)
    assert slow.hits
    slow.stop()


def test_no_broker_begins_where_another_is_registered(cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.broker(1).stop()
    own, address = cluster.host.configuration, cluster.broker(0).address
    there = {"advertised.listeners": f"PLAINTEXT://{address}"}
    monkeypatch.setattr(cluster.host, "configuration", lambda broker_id: {**own(broker_id), **there})
    with pytest.raises(ClusterError, match=f"Broker 0 is registered at {address}"):
        cluster.broker(1).start()


def controller_and_leader(cluster: KafkaCluster) -> tuple[int, int]:
    controller = cluster.controller.id
    return controller, 1 - controller
