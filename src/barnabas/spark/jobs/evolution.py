"""How a table's columns grow with the records': new columns, and new fields in structs; a type stays what it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from barnabas.spark.jobs import JobError
from barnabas.spark.versions import arrow_type_of

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

_WIDER: Final = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint", "double"),
    "float": ("double",),
}
"""The types that a table's column may have if the records' type is narrower."""


def as_arrow(columns: StructType) -> pyarrow.Schema:
    import pyarrow

    return pyarrow.schema([pyarrow.field(column.name, arrow_type_of(_nullable(column.dataType))) for column in columns])


def merged(table: pyarrow.Schema, records: StructType) -> StructType:
    """The table's columns and those that only the records have. Raises `JobError` if a type does not fit."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return _merged(_nullable(from_arrow_schema(table, prefer_timestamp_ntz=True)), _nullable(records), "")


def typed(records: StructType) -> StructType:
    """Without fields that are null in every record: a later record tells their type, and then the table gets them."""
    from pyspark.sql.types import NullType, StructField, StructType

    fields = []
    for field in records:
        kind = typed(field.dataType) if isinstance(field.dataType, StructType) else field.dataType
        if not isinstance(kind, NullType) and kind != StructType():
            fields.append(StructField(field.name, kind, field.nullable))
    return StructType(fields)


def require_distinct(columns: DataType, name: str = "") -> None:
    """Raises `JobError` for fields whose names differ in case alone: Spark takes them for one, and so do the tables."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(columns, ArrayType | MapType):
        require_distinct(columns.elementType if isinstance(columns, ArrayType) else columns.valueType, name)
    if not isinstance(columns, StructType):
        return
    seen: dict[str, str] = {}
    for field in columns:
        whole = f"{name}.{field.name}".lstrip(".")
        if (other := seen.setdefault(field.name.lower(), whole)) != whole:
            raise JobError(f"The table would have the columns {other} and {whole}: rename one in the selection, by AS")
        require_distinct(field.dataType, whole)


def quoted(name: str) -> str:
    """A column's name where Spark would read a dot in it as the field of a struct."""
    return f"`{name.replace('`', '``')}`"


def _merged(table: DataType, records: DataType, name: str) -> DataType:
    from pyspark.sql.types import StructField, StructType

    if isinstance(table, StructType) and isinstance(records, StructType):
        theirs = {field.name: field.dataType for field in records}
        fields = [
            StructField(
                field.name,
                _merged(field.dataType, theirs[field.name], f"{name}.{field.name}".lstrip("."))
                if field.name in theirs
                else field.dataType,
            )
            for field in table
        ]
        return StructType(fields + [field for field in records if field.name not in table.names])
    there, found = table.simpleString(), records.simpleString()
    if found != "void" and there != found and there not in _WIDER.get(found, ()):
        raise JobError(
            f"Column {name} is {there} in the table, and {found} in the topic's records: cast it in the selection, or "
            "land in another table"
        )
    return table


def fitted(rows: DataFrame, table: StructType, *, beside: Sequence[str] = ()) -> DataFrame:
    """The rows with the table's columns, in its order, null where they have none; and the columns `beside`."""
    from pyspark.sql import functions as sql

    types = {field.name: field.dataType for field in rows.schema}
    columns = [
        _fitted(sql.col(quoted(field.name)), types[field.name], field.dataType).alias(field.name)
        if field.name in types
        else sql.lit(None).cast(field.dataType).alias(field.name)
        for field in table
    ]
    return rows.select(*columns, *beside)


def _fitted(column: Column, found: DataType, wanted: DataType) -> Column:
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType

    if found.simpleString() == wanted.simpleString():
        return column
    if not (isinstance(found, StructType) and isinstance(wanted, StructType)):
        return column.cast(wanted)
    types = {field.name: field.dataType for field in found}
    fields = [
        _fitted(column.getField(field.name), types[field.name], field.dataType).alias(field.name)
        if field.name in types
        else sql.lit(None).cast(field.dataType).alias(field.name)
        for field in wanted
    ]
    return sql.when(column.isNotNull(), sql.struct(*fields))


def _nullable(type: DataType) -> DataType:
    """The same type with null allowed everywhere: types that differ in nothing else are then equal."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(type, StructType):
        return StructType([StructField(field.name, _nullable(field.dataType)) for field in type])
    if isinstance(type, ArrayType):
        return ArrayType(_nullable(type.elementType))
    if isinstance(type, MapType):
        return MapType(_nullable(type.keyType), _nullable(type.valueType))
    return type
