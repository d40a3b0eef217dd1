"""The admin endpoint of real brokers, asked as a person with curl would."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import BARNABAS, Cluster, barnabas, running, until
from prometheus_client.parser import text_string_to_metric_families

from barnabas.web.metrics import METRICS
from barnabas.web.partition_metrics import PARTITION_METRICS, PARTITION_TOTALS, TOPIC_METRICS


class Admin:
    """The endpoints of a cluster's brokers."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        status = json.loads(barnabas("status", "--dir", str(cluster.directory), "--format", "json").stdout)
        self.addresses = {each["id"]: each["admin"] for each in status["brokers"]}
        self.controller: int = next(each["id"] for each in status["brokers"] if each["controller"])
        self.other: int = next(each["id"] for each in status["brokers"] if not each["controller"])

    def address(self, broker_id: int) -> tuple[str, int]:
        host, _, port = self.addresses[broker_id].partition(":")
        return host, int(port)

    def ask(self, broker_id: int, path: str, method: str = "GET") -> tuple[int, Any]:
        connection = http.client.HTTPConnection(*self.address(broker_id), timeout=10)
        connection.request(method, path)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, json.loads(body) if body else None


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    with running(tmp_path_factory.mktemp("admin"), 2) as cluster:
        made = barnabas("topic", "create", "seen", "-b", cluster.bootstrap, "-p", "2", "-r", "2")
        assert made.returncode == 0, made.stderr
        yield Admin(cluster)


def test_the_controller_is_seen_at_work(admin: Admin) -> None:
    status, seen = admin.ask(admin.controller, "/controller")
    assert status == 200
    assert seen["active"]
    assert seen["epoch"] == 1
    assert seen["queue"]["state"] == "Idle"
    assert seen["events"]["TopicChange"]["count"] >= 1
    assert seen["reign"]["partitions"] == 2
    assert admin.ask(admin.other, "/controller")[1]["reign"] is None


def test_every_partition_and_replica_is_seen_in_its_state(admin: Admin) -> None:
    status, seen = admin.ask(admin.controller, "/partitions?topic=seen")
    assert status == 200
    assert [each["state"] for each in seen] == ["OnlinePartition"] * 2
    assert all(set(each["replicas"].values()) == {"OnlineReplica"} for each in seen)
    assert admin.ask(admin.controller, "/partitions?topic=nobody")[0] == 404
    status, refused = admin.ask(admin.other, "/partitions")
    assert status == 409
    assert f"broker {admin.controller} is" in refused["error"]


def test_a_broker_shows_its_replicas(admin: Admin) -> None:
    by_broker = {each: admin.ask(each, "/replicas?topic=seen")[1] for each in (admin.controller, admin.other)}
    for number in range(2):
        roles = sorted(replicas[number]["role"] for replicas in by_broker.values())
        assert roles == ["follower", "leader"]
        leader = next(replicas[number] for replicas in by_broker.values() if replicas[number]["role"] == "leader")
        assert leader["isr"] == [0, 1]
        assert leader["high_watermark"] == leader["log_end_offset"] == 0


def test_the_state_machines_and_their_last_moves_are_seen(admin: Admin) -> None:
    _, lines = admin.ask(admin.controller, "/state-changes")
    assert any("seen-0" in each["line"] and "OnlinePartition" in each["line"] for each in lines)
    _, machines = admin.ask(admin.other, "/transitions")
    assert machines["replica"]["ReplicaDeletionStarted"] == ["OfflineReplica"]
    assert admin.ask(admin.other, "/status")[1]["state"] == "RUNNING"


def test_state_changes_are_kept_in_a_file_with_what_caused_them(admin: Admin) -> None:
    data = Path(admin.cluster.broker(admin.controller)["log_dir"])
    kept = data.with_name("state-change.log").read_text().splitlines()
    elected = [line for line in kept if "seen-0" in line and "OnlinePartition" in line]
    assert elected
    assert "event=TopicChange" in elected[0]


def test_a_stream_tells_of_changes_as_they_come(admin: Admin) -> None:
    connection = http.client.HTTPConnection(*admin.address(admin.controller), timeout=20)
    connection.request("GET", "/events")
    stream = connection.getresponse()
    assert stream.headers["content-type"] == "text/event-stream"
    assert stream.readline() == b"event: controller\n"
    made = barnabas("topic", "create", "streamed", "-b", admin.cluster.bootstrap, "-r", "2")
    assert made.returncode == 0, made.stderr
    while True:
        line = stream.readline()
        assert line, "the stream ended"
        if line.startswith(b"data: ") and "streamed-0" in json.loads(line[6:]).get("line", ""):
            break
    connection.close()


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nothing", 404), ("POST", "/status", 405), ("DELETE", "/partitions", 405)]
)
def test_what_is_not_offered_is_refused_in_a_sentence(admin: Admin, method: str, path: str, status: int) -> None:
    answered, body = admin.ask(admin.controller, path, method)
    assert answered == status
    assert body["error"].endswith(".")


def test_metrics_are_what_prometheus_reads_and_the_command_shows(admin: Admin) -> None:
    connection = http.client.HTTPConnection(*admin.address(admin.controller), timeout=20)
    for _ in range(2):  # one connection, as a scraper keeps it
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        text = answer.read().decode()
    connection.close()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    for each in (*METRICS, *TOPIC_METRICS, *PARTITION_TOTALS, *PARTITION_METRICS):
        assert each.name in families, each.name
        for sample in families[each.name].samples:
            # What is told of all topics together has no label.
            labels = getattr(each, "labels", ("topic", "partition"))
            assert sample.labels.keys() - {"le"} in (set(labels), set()), sample
    one = {name: family.samples[0].value for name, family in families.items() if len(family.samples) == 1}
    assert one["kafka_controller_kafkacontroller_activecontrollercount"] == 1
    assert one["kafka_server_replicamanager_underreplicatedpartitions"] == 0
    assert families["process_cpu_seconds"].samples
    shown = barnabas("metrics", "ActiveControllerCount", "--dir", str(admin.cluster.directory), "--format", "json")
    assert shown.returncode == 0, shown.stderr
    values = {each["broker"]: each["value"] for each in json.loads(shown.stdout)}
    assert values == {str(admin.controller): 1, str(admin.other): 0}


def test_metrics_are_read_from_the_broker_itself_whatever_proxy_the_environment_names(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        for variable in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{silent.getsockname()[1]}")
        shown = barnabas("metrics", "ActiveControllerCount", "--dir", str(admin.cluster.directory))
    assert shown.returncode == 0, shown.stderr


def test_lag_is_told_in_records_and_in_time_by_the_coordinator_and_by_the_command(admin: Admin) -> None:
    at = ("-b", admin.cluster.bootstrap)
    for words in (("topic", "create", "unread", "-p", "4", "-r", "1"), ("produce", "-t", "unread")):
        done = barnabas(*words, *at, text="".join(f"{number}\n" for number in range(100)))
        assert done.returncode == 0, done.stderr
    done = barnabas("group", "reset", "reader", "-t", "unread", "--to-earliest", "--execute", *at)
    assert done.returncode == 0, done.stderr

    described = json.loads(barnabas("group", "describe", "reader", "--format", "json", *at).stdout)
    assert sum(each["lag"] for each in described["offsets"]) == 100
    assert all(each["behind_s"] > 0 for each in described["offsets"] if each["lag"])

    def told() -> dict[str, list[float]]:
        values: dict[str, list[float]] = {"records": [], "seconds": []}
        for broker_id in admin.addresses:
            connection = http.client.HTTPConnection(*admin.address(broker_id), timeout=20)
            connection.request("GET", "/metrics")
            for family in text_string_to_metric_families(connection.getresponse().read().decode()):
                kind = family.name.removeprefix("barnabas_group_lag_")
                if kind in values:
                    values[kind] += [each.value for each in family.samples if each.labels["group"] == "reader"]
            connection.close()
        return values

    def complete() -> bool:
        # What other brokers have to be asked for is told in the next look.
        now = told()
        return sum(now["records"]) == 100 and len(now["records"]) == len(now["seconds"]) == 4

    until(complete, "the lag of each partition, wherever it is led")
    watching = subprocess.Popen(
        [*BARNABAS, "group", "describe", "reader", "--watch", "--format", "json", *at],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    looks = [json.loads(watching.stdout.readline()) for _ in range(2)]
    watching.send_signal(signal.SIGINT)
    assert watching.wait(30) == 0
    watching.stdout.close()
    assert looks[1]["offsets"][0]["committed"] == looks[0]["offsets"][0]["committed"]


def test_garbage_ends_its_connection_alone(admin: Admin) -> None:
    for garbage in (b"\x00\x00\x00\x10garbage garbage\r\n\r\n", b"GET /" + b"x" * 100_000, b"GET / HTTP/1.1\r\n\r\n"):
        with socket.create_connection(admin.address(admin.controller), timeout=10) as raw:
            raw.sendall(garbage)
            answer = b""
            while chunk := raw.recv(65536):
                answer += chunk
        assert answer.startswith(b"HTTP/1.1 4")
    assert admin.ask(admin.controller, "/")[0] == 200
