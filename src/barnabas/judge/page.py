"""A verdict as one HTML page: for each anomaly the history around it, in a lane for each client. It loads nothing."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

import numpy as np

from barnabas.judge.anomalies import ANOMALIES, LIMITS
from barnabas.judge.check import JudgeVerdict
from barnabas.judge.findings import Example, Finding
from barnabas.judge.history import NEVER, Column, Op, OperationHistory, Status
from barnabas.judge.lines import told

AROUND: Final = 40
"""The number of rows shown around an example, besides its own."""
NEAR: Final = 3
"""The distance up to which other offsets are near an example's."""
EXAMPLES: Final = 5
_LANE: Final = 30
_STEP: Final = 15
_LEFT: Final = 260

_HEAD: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>barnabas judge</title>
<style>
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #1c2733 }
h2 { margin: 2.5rem 0 .3rem } h3 { font-weight: 600; font-size: 1rem; margin: 1.6rem 0 .4rem }
code, pre { font: 12px/1.5 ui-monospace, monospace } pre { overflow-x: auto; background: #f4f6f8; padding: .6rem }
.picture { overflow-x: auto } .good { color: #14713d } .bad { color: #b3261e } .limit { color: #8a5a00 }
rect { rx: 3px } .ok { fill: #7fb08e } .failed { fill: #9aa5b1 } .unknown { fill: #e2b04a }
.shown { stroke: #b3261e; stroke-width: 2.5px } text { font: 11px ui-monospace, monospace } line { stroke: #dfe4ea }
table { border-collapse: collapse } td { padding: .1rem 1.2rem .1rem 0 }
</style>
"""


def page(verdict: JudgeVerdict) -> str:
    return "".join(_parts(verdict))


def _parts(verdict: JudgeVerdict) -> Iterator[str]:
    history = verdict.history
    yield _HEAD
    state, word = ("good", "no anomaly") if verdict.good else ("bad", "anomalies")
    yield f'<h1>A verdict: <span class="{state}">{word}</span></h1>'
    count = sum(sum(statuses.values()) for statuses in verdict.operations.values())
    yield f"<p>{count:,} operations of {len(history.context.clients)} clients.</p><table>"
    for kind, statuses in verdict.operations.items():
        counts = ", ".join(f"{count:,} {status}" for status, count in statuses.items())
        yield f"<tr><td><code>{kind}</code><td>{counts}"
    yield "</table>"
    for finding in (*verdict.anomalies, *verdict.limits):
        yield from _finding(history, finding)
    judged = ", ".join(f"{one.anomaly} {one.evaluated:,}" for one in verdict.judged if one.evaluated)
    yield f"<h2>Looked for</h2><p>{judged or 'nothing'}</p>"
    if verdict.unjudged:
        yield f"<p>Not judged, because the history has nothing that could show it: {', '.join(verdict.unjudged)}.</p>"
    yield "</html>\n"


def _finding(history: OperationHistory, finding: Finding) -> Iterator[str]:
    limit = finding.limit
    kind = f'<span class="limit">known limit {limit}</span>' if limit else '<span class="bad">anomaly</span>'
    yield f"<h2>{escape(finding.anomaly)}: {finding.count:,}, {kind}</h2>"
    yield f"<p>{escape(LIMITS[limit] if limit else ANOMALIES[finding.anomaly].definition)}</p>"
    for example in finding.examples[:EXAMPLES]:
        rows = around(history, example)
        yield f'<h3>{escape(example.sentence)}</h3><div class="picture">{_picture(history, rows, example)}</div><pre>'
        for row in rows:
            line = escape(told(history, row))
            yield (f"<b>{line}</b>" if row in example.rows else line) + "\n"
        yield "</pre>"


def around(history: OperationHistory, example: Example) -> list[int]:
    """The example's rows, those of its transactions and of nearby offsets, and the faults at the time."""
    own = np.array(example.rows, np.int64)
    sent = np.isin(history.value, history.value[own][history.value[own] >= 0])
    txns = history.txn[own]
    wanted: Column = np.isin(history.txn, txns[txns >= 0]) | sent
    for row in example.rows:
        if history.place[row] >= 0 and history.offset[row] >= 0:
            near = np.abs(history.offset - history.offset[row]) <= NEAR
            wanted |= (history.place == history.place[row]) & near & (history.offset >= 0)
    last = history.invoked[own].max()
    nemesis = history.rows(Op.NEMESIS)
    found = np.flatnonzero(wanted)
    nearest = found[np.argsort(np.abs(history.invoked[found] - history.invoked[own[0]]), kind="stable")][:AROUND]
    faults = nemesis[history.invoked[nemesis] <= last][-4:]
    return [int(row) for row in np.unique(np.concatenate([own, nearest, faults]))]


def _picture(history: OperationHistory, rows: list[int], example: Example) -> str:
    """A lane for each client, in the order of time from left to right, not to scale."""
    lanes = list(dict.fromkeys(int(history.process[row]) for row in rows))
    ends = [int(history.completed[row]) for row in rows]
    times = sorted({int(history.invoked[row]) for row in rows} | {end for end in ends if end != NEVER})
    at = {time: _LEFT + _STEP * number for number, time in enumerate(times)}
    width, height = _LEFT + _STEP * (len(times) + 1), _LANE * len(lanes) + 10
    parts = [f'<svg width="{width}" height="{height}" role="img">']
    for number, process in enumerate(lanes):
        y = _LANE * number + 22
        parts.append(f'<line x1="0" x2="{width}" y1="{y + 6}" y2="{y + 6}"/>')
        parts.append(f'<text x="0" y="{y}">{escape(history.context.clients[process].name[-36:])}</text>')
    for row, end in zip(rows, ends, strict=True):
        x = at[int(history.invoked[row])]
        size = max(_STEP - 4, (width if end == NEVER else at[end]) - x)
        y = _LANE * lanes.index(int(history.process[row])) + 8
        kind = Status(int(history.status[row])).word + (" shown" if row in example.rows else "")
        line = escape(told(history, row))
        parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{size}" height="16"><title>{line}</title></rect>')
    parts.append("</svg>")
    return "".join(parts)
