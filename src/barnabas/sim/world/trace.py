"""The trace of a run: events with their time, their node and Kafka's own words.

Timelines are drawn from it, and failures explained with it. It is part of the event hash, so two runs with one trace
hash were one run. `words` is a sentence for people; `fields` are the same facts for programs. Each `Happening` says
which fields its events have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from barnabas.sim.plans.chance import EventHash

SECOND = 1_000_000_000


class Happening(StrEnum):
    """The kinds of events. `partition` is always ``topic-number``; offsets, epochs and broker ids are numbers."""

    ACTION = "action"
    """An action of the plan begins. number, name, arguments, duration_ns."""
    UNDONE = "undone"
    """An action is undone, or has ended. number, name."""
    PROCESS = "process"
    """A process of `node`. what: starts, up, down, killed, power-lost, paused, resumed; life (its number)."""
    CONTROLLER = "controller"
    """`node` won ``/controller``. controller_epoch."""
    RESIGNED = "resigned"
    """``/controller`` is gone, `node` was it."""
    STATE = "state"
    """The controller committed a partition's state. partition, leader, leader_epoch, isr, partition_epoch,
    controller_epoch, replicas."""
    DELETED = "deleted"
    """A partition's state is gone from ZooKeeper. partition."""
    LEADING = "leading"
    """`node` became leader. partition, leader_epoch, log_end_offset, high_watermark."""
    FOLLOWING = "following"
    """`node` follows. partition, leader, leader_epoch, log_end_offset, high_watermark."""
    LOG = "log"
    """Where a replica of `node` stands, when it changed. partition, log_start_offset, high_watermark,
    log_end_offset."""
    TRUNCATED = "truncated"
    """`node` cut its log. partition, from_offset, to_offset."""
    GROUP = "group"
    """A group's generation. group, generation, state, members."""
    CLIENT = "client"
    """Something of note that a client did. client, what."""
    VIOLATION = "violation"
    """An invariant did not hold. invariant, partition, sentence."""
    NOTE = "note"
    """Anything else; only words."""


@dataclass(frozen=True, slots=True)
class Event:
    """`node` is empty where the event belongs to none."""

    at_ns: int
    node: str
    kind: Happening
    words: str
    fields: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {
            "at_ns": self.at_ns,
            "node": self.node,
            "kind": str(self.kind),
            "words": self.words,
            "fields": dict(self.fields),
        }

    def __str__(self) -> str:
        return f"{self.at_ns / SECOND:10.6f} s  {self.node:<10} {self.words}"


_AS_JSON: Final = json.JSONEncoder(sort_keys=True).encode


class Trace:
    """Every event of one run, oldest first."""

    def __init__(self, now_ns: Callable[[], int], event_hash: EventHash) -> None:
        self.events: list[Event] = []
        self._now_ns = now_ns
        self._hash = event_hash

    def tell(self, node: str, kind: Happening, words: str, **fields: Any) -> None:
        event = Event(self._now_ns(), node, kind, words, fields)
        self.events.append(event)
        self._hash.event(event.at_ns, f"{kind}/{node}", (words + _AS_JSON(fields)).encode())

    def note(self, words: str, node: str = "") -> None:
        self.tell(node, Happening.NOTE, words)


@dataclass(frozen=True, slots=True)
class Violation:
    """What a checker found: the invariant that broke, a sentence, when it was seen, and the partition that it is about.

    `invariant` is the checker's id ("R7", "C1", ..; "S4" for an exception that nobody caught), by which a shrinker
    recognizes the same failure.
    """

    invariant: str
    sentence: str
    at_ns: int
    partition: str = ""
    node: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "invariant": self.invariant,
            "sentence": self.sentence,
            "at_ns": self.at_ns,
            "partition": self.partition,
            "node": self.node,
        }

    def __str__(self) -> str:
        return f"{self.invariant}: {self.sentence}"
