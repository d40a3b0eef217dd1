"""The marker of the last micro-batch that is in: the committed offset of the sink's own group. Pure.

It is committed with the data, in the same transaction. The offset counts the micro-batches; the metadata name the query
(by the id in its checkpoint) and its batch. So a committed batch is not written again, and the sink notices another
query, or a checkpoint that was put back.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from barnabas.client.offsets import CommittedOffset
from barnabas.model.ids import NO_OFFSET

_DECIDED: Final = struct.Struct(">Hqh")


class SinkError(RuntimeError):
    """The sink stops; the text says why, what became of the micro-batch, and what to do."""


class TaskTransaction(NamedTuple):
    """A task's transaction whose commit is decided: the transactional id is the sink's with the task's number."""

    task: int
    producer_id: int
    epoch: int


class Marker(NamedTuple):
    number: int
    query: str
    batch: int
    decided: tuple[TaskTransaction, ...] = ()
    """Tasks' transactions that have yet to be committed, if necessary by the next run; empty once they are."""

    @classmethod
    def of(cls, committed: CommittedOffset, sink_id: str) -> Self | None:
        """The marker; None before the first batch. Raises `SinkError` for an offset that no sink has committed."""
        if committed.offset == NO_OFFSET:
            return None
        try:
            noted = json.loads(committed.metadata)
            packed = base64.b64decode(noted.get("decided", ""))
            decided = tuple(TaskTransaction(*fields) for fields in _DECIDED.iter_unpack(packed))
            return cls(committed.offset, str(noted["query"]), int(noted["batch"]), decided)
        except (ValueError, KeyError, AttributeError, struct.error):
            raise SinkError(
                f"The group of sink {sink_id!r} has an offset with {committed.metadata!r}, which is not what a sink "
                "notes: choose another sinkId, or delete the group."
            ) from None

    def committed(self) -> CommittedOffset:
        noted = {"query": self.query, "batch": self.batch}
        packed = b"".join(_DECIDED.pack(*transaction) for transaction in self.decided)
        return CommittedOffset(
            self.number, json.dumps({**noted, "decided": base64.b64encode(packed).decode()} if packed else noted)
        )


def successor(marker: Marker | None, query: str, batch: int, decided: Sequence[TaskTransaction] = ()) -> Marker:
    return Marker(1 if marker is None else marker.number + 1, query, batch, tuple(decided))


def is_in(marker: Marker | None, query: str, batch: int, *, sink_id: str, take_over: bool) -> bool:
    """Whether the micro-batch is committed already. Raises `SinkError` if unknown, or another query's."""
    if marker is not None and marker.query == query:
        if batch < marker.batch:
            raise SinkError(
                f"Sink {sink_id!r} has batch {marker.batch} of this query, and the checkpoint is at batch {batch}: it "
                "was put back to an earlier state. Restore the newest checkpoint, or begin a fresh one with takeOver."
            )
        return batch == marker.batch
    if take_over:
        return False
    if marker is not None:
        raise SinkError(
            f"Sink {sink_id!r} belongs to query {marker.query}, whose batch {marker.batch} was its last; this is query "
            f"{query}. A fresh checkpoint makes a new query: set takeOver=true to let it go on with the sink (its "
            "batches count anew), or give it a sinkId of its own."
        )
    if batch > 0:
        raise SinkError(
            f"Sink {sink_id!r} has no marker, and the query is at batch {batch}: whether that batch is in can't be "
            "told. The marker is gone when the group's offsets expired (offsets.retention.minutes), its topic was made "
            "anew, or the sinkId was changed. Set takeOver=true if the batch is not in."
        )
    return False
