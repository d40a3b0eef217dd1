"""``barnabas spark check``: what it says of programs for the official connector."""

from __future__ import annotations

from textwrap import dedent

import pytest

from barnabas.spark.jobs import JobError
from barnabas.spark.jobs.check import check

READ = 'spark.readStream.format("kafka").option("kafka.bootstrap.servers", "h:1").option("subscribe", "t")'


def said(program: str) -> list[tuple[int, str, bool]]:
    return [(line, what, must) for line, what, _, must in check(dedent(program), "job.py")]


def test_a_plain_program_changes_by_one_word() -> None:
    assert said(READ + ".load().writeStream.format('parquet').start('out')") == [(1, 'format("kafka")', False)]
    assert said(READ.replace("kafka", "barnabas", 1) + ".load()") == []
    assert said('spark.read.format("csv").option("anything", 1).load("x").filter("a = 1")') == []


def test_options_are_judged_by_the_side_they_are_on() -> None:
    program = """\
        COMMON = {"kafka.bootstrap.servers": "h:1", "kafka.session.timeout.ms": "5"}
        reader = spark.read.format("barnabas").options(**COMMON)
        reader = reader.option(
            "failOnDataLos",
            "true",
        )
        df = reader.load()
        df.write.format("barnabas").options(topic="t", subscribe="x").mode("append").save()
        """
    assert said(program) == [
        (1, "kafka.session.timeout.ms", False),
        (4, "failOnDataLos", True),
        (8, "subscribe", True),
    ]


@pytest.mark.parametrize(
    ("program", "what"),
    [
        ('df.write.format("barnabas").option("topic", "t").save()', ["save()"]),
        ('df.write.format("barnabas").option("topic", "t").mode("overwrite").save()', ['mode("overwrite")']),
        ('df.write.save(format="barnabas", mode="append", topic="t")', []),
        ('df.writeStream.format("barnabas").option("topic", "t").start()', ["writeStream"]),
        ('df.writeStream.format("barnabas").option("checkpointLocation", "s3a://b/c").start()', ["writeStream"]),
        ('df.writeStream.format("barnabas").option("checkpointLocation", "/c").start()', []),
        ('df.writeStream.format("barnabas").option("checkpointLocation", place).start()', []),
        ('df.writeStream.format("barnabas").option("delivery", "at-least-once").start()', []),
        ('df.writeStream.format("barnabas").option("sinkId", "s").trigger(realTime="5 s").start()', ["trigger"]),
        ('spark.readStream.format("barnabas").option("endingOffsets", "latest").load()', ["ending.."]),
    ],
)
def test_what_has_to_be_changed(program: str, what: list[str]) -> None:
    assert [each.partition("(realTime")[0] for _, each, must in said(program) if must] == what


def test_the_connectors_jar_is_found_and_what_is_no_python_refused() -> None:
    assert said('conf.set("spark.jars.packages", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0")') == [
        (1, "spark-sql-kafka", False)
    ]
    with pytest.raises(JobError, match=r"job\.py:1 is no Python"):
        check("def", "job.py")
