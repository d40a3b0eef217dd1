"""What Avro, JSON Schema and Protobuf each have: a `SchemaFormat`, `Payloads` that read values, `Decoded` columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pyarrow
import pyarrow.compute

from barnabas.spark.registry import Schema

PREFIX: Final = 5
"""Bytes of a value in front of its payload: a zero byte, and its schema's id in four."""
_BYTES_MAX: Final = (1 << 31) - 1
FAULTS: Final = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    ArithmeticError,
    pyarrow.ArrowException,
)
"""What readers raise for bytes that are no value of the schema."""


class Decoded(NamedTuple):
    array: Any
    """As long as the values; null where a value is, and where one is faulty."""
    faults: Mapping[int, str]
    """By row, what is wrong with its value."""


class Payloads(Protocol):
    """Reads values of one writer's schema as those of the schema that is expected."""

    def decode(self, values: Any) -> Decoded:
        """Of an Arrow binary array without nulls, each value behind its `PREFIX`."""
        ...


class SchemaFormat(Protocol):
    """A schema: the column that it is, and how values of it are read and written."""

    def spark_type(self) -> str:
        """In Spark's DDL. Raises ``ValueError`` where no column can hold the schema's values."""
        ...

    def payloads(self, written: Schema, target: Any) -> Payloads:
        """Raises ``ValueError`` where values of `written` cannot become those of this schema."""
        ...

    def encode(self, rows: Any) -> Sequence[bytes]:
        """What follows the schema id, for each row of a struct array of the schema's type without nulls.

        Raises ``ValueError``.
        """
        ...


def payloads_of(values: Any) -> list[bytes]:
    """The bytes behind each value's `PREFIX`."""
    found: list[bytes] = pyarrow.compute.binary_slice(values, PREFIX, _BYTES_MAX).to_pylist()
    return found


def in_halves(payloads: list[bytes], at_once: Callable[[list[bytes]], Any], target: Any) -> Decoded:
    """`at_once` of all payloads; where it fails, of either half, so that only faulty payloads stay undecoded."""
    try:
        return Decoded(at_once(payloads), {})
    except FAULTS as error:
        if len(payloads) == 1:
            return Decoded(pyarrow.nulls(1, target), {0: str(error)})
    middle = len(payloads) // 2
    left, right = in_halves(payloads[:middle], at_once, target), in_halves(payloads[middle:], at_once, target)
    faults = {**left.faults, **{middle + row: told for row, told in right.faults.items()}}
    return Decoded(pyarrow.concat_arrays([left.array, right.array]), faults)


def of_values(found: list[Any], faults: dict[int, str], target: Any) -> Decoded:
    """Python's values as an array; `found` is None where `faults` has a reason, or the value is null."""
    try:
        return Decoded(pyarrow.array(found, target), faults)
    except FAULTS:
        pass  # one of them is no value of the column's type
    for row, value in enumerate(found):
        try:
            pyarrow.array([value], target)
        except FAULTS as error:
            found[row] = None
            faults[row] = str(error)
    return Decoded(pyarrow.array(found, target), faults)
