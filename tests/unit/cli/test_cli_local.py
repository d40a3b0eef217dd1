"""What ``barnabas up`` writes, and what it makes of what it finds."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from barnabas.broker.listeners import listeners_of
from barnabas.broker.protection import require_no_more_than_there_is
from barnabas.cli import local
from barnabas.cli.local import OWN_PORTS, LocalCluster
from barnabas.cli.local_brokers import server_properties
from barnabas.cli.local_state import BrokerState, ClusterState, CoordinatorState, cluster_in, state_in
from barnabas.cli.output import CommandError, UsageError
from barnabas.cli.plain import STATUS_FILE
from barnabas.client.metadata import parse_bootstrap
from barnabas.model.config import broker_config, parse_properties
from barnabas.runtime.started_process import StartedProcess


def state(count: int, **config: str) -> ClusterState:
    brokers = [BrokerState(id=number, port=9000 + number, log_dir=f"/data/{number}") for number in range(count)]
    return ClusterState("127.0.0.1:2181", None, brokers, None, dict(config))


@pytest.mark.parametrize(("count", "replication_factor"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
def test_internal_topics_fit_the_number_of_brokers(count: int, replication_factor: str) -> None:
    cluster = state(count)
    written = parse_properties(server_properties(cluster, cluster.brokers[0]))
    assert written["offsets.topic.replication.factor"] == replication_factor
    assert written["transaction.state.log.replication.factor"] == replication_factor
    assert written["listeners"] == "PLAINTEXT://127.0.0.1:9000"


def test_every_line_is_one_that_a_broker_takes_and_knows() -> None:
    cluster = state(3)
    config = broker_config(parse_properties(server_properties(cluster, cluster.brokers[2])))
    assert config.number("broker.id") == 2
    assert list(config.unknown()) == []


def test_the_users_configuration_wins_and_odd_characters_survive() -> None:
    cluster = state(3, **{"zookeeper.session.timeout.ms": "9000", "sasl.jaas.config": r" a\b=c:d"})
    written = parse_properties(server_properties(cluster, cluster.brokers[0]))
    assert written["zookeeper.session.timeout.ms"] == "9000"
    assert written["sasl.jaas.config"] == r" a\b=c:d"


def test_what_the_configuration_holds_is_for_the_owner_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    cluster = LocalCluster(str(tmp_path))
    (tmp_path / "cluster.tmp").write_text("left over, and open to all")
    for _ in range(2):
        cluster.save(state(1, **{"delegation.token.secret.key": "sesame"}))
        assert cluster.state_file.stat().st_mode & 0o777 == 0o600
    assert cluster_in(cluster.directory).config == {"delegation.token.secret.key": "sesame"}


def test_a_secured_brokers_lines_are_known_too_and_ask_for_what_there_is() -> None:
    cluster = ClusterState(
        "127.0.0.1:2181", CoordinatorState(), [BrokerState(id=each, log_dir="/d/0") for each in range(3)], 9000
    )
    cluster.security = "/keys"
    cluster.give_ports()
    assert [(broker.port, broker.broker_port) for broker in cluster.brokers] == [
        (9000, 9004),
        (9001, 9005),
        (9002, 9006),
    ]
    assert cluster.coordinator is not None
    assert cluster.coordinator.port == 9003
    config = broker_config(parse_properties(server_properties(cluster, cluster.brokers[1])))
    assert list(config.unknown()) == []
    listeners = listeners_of(config, "castle")
    assert {(each.listener, each.security_protocol, each.port) for each in listeners.bound} == {
        ("CLIENTS", "SASL_SSL", 9001),
        ("BROKERS", "SSL", 9005),
    }
    assert listeners.inter_broker == "BROKERS"
    require_no_more_than_there_is(config, listeners)


def test_a_process_is_ours_only_when_it_began_when_we_noted_it() -> None:
    assert StartedProcess(os.getpid()).alive
    assert not StartedProcess(os.getpid(), began=1).alive
    assert not StartedProcess(None).alive


def test_the_state_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    cluster = LocalCluster(str(tmp_path))
    assert state_in(cluster.directory) is None
    cluster.save(state(2))
    assert state_in(cluster.directory) == state(2)
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.json"]


def test_a_file_that_is_no_state_is_named(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{}")
    with pytest.raises(CommandError, match=r"cluster\.json is not a cluster's state"):
        state_in(tmp_path)


def test_a_directory_without_a_cluster_is_not_made_by_stopping_it(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="There is no cluster in"):
        LocalCluster(str(tmp_path / "typo")).down()
    assert not list(tmp_path.iterdir())


def test_a_directory_that_log_dirs_cannot_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="contains a comma"):
        LocalCluster(str(tmp_path / "a,b")).up(1)
    assert not list(tmp_path.iterdir())


def test_a_port_of_ones_own_choice_is_none_that_a_client_may_get(tmp_path: Path) -> None:
    """Nobody holds it until the broker does, and whoever connects somewhere has a port of the system's meanwhile."""
    cluster = LocalCluster(str(tmp_path))
    with socket.socket() as first, socket.socket() as second, socket.socket() as third:
        port = cluster._bind(first, 0, chosen=False)
        first.listen()
        assert port == first.getsockname()[1]
        other = cluster._bind(second, port, chosen=False)
        assert port in OWN_PORTS
        assert other in OWN_PORTS
        assert other != port
        with pytest.raises(CommandError, match=f"Port {port} is in use"):
            cluster._bind(third, port, chosen=True)


def test_bootstrap_lists_are_read() -> None:
    assert parse_bootstrap("a:1, b") == [("a", 1), ("b", 9092)]
    assert parse_bootstrap("PLAINTEXT://[::1]:9092") == [("::1", 9092)]


@pytest.mark.parametrize("text", ["", "a:b", "a:0", "a:70000", ":1"])
def test_what_is_no_bootstrap_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_bootstrap(text)


def test_a_broker_that_is_being_stopped_is_waited_for_before_it_is_started_again(tmp_path: Path) -> None:
    """Else the cluster would be called running, and stand there with a broker less a moment later."""
    cluster = LocalCluster(str(tmp_path))
    written = state(2)
    children = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in written.brokers]
    try:
        for child, broker, told in zip(children, written.brokers, ("RUNNING", "SHUTTING_DOWN"), strict=True):
            broker.pid, broker.log_dir = child.pid, str(tmp_path / str(broker.id) / "data")
            (tmp_path / str(broker.id)).mkdir()
            (tmp_path / str(broker.id) / STATUS_FILE).write_text(json.dumps({"pid": child.pid, "state": told}))
        cluster.save(written)
        ending = threading.Timer(0.3, children[1].communicate, [b"\n"])
        ending.start()
        # The ports of this state are not this test's: what is asked is only whether it waits.
        with pytest.raises(CommandError, match="has 2 brokers; some of its processes run"):
            cluster.up(5)
        ending.join()
        assert children[1].poll() is not None
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_a_process_that_does_not_stop_keeps_no_other_running_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "STOP_TIMEOUT_S", 0.2)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    ready = "import time; print(flush=True); time.sleep(60)"
    children = [subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) for text in (ready, deaf, ready)]
    try:
        written = state(3)
        for child, broker in zip(children, written.brokers, strict=True):
            assert child.stdout is not None
            child.stdout.readline()
            broker.pid = child.pid
        cluster = LocalCluster(str(tmp_path))
        cluster.save(written)
        with pytest.raises(CommandError, match=rf"^The broker 1 \(pid {children[1].pid}\) did not stop"):
            cluster.down()
        assert [broker.pid for broker in cluster_in(cluster.directory).brokers] == [None, children[1].pid, None]
        assert cluster.down(kill=True) == ["broker 1"]
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_a_process_that_was_paused_is_stopped(tmp_path: Path) -> None:
    text = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: exit(7)); print(flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signal.SIGSTOP)
        written = state(1)
        written.brokers[0].pid = child.pid
        cluster = LocalCluster(str(tmp_path))
        cluster.save(written)
        assert cluster.down() == ["broker 0"]
    finally:
        child.kill()
        child.wait()


def test_a_process_of_two_names_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded coordinator lives in broker 0 where that is the only one."""
    waited: list[float] = []
    monkeypatch.setattr(local, "_gone", lambda process, timeout_s: waited.append(timeout_s))
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        written = state(1)
        written.brokers[0].pid = child.pid
        written.coordinator = CoordinatorState(pid=child.pid, port=2181)
        cluster = LocalCluster(str(tmp_path))
        cluster.save(written)
        with pytest.raises(CommandError, match="did not stop within"):
            cluster.down()
        assert len(waited) == 1
    finally:
        child.kill()
        child.wait()


def test_brokers_that_have_no_time_to_start_are_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "START_TIMEOUT_S", 0.001)
    with pytest.raises(CommandError, match=r"The brokers did not start within 0\.001 s: see .*broker-0/broker\.log\."):
        LocalCluster(str(tmp_path)).up(2)


@pytest.mark.parametrize("is_link", [True, False], ids=["a link to nothing", "a file"])
def test_a_place_that_is_no_directory_is_told(tmp_path: Path, is_link: bool) -> None:
    place = tmp_path / "place"
    if is_link:
        place.symlink_to(tmp_path / "gone")
    else:
        place.touch()
    with (
        pytest.raises(CommandError, match="is no directory, nor a link to one"),
        LocalCluster(str(place)).exclusively(),
    ):
        pass
