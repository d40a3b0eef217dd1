"""A Spark that is too old is told in one sentence, at the first call."""

from __future__ import annotations

import pyspark
import pytest
from pyspark.sql.types import StructType

from barnabas.spark.options import SourceOptions
from barnabas.spark.session import SparkUnavailable, session
from barnabas.spark.source import BarnabasDataSource
from barnabas.spark.stream import TopicStreamReader, UnlimitedStreamReader
from barnabas.spark.versions import SparkTooOld, spark_version

GIVEN = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "columns": "offset"}
OFFSET = StructType().add("offset", "long")
SENTENCE = "Barnabas needs Spark 4.1 or newer, and this is {}: "


@pytest.mark.parametrize(("version", "told"), [("4.0.1", "4.0"), ("3.5.7", "3.5")])
def test_an_older_spark_is_named(monkeypatch: pytest.MonkeyPatch, version: str, told: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    with pytest.raises(SparkTooOld, match=SENTENCE.format(told)):
        BarnabasDataSource(GIVEN)
    with pytest.raises(SparkUnavailable, match=SENTENCE.format(told)):
        session("old")


@pytest.mark.parametrize(
    ("version", "reader"),
    [("4.1.1", UnlimitedStreamReader), ("4.2.0", TopicStreamReader), ("4.10.0.dev1", TopicStreamReader)],
)
def test_a_stream_is_read_as_its_spark_can(
    monkeypatch: pytest.MonkeyPatch, version: str, reader: type[TopicStreamReader]
) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    assert type(BarnabasDataSource(GIVEN).streamReader(OFFSET)) is reader


def test_a_version_is_two_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.3.0.dev0")
    assert spark_version() == (4, 3)


def test_a_limit_that_an_older_spark_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match=r"need Spark 4\.2"):
        UnlimitedStreamReader(SourceOptions.parse({**GIVEN, "maxOffsetsPerTrigger": "5"}), OFFSET)
