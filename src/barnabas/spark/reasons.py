"""The sentence inside an error that came through Spark: under a Java stack trace and a Python one."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["reason"]

# The last line of a Python traceback, as the JVM hands it on: the error's class, and what it says.
_RAISED: Final = re.compile(r"^\s*(?:(?:[A-Za-z_]\w*\.)+[A-Z]\w*|[A-Z]\w*(?:Error|Exception)): (.+?)\s*$", re.MULTILINE)
# A Java exception, as Py4J tells it, and those below it.
_CAUSES: Final = re.compile(r"^(?:Caused by)?: (?:[\w.$]+: )?(.+)$", re.MULTILINE)
# A query whose source's process is gone: Spark reads no byte from it, and has nothing to say.
_WORDLESS: Final = re.compile(r"terminated with exception:\s*(?:SQLSTATE: \w+)?\s*(?:\n|$)")
_KILLED: Final = (
    "The query's Python process (python_streaming_source_runner) ended without a word: it was killed, perhaps for want "
    "of memory. Start the query again, or have `barnabas spark run --restart` do it."
)


def reason(error: BaseException) -> str:
    """What this source or sink said in Python; else the JVM's deepest cause that is a sentence, of one line."""
    text = str(error)
    raised = _RAISED.findall(text.partition("Caused by:")[0])
    if "Traceback (most recent call last)" in text and raised:
        return str(raised[-1])
    if _WORDLESS.search(text):
        return _KILLED
    causes = [cause for cause in _CAUSES.findall(text) if " " in cause]
    sentence = re.sub(r"^\[[A-Z_.0-9]+\] ", "", causes[-1] if causes else text.strip())
    return re.split(r"\s*SQLSTATE: |\n", sentence)[0] or type(error).__name__
