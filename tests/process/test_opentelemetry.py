"""Metrics by OpenTelemetry: what brokers send to a receiver of OTLP over HTTP, beside what Prometheus is told."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from cluster import BARNABAS, barnabas, until
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality
from prometheus_client.parser import text_string_to_metric_families


class Receiver(ThreadingHTTPServer):
    """A collector: it keeps the newest series of each broker."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taking)
        self.asked: list[tuple[str, str | None, int]] = []
        """Path, a header of ours, and data points of each request."""
        self.resources: dict[str, dict[str, str]] = {}
        self.values: dict[str, dict[tuple[str, frozenset[tuple[str, str]]], float]] = {}
        self.families: dict[str, tuple[str, str]] = {}
        self.rounds = 0
        """How often all was told: what is counted stands near the end."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def take(self, path: str, header: str | None, body: bytes) -> None:
        points = 0
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
            instance = attributes["service.instance.id"]
            self.resources[instance] = attributes
            values = self.values.setdefault(instance, {})
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points += self.take_metric(metric, values)
        self.asked.append((path, header, points))

    def take_metric(self, metric: Any, values: dict[tuple[str, frozenset[tuple[str, str]]], float]) -> int:
        kind = metric.WhichOneof("data")
        data = getattr(metric, kind)
        self.families[metric.name] = kind, metric.description
        self.rounds += metric.name == "kafka_log_log_size"
        if kind != "gauge":
            assert data.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        assert kind != "sum" or data.is_monotonic
        for point in data.data_points:
            labels = frozenset((each.key, each.value.string_value) for each in point.attributes)
            if kind == "histogram":
                assert sum(point.bucket_counts) == point.count
                assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
                assert not point.HasField("min")
                assert not point.HasField("max")
                values[f"{metric.name}_count", labels] = point.count
                values[f"{metric.name}_sum", labels] = point.sum
                count = 0
                for bound, more in zip(point.explicit_bounds, point.bucket_counts, strict=False):
                    count += more
                    values[f"{metric.name}_bucket", labels | {("le", f"{bound:g}")}] = count
            else:
                told = point.as_int if point.WhichOneof("value") == "as_int" else point.as_double
                values[metric.name, labels] = told
        return len(data.data_points)


class Taking(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.take(self.path, self.headers.get("x-tenant"), body)
        answer = ExportMetricsServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Each line would be of no use."""


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, daemon=True)
        thread.start()
        yield receiver
        receiver.shutdown()
        thread.join()


def up(directory: Path, config: list[str], **environment: str) -> dict[str, Any]:
    options = [word for each in config for word in ("--config", each)]
    done = subprocess.run(
        [*BARNABAS, "up", "-n", "1", "--dir", str(directory), "--format", "json", *options],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    state: dict[str, Any] = json.loads(done.stdout)
    return state


ENVIRONMENT = {
    "OTEL_METRIC_EXPORT_INTERVAL": "500",
    "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=ours",
    "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=tests",
}


@pytest.fixture(scope="module", params=["the key", "the environment"])
def broker(
    request: pytest.FixtureRequest, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    directory = tmp_path_factory.mktemp("otlp")
    if request.param == "the key":
        state = up(directory, [f"barnabas.opentelemetry.endpoint={receiver.endpoint}"], **ENVIRONMENT)
    else:
        by_environment = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint}
        state = up(directory, [], **ENVIRONMENT, **by_environment)
    receiver.values.clear()
    receiver.asked.clear()
    try:
        made = barnabas("topic", "create", "told", "-p", "200", "-b", state["bootstrap"])
        assert made.returncode == 0, made.stderr
        done = barnabas("produce", "-t", "told", "-b", state["bootstrap"], text="a\nb\nc\n")
        assert done.returncode == 0, done.stderr
        yield state["brokers"][0]
    finally:
        down = barnabas("down", "--dir", str(directory))
        assert down.returncode == 0, down.stderr


def test_a_receiver_is_told_what_prometheus_is_told(receiver: Receiver, broker: dict[str, Any]) -> None:
    messages_in = "kafka_server_brokertopicmetrics_messagesin_total", frozenset({("topic", "told")})

    def told() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        return receiver.values.get("broker-0", {})

    until(lambda: told().get(messages_in) == 3, "the records in what was sent", 120)
    rounds = receiver.rounds
    until(lambda: receiver.rounds >= rounds + 2, "a whole round behind them", 120)
    with urlopen(f"http://{broker['admin']}/metrics", timeout=60) as answer:
        scraped = list(text_string_to_metric_families(answer.read().decode()))
    ours = told()
    names = {name for name, _ in ours}
    of_requests = "kafka_network_requestmetrics_"
    for family in scraped:
        for sample in family.samples:
            labels = frozenset((name, text) for name, text in sample.labels.items() if text)
            if ("le", "+Inf") in labels or sample.name.startswith(of_requests):
                continue
            assert sample.name in names or not labels, sample
            if family.type in ("gauge", "counter") and not sample.name.startswith(("process_", "python_", "barnabas_")):
                assert (sample.name, labels) in ours, sample
    exact = {
        "kafka_log_log_logendoffset",
        "kafka_server_replicamanager_leadercount",
        "kafka_server_kafkaserver_clusterid",
        "kafka_controller_kafkacontroller_globalpartitioncount",
    }
    compared = 0
    for family in scraped:
        for sample in family.samples:
            if sample.name in exact:
                assert ours[sample.name, frozenset(sample.labels.items())] == sample.value
                compared += 1
    assert compared >= 200 + 3
    assert receiver.families[f"{of_requests}totaltimems"][0] == "histogram"
    assert receiver.families[f"{of_requests}requests_total"] == ("sum", "Requests.")
    assert (f"{of_requests}totaltimems_bucket", frozenset({("request", "Produce"), ("le", "0.032")})) in ours


def test_requests_are_small_and_go_as_the_environment_says(receiver: Receiver, broker: dict[str, Any]) -> None:
    until(lambda: receiver.asked, "a request", 120)
    assert {path for path, _, _ in receiver.asked} == {"/v1/metrics"}
    assert {header for _, header, _ in receiver.asked} == {"ours"}
    assert max(points for _, _, points in receiver.asked) <= 500
    resource = receiver.resources["broker-0"]
    assert resource["service.name"] == "barnabas"
    assert resource["service.namespace"]
    assert resource["deployment.environment.name"] == "tests"


def broker_ends(directory: Path, *options: str, code: str = "", **environment: str) -> str:
    """What a broker says that does not start."""
    file = directory / "server.properties"
    file.write_text(f"broker.id=0\nzookeeper.connect=127.0.0.1:1\nlog.dirs={directory}/data\n")
    run = f"{code}\nfrom barnabas.__main__ import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", run, "broker", str(file), *options],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    return done.stderr


def test_what_cannot_be_sent_is_refused_in_a_sentence(tmp_path: Path) -> None:
    asked = ("--override", "barnabas.opentelemetry.endpoint=http://127.0.0.1:4318")
    # Without the extra the packages are not to be found.
    without = "import sys; sys.modules['opentelemetry'] = None"
    assert "pip install 'barnabas[otel]'" in broker_ends(tmp_path, *asked, code=without)
    assert "takes http://host:port" in broker_ends(tmp_path, "--override", "barnabas.opentelemetry.endpoint=collector")
    assert "whole and above 0" in broker_ends(tmp_path, *asked, OTEL_METRIC_EXPORT_INTERVAL="soon")
