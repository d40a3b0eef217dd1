"""The demo's PySpark pipeline: the topic into Parquet by month, and from the Parquet a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from barnabas.spark.session import session

_FLIGHT: Final = (
    "id INT, year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay DOUBLE, arr_time INT, "
    "sched_arr_time INT, arr_delay DOUBLE, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
    "air_time DOUBLE, distance DOUBLE, hour INT, minute INT, time_hour TIMESTAMP"
)


class CarrierDelay(NamedTuple):
    """`mean_delay` is the mean departure delay in minutes of flights that left; `late_share` of them left at least 15
    min late."""

    carrier: str
    flights: int
    mean_delay: float
    late_share: float


def topic_to_parquet(bootstrap: str, topic: str, target: Path) -> list[CarrierDelay]:
    """Writes every record of `topic` to `target`, partitioned by month; returns delays by carrier, read back from
    there."""
    from pyspark.sql import functions as sql

    spark = session("barnabas demo", master="local[*]")
    try:
        records = (
            spark.read.format("barnabas")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("columns", "value,partition,offset")
            .load()
        )
        flights = records.select(
            sql.from_json(sql.col("value").cast("string"), _FLIGHT).alias("flight"), "partition", "offset"
        ).select("flight.*", "partition", "offset")
        flights.repartition("month").write.mode("overwrite").partitionBy("month").parquet(str(target))
        delays = (
            spark.read.parquet(str(target))
            .groupBy("carrier")
            .agg(
                sql.count("*").alias("flights"),
                sql.avg("dep_delay").alias("mean_delay"),
                sql.avg((sql.col("dep_delay") >= 15).cast("double")).alias("late_share"),
            )
            .orderBy(sql.desc("mean_delay"))
            .collect()
        )
    finally:
        spark.stop()
    return [CarrierDelay(row.carrier, row.flights, row.mean_delay or 0.0, row.late_share or 0.0) for row in delays]


def draw_delays(parquet: Path, target: Path) -> None:
    """A picture from the Parquet: mean departure delay by carrier, and by month."""
    import matplotlib

    matplotlib.use("Agg")
    import pyarrow.compute as compute
    import pyarrow.dataset as dataset
    from matplotlib import pyplot

    table = dataset.dataset(str(parquet), partitioning="hive").to_table(columns=["carrier", "month", "dep_delay"])
    by_carrier = table.group_by("carrier").aggregate([("dep_delay", "mean")]).sort_by("dep_delay_mean")
    by_month = table.group_by("month").aggregate([("dep_delay", "mean")]).sort_by("month")
    overall = compute.mean(table["dep_delay"]).as_py()
    pyplot.rcParams.update({"font.family": "sans-serif", "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    left.barh(by_carrier["carrier"].to_pylist(), by_carrier["dep_delay_mean"].to_pylist(), color="#31688e")
    left.axvline(overall, color="#b5451b", linewidth=1)
    left.annotate(f"all: {overall:.1f} min", (overall, 0), (4, 0), textcoords="offset points", color="#b5451b")
    left.set_title("Mean departure delay by carrier (minutes)", loc="left")
    right.plot(by_month["month"].to_pylist(), by_month["dep_delay_mean"].to_pylist(), marker="o", color="#31688e")
    right.set_title("and by month of 2013", loc="left")
    right.set_xticks(range(1, 13))
    right.set_ylim(bottom=0)
    figure.savefig(target, dpi=130)
    pyplot.close(figure)
