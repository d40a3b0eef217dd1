"""A verdict as a history for the cluster view: the page shows the cluster as its clients saw it, and the operations
around each anomaly, with a slider through the run.

Leaders, ISRs and high watermarks come from the answers to the observer, brokers' deaths from the nemesis. A history
without such rows shows only its partitions and operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from barnabas.judge.check import JudgeVerdict
from barnabas.judge.findings import Finding
from barnabas.judge.history import Op, OperationHistory
from barnabas.judge.lines import told
from barnabas.judge.page import around
from barnabas.web.history import SeenHistory, broker_fact, leader_fact, partition_fact

_ALL_OF_IT_MS: Final = 2**53
_DOWN: Final = ("kill", "shutdown", "pause")
_NOBODY: Final = partition_fact(-1, -1, (), ())
_OFFSETS_NS: Final = 1_000_000_000
"""How often high watermarks are shown."""


class Led(NamedTuple):
    """A partition's state in an answer to a client, in the `name` of a ``leader`` row."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    def words(self) -> str:
        return f"{self.leader} of {','.join(map(str, self.replicas))} isr {','.join(map(str, self.isr))}"


def led(words: str) -> Led | None:
    """None for a name of another form."""
    try:
        leader, of, replicas, isr, in_sync = words.split(" ")
        if (of, isr) != ("of", "isr"):
            return None
        return Led(int(leader), _numbers(replicas), _numbers(in_sync))
    except ValueError:
        return None


def _numbers(words: str) -> tuple[int, ...]:
    return tuple(int(word) for word in words.split(",") if word)


def recorded(verdict: JudgeVerdict) -> SeenHistory:
    """The anomalies for which the verdict has examples, in the order of time."""
    history = verdict.history
    changes = sorted([*_facts(history), *_lines(verdict)], key=lambda change: change[0])
    first = _ms(history, int(history.invoked[0])) if len(history) else 0
    seen = SeenHistory("barnabas judge", first, kept_ms=_ALL_OF_IT_MS)
    for at in range(len(history.places)):
        seen.note(first, f"partition/{_partition(history, at)}", _NOBODY)
    for ns, name, value in changes:
        if name:
            seen.note(_ms(history, ns), name, value)
        else:
            seen.line(_ms(history, ns), value)
    return seen


def _ms(history: OperationHistory, ns: int) -> int:
    """A monotonic time converted to the wall clock of the first row."""
    return int(history.wall[0] + ns - history.invoked[0]) // 1_000_000


def _partition(history: OperationHistory, place: int) -> str:
    topic, number = history.places[place]
    return f"{topic}-{number}"


def _facts(history: OperationHistory) -> Iterator[tuple[int, str, Any]]:
    begun = int(history.invoked[0]) if len(history) else 0
    brokers: dict[int, bool] = {}
    watermarks: dict[int, tuple[int, int]] = {}
    for row in history.rows(Op.LEADER, Op.NEMESIS, Op.HIGH_WATERMARK):
        op, at, name = Op(int(history.op[row])), int(history.place[row]), int(history.name[row])
        ns, words = int(history.completed[row]), history.names[name] if name >= 0 else ""
        if op is Op.LEADER and (known := led(words)) is not None:
            for broker in known.replicas:
                if broker not in brokers:
                    brokers[broker] = True
                    yield begun, f"broker/{broker}", broker_fact("", None, up=True)
            fact = partition_fact(known.leader, int(history.offset[row]), known.isr, known.replicas)
            yield ns, f"partition/{_partition(history, at)}", fact
        elif op is Op.NEMESIS and (struck := _struck(words)) is not None:
            broker, up = struck
            yield ns, f"broker/{broker}", broker_fact("", None, up=up)
        elif op is Op.HIGH_WATERMARK and at >= 0:
            offset = int(history.offset[row])
            last, before = watermarks.get(at, (-1, ns - _OFFSETS_NS))
            if offset > last and ns - before >= _OFFSETS_NS:
                watermarks[at] = offset, ns
                yield ns, f"offsets/{_partition(history, at)}", leader_fact(offset, offset, {})


def _struck(words: str) -> tuple[int, bool] | None:
    """The broker that the nemesis stopped or started."""
    what, _, broker = words.partition(" broker ")
    if not broker.isdigit() or what not in (*_DOWN, "heal"):
        return None
    return int(broker), what == "heal"


def _lines(verdict: JudgeVerdict) -> Iterator[tuple[int, str, Any]]:
    """The lines: the nemesis' faults; each row around an anomaly once, at its invocation; the anomaly at its last
    row."""
    history = verdict.history
    examples = [
        (_kind(finding), example) for finding in (*verdict.anomalies, *verdict.limits) for example in finding.examples
    ]
    rows = {row: None for _, example in examples for row in around(history, example)}
    for row in rows | dict.fromkeys(history.rows(Op.NEMESIS).tolist()):
        line, at = told(history, row, times=False), int(history.place[row])
        if at >= 0:
            line = line.replace(history.place_name(at), _partition(history, at))
        yield int(history.invoked[row]), "", line
    for kind, example in examples:
        yield int(history.invoked[list(example.rows)].max()), "", f"{kind}: {example.sentence}"


def _kind(finding: Finding) -> str:
    return f"{finding.anomaly} (known limit {finding.limit})" if finding.limit else f"ANOMALY {finding.anomaly}"
