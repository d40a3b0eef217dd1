"""The commands of docs/mixed.md, executed as they stand there, while a producer and a group work.

``ROLLED=0,1,2`` rolls these of three brokers, and lets others join and leave (`make roll`); without it there
are two, of which the Kafka broker is rolled and the other one is ours all the time. `make roll` does the same on a
secured cluster, whose files are the page's own.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from apache import ServerTls, ZooKeeperEnsemble, quick_start, tool, zookeeper
from certificates import Authority
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from processes import REPOSITORY, eventually, read
from trees import comparable, exported

from barnabas.bench.apache import classpath, free_port, java

pytestmark = [pytest.mark.long(0), pytest.mark.apache]

ROLLED = [int(each) for each in os.environ.get("ROLLED", "0").split(",")]
WHOLE = "ROLLED" in os.environ
BROKERS = 3 if WHOLE else 2
PARTITIONS = 6
STANDS_STILL_S = 20
"""A member that is given nothing for so long has another one in its place. librdkafka 2.16.0 may wait for ever for a
coordinator that it has forgotten (its issue 5511): all its requests are answered, and another member is served."""
BLOCK = re.compile(r"<!-- executed: ([^\n]+) -->\n```bash\n(.*?)```\n", re.S)
FILE = re.compile(r"<!-- executed: (\S+) file -->\n```properties\n(.*?)```\n", re.S)
PAGE = REPOSITORY / "docs" / "mixed.md"
KEPT = 'barnabas zk export {}.jsonl -z "$ZK"\n'
"""The tree as it is, beside what the page does."""


def script(kind_of_cluster):
    """The page's commands: what is done once, and what is done for each broker."""
    parts = ["set -eu -o pipefail"]
    for kind, commands in BLOCK.findall(PAGE.read_text()):
        if kind in ("to Barnabas", "back"):
            assert commands.count("N=0\n") == 1
            rolled = [commands.replace("N=0\n", f"N={broker}\n") for broker in ROLLED]
            parts += [KEPT.format("before"), *rolled] if kind == "to Barnabas" else [*rolled, KEPT.format("after")]
        elif kind in ("once", kind_of_cluster) and (WHOLE or not ("broker-3" in commands or "broker-7" in commands)):
            parts.append(commands)
    return "\n".join(parts)


class Open:
    """The cluster that is rolled: where its brokers are, what their files say, and as whom clients come."""

    kind = "open"
    login: ClassVar[dict[str, str]] = {}
    admin: ClassVar[dict[str, str]] = {}

    def __init__(self, directory):
        self.directory = directory
        self.ports = {number: free_port() for number in (*range(4), 7)}
        self.bootstrap = ",".join(f"127.0.0.1:{self.ports[number]}" for number in range(BROKERS))

    @contextmanager
    def coordinated(self):
        """Where its ZooKeeper is, in ``zookeeper.connect``'s words."""
        with zookeeper(self.directory / "zookeeper") as address:
            self.zookeeper = f"{address}/kafka"
            self.write_files()
            yield

    def write_files(self):
        for number, port in self.ports.items():
            place = self.directory / f"broker-{number}"
            place.mkdir()
            (place / "server.properties").write_text(
                f"broker.id={number}\nlog.dirs={place}/data\nzookeeper.session.timeout.ms=10000\n"
                "zookeeper.connection.timeout.ms=60000\n"
                f"inter.broker.protocol.version={os.environ.get('ROLL_PROTOCOL', '3.9')}\n"
                f"offsets.topic.num.partitions=3\noffsets.topic.replication.factor={BROKERS}\n"
                f"group.initial.rebalance.delay.ms=0\n{self.reached(port)}"
            )

    def reached(self, port):
        return f"listeners=PLAINTEXT://127.0.0.1:{port}\nzookeeper.connect={self.zookeeper}\n"

    def begin(self):
        """What there is before the roll, beside the topic."""

    def end(self):
        """What has to be true after it."""


class Secured(Open):
    """By the page's own files: TLS, users and ACLs in ZooKeeper, whose port takes certificates."""

    kind = "secured"

    def __init__(self, directory):
        super().__init__(directory)
        self.files = dict(FILE.findall(PAGE.read_text()))
        self.authority = Authority(directory / "authority")
        self.authority.issue("broker").key_store.rename(directory / "authority" / "broker.pem")
        trusted = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self.authority.trust_store)}
        scram = {**trusted, "sasl.mechanism": "SCRAM-SHA-512"}
        self.login = {**scram, "sasl.username": "clerk", "sasl.password": "of the clerk"}
        self.admin = {**scram, "sasl.username": "admin", "sasl.password": "of the admin"}

    @contextmanager
    def coordinated(self):
        store = self.directory / "authority" / "broker.pem"
        with ZooKeeperEnsemble(
            self.directory / "zookeeper", tls=ServerTls(store, self.authority.trust_store)
        ) as servers:
            self.zookeeper = f"{servers.secure_connect}/kafka"
            self.write_files()
            (self.directory / "admin.properties").write_text(self.here(self.files["admin's"]))
            self.make_users()
            yield

    def here(self, text):
        """The page's words with what its places are called here."""
        return text.replace("/etc/kafka/", f"{self.directory}/authority/")

    def reached(self, port):
        text = self.here(self.files["broker's"])
        assert text.count("kafka0:9092") == text.count("zk1:2182/kafka") == 1
        return text.replace("kafka0:9092", f"127.0.0.1:{port}").replace("zk1:2182/kafka", self.zookeeper)

    def zk(self, *words, at=None):
        """What ``barnabas zk`` says to who has a broker's file."""
        reach = ("-z", at or self.zookeeper, "--zk-tls-config-file", f"{self.directory}/broker-0/server.properties")
        command = [sys.executable, "-m", "barnabas", "zk", *words, *reach]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout

    def make_users(self):
        """As the operator of a Kafka cluster has made them: by Kafka's own tool, before there is a broker."""
        eventually(
            lambda: self.zk("create", "/kafka", at=self.zookeeper.partition("/")[0]),
            what="ZooKeeper takes a certificate",
        )
        file = f"{self.directory}/broker-0/server.properties"
        for user, password in {"broker": "between brokers", "admin": "of the admin", "clerk": "of the clerk"}.items():
            words = ("--zookeeper", self.zookeeper, "--zk-tls-config-file", file, "--alter", "--entity-type", "users")
            credential = f"SCRAM-SHA-512=[password={password}]"
            done = tool("kafka-configs", *words, "--entity-name", user, "--add-config", credential)
            assert done.returncode == 0, done.stdout + done.stderr

    def begin(self):
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, **self.admin})
        may = {
            (ResourceType.TOPIC, "orders"): (AclOperation.READ, AclOperation.WRITE),
            (ResourceType.GROUP, "readers"): (AclOperation.READ,),
        }
        bindings = [
            AclBinding(*what, ResourcePatternType.LITERAL, "User:clerk", "*", operation, AclPermissionType.ALLOW)
            for what, operations in may.items()
            for operation in operations
        ]
        for made in admin.create_acls(bindings).values():
            made.result(30)
        self.end()

    def end(self):
        """Every znode is the brokers' alone, whichever kind has made it, and nobody else reads passwords."""
        lines = [json.loads(line) for line in self.zk("export", "-").splitlines()]
        acls = {line["path"]: line.get("acl", ["world:anyone:cdrwa"]) for line in lines if "path" in line}
        for open_to_all in ("/", "/consumers"):
            del acls[open_to_all]
        allowed = {tuple(acl.rpartition(":")[::2]) for each in acls.values() for acl in each}
        assert allowed == {("x509:O=barnabas,CN=broker", "cdrwa"), ("world:anyone", "r")}
        assert [path for path in acls if path.startswith("/config/users/") and len(acls[path]) > 1] == []


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


def _partitions(client):
    return list(client.list_topics("orders", timeout=60).topics["orders"].partitions)


class Load:
    """An idempotent producer of numbers, and a group that reads them. `login` says as whom."""

    def __init__(self, bootstrap, login=None):
        self.client = {"bootstrap.servers": bootstrap, "log_level": 0, **(login or {})}
        self.told, self.errors, self.seen, self.complaints = [], [], [], []
        self.over = threading.Event()

    def _delivered(self, error, message):
        (self.errors if error else self.told).append(error or int(message.value()))

    def produce(self):
        producer = Producer({**self.client, "enable.idempotence": True, "acks": "all"})
        # Each partition's first batch by itself: Kafka takes any sequence of a producer that it does not know. Where
        # the first batch meets no leader yet and the second one does, librdkafka takes the first for acknowledged.
        partitions = _partitions(producer)
        for number in partitions:
            producer.produce("orders", b"%d" % number, partition=number, on_delivery=self._delivered)
        assert producer.flush(120) == 0
        number = len(partitions)
        while not self.over.wait(0.02):
            for _ in range(5):
                producer.produce("orders", b"%d" % number, key=b"%d" % number, on_delivery=self._delivered)
                number += 1
            producer.poll(0)
        assert producer.flush(120) == 0

    def _member(self):
        consumer = Consumer({**self.client, "group.id": "readers", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        return consumer

    def consume(self):
        consumer, last = self._member(), time.monotonic()
        stand_still = []

        def all_seen():
            nonlocal consumer, last
            given = [int(message.value()) for message in read(consumer, self.complaints)]
            self.seen += given
            is_all = set(self.told) <= set(self.seen)
            if given or is_all:
                last = time.monotonic()
            elif time.monotonic() > last + STANDS_STILL_S:
                stand_still.append(consumer)  # it is not closed: that could wait for the same
                consumer, last = self._member(), time.monotonic()
            return is_all and len(self.told) > 0

        while not self.over.is_set():
            all_seen()
        try:
            eventually(all_seen, within=120, what=f"all of {len(self.told)} are seen by the group ({len(self.seen)})")
        except AssertionError as error:
            partitions = [TopicPartition("orders", number) for number in _partitions(consumer)]
            error.add_note(
                f"missing: {sorted({*self.told} - {*self.seen})}, complaints {self.complaints[-20:]}, assigned "
                f"{consumer.assignment()}, read up to {consumer.position(partitions)}, committed "
                f"{consumer.committed(partitions, 10)}, from and to "
                f"{[consumer.get_watermark_offsets(each, 10) for each in partitions]}; {len(stand_still)} stood still"
            )
            raise
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


@pytest.mark.parametrize("made", [Open, Secured] if WHOLE else [Open])
def test_kafkas_brokers_are_rolled_to_barnabas_and_back_by_the_pages_own_commands(tmp_path, made):
    cluster = made(tmp_path)
    with cluster.coordinated():
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("BARNABAS_")},
            "ZK": cluster.zookeeper,
            "BOOTSTRAP": cluster.bootstrap,
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
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **cluster.admin})
            eventually(lambda: len(admin.list_topics(timeout=5).brokers) == BROKERS, within=120, what="all are there")
            admin.create_topics([NewTopic("orders", PARTITIONS, BROKERS)])["orders"].result(30)
            cluster.begin()
            load = Load(cluster.bootstrap, cluster.login)
            with under(load), log.open("wb") as out:
                # The group reads, so the topic of its offsets is made: before, the first `whole` finds it half there.
                try:
                    eventually(lambda: load.seen, what="records are taken and read")
                except AssertionError as error:
                    error.add_note(f"{len(load.told)} told, errors {load.errors}, complaints {load.complaints}")
                    raise
                commands = ["bash", "-x", "-c", script(cluster.kind)]
                done = subprocess.run(commands, cwd=tmp_path, env=environment, stdout=out, stderr=out, timeout=1200)
            assert done.returncode == 0, log.read_text()[-4000:]
            assert not load.errors
            # Each acknowledged number once, and by the group each at least once.
            assert sorted(load.told) == list(range(len(load.told)))
            for number in ROLLED:
                assert "starting" in (tmp_path / f"broker-{number}" / "kafka.log").read_text()
            (before, its_acls), (after, acls) = (exported(tmp_path / f"{when}.jsonl") for when in ("before", "after"))
            assert "/brokers/topics/orders/partitions/0/state" in before
            assert (comparable(after), acls) == (comparable(before), its_acls)
            cluster.end()
        finally:
            barnabas = [sys.executable, "-m", "barnabas"]
            subprocess.run([*barnabas, "down", "--kill"], cwd=tmp_path, env=environment, capture_output=True)
            pids = [int(file.read_text()) for file in tmp_path.glob("broker-*/pid")]
            for pid in {*begun, *pids}:
                subprocess.run(["kill", "-9", str(pid)], capture_output=True)
