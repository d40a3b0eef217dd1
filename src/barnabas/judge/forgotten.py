"""Transactions that their coordinator forgot and wrote over (KAFKA-18137), found in ``__transaction_state``.

In Apache Kafka before 4.0 a coordinator that resigns while its load still waits puts an empty cache in place when that
runs. Elected again, it answers from it until its next load begins, and makes a new producer of a transactional id whose
transaction is open or prepared. That is the newest record of the id from then on, and nobody ends what is below it.

The log shows that as nothing else does: another producer id behind a transaction that is open or prepared. A
coordinator that knows of it ends it first; where it changes the producer id for its own reasons, it does so with the
end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.judge.coordinators_log import EMPTY, ONGOING, OPEN, Written, WrittenState


def written_over(log: Iterable[Written]) -> Iterator[int]:
    """The producer ids whose transactions were written over, by what is in a partition, in its order."""
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
