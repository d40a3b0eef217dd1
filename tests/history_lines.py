"""Histories from text, a line for an operation: for the anomalies' examples, and for tests.

::

    client p idempotent=no acks=1          # promises other than the usual ones; clients need no line otherwise
    topic r cleanup.policy=compact
    p send r/0@4 v=7 t=1                   # value 7 of transaction 1, acknowledged at offset 4
    p send r/0 v=8 unknown
    c read r/0@4 v=7 ..9                   # under way until line 9 completes
    c commit-offset r/0@5 g=group

The n-th operation is invoked at time 10 n and completes at 10 n + 5, unless ``..m`` says that it completes when the
m-th does; operations are counted from 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas.judge.history import (
    NONE,
    Client,
    Context,
    HistoryError,
    Op,
    OperationHistory,
    Recording,
    Row,
    Status,
)

_OPS = {op.word: op for op in Op}
_STATUSES = {status.word: status for status in Status}
_NUMBERS = {"k": "key", "v": "value", "t": "txn", "f": "follows"}
_TEXTS = {"g": "name", "e": "error"}


def parse(text: str) -> OperationHistory:
    """Raises `HistoryError` for a line that says nothing."""
    clients: dict[str, dict[str, Any]] = {}
    topics: dict[str, dict[str, str]] = {}
    facts: dict[str, str] = {}
    recording = Recording()
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        head, subject, *rest = words if len(words) > 1 else [*words, ""]
        if head == "client":
            clients.setdefault(subject, {}).update(_promises(rest, line))
        elif head == "topic":
            topics[subject] = dict(_pair(word, line) for word in rest)
        elif head == "fact":
            facts.update(_pair(word, line) for word in (subject, *rest))
        else:
            clients.setdefault(head, {})
            recording.add(_row(list(clients).index(head), subject, rest, len(recording) + 1, line))
    named = tuple(Client(name, **promises) for name, promises in clients.items())
    return recording.history(Context(named, topics, facts))


def _pair(word: str, line: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals:
        raise HistoryError(f"{word!r} is no NAME=VALUE in {line.strip()!r}")
    return name, value


def _promises(words: Iterable[str], line: str) -> dict[str, Any]:
    promises: dict[str, Any] = {}
    for word in words:
        name, value = _pair(word, line)
        if name not in Client.__dataclass_fields__ or name == "name":
            raise HistoryError(f"a client has no {name} in {line.strip()!r}")
        kind = Client.__dataclass_fields__[name].type
        promises[name] = value == "yes" if kind == "bool" else int(value) if kind == "int" else value
    return promises


def _row(process: int, op: str, words: Iterable[str], number: int, line: str) -> Row:
    if op not in _OPS:
        raise HistoryError(f"{op!r} is no operation in {line.strip()!r}: it takes {', '.join(_OPS)}")
    row = Row(process, _OPS[op], Status.OK, 10 * number, 10 * number + 5)
    try:
        for word in words:
            name, equals, value = word.partition("=")
            if word in _STATUSES:
                row.status = _STATUSES[word]
            elif word.startswith(".."):
                row.completed = 10 * int(word[2:]) + 5
            elif equals and name in _NUMBERS:
                setattr(row, _NUMBERS[name], int(value))
            elif equals and name in _TEXTS:
                setattr(row, _TEXTS[name], value)
            else:
                place, at, offset = word.partition("@")
                topic, slash, partition = place.rpartition("/")
                if slash:
                    row.topic, row.partition = topic, int(partition)
                elif place or not at:
                    raise ValueError(word)
                row.offset = int(offset) if at else NONE
    except ValueError as error:
        raise HistoryError(f"cannot read {line.strip()!r}: {error}") from None
    return row
