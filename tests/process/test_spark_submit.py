"""A job by ``spark-submit --py-files``, in an environment that has no Barnabas: ``make spark-submit``."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.spark.session import java_home
from barnabas.testing import KafkaCluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif("BARNABAS_SUBMIT" not in os.environ, reason="wants an environment: make spark-submit"),
]
JOB = """
import sys

from pyspark.sql import SparkSession
from pyspark_barnabas import DefaultSource

spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(DefaultSource)
servers = sys.argv[1]
orders = spark.read.format("barnabas").option("kafka.bootstrap.servers", servers).option("subscribe", "orders").load()
orders.select("value").write.format("barnabas").option("kafka.bootstrap.servers", servers).option(
    "topic", "again"
).mode("append").save()
"""


def test_one_zip_brings_the_source_and_the_sink(kafka_cluster: KafkaCluster, tmp_path: Path) -> None:
    place = Path(os.environ["BARNABAS_SUBMIT"]).absolute()
    python = str(place / "bin" / "python")
    assert subprocess.run([python, "-c", "import barnabas"], capture_output=True, check=False).returncode == 1
    (wheel,) = (place / "dist").glob("*.whl")
    shutil.copy(wheel, tmp_path / "barnabas.zip")
    (tmp_path / "job.py").write_text(JOB)
    for topic in ("orders", "again"):
        kafka_cluster.create_topic(topic, partitions=2)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap})
    for number in range(10):
        producer.produce("orders", b"order %d" % number)
    assert producer.flush(30) == 0
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    words = ["--master", "local[1]", "--py-files", str(tmp_path / "barnabas.zip")]
    done = subprocess.run(
        [str(place / "bin" / "spark-submit"), *words, str(tmp_path / "job.py"), kafka_cluster.bootstrap],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(record.value or b"" for record in kafka_cluster.records("again")) == [
        b"order %d" % n for n in range(10)
    ]
