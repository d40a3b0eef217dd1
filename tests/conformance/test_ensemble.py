"""What docs/ensembles.md shows: a cluster moves from its embedded coordinator to a ZooKeeper ensemble, and lives
through the loss of a server and of the quorum. The commands are those of the page.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache
import pytest
from cluster import until
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

pytestmark = [pytest.mark.long(1), pytest.mark.apache]

PAGE = Path(__file__).parents[2] / "docs" / "ensembles.md"
NAMES = "zk1:2181,zk2:2181,zk3:2181/kafka"
"""The ensemble as the page calls it."""
SESSION_TIMEOUT_S = 6


class Shown:
    """Gives the page's commands, in one directory, against the ensemble that is there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.connect = NAMES
        self.page = PAGE.read_text()

    def run(self, command: str, *, text: str = "", code: int = 0) -> str:
        assert f"\n{command}\n" in self.page, f"docs/ensembles.md does not show `{command}`"
        words = shlex.split(command.partition("#")[0].replace(NAMES, self.connect))
        assert words[0] == "barnabas"
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=self.directory, input=text, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == code, (command, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.directory / ".barnabas" / "cluster.json").read_text())
        return found

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{broker['port']}" for broker in self.state()["brokers"])


class Stream:
    """A producer with acks=all that never stops; which records were acknowledged, and the longest wait between two."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: list[str] = []
        self.failed: list[str] = []
        self.longest_s = 0.0
        self._last = time.monotonic()

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            self._producer.produce("events", f"s{number}", on_delivery=self._delivered)
            self._producer.poll(0.01)
            number += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        now = time.monotonic()
        self.longest_s, self._last = max(self.longest_s, now - self._last), now
        value = message.value()
        assert value is not None
        (self.acknowledged if error is None else self.failed).append(value.decode())

    def goes_on(self, what: str) -> None:
        """A hundred records more are acknowledged."""
        wanted = len(self.acknowledged) + 100
        until(lambda: len(self.acknowledged) >= wanted, f"acknowledgements go on {what}")


def consumed(bootstrap: str, count: int) -> set[str]:
    """Values of topic ``events`` from its beginning, until `count` different ones were seen."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{count}",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(["events"])
    found: set[str] = set()

    def enough() -> bool:
        for message in consumer.consume(500, 0.5):
            value = message.value()
            if message.error() is None and value is not None:
                found.add(value.decode())
        return len(found) >= count

    try:
        until(enough, f"{count} records are there")
    finally:
        consumer.close()
    return found


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    shown = Shown(tmp_path)
    try:
        yield shown
    finally:
        if (tmp_path / ".barnabas").exists():
            subprocess.run([sys.executable, "-m", "barnabas", "down", "--kill"], cwd=tmp_path, check=True)


def epochs(connect: str) -> dict[str, int]:
    """The brokers' registrations: a broker that had to register anew has another one."""
    client = KazooClient(connect, timeout=10)
    client.start(20)
    try:
        stats = {broker: client.exists(f"/brokers/ids/{broker}") for broker in client.get_children("/brokers/ids")}
    finally:
        client.stop()
        client.close()
    return {broker: stat.czxid for broker, stat in stats.items() if stat is not None}


def test_a_cluster_moves_to_an_ensemble_and_outlives_its_losses(shown: Shown, tmp_path: Path) -> None:
    shown.run("barnabas up -n 3")
    shown.run("barnabas topic create events --partitions 6 --replication-factor 3")
    shown.run("barnabas topic alter events --config retention.ms=864000000")
    before = [f"b{number}" for number in range(1000)]
    shown.run("barnabas produce -t events", text="".join(f"{value}\n" for value in before))

    # the move
    shown.run("barnabas down")
    assert "no-brokers" in shown.run("barnabas zk check    # exit 1: no broker is registered, and nothing else", code=1)
    shown.run("barnabas zk export tree.jsonl")
    with apache.ZooKeeperEnsemble(tmp_path / "ensemble", 3) as ensemble:
        shown.connect = ensemble.connect + "/kafka"
        move = f"barnabas up --zookeeper {NAMES}"
        assert "has no cluster" in shown.run(f"{move}    # refused before the import", code=1)
        shown.run(f"barnabas zk import tree.jsonl --zookeeper {NAMES}")
        shown.run(move)
        assert shown.state()["coordinator"] is None
        assert "nothing is wrong" in shown.run("barnabas zk check")
        assert consumed(shown.bootstrap, len(before)) == set(before)
        assert "864000000" in shown.run("barnabas topic describe events")

        registered = epochs(shown.connect)
        assert len(registered) == 3
        with Stream(shown.bootstrap) as stream:
            stream.goes_on("on the ensemble")

            # one server lost and regained: the leader, which is the worse one to lose
            leader = next(number for number in ensemble.numbers if ensemble.mode(number) == "leader")
            ensemble.kill(leader)
            stream.goes_on("without one server")
            until(lambda: created(shown.bootstrap, "one-lost"), "a topic is created with two servers")
            ensemble.start([leader])
            one_lost_s = stream.longest_s

            # the quorum lost for longer than a session lasts, and regained
            followers = [number for number in ensemble.numbers if ensemble.mode(number) != "leader"]
            for number in followers:
                ensemble.kill(number)
            begun = time.monotonic()
            while time.monotonic() - begun < SESSION_TIMEOUT_S + 2:
                stream.goes_on("without a quorum")
            assert not created(shown.bootstrap, "no-quorum")
            assert "No ZooKeeper answers" in shown.run("barnabas zk ls /brokers/ids", code=1)
            ensemble.start(followers)
            until(lambda: created(shown.bootstrap, "quorum-again"), "a topic is created when the quorum is back")
            stream.goes_on("when the quorum is back")
        assert stream.failed == []
        assert one_lost_s < SESSION_TIMEOUT_S
        assert stream.longest_s < SESSION_TIMEOUT_S, "producers notice nothing"

        assert epochs(shown.connect) == registered, "no session was lost"
        assert "nothing is wrong" in shown.run("barnabas zk check")
        wanted = set(before) | set(stream.acknowledged)
        assert consumed(shown.bootstrap, len(wanted)) == wanted
        shown.run("barnabas down")


def created(bootstrap: str, topic: str) -> bool:
    """Whether a topic can be created within three seconds."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        admin.create_topics([NewTopic(topic, 1, 3)], request_timeout=3)[topic].result()
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
    return True
