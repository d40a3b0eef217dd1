"""``barnabas reassign`` on three real brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster, barnabas, running, until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("reassign"), 3) as started:
        yield started


def made(cluster: Cluster, topic: str) -> str:
    done = barnabas("topic", "create", topic, "-b", cluster.bootstrap, "--replica-assignment", "0:1,1:2")
    assert done.returncode == 0, done.stderr
    return topic


def replicas(cluster: Cluster, topic: str) -> list[list[int]]:
    listed = barnabas("partition", "list", topic, "-b", cluster.bootstrap, "--format", "json")
    return [each["replicas"] for each in json.loads(listed.stdout)]


def test_partitions_move_and_move_back(cluster: Cluster, tmp_path: Path) -> None:
    topic = made(cluster, "there")
    moved = barnabas(
        "reassign", "start", f"{topic}-0=2,1", f"{topic}-1=0,1,2", "--wait", "-b", cluster.bootstrap, "--format", "json"
    )
    assert moved.returncode == 0, moved.stderr
    until(lambda: replicas(cluster, topic) == [[2, 1], [0, 1, 2]], "any broker tells the new replicas")
    back = tmp_path / "back.json"
    back.write_text(json.dumps(json.loads(moved.stdout)["before"]))
    returned = barnabas("reassign", "start", "--file", str(back), "--wait", "-b", cluster.bootstrap)
    assert returned.stdout.splitlines() == [f"moved {topic}-0", f"moved {topic}-1"]
    until(lambda: replicas(cluster, topic) == [[0, 1], [1, 2]], "any broker tells the old replicas")
    assert barnabas("reassign", "list", "-b", cluster.bootstrap).stdout == "no partition is being moved\n"


def test_a_plan_spreads_over_the_brokers_that_are_named(cluster: Cluster, tmp_path: Path) -> None:
    topic = made(cluster, "spread")
    planned = barnabas("reassign", "plan", topic, "--brokers", "0,2", "-b", cluster.bootstrap)
    assert planned.returncode == 0, planned.stderr
    file = tmp_path / "plan.json"
    file.write_text(planned.stdout)
    assert barnabas("reassign", "start", "--file", str(file), "--wait", "-b", cluster.bootstrap).returncode == 0
    until(lambda: all(sorted(each) == [0, 2] for each in replicas(cluster, topic)), "those two have the replicas")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["start"], 2, "Nothing to move"),
        (["start", "flights=1"], 2, "use TOPIC-N=0,1,2"),
        (["start", "flights-0=one"], 2, "barnabas: 'flights-0=one' is not a move: use TOPIC-N=0,1,2"),
        (["start", "flights-0=1", "flights-0=2"], 2, "flights-0 is named twice"),
        (["start", "--file", "/nowhere.json"], 2, "cannot be read"),
        (["start", "nobody-0=1"], 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (["start", "spread-0=7"], 1, "INVALID_REPLICA_ASSIGNMENT"),
        (["plan", "spread", "--brokers", "9"], 1, "There is no broker 9"),
        (["cancel", "spread-0"], 1, "NO_REASSIGNMENT_IN_PROGRESS"),
        (["cancel"], 2, "--all"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(cluster: Cluster, words: list[str], code: int, said: str) -> None:
    if "spread" in " ".join(words) and "spread" not in barnabas("topic", "list", "-b", cluster.bootstrap).stdout:
        made(cluster, "spread")
    done = barnabas("reassign", *words, "-b", cluster.bootstrap)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_there_is_nothing_to_cancel_in_a_cluster_at_rest(cluster: Cluster) -> None:
    done = barnabas("reassign", "cancel", "--all", "-b", cluster.bootstrap)
    assert (done.returncode, done.stdout) == (0, "no partition is being moved\n")
