"""``readStream.format("barnabas")``: batches by limit, restarts, lag in the group, and data that is lost while away."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import running, until
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

pytestmark = [pytest.mark.apache, pytest.mark.spark]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("stream"), 1) as cluster:
        yield cluster.bootstrap


class Play:
    """A topic of one partition, and a query that is run to its end and again."""

    def __init__(self, spark: Any, bootstrap: str, directory: Path, topic: str, source: str = "barnabas") -> None:
        self.spark, self.bootstrap, self.directory, self.topic = spark, bootstrap, directory, topic
        self.source = source
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

    def make_anew(self) -> None:
        self.admin.delete_topics([self.topic])[self.topic].result(30)
        self.create()

    def delete_before(self, offset: int) -> None:
        there = TopicPartition(self.topic, 0, offset)
        self.admin.delete_records([there])[there].result(30)

    def send(self, count: int, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(self.sent, self.sent + count):
            producer.produce(self.topic, b"%d" % number, partition=partition)
        assert producer.flush(30) == 0
        self.sent += count

    def run(self, **options: str) -> list[dict[str, Any]]:
        """Runs the query until it has read what is there; its progress reports of batches with rows."""
        reader = self.spark.readStream.format(self.source).option("kafka.bootstrap.servers", self.bootstrap)
        given = {"subscribe": self.topic, "startingOffsets": "earliest", **options}
        query = (
            reader.options(**given)
            .load()
            .selectExpr("CAST(value AS STRING) AS value")
            .writeStream.format("parquet")
            .option("path", str(self.directory / "out"))
            .option("checkpointLocation", str(self.directory / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(240)
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
    told = [json.loads(each["sources"][0]["latestOffset"])["restarts"]["behind"].get("0", {}) for each in batches]
    assert [each.get("records") for each in told] == [150, 50, None]
    assert [each.get("seconds", -1) >= 0 for each in told] == [True, True, False]
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
    play.delete_before(25)
    with pytest.raises(Exception, match="aged-0: offsets 10 to 24 are gone, because the topic begins at offset 25"):
        play.run()
    play.run(failOnDataLoss="false")
    assert play.read() == [*range(10), *range(25, 30)]


def test_a_topic_that_was_made_anew_is_told_with_both_ids(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    play = Play(spark, bootstrap, tmp_path, "anew")
    play.send(10)
    play.run()
    play.make_anew()
    play.send(5)
    with pytest.raises(Exception, match=r"Topic anew was deleted and made anew: its id was .* after offsets 0:10"):
        play.run()
    play.run(failOnDataLoss="false")
    assert play.read() == list(range(15))


def aged_out(play: Play) -> None:
    play.send(10)
    play.delete_before(15)


def made_anew_and_longer(play: Play) -> None:
    play.make_anew()
    play.send(15)


def grown(play: Play) -> None:
    play.admin.create_partitions([NewPartitions(play.topic, 2)])[play.topic].result(30)
    play.send(3, partition=1)


@pytest.mark.skipif(not os.environ.get("BARNABAS_CLIENTS"), reason="beside the official connector: make clients")
@pytest.mark.parametrize(
    ("happened", "official", "ours"),
    [
        (aged_out, "data may have been lost", "offsets 10 to 14 are gone"),
        # The connector knows no topic ids: of the fifteen new records it reads the last five, and says nothing.
        (made_anew_and_longer, [*range(10), *range(20, 25)], "was deleted and made anew"),
        (grown, [*range(13)], [*range(13)]),
    ],
)
def test_what_happened_while_a_query_was_down_beside_the_official_connector(
    spark: Any,
    bootstrap: str,
    tmp_path: Path,
    happened: Callable[[Play], None],
    official: str | list[int],
    ours: str | list[int],
) -> None:
    """An answer is the values that were read in all, or a part of the error's message."""
    for source, answer in (("kafka", official), ("barnabas", ours)):
        play = Play(spark, bootstrap, tmp_path / source, f"{happened.__name__.replace('_', '-')}-{source}", source)
        play.send(10)
        play.run()
        happened(play)
        if isinstance(answer, str):
            with pytest.raises(Exception, match=answer):
                play.run()
        else:
            play.run()
            assert play.read() == answer
