"""Each error of the troubleshooting page is made to happen, and says what the page says it says."""

from pathlib import Path

import pytest

from barnabas.client.connection import ConnectionLost
from barnabas.model.errors import KafkaError
from barnabas.spark.access import connected
from barnabas.spark.options import SourceOptions
from barnabas.spark.topics import bounds, covered, resolved

PAGE = (Path(__file__).parents[1] / "spark" / "troubleshooting.md").read_text()


def says(error, beginning):
    """The error begins like that, and so does a heading of the page."""
    return str(error.value).startswith(beginning) and f"### `{beginning}" in PAGE


def options(kafka_cluster, **given):
    return SourceOptions.parse(
        {"kafka.bootstrap.servers": kafka_cluster.bootstrap, "subscribe": "stock", **given}
    ).for_batch()


@pytest.mark.parametrize(
    ("given", "beginning"),
    [
        ({"subscribe": "t"}, "Option kafka.bootstrap.servers is missing"),
        ({"kafka.bootstrap.servers": "h:1"}, "Exactly one of subscribe, subscribePattern and assign is needed"),
        ({"kafka.bootstrap.servers": "h:1", "subscrib": "t"}, "format('barnabas') has no option"),
        (
            {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "kafka.security.protocol": "SASL_SSL"},
            "Option kafka.sasl.mechanism is 'GSSAPI'",
        ),
        (
            {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "value.format": "json"},
            "Option value.schema is missing",
        ),
    ],
)
def test_options_that_are_refused(given, beginning):
    with pytest.raises(ValueError, match=r"Option|subscribe") as refused:
        SourceOptions.parse(given)
    assert says(refused, beginning)


def test_a_batch_that_would_be_empty_for_ever():
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "startingOffsets": "latest"}
    with pytest.raises(ValueError, match="latest") as refused:
        SourceOptions.parse(given).for_batch()
    assert says(refused, "Option startingOffsets can't be latest in a batch read")


def test_nobody_answers():
    access = SourceOptions.parse({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}).access
    with pytest.raises(ConnectionLost) as refused, connected(access):
        pass
    assert says(refused, "No broker of kafka.bootstrap.servers=")


def test_topics_and_times_that_are_not_there(kafka_cluster):
    kafka_cluster.create_topic("stock", partitions=1)
    with connected(options(kafka_cluster).access) as cluster:
        with pytest.raises(KafkaError) as refused:
            covered(cluster, options(kafka_cluster, subscribe="stok"))
        assert says(refused, "Topic 'stok' does not exist")
        late = options(kafka_cluster, startingTimestamp="1900000000000")
        now = bounds(cluster, covered(cluster, late), late)
        with pytest.raises(ValueError, match="timestamp") as refused:
            resolved(cluster, late.starting, now, late, start=True)
        assert says(refused, "stock-0 has no record at or after the timestamp")
