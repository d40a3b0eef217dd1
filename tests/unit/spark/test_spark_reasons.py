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
ENDED = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {} SQLSTATE: XXKST
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
        (ANALYSIS, "A column `x` cannot be resolved."),
        ("It says: so\nand more", "It says: so"),
        ("", "RuntimeError"),
    ],
)
def test_the_cause_is_told_and_no_trace_of_a_stack(text: str, said: str) -> None:
    assert reason(RuntimeError(text)) == said


class Ended(RuntimeError):
    """As much as is looked at of PySpark's own for a query that has ended, which cannot be made without a JVM."""

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(ENDED.format(message))
        self._cause = RuntimeError()
        self._cause._stackTrace = trace  # type: ignore[attr-defined]


KILLED = (
    "The query's Python process (python_streaming_source_runner) ended without a word: it was killed, perhaps for want "
    "of memory. Start the query again, or have `barnabas spark run --restart` do it."
)
FRAMES = """
\tat org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner.latestOffset(P.scala:235)
\tat org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution.executeOneBatch(M.scala:630)
"""


@pytest.mark.parametrize(
    ("message", "trace", "said"),
    [
        (
            "",
            "java.io.EOFException\n\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:397)" + FRAMES,
            KILLED,
        ),
        (
            "Connection reset",
            "java.net.SocketException: Connection reset\n"
            "\tat java.base/sun.nio.ch.SocketChannelImpl.throwConnectionReset(SocketChannelImpl.java:401)\n"
            "\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:393)" + FRAMES,
            KILLED,
        ),
        (
            "Datenübergabe unterbrochen (broken pipe)",
            "java.io.IOException: Datenübergabe unterbrochen (broken pipe)\n"
            "\tat java.base/sun.nio.ch.SocketDispatcher.write0(Native Method)\n"
            "\tat org.apache.spark.api.python.PythonWorkerUtils$.writeUTF(PythonWorkerUtils.scala:36)" + FRAMES,
            KILLED,
        ),
        (
            "Cannot run program python9",
            "java.io.IOException: Cannot run program python9\n"
            "\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1170)\n"
            "\tat org.apache.spark.api.python.PythonWorkerFactory.createSimpleWorker(PythonWorkerFactory.scala:200)"
            + FRAMES,
            "Query [id = 1, runId = 2] terminated with exception: Cannot run program python9",
        ),
        (
            "Connection reset",
            "java.net.SocketException: Connection reset\n\tat org.apache.hadoop.ipc.Client.call(Client.java:1)\n",
            "Query [id = 1, runId = 2] terminated with exception: Connection reset",
        ),
        (
            "",
            "java.io.EOFException\n\tat org.apache.spark.sql.execution.streaming.CommitLog.add(CommitLog.scala:1)\n",
            "Query [id = 1, runId = 2] terminated with exception: java.io.EOFException",
        ),
    ],
    ids=[
        "between requests",
        "a request unread",
        "a request half written",
        "no such Python",
        "another's",
        "no source's",
    ],
)
def test_a_source_that_is_gone_is_told_by_where_spark_missed_it(message: str, trace: str, said: str) -> None:
    assert reason(Ended(message, trace)) == said
