"""A broker's metrics as the text that Prometheus reads, a piece at a time; `barnabas.web.otlp` reads the same.

The pieces are short enough that the loop does its other work between them; what a name has of series is bounded, and
`LEFT_OUT` says how many there would have been. Partitions may be many, so that they are gone over once, in slices, and
all values of one are read together.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest

from barnabas.broker.server import Broker
from barnabas.model.ids import TopicPartition
from barnabas.replica.traffic import Traffic
from barnabas.runtime import Histogram
from barnabas.web.metrics import Kind, Metric, Reading, Total
from barnabas.web.partition_metrics import (
    PARTITION_METRICS,
    PARTITION_TOTALS,
    TOPIC_METRICS,
    PartitionTotal,
    PartitionValues,
    TopicMetric,
    partition_values,
)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SERIES_KEY: Final = "barnabas.metrics.series.max"
PARTITIONS_AT_ONCE: Final = 100
LINES_AT_ONCE: Final = 1_000
FIRST_BUCKET: Final = 5
LAST_BUCKET: Final = 25
"""From 0.032 ms to 33.6 s: what is finer or longer is in the first bucket, or in the last."""
BOUNDS: Final = tuple(f"{2**at / 1000:g}" for at in range(FIRST_BUCKET, LAST_BUCKET + 1))
LEFT_OUT: Final = "barnabas_metrics_series_left_out"
LEFT_OUT_HELP: Final = f"Series that a name has beyond {SERIES_KEY}."

Turn = Callable[[], Awaitable[None]]

_escapes: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def process_registry() -> CollectorRegistry:
    """What there is to be seen of the process: memory, CPU, files, and Python's collector."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


async def exposed(
    broker: Broker, metrics: Iterable[Metric], process: CollectorRegistry, turn: Turn
) -> AsyncIterator[bytes]:
    """The whole text in pieces; `turn` is awaited between them."""
    series = Series(broker.config.number(SERIES_KEY))
    for metric in metrics:
        async for piece in _family(metric, series.readings(metric, broker)):
            yield piece
            await turn()
    async for piece in _partitions(await partitions_of(broker, turn), series, turn):
        yield piece
    lines = [_head(LEFT_OUT, "gauge", LEFT_OUT_HELP)]
    lines += (f'{LEFT_OUT}{{name="{name}"}} {count}\n' for name, count in series.left_out.items())
    yield "".join(lines).encode()
    yield generate_latest(process)


class Series:
    """How many series a name may have, and what one scrape left out of which."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.left_out: dict[str, int] = {}

    def shown(self, name: str, found: int) -> int:
        """How many of the series `found` are told."""
        if found > self.most:
            self.left_out[name] = found - self.most
        return min(found, self.most)

    def readings(self, metric: Metric, broker: Broker) -> list[Reading]:
        readings = list(metric.read(broker))
        return readings[: self.shown(exposed_name(metric), len(readings))]


class Partitions(NamedTuple):
    """What one pass over the partitions found: `together` counts what is gone, too; `names` and `rows` are one each."""

    together: Traffic
    topics: dict[str, Traffic]
    names: list[TopicPartition]
    rows: list[PartitionValues]


async def partitions_of(broker: Broker, turn: Turn) -> Partitions:
    found = Partitions(Traffic(), {}, [], [])
    found.together.add(broker.replicas.former_traffic)
    for at, partition in enumerate(broker.replicas.partitions, 1):
        topic = partition.topic_partition.topic
        traffic = found.topics.get(topic)
        if traffic is None:
            traffic = found.topics[topic] = Traffic()
        traffic.add(partition.traffic.looked())
        log = partition.log
        if log is not None:
            found.names.append(partition.topic_partition)
            found.rows.append(partition_values(broker, partition, log))
        if not at % PARTITIONS_AT_ONCE:
            await turn()
    for each in found.topics.values():
        found.together.add(each)
    return found


def _head(name: str, kind: str, help_: str) -> str:
    return f"# HELP {name} {help_}\n# TYPE {name} {kind}\n"


def exposed_name(metric: Metric | TopicMetric | PartitionTotal) -> str:
    return f"{metric.name}_total" if metric.kind is Kind.COUNTER else metric.name


def labelled(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """What stands between the braces; a label without a value is as none."""
    pairs = zip(names, values, strict=True)
    return ",".join(f'{name}="{value.translate(_escapes)}"' for name, value in pairs if value)


async def _family(metric: Metric, readings: list[Reading]) -> AsyncIterator[bytes]:
    name = exposed_name(metric)
    lines = [_head(name, metric.kind.value, metric.help)]
    for at, reading in enumerate(readings, 1):
        lines += _samples(name, metric.labels, reading)
        if not at % LINES_AT_ONCE:
            yield "".join(lines).encode()
            lines = []
    yield "".join(lines).encode()


def _samples(name: str, labels: tuple[str, ...], reading: Reading) -> list[str]:
    values, value = reading
    inner = labelled(labels, values)
    outer = f"{{{inner}}}" if inner else ""
    if isinstance(value, Histogram):
        return _histogram(name, inner, outer, value)
    if isinstance(value, Total):
        return [f"{name}_count{outer} {value.times}\n{name}_sum{outer} {value.amount}\n"]
    return [f"{name}{outer} {value}\n"]


def _histogram(name: str, inner: str, outer: str, value: Histogram) -> list[str]:
    """In milliseconds."""
    buckets = value.buckets
    before = f"{name}_bucket{{{inner}{',' if inner else ''}le="
    count = sum(buckets[:FIRST_BUCKET])
    lines = []
    for at, bound in enumerate(BOUNDS, FIRST_BUCKET):
        count += buckets[at]
        lines.append(f'{before}"{bound}"}} {count}\n')
    count += sum(buckets[LAST_BUCKET + 1 :])
    lines.append(f'{before}"+Inf"}} {count}\n{name}_count{outer} {count}\n')
    lines.append(f"{name}_sum{outer} {value.total_ns / 1_000_000}\n")
    return lines


async def _partitions(found: Partitions, series: Series, turn: Turn) -> AsyncIterator[bytes]:
    """A column a name."""
    for counted in TOPIC_METRICS:
        yield _topic_column(counted, found, series)
        await turn()
    rows = found.rows
    for total in PARTITION_TOTALS:
        yield f"{_head(total.name, 'gauge', total.help)}{total.name} {total.read(rows)}\n".encode()
        await turn()
    labels: list[str] = []
    for column, metric in enumerate(PARTITION_METRICS):
        yield _head(metric.name, "gauge", metric.help).encode()
        name = metric.name
        count = series.shown(name, len(rows))
        for first in range(0, count, LINES_AT_ONCE):
            last = min(count, first + LINES_AT_ONCE)
            if len(labels) < last:
                labels += (f'{{topic="{topic}",partition="{at}"}}' for topic, at in found.names[first:last])
            some = zip(labels[first:last], rows[first:last], strict=True)
            lines = [f"{name}{label} {row[column]:d}\n" for label, row in some if row[column] is not None]
            yield "".join(lines).encode()
            await turn()


def topic_counts(metric: TopicMetric, found: Partitions, series: Series) -> list[tuple[str, int]]:
    """By topic; all of them together have no name, and are first."""
    counts = [("", metric.count(found.together))]
    if metric.by_topic:
        shown = series.shown(exposed_name(metric), len(found.topics) + 1)
        counts += ((topic, metric.count(each)) for topic, each in islice(found.topics.items(), shown - 1))
    return counts


def _topic_column(metric: TopicMetric, found: Partitions, series: Series) -> bytes:
    name = exposed_name(metric)
    lines = [_head(name, metric.kind.value, metric.help)]
    for topic, count in topic_counts(metric, found, series):
        inner = labelled(("topic",), (topic,))
        lines.append(f"{name}{{{inner}}} {count}\n" if inner else f"{name} {count}\n")
    return "".join(lines).encode()
