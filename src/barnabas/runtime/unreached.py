"""The reason why a connection failed, in words."""

from __future__ import annotations

import os
import re
import ssl
from typing import Final

_NUMBERED: Final = re.compile(r"\[Errno (\d+)\]")


def cause_of(error: OSError) -> str:
    """The error without the address, which the reader knows. For a name with several addresses asyncio names each."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = str(error)
    reasons = dict.fromkeys(os.strerror(int(number)).lower() for number in _NUMBERED.findall(text))
    return ", ".join(reasons) or text or type(error).__name__


def handshake_failed(error: OSError, where: str) -> OSError:
    """The error of a connection by TLS, in words where the other side seems to speak none: a broker takes the first
    bytes for a request of hundreds of megabytes, and ends the connection."""
    ended = isinstance(error, ConnectionResetError | ssl.SSLEOFError | ssl.SSLZeroReturnError)
    if not ended and getattr(error, "reason", None) != "WRONG_VERSION_NUMBER":
        return error
    return ConnectionError(f"{where} does not answer the TLS handshake: perhaps it speaks no TLS at this port")
