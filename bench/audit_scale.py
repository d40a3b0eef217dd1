"""How long ``audit``'s comparison takes for N records that Spark makes up on both sides, one of them lost.

``python bench/audit_scale.py 100000000`` on a quiet machine: what it prints is the audit alone, no topic is read.
"""

from __future__ import annotations

import sys
import time

from barnabas.spark.jobs.audit import audit
from barnabas.spark.session import session


def main(records: int, master: str = "local[*]") -> None:
    from pyspark.sql import functions as sql

    spark = session("audit scale", master=master)
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
    finally:
        spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, *sys.argv[2:3])
