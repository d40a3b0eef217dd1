# ruff: noqa: TID251 -- a bench reads the real clock
"""What a worker of Python takes for its first task, by who takes records apart: ``python bench/first_task.py 400000``.

Each way is a process of its own, as Spark's workers are: imports, then so many records of 82 B (Avro orders) into Arrow
columns, without a broker. CPU is the process's own.
"""

from __future__ import annotations

import subprocess
import sys
import time

BATCHES = 20
BATCH_RECORDS = 1000


def main(records: int = 400_000) -> None:
    print(f"{records:,} records of 82 B in a new process, CPU s")
    for way in ("kernel", "numba", "python"):
        told = subprocess.run([sys.executable, __file__, way, str(records)], capture_output=True, text=True, check=True)
        print(told.stdout, end="", flush=True)


def task(way: str, records: int) -> None:
    from barnabas.bench.spark_registry import orders
    from barnabas.wire.records import Record, batches, build_batch

    values = orders("AVRO")
    made = [Record(n, 1_700_000_000_000, None, values[n % len(values)]) for n in range(BATCHES * BATCH_RECORDS)]
    data = memoryview(b"".join(build_batch(made[at : at + BATCH_RECORDS]) for at in range(0, len(made), BATCH_RECORDS)))
    begun = time.process_time()
    from barnabas.spark.arrow import Fetched, decode_compiled, decode_plain
    from barnabas.spark.compiled import record_walk
    from barnabas.spark.plan import OffsetRange
    from barnabas.spark.record_columns import RecordWalk

    imported = time.process_time()
    walk = None
    if way == "kernel":
        walk = record_walk()
    elif way == "numba":
        from barnabas.spark import kernels

        walk = RecordWalk(kernels.decode, kernels.decode_headers)
    fetch, wanted = Fetched(data, list(batches(data))), OffsetRange("orders", 0, 0, len(made))
    read = 0
    while read < records:
        columns = (
            decode_plain(fetch, wanted, ("value",))
            if walk is None
            else decode_compiled(fetch, wanted, ("value",), walk)
        )
        read += len(columns["value"])
    print(f"{way:<8} imports {imported - begun:6.3f}  records {time.process_time() - imported:6.3f}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        task(sys.argv[1], int(sys.argv[2]))
    else:
        main(*map(int, sys.argv[1:2]))
