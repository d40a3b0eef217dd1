"""A consumer and its positions: partitions that are paused, and topics that are made anew."""

from __future__ import annotations

from barnabas.client.blocking import connect
from barnabas.client.cluster import ClusterClient
from barnabas.client.fetcher import Fetcher
from barnabas.client.metadata import ClusterMetadata, TopicMetadata
from barnabas.client.offsets import EARLIEST
from barnabas.client.positions import UNKNOWN, Position
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.runtime.real import real_runtime
from barnabas.testing import KafkaCluster


def test_records_that_were_in_hand_when_their_partition_was_paused_come_once_it_is_resumed(
    kafka_cluster: KafkaCluster,
) -> None:
    kafka_cluster.create_topic("t")
    partition = TopicPartition("t", 0)
    with connect(kafka_cluster.bootstrap) as client:
        producer = client.producer()
        for value in (b"first", b"second", b"third"):
            producer.send("t", value, partition=0)
        consumer = client.consumer(auto_offset_reset="earliest")
        consumer.assign([partition])
        assert [record.value for record in consumer.poll(10_000, max_records=1)] == [b"first"]
        consumer.pause(partition)
        assert consumer.poll(0) == []
        consumer.resume(partition)
        assert [record.value for record in consumer.poll(10_000)] == [b"second", b"third"]


def test_a_position_is_let_go_where_metadata_and_the_leader_know_another_topic() -> None:
    """Metadata alone may be of a broker that is cut off, and still names the deleted topic."""
    cluster = ClusterClient(real_runtime(), "127.0.0.1:1")
    reader = Fetcher(cluster, auto_offset_reset=EARLIEST)
    partition = TopicPartition("t", 0)
    position = reader._positions[partition] = Position(5)

    def told(number: int) -> int:
        cluster.metadata = ClusterMetadata(topics={"t": TopicMetadata("t", Uuid(bytes([number] * 16)), False, {})})
        reader._let_go_of_deleted_topics()
        return position.offset

    assert told(2) == 5
    reader._note_topic(partition, ErrorCode.NONE, Uuid(bytes([2] * 16)))
    assert told(1) == 5, "a broker that is cut off names the former topic"
    assert reader._topic_id(partition) == Uuid(bytes([2] * 16))
    reader._note_topic(partition, ErrorCode.UNKNOWN_TOPIC_ID, Uuid(bytes([2] * 16)))
    assert told(3) == UNKNOWN
    assert position.reset_to == EARLIEST


def test_partitions_of_a_topic_made_anew_are_all_named_where_nothing_says_where_to_go_on() -> None:
    cluster = ClusterClient(real_runtime(), "127.0.0.1:1")
    reader = Fetcher(cluster, auto_offset_reset=None)
    old, new = Uuid(bytes([1] * 16)), Uuid(bytes([2] * 16))
    for number in range(2):
        reader._positions[TopicPartition("t", number)] = Position(5)
        reader._note_topic(TopicPartition("t", number), ErrorCode.NONE, old)
        reader._note_topic(TopicPartition("t", number), ErrorCode.UNKNOWN_TOPIC_ID, old)
    cluster.metadata = ClusterMetadata(topics={"t": TopicMetadata("t", new, False, {})})
    reader._let_go_of_deleted_topics()
    assert "offset 5 of t-0, offset 5 of t-1" in str(reader._trouble)
