"""How long ``audit``'s comparison takes for N records that Spark makes up on both sides, one of them lost.

``python bench/audit_scale.py 100000000 4g`` on a quiet machine: what it prints is the audit alone, no topic is read.
The memory is the driver's heap, which with ``local[*]`` is all that Spark has; what doesn't fit goes to its local
directories.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from barnabas.spark.jobs.audit import audit
from barnabas.spark.session import session


def main(records: int, memory: str = "2g", master: str = "local[*]") -> None:
    from pyspark.sql import functions as sql

    spark = session("audit scale", master=master, config={"spark.driver.memory": memory})
    try:
        made = spark.range(records).select(
            sql.col("id").cast("string").alias("id"),
            (sql.col("id") % 12).cast("int").alias("partition"),
            sql.floor(sql.col("id") / 12).alias("offset"),
            sql.xxhash64("id").alias("crc"),
            sql.col("id").alias("sequence"),
        )
        begun = time.monotonic()
        result = audit(made, made.where(f"sequence != {records // 2}"), place="made up")
        took = time.monotonic() - begun
        assert (result.lost, result.duplicated, result.reordered) == (1, 0, 0), result
        print(f"{records:,} records on each side, one lost: {result.verdict()}; {took:.1f} s")
        java = spark.sparkContext._gateway.proc.pid
        peak_kb = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{java}/status").read_text())
        assert peak_kb is not None
        print(f"the JVM's memory at its peak: {int(peak_kb[1]) / 1024:,.0f} MB, with a heap of {memory}")
    finally:
        spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, *sys.argv[2:4])
