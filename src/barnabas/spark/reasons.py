"""The sentence inside an error that came through Spark: under a Java stack trace and a Python one."""

from __future__ import annotations

import re
from typing import Final

# The last line of a Python traceback, as the JVM hands it on: the error's class, and what it says.
_RAISED: Final = re.compile(r"^\s*(?:barnabas\.[\w.]+|ValueError|ConnectionError): (.+?)\s*$", re.MULTILINE)


def reason(error: BaseException) -> str:
    """What this source or sink said; the first line of what Spark says where it was another's error."""
    text = str(error)
    said = _RAISED.findall(text)
    return str(said[-1]) if said else text.strip().partition("\n")[0]
