"""The sentence in what Spark tells of an error."""

from __future__ import annotations

import pytest

from barnabas.spark.reasons import reason

WORKER = """An exception was thrown from the Python worker.
Traceback (most recent call last):
  File "reader.py", line 1, in read
barnabas.spark.plan.DataLoss: flights-0: offsets 3 to 9 are gone.

\tat org.apache.spark.api.python.BasePythonRunner
Caused by: java.io.EOFException: gone
"""
STREAM = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_DATA_SOURCE_ERROR] Failed:
Traceback (most recent call last):
  File "stream.py", line 1, in latestOffset
ValueError: It is wrong.
SQLSTATE: 38000
=== Streaming Query ===
Identifier: [id = 1, runId = 2]
"""
NOT_FOUND = """An error occurred while calling o44.load.
: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: b. \
Make sure it is there. SQLSTATE: 42K02
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.dataSourceNotFoundError(QueryExecutionErrors.scala:734)
Caused by: java.lang.ClassNotFoundException: b.DefaultSource
\tat java.base/java.net.URLClassLoader.findClass(URLClassLoader.java:445)
"""
FULL = """An error occurred while calling o1.save.
: org.apache.spark.SparkException: Job aborted.
Caused by: java.io.IOException: No space left
"""
KILLED = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception:  SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 1, runId = 2]
"""
ANALYSIS = "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x` cannot be resolved. SQLSTATE: 42703; line 1\n'Project"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WORKER, "flights-0: offsets 3 to 9 are gone."),
        (STREAM, "It is wrong."),
        (NOT_FOUND, "Failed to find the data source: b. Make sure it is there."),
        (FULL, "No space left"),
        (
            KILLED,
            "The query's Python process (python_streaming_source_runner) ended without a word: it was killed, perhaps "
            "for want of memory. Start the query again, or have `barnabas spark run --restart` do it.",
        ),
        (ANALYSIS, "A column `x` cannot be resolved."),
        ("It says: so\nand more", "It says: so"),
        ("", "RuntimeError"),
    ],
)
def test_the_cause_is_told_and_no_trace_of_a_stack(text: str, said: str) -> None:
    assert reason(RuntimeError(text)) == said
