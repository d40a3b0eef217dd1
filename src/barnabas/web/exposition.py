"""A broker's metrics as the text that Prometheus reads, a piece at a time.

The pieces are short enough that the loop does its other work between them; what a name has of series is bounded, and
`LEFT_OUT` says how many there would have been. Partitions may be many, so that they are gone over once, in slices, and
all values of one are read together.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from itertools import islice
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest

from barnabas.broker.server import Broker
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
    series_max = broker.config.number(SERIES_KEY)
    left_out: dict[str, int] = {}
    for metric in metrics:
        async for piece in _family(metric, broker, series_max, left_out):
            yield piece
            await turn()
    async for piece in _partitions(broker, series_max, left_out, turn):
        yield piece
    lines = [f"# HELP {LEFT_OUT} Series that a name has beyond {SERIES_KEY}.\n# TYPE {LEFT_OUT} gauge\n"]
    lines += (f'{LEFT_OUT}{{name="{name}"}} {count}\n' for name, count in left_out.items())
    yield "".join(lines).encode()
    yield generate_latest(process)


def _head(name: str, kind: str, help_: str) -> str:
    return f"# HELP {name} {help_}\n# TYPE {name} {kind}\n"


def exposed_name(metric: Metric | TopicMetric | PartitionTotal) -> str:
    return f"{metric.name}_total" if metric.kind is Kind.COUNTER else metric.name


def labelled(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """What stands between the braces; a label without a value is as none."""
    pairs = zip(names, values, strict=True)
    return ",".join(f'{name}="{value.translate(_escapes)}"' for name, value in pairs if value)


async def _family(metric: Metric, broker: Broker, series_max: int, left_out: dict[str, int]) -> AsyncIterator[bytes]:
    name = exposed_name(metric)
    readings = list(metric.read(broker))
    if len(readings) > series_max:
        left_out[name] = len(readings) - series_max
        del readings[series_max:]
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


async def _partitions(broker: Broker, series_max: int, left_out: dict[str, int], turn: Turn) -> AsyncIterator[bytes]:
    """What is counted of topics and read of partitions: one pass over the partitions, and then a column a name."""
    together = Traffic()
    together.add(broker.replicas.former_traffic)
    topics: dict[str, Traffic] = {}
    labels: list[str] = []
    rows: list[PartitionValues] = []
    partitions = broker.replicas.partitions
    for at, partition in enumerate(partitions, 1):
        topic, number = partition.topic_partition
        traffic = topics.get(topic)
        if traffic is None:
            traffic = topics[topic] = Traffic()
        traffic.add(partition.traffic.looked())
        log = partition.log
        if log is not None:
            labels.append(f'{{topic="{topic}",partition="{number}"}}')
            rows.append(partition_values(broker, partition, log))
        if not at % PARTITIONS_AT_ONCE:
            await turn()
    for each in topics.values():
        together.add(each)
    for counted in TOPIC_METRICS:
        yield _topic_column(counted, together, topics, series_max, left_out)
        await turn()
    for total in PARTITION_TOTALS:
        yield f"{_head(total.name, 'gauge', total.help)}{total.name} {total.read(rows)}\n".encode()
        await turn()
    if len(rows) > series_max:
        left_out.update((metric.name, len(rows) - series_max) for metric in PARTITION_METRICS)
        del rows[series_max:], labels[series_max:]
    for column, metric in enumerate(PARTITION_METRICS):
        yield _head(metric.name, "gauge", metric.help).encode()
        name = metric.name
        for first in range(0, len(rows), LINES_AT_ONCE):
            some = zip(labels[first : first + LINES_AT_ONCE], rows[first : first + LINES_AT_ONCE], strict=True)
            lines = [f"{name}{label} {row[column]:d}\n" for label, row in some if row[column] is not None]
            yield "".join(lines).encode()
            await turn()


def _topic_column(
    metric: TopicMetric, together: Traffic, topics: Mapping[str, Traffic], series_max: int, left_out: dict[str, int]
) -> bytes:
    name, count = exposed_name(metric), metric.count
    lines = [_head(name, metric.kind.value, metric.help), f"{name} {count(together)}\n"]
    if metric.by_topic:
        lines += [
            f'{name}{{topic="{topic}"}} {count(each)}\n' for topic, each in islice(topics.items(), series_max - 1)
        ]
        if len(topics) > series_max - 1:
            left_out[name] = len(topics) - series_max + 1
    return "".join(lines).encode()
