"""Transactions that their coordinator kept open after their end was acknowledged (KAFKA-18137), found in
``__transaction_state``.

In Apache Kafka before 4.0 a load may run late, after the broker has resigned, and leave a cache behind that nothing
unloads. Elected again, the coordinator answers from that cache until its next load begins. The cache does not have a
later transaction, only the one before it, which has ended in the same way. So the coordinator acknowledges the later
transaction's end without writing it. Then it loads, finds the transaction open, and adds the producer's next records to
it. Or the producer's next transaction begins before the load: it is written over the open one, whose partitions get no
marker until a later transaction of the producer ends there.

The log shows it by three things. From an earlier epoch of the coordinator there is a state in which the transaction is
open. Directly after it, from a later epoch, there is a state of the same transaction (with the same begin) in which it
has not ended, or another begin of the same producer. And between the two an end was acknowledged to the client. A
coordinator that knows of that end writes it before it answers, and one that knows of an open transaction does not
change its begin.
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
    """A transaction that was open at `since`, and at `until` still open or written over, although its end was
    acknowledged in between. The times are nanoseconds of the history's clock, converted by the wall clock's lead at the
    request of that end."""

    transactional_id: str
    partitions: tuple[TopicPartition, ...]
    since: int
    until: int


def held_past_their_ends(log: Iterable[Written], ends: Mapping[str, Sequence[AcknowledgedEnd]]) -> Iterator[Merged]:
    """Such transactions in a partition, by its records in their order. `ends` are by transactional id."""
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
                # The log has whole milliseconds: the earlier state may be up to the end of its millisecond.
                since, until = (before.updated_ms + 1) * _MS - ahead, told.updated_ms * _MS - ahead
                if since < end.invoked and end.completed < until:
                    yield Merged(transactional_id, before.partitions, since, until)
                    break


def note_merged(work: Work, log: Mapping[TopicPartition, Sequence[Written]]) -> None:
    """Records such transactions of the coordinators' `log` for the partitions that are judged."""
    ends = work.notes.acknowledged_ends()
    judged = set(work.places())
    journal = work.notes.journal(Client("coordinators", OURS))
    for written in log.values():
        for merged in held_past_their_ends(written, ends):
            for at in sorted(judged.intersection(merged.partitions)):
                journal.add(Op.MERGED, merged.since, at, completed=merged.until, name=merged.transactional_id)
