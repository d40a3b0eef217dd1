"""Servers that are told to stop end within a bound, whoever else ends at the same moment."""

from __future__ import annotations

import resource
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from coordinators import Coordinator
from processes import Cluster, eventually


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, 3) as made:
        yield made


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_brokers_and_coordinator_that_are_told_to_stop_at_once_all_end(
    cluster: Cluster, number: signal.Signals
) -> None:
    """By SIGHUP as well, which comes when a terminal is closed, and stops Kafka's in order."""
    everybody = [cluster.coordinator, *cluster.brokers]
    for process in everybody:
        process.signal(number)
    assert [process.wait(30) for process in everybody] == [0, 0, 0, 0]


def test_a_second_signal_ends_a_broker_whose_shutdown_waits_for_a_controller_that_is_silent(cluster: Cluster) -> None:
    controller = cluster.controller()
    waiting = cluster.brokers[(controller + 1) % 3]
    cluster.brokers[controller].signal(signal.SIGSTOP)
    waiting.signal(signal.SIGTERM)
    eventually(lambda: "told to stop by SIGTERM" in waiting.output(), what="the broker begins to stop")

    def ended() -> bool:
        waiting.signal(signal.SIGTERM)
        return not waiting.running

    eventually(ended, within=10, what="a further signal ends it")
    assert waiting.wait() == -signal.SIGTERM


def test_what_is_open_to_the_network_is_warned_of_and_directories_are_their_owners_alone(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 2)
    cluster.coordinator.arguments = (*cluster.coordinator.arguments, "--host", "0.0.0.0")
    file = tmp_path / "broker-0.properties"
    port = cluster.ports[0]
    opened = file.read_text().replace("PLAINTEXT://127.0.0.1", "PLAINTEXT://0.0.0.0")
    file.write_text(f"{opened}advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n")
    with cluster:
        warning = "can be reached over the network, and nothing protects it"
        assert f"PLAINTEXT://0.0.0.0:{port} {warning}" in cluster.brokers[0].output()
        assert warning in cluster.coordinator.output()
        assert warning not in cluster.brokers[1].output()
    made = [tmp_path / "logs-0", tmp_path / "logs-1", tmp_path / "coordinator"]
    assert [stat.S_IMODE(each.stat().st_mode) for each in made] == [0o700] * 3


def test_a_coordinator_that_cannot_write_its_last_snapshot_stops_all_the_same_and_has_lost_nothing(
    tmp_path: Path,
) -> None:
    coordinator = Coordinator(tmp_path)
    try:
        coordinator.up()
        coordinator.client().create("/a", b"kept")
        resource.prlimit(coordinator.pid, resource.RLIMIT_FSIZE, (0, 0))
        assert coordinator.stop(20) == 0
        coordinator.up()
        assert coordinator.client().get("/a")[0] == b"kept"
    finally:
        coordinator.close()
