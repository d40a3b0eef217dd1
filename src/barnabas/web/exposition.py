"""A broker's metrics as the text that Prometheus reads, a piece at a time; `barnabas.web.otlp` reads the same.

The text is made in slices of `SLICE_NS`; between slices the loop does its other work. It is sent in pieces of many
slices, since each write wakes the reader. The series of a name are bounded in number, and `LEFT_OUT` counts those left
out. There may be many partitions, so one pass, in slices, reads all values of each. Lines whose numbers have not
changed since the last scrape are kept (`barnabas.web.kept_lines`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from operator import add
from typing import Final, NamedTuple, TypeVar

from barnabas.broker.server import Broker
from barnabas.model.ids import TopicPartition
from barnabas.runtime import Histogram
from barnabas.web.kept_lines import KeptLines, head, parts
from barnabas.web.metrics import Kind, Metric, Reading, Total
from barnabas.web.partition_metrics import (
    PARTITION_METRICS,
    PARTITION_TOTALS,
    TOPIC_METRICS,
    PartitionMetric,
    PartitionTotal,
    PartitionValues,
    TopicMetric,
    partition_values,
    topic_values,
)
from barnabas.web.table import Table

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SERIES_KEY: Final = "barnabas.metrics.series.max"
SLICE_NS: Final = 100_000
"""The longest time of a slice, about that of a request. (Simulated brokers are not scraped: their clock stands still
while code runs.)"""
PARTITIONS_AT_ONCE: Final = 10
CONNECTIONS_AT_ONCE: Final = 50
SERIES_AT_ONCE: Final = 50
PIECE_BYTES: Final = 32 * 1024
LEFT_OUT: Final = "barnabas_metrics_series_left_out"
LEFT_OUT_HELP: Final = f"Series that were left out because a name has more than {SERIES_KEY}."

T = TypeVar("T")
AnyMetric = Metric | TopicMetric | PartitionTotal | PartitionMetric
Label = str | int
Told = tuple[AnyMetric, tuple[Label, ...] | None]
"""One series, by its labels' values; None for the lines before a name's series."""

_LEFT_OUT: Final = Metric(LEFT_OUT, Kind.GAUGE, ("name",), "", LEFT_OUT_HELP, lambda broker: ())


class Exposition:
    """The text of one broker's `table`, and of its topics and partitions."""

    def __init__(self, broker: Broker, table: Table) -> None:
        self._broker = broker
        self._table = table
        self._kept = KeptLines()

    def pieces(self) -> Iterator[bytes]:
        """The whole text. An empty piece marks the end of a slice, at which the loop does other work."""
        broker = self._broker
        series = Series(broker.config.number(SERIES_KEY))
        slices = Slices(broker.runtime.clock.monotonic_ns)
        yield from slices.of(count_repeats(broker))
        found = yield from slices.of(partitions_of(broker))
        gathered: list[bytes] = []
        length = 0
        for text in self._texts(found, series):
            gathered.append(text)
            length += len(text)
            if length >= PIECE_BYTES:
                yield b"".join(gathered)
                gathered, length = [], 0
            if slices.over():
                yield b""
                slices.begin()
        yield b"".join(gathered)
        self._kept.end()

    def forget(self) -> None:
        """Drops the last scrape's lines, as no other scrape is expected soon."""
        self._kept.forget()

    def _texts(self, found: Partitions, series: Series) -> Iterator[bytes]:
        topics, traffic = [(topic,) for topic in found.topics], [*found.topics.values()]
        by_topic = [(at, metric) for at, metric in enumerate(TOPIC_METRICS) if metric.by_topic]
        together = [(metric, [((), traffic[0][at])]) for at, metric in enumerate(TOPIC_METRICS) if not metric.by_topic]
        totals = [(total, [((), total.read(found.rows))]) for total in PARTITION_TOTALS]
        yield from self._families((metric, series.readings(metric, self._broker)) for metric in self._table.metrics)
        yield from self._columns(by_topic, topics, traffic, series)
        yield from self._families([*together, *totals])
        yield from self._columns([*enumerate(PARTITION_METRICS)], found.names, found.rows, series)
        yield from self._families([(_LEFT_OUT, [((name,), count) for name, count in series.left_out.items()])])

    def _families(self, families: Iterable[tuple[AnyMetric, Sequence[Reading]]]) -> Iterator[bytes]:
        """The families of series: small ones together, each histogram by itself."""
        lot: list[Told] = []
        numbers: list[int | float] = []
        for metric, readings in families:
            histograms = metric.kind is Kind.HISTOGRAM
            if histograms and lot:
                yield self._lot(lot, numbers)
                lot, numbers = [], []
            yield b""  # reading may have taken a whole slice
            lot.append((metric, None))
            for labels, value in readings:
                lot.append((metric, labels))
                if isinstance(value, Histogram):
                    numbers = [*value.buckets, value.total_ns]
                elif isinstance(value, Total):
                    numbers += value
                else:
                    numbers.append(value)
                if histograms or len(lot) >= SERIES_AT_ONCE:
                    yield self._lot(lot, numbers, histogram=histograms)
                    lot, numbers = [], []
        if lot:
            yield self._lot(lot, numbers)

    def _lot(self, lot: list[Told], numbers: list[int | float], *, histogram: bool = False) -> bytes:
        metric, labels = lot[0]
        lines = self._kept.of((metric.name, labels), lot, _parts_of_series)
        return lines.told("", numbers, histogram=histogram)

    def _columns(
        self,
        columns: Sequence[tuple[int, TopicMetric | PartitionMetric]],
        things: Sequence[tuple[Label, ...]],
        rows: Sequence[Sequence[int | None]],
        series: Series,
    ) -> Iterator[bytes]:
        """The series of one name after the other, each for the same `things`, with one row for each thing."""
        labels = columns[0][1].labels
        parts = partial(_parts_of_things, labels)
        lots = []
        for first in range(0, min(series.most, len(things)), SERIES_AT_ONCE):
            some = things[first : min(first + SERIES_AT_ONCE, series.most)]
            lots.append(
                (some, rows[first : first + len(some)], self._kept.of((labels, first), some, parts, len(columns)))
            )
            yield b""
        for at, metric in columns:
            name = exposed_name(metric)
            series.shown(name, len(things))
            yield head(name, metric.kind, metric.help).encode()
            for some, read, lines in lots:
                values = [value for row in read if (value := row[at]) is not None]
                if len(values) < len(some):
                    there = [thing for thing, row in zip(some, read, strict=True) if row[at] is not None]
                    lines = self._kept.of((name, some[0]), there, parts)
                yield lines.told(name, values)


def _parts_of_series(lot: Sequence[Told]) -> Iterator[str]:
    for metric, labels in lot:
        name = exposed_name(metric)
        if labels is None:
            yield head(name, metric.kind, metric.help)
        else:
            yield from (f"{name}{part}" for part in parts(metric.kind, metric.labels, labels))


def _parts_of_things(labels: tuple[str, ...], things: Sequence[tuple[Label, ...]]) -> Iterator[str]:
    for values in things:
        yield from parts(Kind.GAUGE, labels, values)


class Slices:
    """The slices of one scrape."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self.begin()

    def begin(self) -> None:
        self._due_ns = self._clock_ns() + SLICE_NS

    def over(self) -> bool:
        """Whether the present slice has used up its time."""
        return self._clock_ns() >= self._due_ns

    def of(self, work: Generator[None, None, T]) -> Generator[bytes, None, T]:
        """Runs `work` and returns its result; yields an empty piece at each end of a slice."""
        while True:
            try:
                next(work)
            except StopIteration as end:
                result: T = end.value
                return result
            if self.over():
                yield b""
                self.begin()


def count_repeats(broker: Broker) -> Generator[None, None, None]:
    """Adds the connections' own counts to the figures of requests; yields where the loop may do other work."""
    for at, connection in enumerate(list(broker.connections), 1):
        connection.count_repeats()
        if not at % CONNECTIONS_AT_ONCE:
            yield


class Series:
    """The limit of series of a name, and the number that one scrape left out of each name."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.left_out: dict[str, int] = {}

    def shown(self, name: str, found: int) -> int:
        """The number of the `found` series that are included."""
        if found > self.most:
            self.left_out[name] = found - self.most
        return min(found, self.most)

    def readings(self, metric: Metric, broker: Broker) -> list[Reading]:
        readings = list(metric.read(broker))
        if len(readings) > self.most:
            del readings[self.shown(exposed_name(metric), len(readings)) :]
        return readings


class Partitions(NamedTuple):
    """The result of one pass over the partitions. `topics` has each topic's values of `TOPIC_METRICS`; its first entry,
    without a name, has those of all topics, deleted ones included. `names` and `rows` have one element for each
    partition with a log."""

    topics: dict[str, tuple[int, ...]]
    names: list[TopicPartition]
    rows: list[PartitionValues]


def partitions_of(broker: Broker) -> Generator[None, None, Partitions]:
    """Yields where the loop may do other work."""
    topics: dict[str, tuple[int, ...]] = {}
    names, rows = [], []
    for at, partition in enumerate(broker.replicas.partitions, 1):
        topic = partition.topic_partition.topic
        values, others = topic_values(partition.traffic.looked()), topics.get(topic)
        topics[topic] = values if others is None else tuple(map(add, values, others))
        log = partition.log
        if log is not None:
            names.append(partition.topic_partition)
            rows.append(partition_values(broker, partition, log))
        if not at % PARTITIONS_AT_ONCE:
            yield
    former = topic_values(broker.replicas.former_traffic)
    together = tuple(map(sum, zip(former, *topics.values(), strict=True)))
    return Partitions({"": together, **topics}, names, rows)


def exposed_name(metric: AnyMetric) -> str:
    return f"{metric.name}_total" if metric.kind is Kind.COUNTER else metric.name
