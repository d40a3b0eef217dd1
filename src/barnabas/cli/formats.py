r"""kcat's format strings, offsets and message envelopes.

``-f '%t [%p] %o %k: %v\n'``: %t topic, %p partition, %o offset, %k key, %v or %s value, %K and %S (or %V) their
lengths (-1 for null), %T timestamp in ms, %h headers, %% a percent sign; ``\n \t \r \0 \\ \xNN`` as in C.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from barnabas.client.consumer import ConsumerRecord

DEFAULT_FORMAT: Final = "%v\\n"

_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.S)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def unescape(text: str) -> str:
    r"""Replaces ``\n`` and the like by the characters they stand for."""

    def replaced(match: re.Match[str]) -> str:
        escape = match[1]
        if escape[0] == "x" and len(escape) == 3:
            return chr(int(escape[1:], 16))
        return _ESCAPES.get(escape, match[0])

    return _ESCAPE.sub(replaced, text)


def _bytes(value: Any) -> bytes:
    return b"" if value is None else bytes(value)


def _length(value: Any) -> bytes:
    return b"%d" % (-1 if value is None else len(value))


def _headers(fetched: ConsumerRecord) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"NULL" if value is None else bytes(value)) for name, value in fetched.record.headers
    )


_FIELDS: Final[Mapping[str, Callable[[ConsumerRecord], bytes]]] = {
    "t": lambda fetched: fetched.topic.encode(),
    "p": lambda fetched: b"%d" % fetched.partition,
    "o": lambda fetched: b"%d" % fetched.record.offset,
    "k": lambda fetched: _bytes(fetched.record.key),
    "v": lambda fetched: _bytes(fetched.record.value),
    "s": lambda fetched: _bytes(fetched.record.value),
    "K": lambda fetched: _length(fetched.record.key),
    "S": lambda fetched: _length(fetched.record.value),
    "V": lambda fetched: _length(fetched.record.value),
    "T": lambda fetched: b"%d" % fetched.record.timestamp,
    "h": _headers,
}


def compile_format(text: str) -> Callable[[ConsumerRecord], bytes]:
    """A function from a record to its printed bytes. Raises ``ValueError`` for a field that does not exist."""
    parts: list[bytes | Callable[[ConsumerRecord], bytes]] = []
    literal = ""
    template = iter(unescape(text))
    for character in template:
        if character != "%":
            literal += character
            continue
        field = next(template, "")
        if field == "%":
            literal += "%"
            continue
        if field not in _FIELDS:
            known = " ".join(f"%{name}" for name in _FIELDS)
            raise ValueError(f"%{field} is not a field of a format string; the fields are {known} %%")
        parts.append(literal.encode())
        parts.append(_FIELDS[field])
        literal = ""
    parts.append(literal.encode())
    whole = [part for part in parts if part != b""]
    return lambda fetched: b"".join(part if isinstance(part, bytes) else part(fetched) for part in whole)


def json_envelope(fetched: ConsumerRecord) -> bytes:
    """The output of kcat's ``-J``: one JSON object per record."""
    record = fetched.record
    envelope = {
        "topic": fetched.topic,
        "partition": fetched.partition,
        "offset": record.offset,
        "tstype": "create",
        "ts": record.timestamp,
        "headers": [part for name, value in record.headers for part in (name, _text(value))],
        "key": _text(record.key),
        "payload": _text(record.value),
    }
    return json.dumps(envelope, ensure_ascii=False).encode() + b"\n"


def _text(value: Any) -> str | None:
    return None if value is None else bytes(value).decode("utf-8", "backslashreplace")


class Bound(NamedTuple):
    """Where reading begins or ends: `kind` is start, end, offset, tail (`value` before the end) or time (ms)."""

    kind: str
    value: int = 0


def parse_offset(text: str, now_ms: int) -> tuple[Bound, Bound | None]:
    """Parses the first and, if given, the last bound of ``-o``: ``start end N -N @ts @ts:ts s@ts e@ts``.

    A timestamp is milliseconds, a date and time, or a time before now such as ``-1h30m``.
    """
    if text in ("start", "beginning", "earliest"):
        return Bound("start"), None
    if text in ("end", "latest"):
        return Bound("end"), None
    if text.startswith("e@"):
        return Bound("start"), Bound("time", parse_time(text[2:], now_ms))
    if text.startswith(("@", "s@")):
        return _times(text.partition("@")[2], now_ms)
    if re.fullmatch(r"-\d+", text):
        return Bound("tail", int(text[1:])), None
    if re.fullmatch(r"\+?\d+", text):
        return Bound("offset", int(text)), None
    raise ValueError(f"{text!r} is not an offset: use start, end, a number, -N for the last N, or @timestamp")


def _times(text: str, now_ms: int) -> tuple[Bound, Bound | None]:
    """One time, or two with a colon between them; a time of day has colons of its own."""
    try:
        return Bound("time", parse_time(text, now_ms)), None
    except ValueError:
        for at in [index for index, character in enumerate(text) if character == ":"]:
            try:
                first, last = parse_time(text[:at], now_ms), parse_time(text[at + 1 :], now_ms)
            except ValueError:
                continue
            return Bound("time", first), Bound("time", last)
        raise


def parse_time(text: str, now_ms: int) -> int:
    if re.fullmatch(r"\d{1,19}", text):
        return int(text)
    if text in ("now", "end"):
        return now_ms
    if re.fullmatch(r"-(\d+(ms|[smhd]))+", text):
        ago = sum(int(count) * _SECONDS[unit] for count, unit in re.findall(r"(\d+)(ms|[smhd])", text))
        return now_ms - int(ago * 1000)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a timestamp: use milliseconds, 2026-01-31T12:00:00 or -1h30m") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
