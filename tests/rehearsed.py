"""Drawn clusters and faults: what `barnabas rehearse` says will happen, and then what happens to real brokers."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apache import ApacheCluster
from processes import Cluster, eventually

from barnabas.cli.app import run
from barnabas.runtime.real import real_runtime
from barnabas.sim.rehearsal.cluster import rehearse
from barnabas.sim.rehearsal.steps import parse_steps
from barnabas.sim.rehearsal.tree import ClusterTree, Snapshot, cluster_tree, read_cluster_tree
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.inspection.image import ReadZNode, read_tree

BROKERS = int(os.environ.get("REHEARSED_BROKERS", "3"))
CONFIG = {
    "zookeeper.session.timeout.ms": "10000",
    "zookeeper.connection.timeout.ms": "60000",
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.retry.backoff.ms": "500",
    "delete.topic.enable": "true",
}


def rack(broker: int) -> str:
    return "abc"[(broker + 1) // 2]


class Kafkas(ApacheCluster):
    """Apache Kafka's brokers, on ZooKeeper, in racks."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, BROKERS, config=CONFIG)

    def launch(self, broker: int) -> None:
        self._config = {**self._config, "broker.rack": rack(broker)}
        super().launch(broker)


class Ours(Cluster):
    """Our brokers, on the embedded coordinator, in racks."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, BROKERS, config=CONFIG)
        for broker in range(BROKERS):
            with (directory / f"broker-{broker}.properties").open("a") as file:
                file.write(f"broker.rack={rack(broker)}\n")

    @property
    def zookeeper(self) -> str:
        return f"127.0.0.1:{self.zookeeper_port}"

    def kill(self, broker: int) -> None:
        self.brokers[broker].kill()

    def stop(self, broker: int | None = None) -> None:
        """One broker by SIGTERM; without one, everything."""
        if broker is None:
            super().stop()
        else:
            self.brokers[broker].stop()

    def start(self, broker: int | None = None) -> None:
        if broker is None:
            super().start()
        else:
            self.start_broker(broker)


def drawn(seed: int, directory: Path) -> tuple[list[list[str]], list[str]]:
    """Commands that make topics, and the words of one to three steps; the plans of reassignments are in `directory`."""
    draw = random.Random(f"rehearsal {seed}")
    brokers = list(range(BROKERS))
    commands, partitions = [], []
    for number in range(draw.randint(2, 4)):
        topic = f"drawn-{seed}-{number}"
        factor = draw.randint(1, min(3, BROKERS))
        lists = [draw.sample(brokers, factor) for _ in range(draw.randint(1, 4))]
        partitions += [(topic, index, replicas) for index, replicas in enumerate(lists)]
        assignment = ",".join(":".join(map(str, replicas)) for replicas in lists)
        min_isr, unclean = draw.randint(1, 2), draw.choice(["true", "false", "false"])
        commands.append(
            [
                *("topic", "create", topic, "--replica-assignment", assignment),
                *("-c", f"min.insync.replicas={min_isr}"),
                *("-c", f"unclean.leader.election.enable={unclean}"),
            ]
        )
    words: list[str] = []
    alive = set(brokers)
    for number in range(draw.randint(1, 3)):
        dead = sorted(set(brokers) - alive)
        kinds = (
            ["failover", "elect", "reassign"]
            + ["start"] * 3 * bool(dead)
            + ["kill", "drain", "drain"] * (len(alive) > 1)
        )
        kind = draw.choice(kinds)
        words.append(kind)
        if kind in ("kill", "drain"):
            gone = draw.choice(sorted(alive))
            alive.remove(gone)
            words.append(str(gone))
        elif kind == "start":
            back = draw.choice(dead)
            alive.add(back)
            words.append(str(back))
        elif kind == "reassign":
            plan = directory / f"plan-{seed}-{number}.json"
            moves = [
                {
                    "topic": topic,
                    "partition": index,
                    "replicas": draw.sample(sorted(alive), draw.randint(1, len(alive))),
                }
                for topic, index, _ in draw.sample(partitions, draw.randint(1, len(partitions)))
            ]
            plan.write_text(json.dumps({"version": 1, "partitions": moves}))
            words.append(str(plan))
    if draw.random() < 0.25 and {rack(broker) for broker in alive} == {"a", "b"}:
        words += ["rack", draw.choice("ab")]
    return commands, words


async def _with_zookeeper(address: str, story: Any) -> Any:
    client = ZooKeeperClient(real_runtime(), address, session_timeout_ms=30_000, connection_timeout_ms=30_000)
    await client.start()
    try:
        return await story(client)
    finally:
        await client.close()


def tree_of(live: Any) -> ClusterTree:
    return cluster_tree("live", asyncio.run(_with_zookeeper(live.zookeeper, read_cluster_tree)))


def whole_tree(live: Any) -> dict[str, ReadZNode]:
    """Every znode, with Stat and ACLs."""

    async def story(client: ZooKeeperClient) -> dict[str, ReadZNode]:
        found: dict[str, ReadZNode] = {}
        await read_tree(
            client,
            "/",
            lambda batch: found.update((each.path, each) for each in batch),
            with_acls=True,
            hidden=("/zookeeper",),
        )
        return found

    return asyncio.run(_with_zookeeper(live.zookeeper, story))  # type: ignore[no-any-return]


def happen(live: Any, words: list[str], tree: ClusterTree) -> None:
    """One step, done to the living cluster."""
    kind, rest = words[0], words[1:]
    at = ["-b", live.bootstrap]
    if kind == "kill":
        live.kill(int(rest[0]))
    elif kind == "drain":
        live.stop(int(rest[0]))
    elif kind == "start":
        live.start(int(rest[0]))
    elif kind == "rack":
        for broker in tree.racks[rest[0]]:
            live.kill(broker)
    elif kind == "failover":
        assert run(["zk", "delete", "/controller", "-z", live.zookeeper]) == 0
    elif kind == "elect":
        run(["partition", "elect", *at])  # fails where a preferred replica is dead, which the forecast knows as well
    else:
        assert run(["reassign", "start", "--file", rest[0], *at]) == 0


def comparable(state: Snapshot, may_differ: bool) -> dict[str, Any]:
    """Leader, ISR and replicas of each partition; offline ones after a rack's loss without their ISR, whose last member
    is the one whose session ended last."""
    return {
        str(each): (
            partition.leader,
            None if may_differ and partition.leader == -1 else sorted(partition.isr),
            partition.replicas,
        )
        for each, partition in state.partitions.items()
    } | {"brokers": list(state.brokers)}


def split(words: list[str]) -> list[list[str]]:
    """Each step's own words."""
    steps: list[list[str]] = []
    left = list(words)
    while left:
        kind = left.pop(0)
        steps.append([kind] if kind in ("failover", "elect") else [kind, left.pop(0)])
    return steps


def are_foreseen(live: Any, seeds: Sequence[int], directory: Path) -> None:
    """One drawn cluster after the other; between them every broker is started, and the topics go."""
    for number, seed in enumerate(seeds):
        if number:
            _heal(live)
        print(f"seed {seed}: {is_foreseen(live, seed, directory)}", flush=True)


def is_foreseen(live: Any, seed: int, directory: Path) -> str:
    """Draws, rehearses, does it, and compares after each step. Returns the steps."""
    commands, words = drawn(seed, directory)
    for command in commands:
        assert run([*command, "-b", live.bootstrap]) == 0
    wanted = sum(command[4].count(",") + 1 for command in commands)

    def is_whole() -> bool:
        states = tree_of(live).state.partitions.values()
        return len(states) == wanted and all(len(each.isr) == len(each.replicas) for each in states)

    eventually(is_whole, what="every topic is in sync")
    before = whole_tree(live)
    tree = tree_of(live)
    now, *forecasts = rehearse(tree, parse_steps(words, tree, lambda name: Path(name).read_text()))
    assert whole_tree(live) == before, "a rehearsal wrote to the living tree"
    assert list(now.changes()) == []
    for step, forecast in zip(split(words), forecasts, strict=True):
        happen(live, step, tree)
        foreseen = comparable(forecast.after, step[0] == "rack")

        def found(step: list[str] = step) -> dict[str, Any]:
            return comparable(tree_of(live).state, step[0] == "rack")

        def is_so(foreseen: dict[str, Any] = foreseen, found: Any = found) -> bool:
            seen = found()
            assert seen == foreseen, {
                key: (seen.get(key), foreseen[key]) for key in foreseen if seen.get(key) != foreseen[key]
            }
            return True

        eventually(is_so, within=90, what=f"seed {seed}, {' '.join(step)} of {' '.join(words)}: (found, foreseen)")
        for _ in range(5):
            assert is_so(), "and it stays so"
    return " ".join(Path(word).name for word in words)


def _heal(live: Any) -> None:
    """Every broker runs, and there are no topics."""
    for broker in set(range(BROKERS)) - set(tree_of(live).state.brokers):
        live.start(broker)
    eventually(lambda: len(tree_of(live).state.brokers) == BROKERS, what="all brokers are back")
    topics = sorted({each.topic for each in tree_of(live).state.partitions})
    assert run(["topic", "delete", *topics, "-b", live.bootstrap]) == 0
    eventually(lambda: not tree_of(live).state.partitions, within=90, what="the topics are gone")
