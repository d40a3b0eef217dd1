"""An archive's columns, for Spark and for the tables that list its files. No Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

if TYPE_CHECKING:
    import pyarrow

COLUMNS: Final = {
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
    "partition": "int",
    "offset": "bigint",
    "leader_epoch": "int",
    "timestamp": "timestamp",
    "timestampType": "int",
    "cluster_id": "string",
    "topic_id": "string",
    "ingested": "timestamp",
    "topic": "string",
    "period": "string",
}
"""An archive's columns with their types: the source's, and where and when each record was found.

A table that an older Barnabas made gets the columns that it lacks; its older files have null there.
"""
DIRECTORIES: Final = ("topic", "period")
"""Those that are directories, ``topic=T/period=P``, and not in the files."""
SCHEMA: Final = ", ".join(f"{name} {type}" for name, type in COLUMNS.items())
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


def arrow_schema(columns: Mapping[str, str] = COLUMNS) -> pyarrow.Schema:
    """The same columns in Arrow's types; a timestamp is in microseconds, UTC, as Spark's is."""
    import pyarrow

    types = {
        "binary": pyarrow.binary(),
        "string": pyarrow.string(),
        "int": pyarrow.int32(),
        "bigint": pyarrow.int64(),
        "timestamp": pyarrow.timestamp("us", "UTC"),
        "array<struct<key:string,value:binary>>": pyarrow.list_(
            pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
        ),
    }
    return pyarrow.schema([(name, types[type]) for name, type in columns.items()])


def directory_values(path: str) -> dict[str, str | None]:
    """What the directories ``name=value`` of a file's path say; None where the record had no such value."""
    pairs = (part.partition("=") for part in path.split("/")[:-1])
    return {unquote(name): None if value == _NULL else unquote(value) for name, _, value in pairs}
