"""Finds the sentence inside an error that Spark wrapped in stack traces of Java and Python."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["reason"]

# The last line of a Python traceback, as the JVM passes it on: the error's class and message.
_RAISED: Final = re.compile(r"^\s*(?:(?:[A-Za-z_]\w*\.)+[A-Z]\w*|[A-Z]\w*(?:Error|Exception)): (.+?)\s*$", re.MULTILINE)
# A Java exception, as Py4J shows it, and its causes.
_CAUSES: Final = re.compile(r"^(?:Caused by)?: (?:[\w.$]+: )?(.+)$", re.MULTILINE)
# Where Spark speaks with the process of a query's source, and the other end of the socket is gone: with no request left
# (Java has no message for the end of a stream), with one that was not read yet (`Connection reset`) or half written
# (`Broken pipe`, in the machine's language). So the place identifies it, not a message.
_SOURCE_GONE: Final = re.compile(
    r"^(?:Caused by: )?java\.(?:io\.EOFException|io\.IOException|net\.SocketException)\b.*\n"
    r"(?:\s+at (?:java\.base/|org\.apache\.spark\.api\.python\.PythonWorkerUtils).*\n)*"
    r"\s+at org\.apache\.spark\.[\w.]+\.PythonStreamingSourceRunner\.",
    re.MULTILINE,
)
_KILLED: Final = (
    "The query's Python process (python_streaming_source_runner) ended without a word: it was killed, perhaps for want "
    "of memory. Start the query again, or have `barnabas spark run --restart` do it."
)


def reason(error: BaseException) -> str:
    """The Python error of this source or sink; else the JVM's deepest cause that is a sentence, in one line."""
    text = str(error)
    raised = _RAISED.findall(text.partition("Caused by:")[0])
    if "Traceback (most recent call last)" in text and raised:
        return str(raised[-1])
    trace = str(getattr(getattr(error, "_cause", None), "_stackTrace", ""))  # PySpark has no public attribute for it
    if _SOURCE_GONE.search(trace):
        return _KILLED
    causes = [cause for cause in _CAUSES.findall(text) if " " in cause]
    sentence = re.sub(r"^\[[A-Z_.0-9]+\] ", "", causes[-1] if causes else text.strip())
    said = re.split(r"\s*SQLSTATE: |\n", sentence)[0]
    if said.endswith("terminated with exception:"):  # it has no message
        said += f" {trace.partition(chr(10))[0]}"
    return said or type(error).__name__
