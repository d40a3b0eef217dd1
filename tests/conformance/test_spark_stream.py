"""``readStream.format("barnabas")``: batches by limit, restarts, lag in the group, and data that is lost while away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import running, until
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [pytest.mark.apache, pytest.mark.spark]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("stream"), 1) as cluster:
        yield cluster.bootstrap


class Play:
    """A topic of one partition, and a query that is run to its end and again."""

    def __init__(self, spark: Any, bootstrap: str, directory: Path, topic: str) -> None:
        self.spark, self.bootstrap, self.directory, self.topic = spark, bootstrap, directory, topic
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.sent = 0
        self.create()

    def create(self) -> None:
        until(self._created, "a topic that was deleted makes room")

    def _created(self) -> bool:
        try:
            self.admin.create_topics([NewTopic(self.topic, 1, 1)])[self.topic].result(30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    def send(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(self.sent, self.sent + count):
            producer.produce(self.topic, b"%d" % number)
        assert producer.flush(30) == 0
        self.sent += count

    def run(self, **options: str) -> list[dict[str, Any]]:
        """Runs the query until it has read what is there; its progress reports of batches with rows."""
        reader = self.spark.readStream.format("barnabas").option("kafka.bootstrap.servers", self.bootstrap)
        given = {"subscribe": self.topic, "startingOffsets": "earliest", "value.format": "string", **options}
        for name, value in given.items():
            reader = reader.option(name, value)
        query = (
            reader.load()
            .writeStream.format("parquet")
            .option("path", str(self.directory / "out"))
            .option("checkpointLocation", str(self.directory / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(90)
            self.last = query
            return [each for each in query.recentProgress if each["numInputRows"]]
        finally:
            query.stop()

    def read(self) -> list[int]:
        return sorted(int(row.value) for row in self.spark.read.parquet(str(self.directory / "out")).collect())


def test_a_query_reads_on_where_its_checkpoint_is_and_its_group_shows_it(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    from barnabas.spark.lag import lag

    play = Play(spark, bootstrap, tmp_path, "restarts")
    play.send(250)
    batches = play.run(maxOffsetsPerTrigger="100", groupId="watched")
    assert [each["numInputRows"] for each in batches] == [100, 100, 50]
    assert lag(play.last) == {("restarts", 0): 0}
    play.send(30)
    assert [each["numInputRows"] for each in play.run(groupId="watched")] == [30]
    assert play.read() == list(range(280))
    committed = play.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("watched")])["watched"].result(30)
    assert [each.offset for each in committed.topic_partitions] == [280]


def test_a_limit_in_bytes_cuts_batches_by_the_records_sizes(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    play = Play(spark, bootstrap, tmp_path, "bytes")
    play.send(1000)
    batches = [each["numInputRows"] for each in play.run(maxBytesPerTrigger="6000")]
    assert sum(batches) == 1000
    assert 2 <= len(batches) <= 5
    assert play.read() == list(range(1000))


def test_records_that_aged_out_while_the_query_was_down_are_told_with_their_range(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    play = Play(spark, bootstrap, tmp_path, "aged")
    play.send(10)
    play.run()
    play.send(20)
    play.admin.delete_records([TopicPartition("aged", 0, 25)])[TopicPartition("aged", 0)].result(30)
    with pytest.raises(Exception, match="aged-0: offsets 10 to 24 are gone, because the topic begins at offset 25"):
        play.run()
    play.run(failOnDataLoss="false")
    assert play.read() == [*range(10), *range(25, 30)]


def test_a_topic_that_was_made_anew_is_told_with_both_ids(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    play = Play(spark, bootstrap, tmp_path, "anew")
    play.send(10)
    play.run()
    play.admin.delete_topics(["anew"])["anew"].result(30)
    play.create()
    play.send(5)
    with pytest.raises(Exception, match=r"Topic anew was deleted and made anew: its id was .* after offsets 0:10"):
        play.run()
    play.run(failOnDataLoss="false")
    assert play.read() == list(range(15))
