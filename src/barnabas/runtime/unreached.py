"""The reason why a connection failed, in words."""

from __future__ import annotations

import os
import re
from typing import Final

_NUMBERED: Final = re.compile(r"\[Errno (\d+)\]")


def cause_of(error: OSError) -> str:
    """The error without the address, which the reader knows. For a name with several addresses asyncio names each."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = str(error)
    reasons = dict.fromkeys(os.strerror(int(number)).lower() for number in _NUMBERED.findall(text))
    return ", ".join(reasons) or text or type(error).__name__
