"""Arrow batches into the sink's rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.spark.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow

Headers = tuple[tuple[str, bytes | None], ...]


class SinkRow(NamedTuple):
    """A record on its way: `partition` is None where the partitioner chooses, `timestamp` (ms) where the clock does."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int | None


def rows_of(batch: pyarrow.RecordBatch, options: SinkOptions) -> Iterator[SinkRow]:
    """Raises ``ValueError`` for a row that names no topic where the option doesn't either."""
    import pyarrow

    count = batch.num_rows
    names = batch.schema.names

    def column(name: str, kind: Any) -> list[Any]:
        if name not in options.columns:
            return [None] * count
        found = batch.column(names.index(name))
        values: list[Any] = (found if kind is None else found.cast(kind)).to_pylist()
        return values

    topics = column("topic", None)
    if options.topic is not None:
        topics = [options.topic] * count  # the option wins, as with the official connector
    elif None in topics:
        raise ValueError("A row's topic is null, and the option topic is not set.")
    microseconds = column("timestamp", pyarrow.int64())
    timestamps = [None if each is None else each // 1000 for each in microseconds]
    headers = [
        () if each is None else tuple((header["key"], header["value"]) for header in each)
        for each in column("headers", None)
    ]
    return map(
        SinkRow,
        topics,
        column("partition", None),
        column("key", pyarrow.binary()),
        column("value", pyarrow.binary()),
        headers,
        timestamps,
    )
