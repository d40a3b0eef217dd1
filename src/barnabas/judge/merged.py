"""Transactions that their coordinator held for open when their end had been acknowledged (KAFKA-18137), found in
``__transaction_state``.

In Apache Kafka before 4.0 a load that runs late, when the broker has resigned already, leaves a cache behind that
nothing unloads. Elected again, the coordinator answers from it until its next load begins: to the end of a transaction
of which it knows nothing yet it says what it would say of the one before, which has ended so already, and writes
nothing. Then it loads, finds the transaction open, and takes what its producer does next for a part of it. Or the
producer's next transaction comes before the load as well, and begins by that cache: it is written over the one that is
open, whose partitions have no marker until a later transaction of the producer is ended there.

The log shows that: a state of one transaction from an earlier epoch of the coordinator's office in which it is open;
right behind it, from a later epoch, a state of the same one (its begin is the same) in which it has not ended, or
another begin of the same producer; and between the two an end that the client was acknowledged. A coordinator that
knows of that end writes it before it answers, and one that knows of an open transaction leaves its begin as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from barnabas.client import TopicPartition
from barnabas.judge.coordinators_log import ONGOING, OPEN, Written, WrittenState
from barnabas.judge.history import Client, Op
from barnabas.judge.journal import AcknowledgedEnd
from barnabas.judge.workload import OURS, Work

_MS = 1_000_000


class Merged(NamedTuple):
    """A transaction that was open at `since`, and at `until` still or written over, though it was ended between: in
    nanoseconds of the history's clock, as the wall clock was ahead of it when that end was asked for."""

    transactional_id: str
    partitions: tuple[TopicPartition, ...]
    since: int
    until: int


def held_past_their_ends(log: Iterable[Written], ends: Mapping[str, Sequence[AcknowledgedEnd]]) -> Iterator[Merged]:
    """Those that are in a partition, by what is in it, in its order. `ends` are by transactional id."""
    newest: dict[str, WrittenState | None] = {}
    for transactional_id, told in log:
        before = newest.get(transactional_id)
        newest[transactional_id] = told
        if (
            before is not None
            and told is not None
            and before.status == ONGOING
            and told.status in (OPEN if told.begun_ms == before.begun_ms else (ONGOING,))
            and before.producer_id == told.producer_id
            and before.leader_epoch < told.leader_epoch
        ):
            for end in ends.get(transactional_id, ()):
                ahead = end.wall - end.invoked
                # The log has whole milliseconds: the earlier state is from before the end of its own.
                since, until = (before.updated_ms + 1) * _MS - ahead, told.updated_ms * _MS - ahead
                if since < end.invoked and end.completed < until:
                    yield Merged(transactional_id, before.partitions, since, until)
                    break


def note_merged(work: Work, log: Mapping[TopicPartition, Sequence[Written]]) -> None:
    """Writes down what the coordinators' `log` shows of the partitions that are judged."""
    ends = work.notes.acknowledged_ends()
    judged = set(work.places())
    journal = work.notes.journal(Client("coordinators", OURS))
    for written in log.values():
        for merged in held_past_their_ends(written, ends):
            for at in sorted(judged.intersection(merged.partitions)):
                journal.add(Op.MERGED, merged.since, at, completed=merged.until, name=merged.transactional_id)
