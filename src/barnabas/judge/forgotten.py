"""Transactions that their coordinator forgot and wrote over (KAFKA-18137), found in ``__transaction_state``.

In Apache Kafka before 4.0 a coordinator may resign while its load of the log still waits. The late load then puts an
empty cache in place. Elected again, the coordinator answers from that cache until its next load begins: it makes a new
producer for a transactional id whose transaction is open or prepared. That producer's state is the newest record of the
id from then on, and nobody ends the earlier transaction.

The log shows this clearly: another producer id follows a transaction that is open or prepared. A coordinator that knows
of the transaction ends it first; if it changes the producer id for its own reasons, it does so together with the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.judge.coordinators_log import EMPTY, ONGOING, OPEN, Written, WrittenState


def written_over(log: Iterable[Written]) -> Iterator[int]:
    """The producer ids whose transactions were written over, by a partition's records in their order."""
    newest: dict[str, WrittenState] = {}
    for transactional_id, told in log:
        before = newest.pop(transactional_id, None)
        if told is None:
            continue
        if (
            before is not None
            and before.producer_id != told.producer_id
            and before.status in OPEN
            and told.status in (EMPTY, ONGOING)
        ):
            yield before.producer_id
        newest[transactional_id] = told
