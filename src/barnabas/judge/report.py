"""A verdict as text."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.judge.anomalies import ANOMALIES, LIMITS
from barnabas.judge.check import JudgeVerdict
from barnabas.judge.findings import Finding
from barnabas.judge.lines import told

SHOWN = 3
"""Examples of each finding in the text; JSON has more."""


def text(verdict: JudgeVerdict) -> Iterator[str]:
    count = sum(sum(statuses.values()) for statuses in verdict.operations.values())
    drivers = ", ".join(f"{count} of {name}" for name, count in verdict.drivers.items())
    yield f"{count:,} operations of {len(verdict.history.context.clients)} clients" + (
        f": {drivers}" if drivers else ""
    )
    for word, statuses in verdict.operations.items():
        yield f"  {word:<15} " + ", ".join(f"{count:,} {status}" for status, count in statuses.items())
    for finding in verdict.anomalies:
        yield from _told(verdict, finding)
    for finding in verdict.limits:
        yield from _told(verdict, finding)
    judged = [f"{one.anomaly} {one.evaluated:,}" for one in verdict.judged if one.evaluated]
    yield "\nlooked for, with the number of places that could have shown each: " + (", ".join(judged) or "nothing")
    if verdict.unjudged:
        yield f"not judged, because the history has nothing that could show it: {', '.join(verdict.unjudged)}"
    count = sum(finding.count for finding in verdict.anomalies)
    limits = sum(finding.count for finding in verdict.limits)
    kinds = ", ".join(dict.fromkeys(finding.anomaly for finding in verdict.anomalies))
    yield f"\n{count:,} anomalies{f' ({kinds})' if kinds else ''}, {limits:,} known limits"


def _told(verdict: JudgeVerdict, finding: Finding) -> Iterator[str]:
    anomaly = ANOMALIES[finding.anomaly]
    limit = f", known limit {finding.limit}" if finding.limit else ""
    yield f"\n{finding.anomaly}: {finding.count:,}{limit} ({anomaly.source})"
    yield f"  {LIMITS[finding.limit] if finding.limit else anomaly.definition}"
    for example in finding.examples[:SHOWN]:
        yield f"  - {example.sentence}"
        yield from (f"      {told(verdict.history, row)}" for row in example.rows)
