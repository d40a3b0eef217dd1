"""``format("barnabas")`` beside the official connector: both write the same rows, compiled and in plain Python."""

from __future__ import annotations

from typing import Any

import pytest
from cluster import Cluster
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [pytest.mark.long(2), pytest.mark.apache, pytest.mark.spark]
ROWS = 700


def rows(spark: Any, writer: str) -> Any:
    """Of two topics, with keys or a partition that the row names, null values, headers and none."""
    return spark.range(0, ROWS, 1, 1).selectExpr(
        f"concat('{writer}-', if(id % 5 = 0, 'one', 'other')) AS topic",
        "if(id % 4 = 0, null, concat('key ', id % 50)) AS key",
        "if(id % 7 = 0, null, repeat(concat('värde ', id), int(id % 40))) AS value",
        "if(id % 4 = 0 or id % 11 = 0, int(id % 3), null) AS partition",
        "if(id % 3 = 0, null, transform(sequence(1, int(id % 3)), n -> named_struct("
        "'key', concat('h', n), 'value', if(n = 2, null, cast(string(id) AS binary))))) AS headers",
    )


def written(spark: Any, bootstrap: str, writer: str) -> list[Any]:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("includeHeaders", "true")
    found = reader.option("subscribe", f"{writer}-one,{writer}-other").load()
    kept = found.selectExpr(
        f"replace(topic, '{writer}-', '') AS topic", "partition", "offset", "key", "string(value)", "headers"
    )
    return kept.orderBy("topic", "partition", "offset").collect()


def test_the_same_records_as_the_official_connector_writes(spark: Any, cluster: Cluster) -> None:
    bootstrap = cluster.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [f"{writer}-{topic}" for writer in ("official", "python", "compiled") for topic in ("one", "other")]
    for made in admin.create_topics([NewTopic(name, 3, 1) for name in names]).values():
        made.result(30)
    options = {"kafka.bootstrap.servers": bootstrap, "kafka.batch.size": "3000"}
    rows(spark, "official").write.format("kafka").options(**options).mode("append").save()
    for encoder in ("python", "compiled"):
        sink = rows(spark, encoder).write.format("barnabas").options(**options, encoder=encoder)
        sink.mode("append").save()
    official = written(spark, bootstrap, "official")
    assert len(official) == ROWS
    assert written(spark, bootstrap, "python") == official
    assert written(spark, bootstrap, "compiled") == official
