"""Confluent's schema registry inside a query: ``from_registry`` makes a struct of what a topic's values hold.

What a registry said is kept, in the process and, with `Registry.cache`, in a directory: schemas by id never change, and
the newest of a subject is asked for again, and taken from the directory only while the registry does not answer.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.parse import quote

import pyarrow

from barnabas.spark.avro import AvroError, AvroSchema
from barnabas.spark.avro_columns import Decoded, Writer, decode
from barnabas.spark.dead_letter_topic import dead_letter
from barnabas.spark.versions import arrow_type_of

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["Registry", "from_registry"]

MODES: Final = ("FAILFAST", "PERMISSIVE", "REPORT", "DEADLETTER")
_TIMEOUT_S: Final = 30
_UNKNOWN: Final = 404


class RegistryDown(OSError):
    """The registry does not answer, and nobody kept what it said."""


class Schema(NamedTuple):
    kind: str
    """``AVRO``, ``JSON`` or ``PROTOBUF``."""
    texts: tuple[str, ...]
    """What it refers to, in order, and last itself."""


@dataclass(frozen=True)
class Registry:
    url: str
    user: str = field(default="", repr=False)
    """``name:password``, Confluent's ``basic.auth.user.info``."""
    cache: str | None = None
    """A directory that every executor sees, or has one of its own of."""

    @classmethod
    def of(cls, registry: Self | str | Mapping[str, str]) -> Self:
        """Of a URL, or of Confluent's properties ``schema.registry.url`` and ``basic.auth.user.info``."""
        if isinstance(registry, cls):
            return registry
        if isinstance(registry, str):
            return cls(registry)
        assert isinstance(registry, Mapping)
        return cls(
            registry["schema.registry.url"], registry.get("basic.auth.user.info", ""), registry.get("cache") or None
        )

    def by_id(self, schema_id: int) -> Schema:
        """Raises ``ValueError`` for an id that the registry does not know, `RegistryDown`."""
        return self._schema(f"/schemas/ids/{schema_id}", for_ever=True)

    def newest(self, subject: str) -> Schema:
        """Raises ``ValueError`` for a subject that the registry does not have, `RegistryDown`."""
        return self._schema(f"/subjects/{quote(subject, safe='')}/versions/latest", for_ever=False)

    def _schema(self, path: str, *, for_ever: bool) -> Schema:
        told = self._asked(path, for_ever=for_ever)
        texts: dict[str, None] = {}
        for each in told.get("references", ()):
            place = f"/subjects/{quote(each['subject'], safe='')}/versions/{each['version']}"
            texts |= dict.fromkeys(self._schema(place, for_ever=True).texts)
        return Schema(told.get("schemaType", "AVRO"), (*texts, told["schema"]))

    def _asked(self, path: str, *, for_ever: bool) -> dict[str, Any]:
        kept = Path(self.cache, quote(path, safe="") + ".json") if self.cache else None
        if for_ever and kept is not None and kept.exists():
            return dict(json.loads(kept.read_text()))
        request = urllib.request.Request(self.url.rstrip("/") + path)
        if self.user:
            request.add_header("Authorization", "Basic " + base64.b64encode(self.user.encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                told: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == _UNKNOWN:
                raise ValueError(f"the schema registry has nothing at {path}") from None
            return self._kept(kept, f"answered {error.code} to {path}")
        except (OSError, ValueError) as error:
            return self._kept(kept, f"did not answer {path}: {error}")
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            part = kept.with_suffix(f".{id(told)}.part")
            part.write_text(json.dumps(told))
            part.replace(kept)
        return told

    def _kept(self, file: Path | None, why: str) -> dict[str, Any]:
        if file is not None and file.exists():
            return dict(json.loads(file.read_text()))
        raise RegistryDown(f"the schema registry {self.url} {why}")


def from_registry(
    column: Column | str,
    registry: Registry | str | Mapping[str, str],
    *,
    subject: str | None = None,
    schema: str | None = None,
    mode: str = "FAILFAST",
) -> Column:
    """The struct that a binary column's Avro values, in Confluent's wire format, hold.

    Each value is read by the schema whose id it has, and becomes one of the `subject`'s newest, or of `schema`: fields
    that were added take their default, numbers widen. `mode` for a value that is none: ``FAILFAST`` ends the query,
    ``PERMISSIVE`` makes it null, ``REPORT`` makes the column ``struct<value, error>`` with the reason in `error`;
    ``DEADLETTER`` makes it ``struct<value, dead_letter>``, for `dead_letters`, and wants the source's columns `topic`,
    `partition`, `offset` and `key` beside.

    Raises ``ValueError`` for a schema that no column can hold, `RegistryDown`.
    """
    from pyspark.sql.functions import arrow_udf, col, struct
    from pyspark.sql.types import StringType, StructType

    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}: it takes {', '.join(MODES)}")
    if (subject is None) == (schema is None):
        raise ValueError("Name either a subject, whose newest schema counts, or a schema.")
    source = Registry.of(registry)
    newest = Schema("AVRO", (schema,)) if schema is not None else source.newest(subject or "")
    if newest.kind != "AVRO":
        raise ValueError(f"The schema of {subject} is {newest.kind}: from_registry reads Avro.")
    ddl = AvroSchema(newest.texts[-1], newest.texts[:-1]).spark_type()
    if not ddl.startswith("struct<"):
        raise AvroError(f"The schema of {subject or 'the values'} is no record, but {ddl}.")
    value_type = StructType.fromDDL(ddl.removeprefix("struct<").removesuffix(">"))
    reader = _Reader(source, newest.texts, arrow_type_of(value_type), mode)
    reports = mode in ("REPORT", "DEADLETTER")
    result = StructType().add("value", value_type).add("error", StringType()) if reports else value_type

    def decoded(values: pyarrow.Array) -> pyarrow.Array:
        return reader(values)

    decoded.__annotations__ = {"values": pyarrow.Array, "return": pyarrow.Array}
    made = arrow_udf(decoded, returnType=result)(column)
    if mode != "DEADLETTER":
        return made
    return struct(
        made["value"].alias("value"),
        dead_letter(made["error"], col(column) if isinstance(column, str) else column).alias("dead_letter"),
    )


@dataclass(frozen=True)
class _Reader:
    """What goes to the executors."""

    registry: Registry
    expected: tuple[str, ...]
    target: Any
    mode: str
    _writers: dict[int, Writer] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, values: Any) -> Any:
        found = decode(values, self._writer, self.target)
        if self.mode in ("REPORT", "DEADLETTER"):
            return _reported(found)
        if found.faults and self.mode == "FAILFAST":
            row = min(found.faults)
            raise ValueError(
                f"A value does not fit its schema: {found.faults[row]}; it begins with "
                f"{values[row].as_py()[:32].hex()}. "
                "With mode='PERMISSIVE' it is null, with mode='REPORT' the reason is beside it, with "
                "mode='DEADLETTER' it goes to another topic."
            )
        return found.array

    def _writer(self, schema_id: int) -> Writer:
        if schema_id not in self._writers:
            written = self.registry.by_id(schema_id)
            if written.kind != "AVRO":
                raise ValueError(f"schema {schema_id} is {written.kind}, not Avro")
            expected = AvroSchema(self.expected[-1], self.expected[:-1])
            self._writers[schema_id] = Writer(written.texts, expected, self.target)
        return self._writers[schema_id]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_writers": {}}


def _reported(found: Decoded) -> Any:
    errors = pyarrow.array([found.faults.get(row) for row in range(len(found.array))], pyarrow.string())
    return pyarrow.StructArray.from_arrays([found.array, errors], ["value", "error"])
