"""The query of the exactly-once run: topic ``in`` to topic ``out``, each value with its checksum. Takes a JSON object.

Ends with 0 when all that the topic had is through; with anything else it is to be started again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dying import DyingDataSource
from pyspark.sql import DataFrame, functions

from barnabas.spark import by_target_partition
from barnabas.spark.session import session


def transformed(given: dict[str, Any], spark: Any) -> tuple[DataFrame, dict[str, str]]:
    """The rows as they go to the sink, and the sink's options."""
    cluster = {"kafka.bootstrap.servers": given["bootstrap"]}
    source = (
        spark.readStream.format("barnabas")
        .options(**cluster)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(given["batch"]))
        .option("commitOffsets", "false")
        .load()
    )
    value = functions.col("value").cast("string")
    rows = source.select("key", functions.concat(value, functions.lit(":"), functions.crc32(value)).alias("value"))
    sink = {**cluster, "topic": "out", "sinkId": "exactly-once", "delivery": given["delivery"]}
    sink["kafka.compression.type"] = "lz4"
    if given["delivery"] == "exactly-once":
        rows = by_target_partition(rows, sink)
    return rows, sink


def start(given: dict[str, Any], spark: Any) -> Any:
    spark.dataSource.register(DyingDataSource)
    rows, sink = transformed(given, spark)
    return (
        rows.writeStream.format("barnabas_dying")
        .options(**sink)
        .option("checkpointLocation", given["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )


def main() -> None:
    given = json.loads(sys.argv[1])
    spark = session("exactly-once", master=given["master"], config=given["config"])
    java = spark.sparkContext._gateway.proc
    assert java is not None
    Path(given["dying"], "driver.pid").write_text(str(java.pid))
    start(given, spark).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
