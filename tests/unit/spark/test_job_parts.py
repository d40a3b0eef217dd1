"""The plain parts of ``barnabas spark``'s jobs."""

from __future__ import annotations

from barnabas.cli.spark_run import cause_of
from barnabas.spark.jobs.audit import columns_of
from barnabas.spark.jobs.profile import batched, shares
from barnabas.wire.records import Record

WORKER = """An exception was thrown from the Python worker.
Traceback (most recent call last):
  File "reader.py", line 1, in read
barnabas.spark.fetching.DataLoss: flights-0: offsets 3 to 9 are gone.

	at org.apache.spark.api.python.BasePythonRunner
Caused by: java.io.EOFException: gone
"""


def test_only_columns_that_an_expression_names_are_read() -> None:
    assert columns_of(["`partition`", "get_json_object(cast(value as string), '$.offsets')"]) == ["value", "partition"]
    assert columns_of(["headers[0].value", "offset"]) == ["value", "offset", "headers"]


def test_of_an_error_of_sparks_only_its_cause_is_told() -> None:
    assert cause_of(RuntimeError(WORKER)) == "flights-0: offsets 3 to 9 are gone."
    jvm = "An error occurred while calling o1.save.\n: org.apache.X\nCaused by: java.io.IOException: No space left"
    assert cause_of(RuntimeError(jvm)) == "No space left"
    analysis = "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x` cannot be resolved. SQLSTATE: 42703; line 1\n'Project"
    assert cause_of(RuntimeError(analysis)) == "A column `x` cannot be resolved."


def test_codecs_are_tried_on_batches_of_a_producers_size() -> None:
    records = [Record(n, n, None, b"x" * 90) for n in range(100)]
    groups = batched(records, 1000)
    assert [len(group) for group in groups] == [10] * 10
    assert [record for group in groups for record in group] == records
    tried = shares(groups)
    assert set(tried) == {"gzip", "snappy", "lz4", "zstd"}
    assert all(0 < share < 0.7 for share in tried.values())
