"""The verdict on a history. Every check is a function of arrays, none more expensive than sorting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from barnabas.judge import compacted, cycles, deletions, endings, offsets, processing, reads, records, updates
from barnabas.judge.anomalies import ANOMALIES
from barnabas.judge.findings import Finding, Judged, as_json
from barnabas.judge.history import HistoryError, Op, OperationHistory, Status
from barnabas.judge.seen import Seen


class JudgeVerdict(NamedTuple):
    history: OperationHistory
    """The history, or at least the rows that examples name."""
    judged: tuple[Judged, ...]
    operations: Mapping[str, Mapping[str, int]]
    """The number of operations of each kind and outcome."""

    @property
    def anomalies(self) -> tuple[Finding, ...]:
        return tuple(finding for one in self.judged for finding in one.findings if finding.limit is None)

    @property
    def limits(self) -> tuple[Finding, ...]:
        """Findings that the protocol or the configuration does not exclude, as is known."""
        return tuple(finding for one in self.judged for finding in one.findings if finding.limit is not None)

    @property
    def unjudged(self) -> tuple[str, ...]:
        """Anomalies that the history could not have shown."""
        return tuple(one.anomaly for one in self.judged if not one.evaluated)

    @property
    def good(self) -> bool:
        return not self.anomalies

    @property
    def drivers(self) -> Mapping[str, int]:
        """The number of clients of each driver. A member that comes back counts again."""
        return Counter(client.driver for client in self.history.context.clients if client.driver)

    def as_json(self) -> dict[str, Any]:
        history = self.history
        return {
            "good": self.good,
            "drivers": dict(self.drivers),
            "operations": self.operations,
            "evaluated": {one.anomaly: one.evaluated for one in self.judged},
            "anomalies": [as_json(history, finding) for finding in self.anomalies],
            "limits": [as_json(history, finding) for finding in self.limits],
        }


def operations(history: OperationHistory) -> dict[str, dict[str, int]]:
    counts = np.bincount(history.op.astype(np.int64) * 3 + history.status, minlength=3 * len(Op))
    told = {op.word: {s.word: int(counts[3 * op + s]) for s in Status if counts[3 * op + s]} for op in Op}
    return {word: by_status for word, by_status in told.items() if by_status}


def check(history: OperationHistory) -> JudgeVerdict:
    """Raises `HistoryError` for a history that contradicts itself."""
    _consistent(history)
    seen = Seen(history)
    judged = [*of_transactions(seen), *of_partitions(seen), *cycles.cycles(seen), updates.wrong_totals(seen)]
    return JudgeVerdict(history, in_order(judged), operations(history))


def of_transactions(seen: Seen) -> list[Judged]:
    """The checks that need whole transactions, wherever their records are."""
    return [records.lost_writes(seen), records.torn_transactions(seen)]


def of_partitions(seen: Seen) -> list[Judged]:
    """The checks that need one partition at a time."""
    return [
        records.duplicates(seen),
        records.nonmonotonic_sends(seen),
        records.inconsistent_offsets(seen),
        records.phantom_records(seen),
        records.misplaced_records(seen),
        records.internal_gaps(seen),
        compacted.resurrected_keys(seen),
        deletions.deleted_reads(seen),
        reads.aborted_reads(seen),
        reads.precommitted_reads(seen),
        cycles.intermediate_reads(seen),
        updates.lost_updates(seen),
        *reads.polls(seen),
        offsets.nonmonotonic_offsets(seen),
        offsets.stale_committed_offsets(seen),
        *processing.processed(seen),
        endings.stuck_last_stable_offsets(seen),
        endings.hanging_transactions(seen),
    ]


def in_order(judged: Iterable[Judged]) -> tuple[Judged, ...]:
    """The findings in the order of `ANOMALIES`; each anomaly must be there once."""
    by_name = {one.anomaly: one for one in judged}
    return tuple(by_name[anomaly] for anomaly in ANOMALIES)


PLACED = (
    Op.SEND, Op.READ, Op.MARKER, Op.ASSIGN, Op.COMMIT_OFFSET, Op.FETCH_OFFSET, Op.HIGH_WATERMARK, Op.LAST_STABLE,
    Op.LOG_START, Op.SCANNED, Op.DELETE, Op.LEADER, Op.FORGOTTEN, Op.COPY, Op.LOADING, Op.MERGED,
)  # fmt: skip


def _consistent(history: OperationHistory) -> None:
    for what, wrong in (
        ("has no partition", np.isin(history.op, PLACED) & (history.place < 0)),
        ("ends no transaction", np.isin(history.op, (Op.COMMIT, Op.ABORT)) & (history.txn < 0)),
        ("completes before it is invoked", history.completed < history.invoked),
        ("names no group", np.isin(history.op, (Op.COMMIT_OFFSET, Op.FETCH_OFFSET)) & (history.name < 0)),
        ("names no bank", (history.op == Op.TOTAL) & (history.name < 0)),
    ):
        rows = np.flatnonzero(wrong)
        if len(rows):
            raise HistoryError(f"row {int(rows[0])} ({Op(int(history.op[rows[0]])).word}) {what}")
