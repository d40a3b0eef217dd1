"""A cluster of one broker is one process: the coordinator runs inside it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from cluster import barnabas, running, until


def up(directory: Path, *options: str) -> dict[str, Any]:
    done = barnabas("up", "--dir", str(directory), "--format", "json", *options)
    assert done.returncode == 0, done.stderr
    state: dict[str, Any] = json.loads(done.stdout)
    return state


def consumed(bootstrap: str, topic: str) -> list[str]:
    read = barnabas("consume", "-b", bootstrap, "-t", topic, "-o", "beginning", "-e", "-f", "%v\n")
    assert read.returncode == 0, read.stderr
    return sorted(read.stdout.split())


def test_one_broker_and_its_coordinator_are_one_process_that_can_be_killed(tmp_path: Path) -> None:
    with running(tmp_path, 1) as cluster:
        pid = cluster.broker(0)["pid"]
        assert cluster.state["coordinator"] == {"pid": pid}
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        assert command[-3:-1] == [b"--coordinator", str(tmp_path / "coordinator").encode()]
        status = json.loads(barnabas("status", "--dir", str(tmp_path), "--format", "json").stdout)
        assert (status["healthy"], status["coordinator"]) == (True, {"pid": pid, "running": True})
        assert barnabas("zk", "get", "/controller_epoch", "-z", cluster.zookeeper).stdout == "1"

        assert barnabas("topic", "create", "t", "-b", cluster.bootstrap).returncode == 0
        sent = barnabas("produce", "-b", cluster.bootstrap, "-t", "t", text="a\nb\nc\n")
        assert sent.returncode == 0, sent.stderr
        os.kill(pid, signal.SIGKILL)
        until(lambda: not os.path.exists(f"/proc/{pid}/stat"), "the process is gone")
        assert barnabas("status", "--dir", str(tmp_path)).returncode == 1

        cluster.up()
        assert cluster.broker(0)["pid"] == cluster.state["coordinator"]["pid"] != pid
        assert consumed(cluster.bootstrap, "t") == ["a", "b", "c"]
        down = barnabas("down", "--dir", str(tmp_path), "--format", "json")
        assert json.loads(down.stdout) == {"stopped": ["broker 0", "coordinator"]}


def test_a_cluster_of_one_grows_to_three_on_the_same_directory(tmp_path: Path) -> None:
    try:
        state = up(tmp_path, "-n", "1")
        assert barnabas("topic", "create", "t", "-b", state["bootstrap"]).returncode == 0
        assert barnabas("produce", "-b", state["bootstrap"], "-t", "t", text="a\nb\n").returncode == 0
        assert barnabas("up", "-n", "3", "--dir", str(tmp_path)).returncode == 1
        assert barnabas("down", "--dir", str(tmp_path)).returncode == 0

        state = up(tmp_path, "-n", "3")
        pids = {state["coordinator"]["pid"], *(broker["pid"] for broker in state["brokers"])}
        assert len(pids) == 4
        assert consumed(state["bootstrap"], "t") == ["a", "b"]
        wide = barnabas("topic", "create", "wide", "-r", "3", "-b", state["bootstrap"])
        assert wide.returncode == 0, wide.stderr
        assert barnabas("down", "--dir", str(tmp_path)).returncode == 0
        shrunk = barnabas("up", "-n", "1", "--dir", str(tmp_path))
        assert shrunk.returncode == 1
        assert "has 3 brokers, not 1" in shrunk.stderr
    finally:
        barnabas("down", "--kill", "--dir", str(tmp_path))


def test_ports_of_a_growing_cluster_stay_in_their_row(tmp_path: Path) -> None:
    from barnabas.cli.local import LocalCluster

    local = LocalCluster(str(tmp_path))
    state = local._new_state(1, 30_000, None)
    local._check_unchanged(state, 3, None, None)
    assert [broker.port for broker in state.brokers] == [30_000, 30_001, 30_002]
    assert state.coordinator is not None
    assert state.coordinator.port == 30_003


def test_a_coordinator_inside_a_broker_is_the_only_server(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"broker.id=0\nzookeeper.connect=a:1,b:2\nlog.dirs={tmp_path}/data\n")
    started = barnabas("broker", str(file), "--coordinator", str(tmp_path / "coordinator"))
    assert started.returncode == 1
    assert "names 2 servers" in started.stderr
