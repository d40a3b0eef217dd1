"""A rehearsal as one HTML file without anything from elsewhere: a square for each partition, a bar for each broker.

A row is a step. Squares are in the order of topics, each with its change to be read when the pointer rests on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from barnabas.model.ids import NO_BROKER
from barnabas.sim.rehearsal.forecast import Forecast, PartitionChange
from barnabas.sim.rehearsal.tree import PartitionZnodes

COLUMNS: Final = 100
_STYLE: Final = """
body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1em;color:#1b1f24;background:#fff}
h1{font-size:1.4em}h2{font-size:1.1em;margin:2em 0 .3em}p{margin:.2em 0}svg{display:block;margin:.6em 0}
.same{fill:#d5dae1}.isr{fill:#8fb4dd}.led{fill:#2f6fb7}.under{fill:#e8a33d}.offline{fill:#c62828}.made{fill:#4c9a5d}
.bar{fill:#2f6fb7}.held{fill:#d5dae1}text{font:12px system-ui,sans-serif;fill:currentColor}
.key span{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}
@media(prefers-color-scheme:dark){body{color:#e6e9ee;background:#14171b}.same,.held{fill:#3a414b}}
"""
_KEY: Final = (
    ("#d5dae1", "as before"),
    ("#8fb4dd", "another ISR"),
    ("#2f6fb7", "another leader"),
    ("#e8a33d", "under min ISR"),
    ("#c62828", "offline"),
    ("#4c9a5d", "replicas moved"),
)


def page(title: str, forecasts: Sequence[Forecast]) -> str:
    """The HTML; `title` says what was read from where."""
    body = "\n".join(part for forecast in forecasts for part in _step(forecast))
    key = "".join(f'<span style="background:{colour}"></span>{words}' for colour, words in _KEY)
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>\n<h1>{escape(title)}</h1>\n"
        f'<p class="key">{key}</p>\n{body}\n</html>\n'
    )


def _step(forecast: Forecast) -> Iterator[str]:
    costs = ", ".join(f"{cost.requests} {kind}" for kind, cost in forecast.costs.items()) or "no requests"
    yield f"<h2>{escape(forecast.step)}</h2>"
    yield (
        f"<p>{len(forecast.new_leaders())} leaders and {len(forecast.new_isrs())} ISRs change, "
        f"{len(forecast.newly_offline())} partitions go offline, {len(forecast.newly_under_min_isr())} fall under "
        f"min ISR. Controller {_broker(forecast.before.controller)} → {_broker(forecast.after.controller)}; "
        f"{costs}.</p>"
    )
    for note in forecast.notes:
        yield f"<p>{escape(note)}</p>"
    yield _squares(forecast)
    yield _bars(forecast)


def _broker(broker_id: int) -> str:
    return "none" if broker_id == NO_BROKER else str(broker_id)


def _squares(forecast: Forecast) -> str:
    changes = {change.partition: change for change in forecast.changes()}
    offline, under = set(forecast.offline()), set(forecast.under_min_isr())
    squares = []
    for number, partition in enumerate(sorted(forecast.after.partitions)):
        change = changes.get(partition)
        kind = "offline" if partition in offline else "under" if partition in under else _kind(change)
        state = forecast.after.partitions[partition]
        told = f"{partition}: {_told(change.before)} → {_told(state)}" if change else f"{partition}: {_told(state)}"
        squares.append(
            f'<rect class="{kind}" x="{number % COLUMNS * 10}" y="{number // COLUMNS * 10}" width="8" height="8">'
            f"<title>{escape(told)}</title></rect>"
        )
    rows = (len(squares) + COLUMNS - 1) // COLUMNS
    width, height = COLUMNS * 10, max(1, rows) * 10
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}">{"".join(squares)}</svg>'


def _kind(change: PartitionChange | None) -> str:
    if change is None:
        return "same"
    if change.before is None or change.after is None or change.before.replicas != change.after.replicas:
        return "made"
    return "led" if change.before.leader != change.after.leader else "isr"


def _told(state: PartitionZnodes | None) -> str:
    if state is None:
        return "nothing"
    return (
        f"leader {_broker(state.leader)}, ISR {','.join(map(str, state.isr))} of {','.join(map(str, state.replicas))}"
    )


def _bars(forecast: Forecast) -> str:
    """By broker: its number, the partitions it leads, and behind in grey those that it holds."""
    states = forecast.after.partitions.values()
    led = Counter(state.leader for state in states)
    held = Counter(replica for state in states for replica in state.replicas)
    brokers = sorted(set(held) | set(forecast.after.brokers))
    longest = max(held.values(), default=0) or 1
    rows = []
    for number, broker in enumerate(brokers):
        y = number * 18
        gone = "" if broker in forecast.after.brokers else " (gone)"
        rows.append(
            f'<text x="0" y="{y + 12}">broker {broker}{gone} leads {led[broker]} of {held[broker]}</text>'
            f'<rect class="held" x="240" y="{y + 2}" width="{held[broker] / longest * 600:.1f}" height="12"/>'
            f'<rect class="bar" x="240" y="{y + 2}" width="{led[broker] / longest * 600:.1f}" height="12"/>'
        )
    height = max(1, len(brokers)) * 18
    return f'<svg viewBox="0 0 1000 {height}" width="1000" height="{height}">{"".join(rows)}</svg>'
