"""``spark.read.format("barnabas")``: the interface of the source to Spark's planner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.spark.versions import LIMITS_SINCE, require_spark, spark_version
from barnabas.spark.worker import keep_libraries

try:
    from pyspark.sql.datasource import DataSource
except ImportError:  # Spark 3.5
    require_spark()
    raise

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from barnabas.spark.options import SourceOptions

__all__ = ["BarnabasDataSource"]


class BarnabasDataSource(DataSource):  # type: ignore[misc]
    """Reads topics of any Kafka-protocol cluster; same columns and option names as the official connector.

    Imports are inside the methods: each of Spark's processes calls one of them, and its start-up counts.
    """

    def __init__(self, options: dict[str, str]) -> None:
        require_spark()  # not when Spark looks for data sources, or it would find none of them
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "barnabas"

    def schema(self) -> str:
        from barnabas.spark.options import SourceOptions

        keep_libraries()
        return SourceOptions.parse(self.options).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        from barnabas.spark.reader import FilteringReader, TopicReader

        options = self._source_options(schema)
        return (FilteringReader if options.filter_pushdown else TopicReader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from barnabas.spark.stream import TopicStreamReader, UnlimitedStreamReader

        reader = TopicStreamReader if spark_version() >= LIMITS_SINCE else UnlimitedStreamReader
        return reader(self._source_options(schema), schema)

    def _source_options(self, schema: StructType) -> SourceOptions:
        """Raises ``ValueError`` if the user's schema is not one of the source's."""
        from barnabas.spark.options import SourceOptions

        keep_libraries()
        options = SourceOptions.parse(self.options)
        options.check_schema(schema)
        return options

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from barnabas.spark.sink import BatchWriter  # type: ignore[import-not-found, unused-ignore]

        return BatchWriter(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from barnabas.spark.sink import StreamWriter

        return StreamWriter(schema, self.options, overwrite)
