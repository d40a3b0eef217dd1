"""The commands of docs/mixed.md, executed as they stand there, while a producer and a group work.

``ROLLED=0,1,2`` rolls these of three brokers, and lets others join and leave (`make roll`); without it there
are two, of which the Kafka broker is rolled and the other one is ours all the time.
"""

import os
import re
import shlex
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from apache import quick_start, zookeeper
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from processes import REPOSITORY, eventually, read

from barnabas.bench.apache import classpath, free_port, java

pytestmark = pytest.mark.apache

ROLLED = [int(each) for each in os.environ.get("ROLLED", "0").split(",")]
WHOLE = "ROLLED" in os.environ
BROKERS = 3 if WHOLE else 2
PARTITIONS = 6
BLOCK = re.compile(r"<!-- executed: (.*?) -->\n```bash\n(.*?)```\n", re.S)


def script():
    """The page's commands: what is done once, and what is done for each broker."""
    parts = ["set -eu -o pipefail"]
    for kind, commands in BLOCK.findall((REPOSITORY / "docs" / "mixed.md").read_text()):
        if kind != "once":
            assert commands.count("N=0\n") == 1
            parts += [commands.replace("N=0\n", f"N={broker}\n") for broker in ROLLED]
        elif WHOLE or not ("broker-3" in commands or "broker-7" in commands):
            parts.append(commands)
    return "\n".join(parts)


def brokers_files(directory, address):
    numbers = [*range(4), 7]
    ports = [free_port() for _ in numbers]
    for number, port in zip(numbers, ports, strict=True):
        place = directory / f"broker-{number}"
        place.mkdir()
        (place / "server.properties").write_text(
            f"broker.id={number}\nlisteners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={place}/data\n"
            f"zookeeper.connect={address}/kafka\nzookeeper.session.timeout.ms=10000\n"
            f"inter.broker.protocol.version={os.environ.get('ROLL_PROTOCOL', '3.9')}\n"
            f"offsets.topic.num.partitions=3\noffsets.topic.replication.factor={BROKERS}\n"
            "group.initial.rebalance.delay.ms=0\n"
        )
    return ",".join(f"127.0.0.1:{port}" for port in ports[:BROKERS])


def kafka_server_start(directory):
    """As Kafka's own: the broker's process, in the foreground."""
    (directory / "log4j.properties").write_text(
        "log4j.rootLogger=INFO, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
    )
    command = [
        java(),
        "-Xmx512m",
        *quick_start(),
        f"-Dlog4j.configuration=file:{directory}/log4j.properties",
        "-cp",
        classpath(),
    ]
    (directory / "bin").mkdir()
    start = directory / "bin" / "kafka-server-start"
    start.write_text(f'#!/bin/bash\nexec {shlex.join(command)} kafka.Kafka "$@"\n')
    start.chmod(0o755)
    return f"{directory}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"


class Load:
    """An idempotent producer of numbers, and a group that reads them."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.told, self.errors, self.seen, self.complaints = [], [], [], []
        self.over = threading.Event()

    def _delivered(self, error, message):
        (self.errors if error else self.told).append(error or int(message.value()))

    def produce(self):
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "acks": "all", "log_level": 0}
        )
        number = 0
        while not self.over.wait(0.02):
            for _ in range(5):
                producer.produce("orders", b"%d" % number, key=b"%d" % number, on_delivery=self._delivered)
                number += 1
            producer.poll(0)
        assert producer.flush(120) == 0

    def consume(self):
        config = {"group.id": "readers", "auto.offset.reset": "earliest", "log_level": 0}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **config})
        consumer.subscribe(["orders"])
        while not self.over.is_set():
            self.seen += [int(each.value()) for each in read(consumer, self.complaints)]

        def all_seen():
            self.seen.extend(int(each.value()) for each in read(consumer, self.complaints))
            return set(self.told) <= set(self.seen) and len(self.told) > 0

        eventually(all_seen, within=120, what=f"all of {len(self.told)} are seen by the group ({len(self.seen)})")
        consumer.close()


@contextmanager
def under(load):
    failures = []

    def run(story):
        try:
            story()
        except BaseException as error:
            failures.append(error)

    produces = threading.Thread(target=run, args=(load.produce,))
    consumes = threading.Thread(target=run, args=(load.consume,))
    produces.start()
    consumes.start()
    try:
        yield
    finally:
        load.over.set()
        produces.join()
        consumes.join()
    assert not failures


def test_kafkas_brokers_are_rolled_to_barnabas_and_back_by_the_pages_own_commands(tmp_path):
    with zookeeper(tmp_path / "zookeeper") as address:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("BARNABAS_")},
            "ZK": f"{address}/kafka",
            "BOOTSTRAP": brokers_files(tmp_path, address),
            "PATH": kafka_server_start(tmp_path),
        }
        log = tmp_path / "session.log"
        begun: list[int] = []
        try:
            for number in range(BROKERS):
                place = tmp_path / f"broker-{number}"
                ours = [sys.executable, "-m", "barnabas", "broker"]
                kafkas = [str(tmp_path / "bin" / "kafka-server-start")]
                command = kafkas if number in ROLLED else ours
                with (place / "first.log").open("wb") as out:
                    broker = subprocess.Popen(
                        [*command, str(place / "server.properties")], stdout=out, stderr=out, env=environment
                    )
                begun.append(broker.pid)
                (place / "pid").write_text(str(broker.pid))
                # Whoever started it has to see it end: else its pid stays, as a zombie.
                threading.Thread(target=broker.wait, daemon=True).start()
            admin = AdminClient({"bootstrap.servers": environment["BOOTSTRAP"], "log_level": 0})
            eventually(lambda: len(admin.list_topics(timeout=5).brokers) == BROKERS, within=120, what="all are there")
            admin.create_topics([NewTopic("orders", PARTITIONS, BROKERS)])["orders"].result(30)
            load = Load(environment["BOOTSTRAP"])
            with under(load), log.open("wb") as out:
                # The group reads, so the topic of its offsets is made: before, the first `whole` finds it half there.
                eventually(lambda: load.seen, what="records are taken and read")
                done = subprocess.run(
                    ["bash", "-x", "-c", script()], cwd=tmp_path, env=environment, stdout=out, stderr=out, timeout=1200,
                )  # fmt: skip
            assert done.returncode == 0, log.read_text()[-4000:]
            assert not load.errors
            # Each acknowledged number once, and by the group each at least once.
            assert sorted(load.told) == list(range(len(load.told)))
            for number in ROLLED:
                assert "starting" in (tmp_path / f"broker-{number}" / "kafka.log").read_text()
        finally:
            barnabas = [sys.executable, "-m", "barnabas"]
            subprocess.run([*barnabas, "down", "--kill"], cwd=tmp_path, env=environment, capture_output=True)
            pids = [int(file.read_text()) for file in tmp_path.glob("broker-*/pid")]
            for pid in {*begun, *pids}:
                subprocess.run(["kill", "-9", str(pid)], capture_output=True)
