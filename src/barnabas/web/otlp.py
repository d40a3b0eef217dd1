"""Sends a broker's metrics by OpenTelemetry's protocol (OTLP over HTTP): the same series as for Prometheus, under the
same names.

The series are read on the broker's loop, in the slices of a scrape, and made into requests of at most `POINTS_AT_ONCE`
data points. OpenTelemetry's own exporter sends each request; it blocks, so it runs in a thread, which sees only these
requests. A summary of a scrape is a histogram without bounds here, since both are a count and a sum. The exporter reads
headers, TLS, compression and timeouts from the ``OTEL_EXPORTER_OTLP_*`` variables, and the resource's attributes from
``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES``.

Importing this needs the extra ``otel``.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    HistogramDataPoint,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramData
from opentelemetry.sdk.metrics.export import Metric as Family
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from barnabas.broker.server import Broker
from barnabas.model.errors import ConfigError
from barnabas.runtime import Histogram, Tasks
from barnabas.runtime.turns import in_slices
from barnabas.web.exposition import (
    LEFT_OUT,
    LEFT_OUT_HELP,
    SERIES_KEY,
    Series,
    count_repeats,
    exposed_name,
    partitions_of,
)
from barnabas.web.kept_lines import FIRST_BUCKET, LAST_BUCKET
from barnabas.web.metrics import Kind, Reading, Total
from barnabas.web.partition_metrics import PARTITION_METRICS, PARTITION_TOTALS, TOPIC_METRICS
from barnabas.web.table import Table

ENDPOINT_KEY: Final = "barnabas.opentelemetry.endpoint"
METRICS_PATH: Final = "/v1/metrics"
POINTS_AT_ONCE: Final = 500
SWITCH_INTERVAL_S: Final = 0.001
"""While a thread encodes a request, the loop gets the interpreter back within this time; Python's default is 5 ms."""
BOUNDS_MS: Final = [2**at / 1000 for at in range(FIRST_BUCKET, LAST_BUCKET + 1)]
_SCOPE: Final = InstrumentationScope("barnabas")

Point = NumberDataPoint | HistogramDataPoint


def url_of(endpoint: str) -> str:
    """A collector's address; the path of metrics is added if it has none. Raises `ConfigError`."""
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"Invalid value {endpoint!r} for configuration {ENDPOINT_KEY}: it takes http://host:port.")
    return endpoint if parts.path.strip("/") else parts._replace(path=METRICS_PATH).geturl()


class OtlpSender:
    """Sends `table` and the metrics of topics and partitions every `interval_s`, from `start` to `close`. If `endpoint`
    is empty, the environment's is used. Raises `ConfigError`."""

    def __init__(self, broker: Broker, table: Table, endpoint: str, interval_s: float) -> None:
        self._broker = broker
        self._table = table
        self._interval_s = interval_s
        self._exporter = OTLPMetricExporter(endpoint=url_of(endpoint) if endpoint else None)
        ours = {
            "service.name": "barnabas",
            "service.namespace": broker.cluster_id,
            "service.instance.id": f"broker-{broker.broker_id}",
        }
        self._resource = Resource(ours).merge(OTELResourceDetector().detect())
        self._began_ns = broker.runtime.clock.now_ms() * 1_000_000
        self._tasks = Tasks(_failed)
        self._sending: asyncio.Task[None] | None = None

    def start(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._sending = self._tasks.begin(self._run(), "otlp")

    def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
        self._exporter.shutdown()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            await self.send()

    async def send(self) -> None:
        """Sends all metrics once; stops at a request that the collector refuses, for which the exporter logs the
        reason."""
        self._table.group_lag.want()
        loop = asyncio.get_running_loop()
        async for families in _in_requests(self._families()):
            scope = ScopeMetrics(_SCOPE, families, "")
            data = MetricsData([ResourceMetrics(self._resource, [scope], "")])
            if await loop.run_in_executor(None, self._exporter.export, data) is not MetricExportResult.SUCCESS:
                return

    async def _families(self) -> AsyncIterator[Family]:
        """Families of at most `POINTS_AT_ONCE` points; a larger one is divided."""
        broker, turn = self._broker, self._broker.request_channel.long_requests.turns.next
        series = Series(broker.config.number(SERIES_KEY))
        now_ns = broker.runtime.clock.now_ms() * 1_000_000
        await in_slices(count_repeats(broker))
        for metric in self._table.metrics:
            readings = series.readings(metric, broker)
            for family in self._told(exposed_name(metric), metric.help, metric.kind, metric.labels, readings, now_ns):
                yield family
                await turn()
        found = await in_slices(partitions_of(broker))
        for at, counted in enumerate(TOPIC_METRICS):
            name = exposed_name(counted)
            shown = series.shown(name, len(found.topics)) if counted.by_topic else 1
            by_topic: Iterator[Reading] = (
                ((topic,), values[at]) for topic, values in islice(found.topics.items(), shown)
            )
            for family in self._told(name, counted.help, counted.kind, ("topic",), by_topic, now_ns):
                yield family
                await turn()
        for total in PARTITION_TOTALS:
            for family in self._told(total.name, total.help, Kind.GAUGE, (), [((), total.read(found.rows))], now_ns):
                yield family
            await turn()
        for column, measured in enumerate(PARTITION_METRICS):
            count = series.shown(measured.name, len(found.rows))
            values: Iterator[Reading] = (
                ((topic, str(partition)), value)
                for (topic, partition), row in zip(found.names[:count], found.rows, strict=False)
                if (value := row[column]) is not None
            )
            for family in self._told(measured.name, measured.help, Kind.GAUGE, ("topic", "partition"), values, now_ns):
                yield family
                await turn()
        left_out: Iterator[Reading] = (((name,), count) for name, count in series.left_out.items())
        for family in self._told(LEFT_OUT, LEFT_OUT_HELP, Kind.GAUGE, ("name",), left_out, now_ns):
            yield family

    def _told(
        self, name: str, help_: str, kind: Kind, labels: tuple[str, ...], readings: Iterable[Reading], now_ns: int
    ) -> Iterator[Family]:
        points: list[Point] = []
        for values, value in readings:
            attributes = {label: text for label, text in zip(labels, values, strict=True) if text}
            points.append(self._point(attributes, value, now_ns))
            if len(points) == POINTS_AT_ONCE:
                yield _family(name, help_, kind, points)
                points = []
        if points:
            yield _family(name, help_, kind, points)

    def _point(self, attributes: dict[str, str], value: int | float | Histogram | Total, now_ns: int) -> Point:
        began_ns = self._began_ns
        if isinstance(value, Histogram):
            buckets = value.buckets
            counts = [
                sum(buckets[: FIRST_BUCKET + 1]),
                *buckets[FIRST_BUCKET + 1 : LAST_BUCKET + 1],
                sum(buckets[LAST_BUCKET + 1 :]),
            ]
            return _distribution(
                attributes, began_ns, now_ns, sum(counts), value.total_ns / 1_000_000, counts, BOUNDS_MS
            )
        if isinstance(value, Total):
            return _distribution(attributes, began_ns, now_ns, value.times, value.amount, [value.times], [])
        return NumberDataPoint(attributes, began_ns, now_ns, value)


def _distribution(
    attributes: dict[str, str],
    began_ns: int,
    now_ns: int,
    count: int,
    total: float,
    counts: list[int],
    bounds: list[float],
) -> HistogramDataPoint:
    # Minimum and maximum are optional in the protocol, and not known here.
    unknown: float = None  # type: ignore[assignment]
    return HistogramDataPoint(attributes, began_ns, now_ns, count, total, counts, bounds, unknown, unknown)


def _family(name: str, help_: str, kind: Kind, points: list[Point]) -> Family:
    data: Gauge | Sum | HistogramData
    if kind is Kind.GAUGE:
        data = Gauge([point for point in points if isinstance(point, NumberDataPoint)])
    elif kind is Kind.COUNTER:
        numbers = [point for point in points if isinstance(point, NumberDataPoint)]
        data = Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    else:
        distributions = [point for point in points if isinstance(point, HistogramDataPoint)]
        data = HistogramData(distributions, AggregationTemporality.CUMULATIVE)
    return Family(name, help_, "", data)


async def _in_requests(families: AsyncIterator[Family]) -> AsyncIterator[list[Family]]:
    """Several families together, of at most `POINTS_AT_ONCE` points."""
    together: list[Family] = []
    points = 0
    async for family in families:
        more = len(family.data.data_points)
        if together and points + more > POINTS_AT_ONCE:
            yield together
            together, points = [], 0
        together.append(family)
        points += more
    if together:
        yield together


def _failed(name: str, error: BaseException) -> None:
    """The broker goes on without it; `Tasks` has logged the error."""
