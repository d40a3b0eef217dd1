"""What brokers of a whole cluster tell, and leave undone, while leaders move."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.model.ids import NO_OFFSET, TopicPartition
from barnabas.testing import KafkaCluster

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
        partition = cluster.host._brokers[staying].replicas.partition(number)
        assert partition is not None
        assert partition.is_leader
        assert partition.progress[leaving].log_end_offset == NO_OFFSET


def controller_and_leader(cluster: KafkaCluster) -> tuple[int, int]:
    controller = cluster.controller.id
    return controller, 1 - controller
