"""Makes an archive of the classes that a JVM of Spark loads for a query, in the file that is named.

With it a session costs half of its CPU to start. Where Spark has no Java there is nothing to make.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from barnabas.client import blocking
from barnabas.spark.session import SparkUnavailable, session
from barnabas.testing import KafkaCluster


def archive(place: Path) -> None:
    """Runs a query of each kind, and ends the JVM, which then writes what it has loaded to `place`."""
    place.parent.mkdir(exist_ok=True)
    part = place.with_suffix(".part")
    # Classes of signed jars, and generated ones, cannot be archived; the JVM warns of each.
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={part} -Xlog:disable"
    with KafkaCluster(1) as cluster, tempfile.TemporaryDirectory() as directory:
        cluster.create_topic("events", partitions=2)
        with blocking.connect(cluster.bootstrap) as client, client.producer() as producer:
            for number in range(100):
                producer.append("events", b"event %d" % number)
        spark = session("classes", master="local[2]", config={"spark.sql.shuffle.partitions": "2"})
        options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "events", "startingOffsets": "earliest"}
        read = spark.read.format("barnabas").options(**options).load()
        read.groupBy("partition").count().orderBy("count").write.parquet(f"{directory}/counts")
        assert spark.read.parquet(f"{directory}/counts").selectExpr("sum(count)").first() == (100,)
        stream = spark.readStream.format("barnabas").options(**options).load().writeStream.format("parquet")
        where = {"path": f"{directory}/archive", "checkpointLocation": f"{directory}/checkpoint"}
        stream.options(**where).trigger(availableNow=True).start().awaitTermination()
        gateway = spark.sparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # which is how the JVM hears that its driver is gone
        gateway.proc.wait()
    part.rename(place)


if __name__ == "__main__":
    try:
        archive(Path(sys.argv[1]))
    except SparkUnavailable as error:
        print(error, file=sys.stderr)
