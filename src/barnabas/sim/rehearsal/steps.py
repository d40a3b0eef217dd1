"""The steps of a rehearsal: the words of ``barnabas rehearse``, and each as a value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.model.ids import TopicPartition
from barnabas.sim.rehearsal.tree import ClusterTree, RehearsalError

KILL: Final = "kill"
DRAIN: Final = "drain"
START: Final = "start"
RACK: Final = "rack"
FAILOVER: Final = "failover"
ELECT: Final = "elect"
REASSIGN: Final = "reassign"

CONTROLLER: Final = "controller"
"""In place of a broker's id: whichever broker is controller then."""

WORDS: Final[Mapping[str, str | None]] = {
    KILL: "N[,N..]",
    DRAIN: "N[,N..]",
    START: "N[,N..]",
    RACK: "NAME",
    FAILOVER: None,
    ELECT: None,
    REASSIGN: "PLAN.json",
}
"""Each kind of step, and what has to follow its word."""


@dataclass(frozen=True)
class RehearsalStep:
    """`brokers` are ids, or None for the controller; `moves` are a reassignment's."""

    kind: str
    told: str
    brokers: tuple[int, ...] | None = ()
    moves: Mapping[TopicPartition, tuple[int, ...] | None] = field(default_factory=dict)


def parse_steps(words: Sequence[str], tree: ClusterTree, read: Callable[[str], str]) -> list[RehearsalStep]:
    """Steps in their order. `read` reads a reassignment's file. Raises `RehearsalError` for words that are no step."""
    steps: list[RehearsalStep] = []
    left = list(words)
    while left:
        kind = left.pop(0)
        if kind not in WORDS:
            raise RehearsalError(f"{kind!r} is no step: {', '.join(WORDS)} are, one after the other.")
        wanted = WORDS[kind]
        if wanted is None:
            steps.append(RehearsalStep(kind, kind))
            continue
        if not left:
            raise RehearsalError(f"{kind} takes {wanted}.")
        word = left.pop(0)
        told = f"{kind} {word}"
        if kind == REASSIGN:
            steps.append(RehearsalStep(kind, told, moves=parse_moves(word, read(word))))
        elif kind == RACK:
            if word not in tree.racks:
                raise RehearsalError(f"No living broker is in rack {word!r}: {_listed(tree.racks) or 'none has one'}.")
            steps.append(RehearsalStep(kind, told, tree.racks[word]))
        else:
            steps.append(RehearsalStep(kind, told, _brokers(kind, word, tree)))
    return steps


def _listed(racks: Mapping[str, Sequence[int]]) -> str:
    return "; ".join(f"{rack} has {', '.join(map(str, brokers))}" for rack, brokers in racks.items())


def _brokers(kind: str, word: str, tree: ClusterTree) -> tuple[int, ...] | None:
    if word == CONTROLLER and kind != START:
        return None
    try:
        brokers = tuple(dict.fromkeys(int(broker) for broker in word.split(",")))
    except ValueError:
        also = "" if kind == START else f", or {CONTROLLER!r}"
        raise RehearsalError(f"{kind} takes broker ids separated by commas{also}, not {word!r}.") from None
    known = set(tree.brokers) | {replica for state in tree.state.partitions.values() for replica in state.replicas}
    unknown = sorted(set(brokers) - known)
    if unknown:
        raise RehearsalError(f"There is no broker {unknown[0]}: {', '.join(map(str, sorted(known)))} are known.")
    return brokers


def parse_moves(name: str, text: str) -> dict[TopicPartition, tuple[int, ...] | None]:
    """Kafka's reassignment JSON. A partition whose replicas are null has its move cancelled."""
    try:
        moves: dict[TopicPartition, tuple[int, ...] | None] = {}
        for wanted in json.loads(text)["partitions"]:
            replicas = wanted["replicas"]
            target = None if replicas is None else tuple(int(broker) for broker in replicas)
            moves[TopicPartition(str(wanted["topic"]), int(wanted["partition"]))] = target
    except (ValueError, KeyError, TypeError) as error:
        raise RehearsalError(
            f'{name} is not a reassignment ({error!r}): write {{"version":1,"partitions":[{{"topic":..,"partition":..,'
            '"replicas":[..]}]}.'
        ) from None
    if not moves:
        raise RehearsalError(f"{name} moves nothing.")
    return moves
