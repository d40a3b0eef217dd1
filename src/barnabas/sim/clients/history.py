"""What clients did and were told in a run: the history that the checkers judge.

No two produced values are the same, so for a record found anywhere the history says who sent it, when, and with what
answer: acknowledged, surely not written, or unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class Sent:
    """One record and its fate. `answered` is empty while there is no answer; `offset` is -1 where it is not known."""

    client: str
    number: int
    topic: str
    acks: int
    idempotent: bool
    sent_ns: int
    answered: str = ""
    answered_ns: int = 0
    partition: int = -1
    offset: int = -1
    transaction: str = ""
    """The transaction that it is part of; `answered` is then acknowledged (committed), aborted, or unknown."""
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int = -1
    """In milliseconds since the epoch; -1 where the producer's clock gives it."""


@dataclass
class History:
    """What clients did and were told, for the checkers."""

    sent: dict[bytes, Sent] = field(default_factory=dict)
    read: dict[tuple[str, int], tuple[bytes, int]] = field(default_factory=dict)
    """By partition and offset: the value a consumer was given, and when first."""
    commits: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """By group and partition: the largest offset whose commit was acknowledged, and when."""
    commit_by_themselves: dict[str, None] = field(default_factory=dict)
    """Members whose consumers commit automatically; `MemberWatch` notes what they commit."""
    asked_to_commit: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    """By group and partition: the offsets that some member asked to commit, and when first."""
    given: dict[tuple[str, str], dict[int, None]] = field(default_factory=dict)
    """By consumer and partition: the offsets of the records it was given."""
    given_to_groups: dict[tuple[str, str], dict[int, None]] = field(default_factory=dict)
    """By group and partition: the same of any member."""
    passed: dict[tuple[str, str], list[tuple[int, int, int]]] = field(default_factory=dict)
    """By consumer and partition: the ranges that its position passed, and when."""
    reads_committed: dict[str, bool] = field(default_factory=dict)
    """By consumer."""
    committed_reads: dict[bytes, tuple[str, int]] = field(default_factory=dict)
    """By value: where readers of committed records were given it."""
    transactional_ids: dict[int, str] = field(default_factory=dict)
    """By the producer id that a coordinator gave for it."""
    generations: dict[str, int] = field(default_factory=dict)
    owners: dict[tuple[str, int, str], str] = field(default_factory=dict)
    """By group, generation and partition: the member that was assigned it."""
    recreated_ns: dict[str, int] = field(default_factory=dict)
    """By topic: when its deletion was last requested."""
    on_acknowledged: Callable[[Sent], None] = lambda sent: None
    """Called with each record whose offset its sender was told."""
    granted: dict[tuple[str, str], None] = field(default_factory=dict)
    """Topics and users whose right to read was acknowledged, and not taken back since."""
    taken_back: dict[tuple[str, str], None] = field(default_factory=dict)

    def asks_to_commit(self, group: str, offsets: Mapping[str, int], now_ns: int) -> None:
        for partition, offset in offsets.items():
            self.asked_to_commit.setdefault((group, partition), {}).setdefault(offset, now_ns)

    def has_committed(self, group: str, offsets: Mapping[str, int], now_ns: int) -> None:
        for partition, offset in offsets.items():
            if offset >= self.commits.get((group, partition), (-1, 0))[0]:
                self.commits[group, partition] = offset, now_ns

    def went(self, client: str, partition: str, begin: int, end: int, now_ns: int) -> None:
        """A consumer's position went from `begin` to `end` between two polls. Ranges from before a topic was made again
        do not count."""
        ranges = self.passed.setdefault((client, partition), [])
        gone_ns = self.recreated_ns.get(partition.rpartition("-")[0], -1)
        if ranges and ranges[-1][1] == begin and ranges[-1][2] > gone_ns:
            ranges[-1] = ranges[-1][0], end, now_ns
        else:
            ranges.append((begin, end, now_ns))

    def acknowledged(self) -> int:
        return sum(1 for sent in self.sent.values() if sent.answered == "acknowledged")
