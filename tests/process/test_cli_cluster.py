"""The command as a user runs it: a cluster is started, written to, read from, hurt, looked at and stopped."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import BARNABAS, until

from barnabas.cli.local_brokers import wait_for_metadata
from barnabas.cli.local_state import BrokerState, ClusterState, cluster_in
from barnabas.cli.output import CommandError
from barnabas.runtime.compiled import compiled_files
from barnabas.runtime.started_process import StartedProcess
from barnabas.testing import KafkaCluster
from barnabas.wire import scan


def run(*arguments: str, stdin: str | None = None, expect: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*BARNABAS, *arguments], input=stdin, capture_output=True, text=True, timeout=120)
    assert done.returncode == expect, f"barnabas {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    """What a command that failed says: one line on stderr and nothing else."""
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("barnabas: ")
    assert line.endswith((".", "?"))
    return line


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory whose cluster, if the test made one, is ended whatever the test did."""
    directory = tmp_path / "cluster"
    yield directory
    if (directory / "cluster.json").exists():
        run("down", "--kill", "--dir", str(directory))


def up(place: Path, *arguments: str) -> dict[str, Any]:
    value = json.loads(run("up", "--dir", str(place), "--format", "json", *arguments).stdout)
    assert isinstance(value, dict)
    return value


def test_a_cluster_lives_through_the_death_of_a_broker_and_leaves_nothing_behind(place: Path) -> None:
    state = up(place, "-n", "3")
    bootstrap = state["bootstrap"]
    pids = [broker["pid"] for broker in state["brokers"]] + [state["coordinator"]["pid"]]
    assert [broker["id"] for broker in state["brokers"]] == [0, 1, 2]
    assert sum(broker["controller"] for broker in state["brokers"]) == 1
    assert len({os.getsid(pid) for pid in pids}) == 4, "every process has a session of its own"
    assert all(process.began for process in cluster_in(place).processes()), "a later process of its pid is not it"

    run("topic", "create", "-b", bootstrap, "t", "-p", "3", "-r", "3", "-c", "min.insync.replicas=2")
    lines = "".join(f"key-{number % 7}:value-{number}\n" for number in range(300))
    run("produce", "-b", bootstrap, "-t", "t", "-K", ":", stdin=lines)
    read = run("consume", "-b", bootstrap, "-t", "t", "-o", "start", "-e", "-f", "%k:%v\\n").stdout
    assert sorted(read.splitlines()) == sorted(lines.splitlines())

    victim = next(broker for broker in state["brokers"] if broker["controller"])
    os.kill(victim["pid"], signal.SIGKILL)
    more = "".join(f"key-{number % 7}:again-{number}\n" for number in range(50))
    run("produce", "-b", bootstrap, "-t", "t", "-K", ":", stdin=more)
    status = json.loads(run("status", "--dir", str(place), "--format", "json", expect=1).stdout)
    assert [broker["running"] for broker in status["brokers"]].count(False) == 1
    assert not next(broker for broker in status["brokers"] if broker["id"] == victim["id"])["running"]

    again = up(place)
    assert [broker["port"] for broker in again["brokers"]] == [broker["port"] for broker in state["brokers"]]

    def in_sync() -> bool:
        described = json.loads(run("topic", "describe", "-b", bootstrap, "t", "--format", "json").stdout)
        return all(len(partition["isr"]) == 3 for partition in described[0]["partitions"])

    until(in_sync, "every replica in sync")
    assert f"records are checked by {scan.RUNNING}" in run("status", "--dir", str(place)).stdout
    log = (place / "broker-0" / "broker.log").read_text()
    form = "compiled" if compiled_files() else "interpreted"
    assert f"; records are checked by {scan.RUNNING}, the hot path is {form}" in log
    read = run("consume", "-b", bootstrap, "-t", "t", "-e", "-f", "%k:%v\\n").stdout
    assert sorted(read.splitlines()) == sorted((lines + more).splitlines())

    pids += [broker["pid"] for broker in again["brokers"]]
    run("down", "--dir", str(place))
    assert [pid for pid in pids if StartedProcess(pid).alive] == []


def test_who_may_have_too_few_files_open_is_told_so(tmp_path: Path) -> None:
    command = ["bash", "-c", 'ulimit -n 64; exec "$@"', "-", *BARNABAS, "up", "--dir", str(tmp_path / "cluster")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "may have 64 files open, and a server needs at least 128: raise `ulimit -n`." in one_sentence(done)


def test_a_stopped_cluster_starts_again_with_its_data(place: Path) -> None:
    first = up(place, "-n", "1")
    run("topic", "create", "-b", first["bootstrap"], "t")
    run("produce", "-b", first["bootstrap"], "-t", "t", stdin="kept\n")
    run("down", "--dir", str(place))
    second = up(place)
    assert len(second["brokers"]) == 1
    read = run("consume", "-b", second["bootstrap"], "-t", "t", "-e", "-J").stdout
    assert [json.loads(line)["payload"] for line in read.splitlines()] == ["kept"]


def test_a_clusters_directory_may_have_any_letters(tmp_path: Path) -> None:
    place = tmp_path / "one: two % dreiü # 'four' = \\"
    try:
        up(place, "-n", "2")
        run("topic", "create", "t", "--dir", str(place))
        assert sorted(path.name for path in place.glob("broker-*/data/t-0")) == ["t-0", "t-0"]
    finally:
        run("down", "--kill", "--dir", str(place))


def test_a_cluster_in_a_directory_whose_name_is_no_utf_8_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    here = tmp_path / os.fsdecode(b"lat\xe9in")
    here.mkdir()
    done = subprocess.run([*BARNABAS, "up", "-n", "1"], cwd=here, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "choose another --dir" in one_sentence(done)
    assert list(here.iterdir()) == []


def test_a_users_files_are_not_taken_for_pythons_modules(place: Path, tmp_path: Path) -> None:
    for module in ("queue", "random", "secrets"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('a file of the user')")
    command = [sys.executable, "-P", "-m", "barnabas", "up", "-n", "2", "--dir", str(place)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_directory_whose_cluster_runs_is_not_started_twice(place: Path) -> None:
    up(place, "-n", "1")
    assert "already running" in one_sentence(run("up", "--dir", str(place), expect=1))


def test_a_broker_that_ends_as_soon_as_it_is_ready_is_named_at_once() -> None:
    """On a disk that is nearly full it may come up and fail at its first fetch: nobody will hear of it any more."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with KafkaCluster(1) as cluster:
        port = int(cluster.bootstrap.partition(":")[2])
        brokers = [BrokerState(os.getpid(), id=0, port=port), BrokerState(ended.pid, id=1, port=1)]
        with pytest.raises(CommandError, match="broker 1 ended during the cluster's start"):
            wait_for_metadata(ClusterState("", None, brokers), time.monotonic() + 60)


def test_brokers_stop_in_order_when_the_coordinator_is_dead(place: Path) -> None:
    state = up(place, "-n", "2")
    os.kill(state["coordinator"]["pid"], signal.SIGKILL)
    until(
        lambda: all("lost ZooKeeper" in path.read_text() for path in place.glob("broker-*/broker.log")),
        "every broker notices",
    )
    assert run("down", "--dir", str(place)).stdout == "stopped broker 1, broker 0\n"


def processes_of(place: Path) -> list[str]:
    """The command lines in which the directory is named."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            found.append(path.read_text(errors="replace"))
    return [line for line in found if str(place) in line]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_start_leaves_nothing_behind(place: Path, number: int) -> None:
    starting = subprocess.Popen([*BARNABAS, "up", "-n", "3", "--dir", str(place)], stderr=subprocess.PIPE)
    until((place / "coordinator.log").exists, "the coordinator's log")
    starting.send_signal(number)
    starting.communicate(timeout=60)
    assert starting.returncode == 130
    assert processes_of(place) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_start_that_is_interrupted_while_it_waits_for_its_brokers_leaves_nothing_behind(
    place: Path, number: int
) -> None:
    starting = subprocess.Popen([*BARNABAS, "up", "-n", "3", "--dir", str(place)], stderr=subprocess.PIPE)
    log = place / "broker-0" / "broker.log"
    until(lambda: log.exists() and log.read_text(), "every process is begun")
    starting.send_signal(number)
    starting.communicate(timeout=60)
    assert starting.returncode == 130
    assert processes_of(place) == []


def test_of_a_start_that_is_killed_nothing_stays_that_down_does_not_know(place: Path) -> None:
    with subprocess.Popen([*BARNABAS, "up", "-n", "2", "--dir", str(place)], stderr=subprocess.PIPE) as starting:
        until((place / "coordinator.log").exists, "the coordinator's log")
        until(lambda: "listens" in (place / "coordinator.log").read_text(), "the coordinator runs")
        starting.kill()
    run("down", "--dir", str(place))
    until(lambda: processes_of(place) == [], "nothing runs")


def test_a_pid_that_was_given_to_another_process_is_not_ours(place: Path) -> None:
    up(place, "-n", "1")
    run("down", "--kill", "--dir", str(place))
    state = json.loads((place / "cluster.json").read_text())
    state["brokers"][0].update(pid=os.getpid(), began=1)
    (place / "cluster.json").write_text(json.dumps(state))
    assert (
        json.loads(run("status", "--dir", str(place), "--format", "json", expect=1).stdout)["brokers"][0]["running"]
        is False
    )
    assert "nothing was running" in run("down", "--dir", str(place)).stdout


def test_a_port_in_use_is_named(place: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = one_sentence(run("up", "-n", "1", "--base-port", str(port), "--dir", str(place), expect=1))
    assert str(port) in said
    assert "in use" in said


def test_a_bad_configuration_value_stops_the_start_and_says_what_is_allowed(place: Path) -> None:
    said = one_sentence(run("up", "-n", "1", "--config", "num.io.threads=many", "--dir", str(place), expect=2))
    assert "num.io.threads" in said
    assert "whole number" in said


def test_a_file_where_the_directory_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = one_sentence(run("up", "--dir", str(tmp_path / "file"), expect=1))
    assert str(tmp_path / "file") in said


def test_an_unwritable_directory_is_named(tmp_path: Path) -> None:
    unwritable = tmp_path
    if os.geteuid() == 0:
        unwritable = Path("/proc")  # root may write everywhere else
    else:
        tmp_path.chmod(0o500)
    said = one_sentence(run("up", "--dir", str(unwritable / "cluster"), expect=1))
    assert "cannot be written" in said
    assert str(unwritable) in said


def on_a_full_disk(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The kernel takes not a byte into any file of the command's and of those it starts."""

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    return subprocess.run([*BARNABAS, *arguments], capture_output=True, text=True, timeout=60, preexec_fn=fill)


def test_a_start_on_a_full_disk_names_the_file_that_cannot_be_written(place: Path) -> None:
    done = on_a_full_disk("up", "-n", "1", "--dir", str(place))
    assert done.returncode == 1
    assert f"{place}/broker-0/server.properties cannot be written (File too large)" in one_sentence(done)


def test_a_stop_on_a_full_disk_has_stopped_everything_and_exits_zero(place: Path) -> None:
    pids = [up(place, "-n", "1")["brokers"][0]["pid"]]
    done = on_a_full_disk("down", "--dir", str(place))
    assert (done.returncode, done.stdout) == (0, "stopped broker 0, coordinator\n")
    assert f"{place}/cluster.json cannot be written (File too large)" in done.stderr
    assert not any(StartedProcess(pid).alive for pid in pids)
    run("down", "--dir", str(place))


@pytest.mark.parametrize(
    ("command", "server"), [(("topic", "list", "-b"), "broker"), (("zk", "ls", "-z"), "ZooKeeper")]
)
def test_no_server_at_the_address_is_said_in_words(command: tuple[str, ...], server: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        said = one_sentence(run(*command, address, expect=1))
    assert said.startswith(f"barnabas: No {server} answers at {address} (connection refused): ")
    assert "barnabas up" in said


@pytest.mark.parametrize("command", [("topic", "list", "-b"), ("zk", "ls", "-z")], ids=("broker", "zookeeper"))
def test_a_server_that_takes_the_connection_and_is_silent_is_not_waited_for_long(command: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        said = one_sentence(run(*command, address, expect=1))
    assert time.monotonic() - began < 45, "five seconds, and what a busy machine takes"
    assert address in said
    assert re.search("did not answer in time|says nothing", said)


@pytest.mark.parametrize(
    "arguments",
    [
        ["statu"],
        ["up", "-n", "none"],
        ["consume", "-t", "t", "-o", "middle"],
        ["consume", "-t", "t", "-f", "%q"],
        ["produce", "-t", "t", "-X", "linger=1"],
        ["topic", "list", "-b", "nonsense:port"],
        ["config", "describe", "flights"],
        ["broker"],
        ["coordinator", "--port", "x"],
    ],
)
def test_a_wrong_command_line_is_exit_two_and_one_sentence(arguments: list[str]) -> None:
    one_sentence(run(*arguments, expect=2))


def test_a_broker_without_its_file_says_so() -> None:
    said = one_sentence(run("broker", "/does/not/exist.properties", expect=1))
    assert "/does/not/exist.properties" in said


@pytest.mark.parametrize("output", [">&- 2>>log", ">/dev/full 2>>log"])
def test_a_server_needs_nobody_who_hears_that_it_is_ready(output: str, tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    words = f"exec {sys.executable} -m barnabas coordinator --port 0 --dir data {output}"
    with subprocess.Popen(["sh", "-c", words], cwd=tmp_path) as server:
        until(lambda: "the standard output cannot be written" in (tmp_path / "log").read_text(), "it is ready")
        server.terminate()
        assert server.wait(30) == 0, (tmp_path / "log").read_text()


def test_the_servers_start_without_the_command_lines_libraries() -> None:
    for command in (["broker", "/does/not/exist"], ["coordinator", "--port", "x"]):
        program = (
            "import sys\nfrom barnabas.__main__ import main\n"
            f"sys.argv[1:] = {command!r}\n"
            "try:\n    main()\nexcept SystemExit:\n    pass\n"
            "print([name for name in ('typer', 'rich', 'click') if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.stdout.strip() == "[]"
