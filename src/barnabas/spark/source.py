"""``spark.read.format("barnabas")``: what Spark's planner asks of the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamWriter, DataSourceWriter

from barnabas.spark.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class BarnabasDataSource(DataSource):  # type: ignore[misc]
    """Reads topics of any Kafka-protocol cluster; same columns and option names as the official connector."""

    @classmethod
    def name(cls) -> str:
        return "barnabas"

    def schema(self) -> str:
        return SourceOptions.parse(self.options).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        # Not at the top: the planner's process only wants the schema, and its start-up counts.
        from barnabas.spark.reader import TopicReader

        return TopicReader(SourceOptions.parse(self.options), schema.names)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from barnabas.spark.sink import BatchWriter  # type: ignore[import-not-found, unused-ignore]

        return BatchWriter(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from barnabas.spark.sink import StreamWriter

        return StreamWriter(schema, self.options, overwrite)
