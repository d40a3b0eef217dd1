"""The commands of docs/migration.md, executed as they stand there, while a producer and a group work.

Three brokers of ours on a real ZooKeeper go over to a KRaft controller of Apache Kafka's; through it topics are made,
changed, moved and deleted, and a broker is killed; a broker becomes Kafka's and comes back; then all is rolled back,
and the trees are compared. With ``MIGRATED`` (`make migration`) they go again, and to the end; and a migration is
called off in the middle.
"""

import json
import os
import subprocess
import time
from contextlib import contextmanager

import pytest
from apache import zookeeper
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from kazoo.client import KazooClient
from processes import REPOSITORY, eventually
from test_roll import BLOCK, Load, kafka_server_start, under
from trees import comparable

from barnabas.bench.apache import classpath, free_port, java

pytestmark = [pytest.mark.long(0), pytest.mark.apache, pytest.mark.timeout(1800)]

WHOLE = "MIGRATED" in os.environ
BROKERS = (0, 1, 2)
KRAFT = 3000


def blocks():
    found = {}
    for kind, commands in BLOCK.findall((REPOSITORY / "docs" / "migration.md").read_text()):
        found[kind] = found.get(kind, "") + commands
    return found


class Session:
    """A shell that executes the page's commands. What it starts in the background is its own to see end."""

    def __init__(self, directory, environment):
        self.directory = directory
        self.log = directory / "session.log"
        self.blocks = blocks()
        self.used = set()
        with self.log.open("wb") as out:
            self.shell = subprocess.Popen(
                ["bash", "-x"], cwd=directory, env=environment, stdin=subprocess.PIPE, stdout=out, stderr=out, text=True
            )
        self.run_commands("set -eu -o pipefail\n")

    def run_commands(self, commands, *, within=400):
        marker = self.directory / "executed"
        assert self.shell.stdin is not None
        self.shell.stdin.write(f"{commands}\ntouch executed\n")
        self.shell.stdin.flush()
        deadline = time.monotonic() + within
        while not marker.exists():
            in_time = self.shell.poll() is None and time.monotonic() < deadline
            assert in_time, f"{commands}: {self.log.read_text()[-4000:]}"
            time.sleep(0.1)
        marker.unlink()

    def run(self, kind, broker=None):
        self.used.add(kind)
        commands = self.blocks[kind]
        if broker is not None:
            assert commands.count("N=0\n") == 1
            commands = commands.replace("N=0\n", f"N={broker}\n")
        self.run_commands(commands)

    def end(self):
        for file in self.directory.glob("*/pid"):
            subprocess.run(["kill", "-9", file.read_text().strip()], capture_output=True)
        self.shell.kill()
        self.shell.wait()


def write_files(directory, address):
    ports = {number: free_port() for number in BROKERS}
    for number, port in ports.items():
        place = directory / f"broker-{number}"
        place.mkdir()
        (place / "server.properties").write_text(
            f"broker.id={number}\nlisteners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={place}/data\n"
            f"zookeeper.connect={address}/kafka\nzookeeper.session.timeout.ms=10000\n"
            "inter.broker.protocol.version=3.9\noffsets.topic.num.partitions=3\n"
            "offsets.topic.replication.factor=3\ngroup.initial.rebalance.delay.ms=0\n"
            "transaction.state.log.num.partitions=3\n"
        )
    return ",".join(f"127.0.0.1:{port}" for port in ports.values())


def kafka_storage(directory):
    """As Kafka's own, from its jars."""
    script = directory / "bin" / "kafka-storage"
    log4j = f"-Dlog4j.configuration=file:{directory}/log4j.properties"
    script.write_text(
        f"#!/bin/bash\nexec '{java()}' -Xmx256m {log4j} -cp '{classpath()}' kafka.tools.StorageTool \"$@\"\n"
    )
    script.chmod(0o755)


@contextmanager
def migrating(directory):
    with zookeeper(directory / "zookeeper") as address:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("BARNABAS_")},
            "ZK": f"{address}/kafka",
            "BOOTSTRAP": write_files(directory, address),
            "CONTROLLER": f"127.0.0.1:{free_port()}",
            "PATH": kafka_server_start(directory),
        }
        kafka_storage(directory)
        session = Session(directory, environment)
        try:
            for number in BROKERS:
                place = f"broker-{number}"
                session.run_commands(
                    f"barnabas broker {place}/server.properties > {place}/barnabas.log 2>&1 &\necho $! > {place}/pid"
                )
            yield session, environment["ZK"], environment["BOOTSTRAP"]
        finally:
            session.end()


def tree(address):
    """What every znode holds, by its path below the chroot."""
    host, _, chroot = address.partition("/")
    client = KazooClient(f"{host}/{chroot}")
    client.start()
    found = {}

    def walk(path):
        found[path] = client.get(path)[0] or b""
        for name in client.get_children(path):
            walk(f"{path.rstrip('/')}/{name}")

    try:
        walk("/")
    finally:
        client.stop()
        client.close()
    return found


def leader_epochs(znodes):
    return {path: json.loads(data)["leader_epoch"] for path, data in znodes.items() if path.endswith("/state")}


def of_topic(znodes, topic):
    roots = (f"/brokers/topics/{topic}", f"/config/topics/{topic}")
    return {path for path in znodes if path in roots or path.startswith(tuple(f"{root}/" for root in roots))}


def controller_of(address):
    return json.loads(tree(address)["/controller"])


def create(admin, topic, replicas):
    """Made as soon as the controller's brokers can be asked: one that moves is asked again."""

    def made():
        try:
            admin.create_topics([NewTopic(topic, 2, replicas)])[topic].result(30)
        except KafkaException as error:
            return error.args[0].name() == "TOPIC_ALREADY_EXISTS"
        return True

    eventually(made, within=60, what=f"{topic} is made")


def alter(admin, kind, name, key, value):
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def work_through_the_controller(session, admin, address, bootstrap):
    """What clients and operators ask goes to the KRaft controller, and into ZooKeeper as well."""
    create(admin, "made", 2)
    # The transactions' own topic is made, and its producer's id given, by the KRaft controller.
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "one", "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("kept", b"in a transaction")
    producer.commit_transaction(60)
    alter(admin, ConfigResource.Type.TOPIC, "kept", "retention.ms", "12345678")
    alter(admin, ConfigResource.Type.BROKER, "1", "log.retention.ms", "98765432")
    # The controller would take it, and this broker not keep what it promises.
    with pytest.raises(KafkaException):
        alter(admin, ConfigResource.Type.BROKER, "1", "listener.name.plaintext.sasl.enabled.mechanisms", "PLAIN")
    admin.delete_topics(["doomed"])["doomed"].result(30)
    session.run_commands(
        'barnabas reassign plan made --brokers 1,2 -b "$BOOTSTRAP" > plan.json\n'
        'barnabas reassign start --file plan.json --wait -b "$BOOTSTRAP"\nuntil whole; do sleep 1; done'
    )
    moved = json.loads(tree(address)["/brokers/topics/made"])["partitions"]
    assert {broker for replicas in moved.values() for broker in replicas} == {1, 2}
    eventually(lambda: b"12345678" in tree(address)["/config/topics/kept"], what="the setting is in ZooKeeper, too")


def leaders_of(admin, topic):
    return {each.leader for each in admin.list_topics(topic, timeout=5).topics[topic].partitions.values()}


def in_sync(admin, topic):
    """The ISR of each partition, in order."""
    partitions = admin.list_topics(topic, timeout=5).topics[topic].partitions
    return [sorted(partitions[number].isrs) for number in sorted(partitions)]


def a_broker_is_killed(session, load, admin):
    """Nobody hands over: the controller misses its heartbeats."""
    victim = eventually(lambda: leaders_of(admin, "orders") - {-1}, what="orders has leaders").pop()
    session.run_commands(f"kill -9 $(cat broker-{victim}/pid)")

    eventually(
        lambda: not leaders_of(admin, "orders") & {victim, -1},
        within=120,
        what="others lead what the killed broker led",
    )
    told = len(load.told)
    eventually(lambda: len(load.told) > told, what="records are taken again")
    session.run_commands(
        f"barnabas broker broker-{victim}/server.properties >> broker-{victim}/barnabas.log 2>&1 &\n"
        f"echo $! > broker-{victim}/pid\nuntil whole; do sleep 1; done"
    )


def raise_krafts_epoch(session):
    """As many elections of the controllers do before brokers have registered: ZooKeeper's stays (KAFKA-20488)."""
    elected = "Becoming the active controller at epoch"
    session.run_commands(
        f'until grep -q "{elected} 1," controller/kafka.log; do sleep 1; done\n'
        "stop controller\n"
        'sed -i \'s/"leaderEpoch":[0-9]*/"leaderEpoch":40/\' controller/data/__cluster_metadata-0/quorum-state\n'
        "kafka-server-start controller/controller.properties >> controller/kafka.log 2>&1 &\n"
        "echo $! > controller/pid\n"
        f'until grep -q "{elected} 41," controller/kafka.log; do sleep 1; done'
    )


def rehearsed(session):
    """The rules whose findings `barnabas rehearse migration` tells."""
    session.run_commands('barnabas rehearse -z "$ZK" migration --format json > found.json || true')
    found = json.loads((session.directory / "found.json").read_text())
    return [each["rule"] for each in found["findings"]]


def go_over(session, address, *, with_many_elections=False):
    session.run("before")
    session.run("controller")
    if with_many_elections:
        raise_krafts_epoch(session)
    for number in BROKERS:
        session.run("enter", number)
    session.run("migrated")
    assert controller_of(address)["brokerid"] == KRAFT


def test_a_cluster_goes_over_to_kraft_and_back_by_the_pages_own_commands(tmp_path):
    with migrating(tmp_path) as (session, address, bootstrap):
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        eventually(lambda: len(admin.list_topics(timeout=5).brokers) == len(BROKERS), within=120, what="all are there")
        for topic in ("orders", "kept", "doomed"):
            create(admin, topic, 3)
        session.run("once")
        load = Load(bootstrap)
        with under(load):
            eventually(lambda: load.seen, what="records are taken and read")
            session.run_commands("until whole; do sleep 1; done")
            before = tree(address)
            go_over(session, address, with_many_elections=True)
            work_through_the_controller(session, admin, address, bootstrap)
            a_broker_is_killed(session, load, admin)
            session.run("kraft", 0)
            session.run("return", 0)
            ahead = controller_of(address)["kraftControllerEpoch"]
            assert ahead > int(tree(address)["/controller_epoch"])
            assert "kraft-epoch-ahead" in rehearsed(session)
            session.run("back")
            assert int(tree(address)["/controller_epoch"]) > ahead
            for number in BROKERS:
                session.run("leave", number)
            session.run("after")
            after = tree(address)
            if WHOLE:
                go_over(session, address)
                for number in BROKERS:
                    session.run("kraft", number)
                session.run("finish")
                create(admin, "at-last", 3)
        assert not load.errors
        # Each acknowledged number once; the group has seen each at least once.
        assert sorted(load.told) == list(range(len(load.told)))
        the_trees_are_equal_but_for_what_was_asked_for(before, after)
        for number in BROKERS:
            log = (tmp_path / f"broker-{number}" / "barnabas.log").read_text()
            assert "registered with the KRaft controller" in log
            assert "Traceback" not in log
        if WHOLE:
            assert session.used == set(session.blocks)


@pytest.mark.skipif(not WHOLE, reason="takes minutes: make migration")
def test_a_migration_is_called_off_while_some_brokers_have_not_entered(tmp_path):
    with migrating(tmp_path) as (session, address, bootstrap):
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        eventually(lambda: len(admin.list_topics(timeout=5).brokers) == len(BROKERS), within=120, what="all are there")
        create(admin, "orders", 3)
        session.run("once")
        load = Load(bootstrap)
        with under(load):
            eventually(lambda: load.seen, what="records are taken and read")
            session.run_commands("until whole; do sleep 1; done")
            before = tree(address)
            session.run("controller")
            session.run("enter", 0)
            eventually(lambda: "/migration" in tree(address), within=60, what="the controller has its mark there")
            assert controller_of(address)["brokerid"] in BROKERS, "it waits for the other brokers"
            session.run("back")
            session.run("leave", 0)
            session.run("after")
            assert comparable(tree(address)) == comparable(before)
        assert not load.errors
        assert sorted(load.told) == list(range(len(load.told)))


def the_trees_are_equal_but_for_what_was_asked_for(before, after):
    old, new = comparable(before), comparable(after)
    assert of_topic(new, "doomed") == set()
    for topic in ("made", "__transaction_state"):
        assert len(of_topic(new, topic)) > 2
        for path in of_topic(new, topic):
            del new[path]
    for path in of_topic(old, "doomed"):
        del old[path]
    assert new["/config/topics/kept"]["config"].pop("retention.ms") == "12345678"
    assert new.pop("/config/brokers/1")["config"] == {"log.retention.ms": "98765432"}
    assert new == old
    assert json.loads(after["/controller"])["kraftControllerEpoch"] == -1
    assert int(after["/controller_epoch"]) > int(before["/controller_epoch"])
    epochs = leader_epochs(after)
    assert all(epochs[path] >= epoch for path, epoch in leader_epochs(before).items() if "/doomed/" not in path)
