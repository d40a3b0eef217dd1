"""The interface of Avro, JSON Schema and Protobuf: a `SchemaFormat`, `Payloads` that read values, `Decoded` columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
"""The errors of readers for bytes that are no value of the schema."""


class Decoded(NamedTuple):
    array: Any
    """As long as the values; null for a null value and for a faulty one."""
    faults: Mapping[int, str]
    """The error of a faulty value, by row."""


class Payloads(Protocol):
    """Reads values of one writer's schema as values of the expected schema."""

    def decode(self, values: Any) -> Decoded:
        """Decodes an Arrow binary array without nulls, each value after its `PREFIX`."""
        ...


class SchemaFormat(Protocol):
    """A schema: the column that it is, and how values of it are read and written."""

    def spark_type(self) -> str:
        """In Spark's DDL. Raises ``ValueError`` if no column can hold the schema's values."""
        ...

    def payloads(self, written: Schema, target: Any) -> Payloads:
        """Raises ``ValueError`` if values of `written` cannot become those of this schema."""
        ...

    def encode(self, rows: Any, target: Any) -> Any:
        """A binary array of the payloads after the schema id, one for each row of a struct array without nulls: its
        fields are those of `target`, the schema's type, by name. Raises ``ValueError``.
        """
        ...


def by_name(
    array: Any,
    target: Any,
    missing: Callable[[tuple[str, ...]], Any] = lambda place: None,
    place: tuple[str, ...] = (),
) -> Any:
    """An Arrow array as one of the type `target`: fields of structs by name, and `missing` for one that they lack.

    Raises ``ValueError`` for fields that `target` lacks, and for values that it cannot hold.
    """
    if array.type == target:
        return array
    if pyarrow.types.is_struct(target) and pyarrow.types.is_struct(array.type):
        there = {field.name for field in array.type}
        if strange := there - {field.name for field in target}:
            raise ValueError(f"The schema has no field {min(strange)}; it has {', '.join(f.name for f in target)}.")
        columns = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
        children = []
        for field in target:
            at = (*place, field.name)
            if field.name in there:
                children.append(by_name(columns[field.name], field.type, missing, at))
            else:
                value = pyarrow.array([missing(at)], field.type)
                children.append(value.take(pyarrow.repeat(0, len(array))))
        mask = array.is_null() if array.null_count else None
        return pyarrow.StructArray.from_arrays(children, fields=list(target), mask=mask)
    if pyarrow.types.is_list(target) and pyarrow.types.is_list(array.type):
        items = by_name(array.flatten(), target.value_type, missing, place)
        lengths = pyarrow.compute.fill_null(pyarrow.compute.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        offsets = pyarrow.array([0, *lengths.cumsum().tolist()], pyarrow.int32())
        mask = array.is_null() if array.null_count else None
        return pyarrow.ListArray.from_arrays(offsets, items, type=target, mask=mask)
    try:
        return array.cast(target)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise ValueError(f"A column of {array.type} is no {target} of the schema: {error}") from None


def payloads_of(values: Any) -> list[bytes]:
    """The bytes after each value's `PREFIX`."""
    found: list[bytes] = pyarrow.compute.binary_slice(values, PREFIX, _BYTES_MAX).to_pylist()
    return found


def in_halves(payloads: list[bytes], at_once: Callable[[list[bytes]], Any], target: Any) -> Decoded:
    """`at_once` of all payloads; if it fails, of each half, so that only faulty payloads stay undecoded."""
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
