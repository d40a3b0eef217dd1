"""The result of a check: the number of findings, and the first examples with the few rows that show each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from barnabas.judge.history import NONE, Column, OperationHistory
from barnabas.judge.lines import told

EXAMPLES: Final = 10
"""The number of examples of each anomaly; all findings are counted."""


class Example(NamedTuple):
    sentence: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """An anomaly. With `limit`, one that the protocol or the configuration does not exclude, as is known."""

    anomaly: str
    limit: str | None
    count: int
    examples: tuple[Example, ...]


class Judged(NamedTuple):
    """`evaluated` counts the places that could have shown the anomaly; if it is 0, a clean verdict means nothing."""

    anomaly: str
    evaluated: int
    findings: tuple[Finding, ...] = ()


class _Told:
    """A row's fields, for a sentence."""

    def __init__(self, history: OperationHistory, row: int) -> None:
        self.row = row
        self.client = history.context.clients[int(history.process[row])].name
        self.at = history.place_name(int(history.place[row])) if history.place[row] >= 0 else "nowhere"
        self.offset = int(history.offset[row])
        self.key = int(history.key[row])
        self.value = int(history.value[row])
        self.txn = int(history.txn[row])
        self.name = history.names[int(history.name[row])] if history.name[row] >= 0 else ""


def judged(
    history: OperationHistory,
    anomaly: str,
    evaluated: int,
    rows: Column | Sequence[Sequence[int]],
    sentence: str,
    limits: Mapping[str, Column] | None = None,
) -> Judged:
    """Makes the result. `rows` has the shape (findings, rows of each), with -1 for no row; `sentence` formats those
    rows' fields. A finding's limit is the first of `limits` whose mask (one truth value for each finding) holds.
    """
    table = np.asarray(rows, np.int64)
    if table.size == 0:
        return Judged(anomaly, evaluated)
    names: list[str | None] = [None, *(limits or {})]
    which = np.zeros(len(table), np.int32)
    for number, mask in reversed(list(enumerate((limits or {}).values(), 1))):
        which[mask] = number
    findings = []
    for number, limit in enumerate(names):
        chosen = np.flatnonzero(which == number)
        if len(chosen):
            examples = tuple(_example(history, table[index], sentence) for index in chosen[:EXAMPLES])
            findings.append(Finding(anomaly, limit, len(chosen), examples))
    return Judged(anomaly, evaluated, tuple(findings))


def _example(history: OperationHistory, rows: Column, sentence: str) -> Example:
    present = [int(row) for row in rows]
    views = [_Told(history, row) if row != NONE else None for row in present]
    return Example(sentence.format(*views), tuple(dict.fromkeys(row for row in present if row != NONE)))


def as_json(history: OperationHistory, finding: Finding) -> dict[str, Any]:
    return {
        "anomaly": finding.anomaly,
        "limit": finding.limit,
        "count": finding.count,
        "examples": [
            {
                "sentence": example.sentence,
                "rows": list(example.rows),
                "history": [told(history, row) for row in example.rows],
            }
            for example in finding.examples
        ],
    }
