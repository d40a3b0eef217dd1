"""Arrow batches into the sink's rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.spark.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow

Headers = tuple[tuple[str, bytes | None], ...]


class SinkRow(NamedTuple):
    """A row of the sink. `partition` is None if the partitioner chooses it, `timestamp` (ms) if the clock does."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int | None


def rows_of(batch: pyarrow.RecordBatch, options: SinkOptions) -> Iterator[SinkRow]:
    """Raises ``ValueError`` for a row without a topic if the option is not set either, or a header without key."""
    import pyarrow

    count = batch.num_rows
    names = batch.schema.names

    def column(name: str, kind: Any) -> list[Any]:
        if name not in options.columns:
            return [None] * count
        found = batch.column(names.index(name))
        values: list[Any] = (found if kind is None else found.cast(kind)).to_pylist()
        return values

    # The option wins, as with the official connector.
    topics = topic_column(batch).to_pylist() if options.topic is None else [options.topic] * count
    if "headers" in options.columns:
        check_headers(batch.column(names.index("headers")))
    microseconds = column("timestamp", pyarrow.int64())
    timestamps = [None if timestamp is None else timestamp // 1000 for timestamp in microseconds]
    headers = [
        () if entries is None else tuple((header["key"], header["value"]) for header in entries)
        for entries in column("headers", None)
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


def topic_column(batch: pyarrow.RecordBatch) -> Any:
    column = batch.column(batch.schema.names.index("topic"))
    if column.null_count:
        raise ValueError("A row's topic is null, and the option topic is not set.")
    return column


def check_headers(column: Any) -> Any:
    """All headers of all rows, one after another. Raises ``ValueError`` for one that is null, or has no key."""
    entries = column.flatten()
    if entries.null_count or entries.field(0).null_count:
        raise ValueError("A row has a header that is null, or whose key is null: a header has a key.")
    return entries
