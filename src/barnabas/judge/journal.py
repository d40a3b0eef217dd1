"""Journals in which clients record their operations: one for each client, with one clock and one source of values for
all."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from barnabas.judge.history import Client, Context, Op, OperationHistory, Recording, Row, Status
from barnabas.model.ids import TopicPartition

now = time.monotonic_ns
TRANSACTION_TIMEOUT_MS = 20_000


class Journal:
    """One client's rows. `invoked` is the time from before the client was called; adding a row completes it."""

    def __init__(self, process: int, rows: Recording) -> None:
        self._process = process
        self._rows = rows
        self._assigned = 0

    def add(
        self,
        op: Op,
        invoked: int,
        at: TopicPartition | None = None,
        *,
        status: Status = Status.OK,
        completed: int | None = None,
        error: object = None,
        **fields: Any,
    ) -> None:
        end = now() if completed is None else completed
        # A poll may begin before its partitions are assigned; its records were requested after the assignment.
        if op is Op.ASSIGN:
            self._assigned = invoked
        elif op is Op.READ:
            invoked = max(invoked, self._assigned)
        wall = time.time_ns() - (now() - invoked)
        topic, partition = (None, -1) if at is None else at
        text = None if error is None else str(error)[:200]
        row = Row(self._process, op, status, invoked, end, wall, topic, partition, error=text, **fields)
        self._rows.add(row)


class AcknowledgedEnd(NamedTuple):
    """When a transaction's end was requested and acknowledged, and when it was requested by the wall clock."""

    invoked: int
    completed: int
    wall: int


@dataclass
class Notes:
    """The journals of a run, which become its history. Safe for threads: a journal has one writer."""

    topics: Mapping[str, Mapping[str, str]]
    facts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._clients: list[Client] = []
        self._recordings: list[Recording] = []
        self._values = itertools.count()
        self._txns = itertools.count()
        self._lock = threading.Lock()

    def journal(self, client: Client) -> Journal:
        with self._lock:
            self._clients.append(client)
            self._recordings.append(Recording())
            return Journal(len(self._clients) - 1, self._recordings[-1])

    def groups(self) -> list[str]:
        """The groups that had members."""
        with self._lock:
            return sorted({client.group for client in self._clients if client.group is not None})

    def acknowledged_ends(self) -> dict[str, list[AcknowledgedEnd]]:
        """All acknowledged ends of transactions by transactional id, in no order."""
        found: dict[str, list[AcknowledgedEnd]] = {}
        with self._lock:
            for client, rows in zip(self._clients, self._recordings, strict=True):
                if client.transactional_id is not None:
                    ends = map(AcknowledgedEnd._make, rows.acknowledged(Op.COMMIT, Op.ABORT))
                    found.setdefault(client.transactional_id, []).extend(ends)
        return found

    def value(self) -> int:
        with self._lock:
            return next(self._values)

    def txn(self) -> int:
        with self._lock:
            return next(self._txns)

    def history(self) -> OperationHistory:
        whole = Recording()
        for recording in self._recordings:
            whole.extend(recording)
        return whole.history(Context(tuple(self._clients), self.topics, self.facts))
