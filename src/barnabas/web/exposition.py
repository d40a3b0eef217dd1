"""A broker's metrics as the text that Prometheus reads, a piece at a time; `barnabas.web.otlp` reads the same.

It is written in slices between which the loop does its other work, and leaves in pieces of many slices: each write
wakes whoever reads. The series of a name are bounded in number, and `LEFT_OUT` says how many were left out. There may
be many partitions, so that one pass, in slices, reads all values of each; the lines of a slice of them, or of a
histogram, are made once for all names, and numbers filled in.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from functools import lru_cache
from itertools import accumulate, islice
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector
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
PARTITIONS_AT_ONCE: Final = 50
CONNECTIONS_AT_ONCE: Final = 200
LINES_AT_ONCE: Final = 250
"""Each of these takes 50 µs where the process has been at it, and three times as long a second later, when all of it
has to come from memory again: no request waits longer for it than for another request."""
HISTOGRAM_LINES: Final = 20
"""What a histogram costs, in lines of a partition's numbers, which are filled in many at a time; it has as many."""
LABEL_LINES: Final = 4
"""What a label costs."""
METRIC_LINES: Final = 20
"""What a metric costs beside its lines, whatever it looks at."""
PIECE_CHARACTERS: Final = 32 * 1024
FIRST_BUCKET: Final = 5
LAST_BUCKET: Final = 25
"""From 0.032 ms to 33.6 s: what is finer or longer is in the first bucket, or in the last."""
BOUNDS: Final = tuple(f"{2**at / 1000:g}" for at in range(FIRST_BUCKET, LAST_BUCKET + 1))
LEFT_OUT: Final = "barnabas_metrics_series_left_out"
LEFT_OUT_HELP: Final = f"Series that a name has beyond {SERIES_KEY}."

Turn = Callable[[], Awaitable[None]]

_NAME: Final = "\0"
"""Stands for the metric's name in a form; no request's or topic's name has it."""
HISTOGRAMS: Final = 512
"""Whose lines are kept, a kilobyte each."""

_escapes: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def process_registry() -> CollectorRegistry:
    """What there is to be seen of Python and its collector; the rest of the process is in `process_metrics`."""
    registry = CollectorRegistry()
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


async def exposed(
    broker: Broker, metrics: Iterable[Metric], process: CollectorRegistry, turn: Turn
) -> AsyncIterator[bytes]:
    """The whole text in pieces; `turn` is awaited between slices."""
    gathered: list[str] = []
    length = lines = 0
    async for slice_ in _slices(broker, metrics, process, turn):
        gathered.append(slice_.text)
        length += len(slice_.text)
        lines += slice_.lines
        if length >= PIECE_CHARACTERS:
            yield "".join(gathered).encode()
            gathered, length = [], 0
        if lines >= LINES_AT_ONCE:
            await turn()
            lines = 0
    yield "".join(gathered).encode()


class Slice(NamedTuple):
    """A part of the text, and what it cost, in lines of plain numbers."""

    text: str
    lines: int


async def _slices(
    broker: Broker, metrics: Iterable[Metric], process: CollectorRegistry, turn: Turn
) -> AsyncIterator[Slice]:
    series = Series(broker.config.number(SERIES_KEY))
    await count_repeats(broker, turn)
    for metric in metrics:
        for slice_ in _family(metric, series.readings(metric, broker)):
            yield slice_
    for slice_ in _partitions(await partitions_of(broker, turn), series):
        yield slice_
    lines = [_head(LEFT_OUT, "gauge", LEFT_OUT_HELP)]
    lines += (f'{LEFT_OUT}{{name="{name}"}} {count}\n' for name, count in series.left_out.items())
    yield Slice("".join(lines), LINES_AT_ONCE)
    yield Slice(generate_latest(process).decode(), LINES_AT_ONCE)


async def count_repeats(broker: Broker, turn: Turn) -> None:
    """Adds to the figures of requests what connections have counted by themselves."""
    for at, connection in enumerate(list(broker.connections), 1):
        connection.count_repeats()
        if not at % CONNECTIONS_AT_ONCE:
            await turn()


def _family(metric: Metric, readings: list[Reading]) -> Iterator[Slice]:
    name = exposed_name(metric)
    texts, lines = [_head(name, metric.kind.value, metric.help)], METRIC_LINES
    cost = HISTOGRAM_LINES if metric.kind is Kind.HISTOGRAM else 1 + LABEL_LINES * len(metric.labels)
    for reading in readings:
        texts.append(_samples(name, metric.labels, reading))
        lines += cost
        if lines >= LINES_AT_ONCE:
            yield Slice("".join(texts), lines)
            texts, lines = [], 0
    yield Slice("".join(texts), lines)


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
    """What one pass over the partitions found. `together` counts partitions that are gone, too; `names` and `rows`
    have one element for each partition that has a log."""

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
    for traffic in found.topics.values():
        found.together.add(traffic)
    return found


def _head(name: str, kind: str, help_: str) -> str:
    return f"# HELP {name} {help_}\n# TYPE {name} {kind}\n"


def exposed_name(metric: Metric | TopicMetric | PartitionTotal) -> str:
    return f"{metric.name}_total" if metric.kind is Kind.COUNTER else metric.name


def labelled(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """What stands between the braces; a label without a value is left out."""
    pairs = zip(names, values, strict=True)
    return ",".join(f'{name}="{value.translate(_escapes)}"' for name, value in pairs if value)


def _samples(name: str, labels: tuple[str, ...], reading: Reading) -> str:
    values, value = reading
    inner = labelled(labels, values)
    if isinstance(value, Histogram):
        return _histogram(name, inner, tuple(value.buckets), value.total_ns)
    outer = f"{{{inner}}}" if inner else ""
    if isinstance(value, Total):
        return f"{name}_count{outer} {value.times}\n{name}_sum{outer} {value.amount}\n"
    return f"{name}{outer} {value}\n"


def _filled(form: str, name: str, numbers: tuple[int | float | None, ...]) -> str:
    """`form` has ``_NAME`` for each name, and what ``%`` takes for each number."""
    return form.replace(_NAME, name) % numbers


@lru_cache(maxsize=HISTOGRAMS)
def _histogram(name: str, inner: str, buckets: tuple[int, ...], total_ns: int) -> str:
    """The lines of a histogram. Most are of requests that nobody sends: from one scrape to the next they stay."""
    return _filled(_histogram_form(inner), name, _histogram_numbers(buckets, total_ns))


@lru_cache(maxsize=HISTOGRAMS)
def _histogram_form(inner: str) -> str:
    inner = inner.replace("%", "%%")
    before, outer = (f"{inner},", f"{{{inner}}}") if inner else ("", "")
    buckets = "".join(f'{_NAME}_bucket{{{before}le="{bound}"}} %d\n' for bound in (*BOUNDS, "+Inf"))
    return f"{buckets}{_NAME}_count{outer} %d\n{_NAME}_sum{outer} %s\n"


def _histogram_numbers(buckets: tuple[int, ...], total_ns: int) -> tuple[int | float, ...]:
    """The cumulative counts up to each of `BOUNDS` and +Inf, the count, and the sum in milliseconds."""
    first, *others = buckets[FIRST_BUCKET : LAST_BUCKET + 1]
    counts = accumulate((sum(buckets[:FIRST_BUCKET]) + first, *others, sum(buckets[LAST_BUCKET + 1 :])))
    *_, count = told = (*counts,)
    return *told, count, total_ns / 1_000_000


def _partitions(found: Partitions, series: Series) -> Iterator[Slice]:
    """The lines of one name after another, each with all topics or partitions."""
    for counted in TOPIC_METRICS:
        yield Slice(_topic_column(counted, found, series), METRIC_LINES + 3 * len(found.topics))
    rows = found.rows
    for total in PARTITION_TOTALS:
        text = f"{_head(total.name, 'gauge', total.help)}{total.name} {total.read(rows)}\n"
        yield Slice(text, len(rows))
    forms: dict[int, str] = {}
    for column, metric in enumerate(PARTITION_METRICS):
        yield Slice(_head(metric.name, "gauge", metric.help), 1)
        count = series.shown(metric.name, len(rows))
        for first in range(0, count, LINES_AT_ONCE):
            last = min(count, first + LINES_AT_ONCE)
            if first not in forms:
                forms[first] = _partition_form(found.names[first:last])
            form, values = forms[first], [row[column] for row in rows[first:last]]
            if None in values:
                there = [at for at, value in enumerate(values, first) if value is not None]
                form, values = _partition_form([found.names[at] for at in there]), [rows[at][column] for at in there]
            yield Slice(_filled(form, metric.name, tuple(values)), last - first)


def _partition_form(names: list[TopicPartition]) -> str:
    return "".join([f'{_NAME}{{topic="{topic}",partition="{at}"}} %d\n' for topic, at in names])


def topic_counts(metric: TopicMetric, found: Partitions, series: Series) -> list[tuple[str, int]]:
    """By topic; all of them together have no name, and are first."""
    counts = [("", metric.count(found.together))]
    if metric.by_topic:
        shown = series.shown(exposed_name(metric), len(found.topics) + 1)
        counts += ((topic, metric.count(traffic)) for topic, traffic in islice(found.topics.items(), shown - 1))
    return counts


def _topic_column(metric: TopicMetric, found: Partitions, series: Series) -> str:
    name = exposed_name(metric)
    lines = [_head(name, metric.kind.value, metric.help)]
    for topic, count in topic_counts(metric, found, series):
        inner = labelled(("topic",), (topic,))
        lines.append(f"{name}{{{inner}}} {count}\n" if inner else f"{name} {count}\n")
    return "".join(lines)
