"""Records into Arrow columns, as Spark takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow

from barnabas.spark.plan import OffsetRange
from barnabas.wire.records import BatchHeader, Record

_TYPES: Final[dict[str, Any]] = {
    "key": pyarrow.binary(),
    "value": pyarrow.binary(),
    "topic": pyarrow.string(),
    "partition": pyarrow.int32(),
    "offset": pyarrow.int64(),
    "timestamp": pyarrow.timestamp("us", tz="UTC"),
    "timestampType": pyarrow.int32(),
    "headers": pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])),
}


class Columns:
    """Gathers records; `take` gives them as one RecordBatch with the columns asked for, in their order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._schema = pyarrow.schema([pyarrow.field(name, _TYPES[name]) for name in names])
        self._values: dict[str, list[Any]] = {name: [] for name in names}
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def add(self, source: OffsetRange, header: BatchHeader, records: list[Record]) -> None:
        values = self._values
        count = len(records)
        self._rows += count
        if "key" in values:
            values["key"] += [each.key for each in records]
        if "value" in values:
            values["value"] += [each.value for each in records]
        if "topic" in values:
            values["topic"] += [source.topic] * count
        if "partition" in values:
            values["partition"] += [source.partition] * count
        if "offset" in values:
            values["offset"] += [each.offset for each in records]
        if "timestamp" in values:
            values["timestamp"] += [each.timestamp * 1000 for each in records]
        if "timestampType" in values:
            values["timestampType"] += [int(header.timestamp_type)] * count
        if "headers" in values:
            values["headers"] += [
                [{"key": key, "value": value} for key, value in each.headers] if each.headers else None
                for each in records
            ]

    def take(self) -> pyarrow.RecordBatch:
        arrays = [pyarrow.array(self._values[field.name], field.type) for field in self._schema]
        for gathered in self._values.values():
            gathered.clear()
        self._rows = 0
        return pyarrow.RecordBatch.from_arrays(arrays, schema=self._schema)
