"""A cluster goes over to three KRaft controllers, whose active one dies on the way; and to one behind TLS.

`make migration` has them; CI migrates with one controller, in `test_migration.py`.
"""

import json
import os
import signal
from contextlib import contextmanager

import pytest
from certificates import Authority
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kraft_controllers import KraftControllers
from processes import Cluster, eventually
from test_migration import create, in_sync, leaders_of, tree
from test_roll import Load, under
from trees import comparable

from barnabas.zk.inspection.migration import migration_state

pytestmark = [
    pytest.mark.apache,
    pytest.mark.timeout(900),
    pytest.mark.skipif("MIGRATED" not in os.environ, reason="takes minutes: make migration"),
]

BEGUN = "Starting ZK migration"
COMPLETED = "Completed migration of metadata from ZooKeeper to KRaft"
FENCED = "because its session has timed out"
MANY = 200
"""Topics: enough for a migration to have a middle."""


@contextmanager
def migrating(directory, controllers, config):
    """Two brokers of ours on the embedded coordinator, told of the controllers."""
    told = {
        "zookeeper.metadata.migration.enable": "true",
        "controller.quorum.voters": controllers.voters,
        "controller.listener.names": "CONTROLLER",
        "zookeeper.session.timeout.ms": "10000",
    }
    try:
        with Cluster(directory, 2, {**told, **config}) as cluster:
            yield cluster, f"127.0.0.1:{cluster.zookeeper_port}"
    finally:
        controllers.close()


def znode(address, path):
    client = KazooClient(address)
    client.start()
    try:
        return client.get(path)[0]
    finally:
        client.stop()
        client.close()


def form(controllers, address, config, cluster_id=None):
    """The controllers are formatted with the cluster's id, or another one, and begin."""
    cluster_id = cluster_id or json.loads(znode(address, "/cluster/id"))["id"]
    zookeeper = {"zookeeper.connect": address, "inter.broker.listener.name": "PLAINTEXT"}
    controllers.format(cluster_id, {**zookeeper, **config})
    controllers.start()


def reigns(address):
    """Whose claim `/controller` holds, once the znodes are copied."""
    assert migration_state(znode(address, "/migration")).offset >= 0
    return json.loads(znode(address, "/controller"))["brokerid"]


def dies_in_the_middle(controllers, cluster):
    """The active controller has begun to read the znodes, is given no more of them, and killed. Returns its id."""

    def begun():
        return [each for each in controllers.addresses if BEGUN in controllers.told(each)]

    (active,) = eventually(begun, within=120, what="a migration begins")
    cluster.coordinator.signal(signal.SIGSTOP)
    try:
        controllers.kill(active)
    finally:
        cluster.coordinator.signal(signal.SIGCONT)
    assert COMPLETED not in controllers.told(active), f"{MANY} topics are too few"
    return active


def nobody_misses_a_controller_that_says_nothing(controllers, address, admin, load):
    """The active one is stopped for longer than a session: another rules, and the brokers find it in time."""
    active = reigns(address)
    told = len(load.told)
    controllers.pause(active)
    heir = eventually(lambda: {reigns(address)} - {active}, within=60, what="another rules").pop()
    admin.create_topics([NewTopic("made-by-the-heir", 1, 2)])["made-by-the-heir"].result(15)
    eventually(lambda: len(load.told) > told, what="records are taken")
    eventually(lambda: not leaders_of(admin, "orders") & {-1}, within=5, what="every partition is led")
    controllers.resume(active)
    assert FENCED not in controllers.told(heir)


def test_the_active_one_of_three_controllers_dies_in_the_middle(tmp_path):
    controllers = KraftControllers(tmp_path, 3)
    plain = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}
    with migrating(tmp_path, controllers, plain) as (cluster, address):
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        create(admin, "orders", 2)
        for made in admin.create_topics([NewTopic(f"many-{number}", 4, 1) for number in range(MANY)]).values():
            made.result(60)
        load = Load(cluster.bootstrap)
        with under(load):
            eventually(lambda: load.seen, what="records are taken and read")
            form(controllers, address, plain)
            dead = dies_in_the_middle(controllers, cluster)
            heir = eventually(lambda: reigns(address), within=120, what="another copies the znodes")
            assert heir != dead
            assert COMPLETED in controllers.told(heir)
            create(admin, "made", 2)
            controllers.start(dead)
            eventually(lambda: controllers.told(dead).count("Kafka Server started") == 2, what="it is back")
            nobody_misses_a_controller_that_says_nothing(controllers, address, admin, load)
            known = admin.list_topics(timeout=30).topics
            assert {len(known[f"many-{number}"].partitions) for number in range(MANY)} == {4}
        assert not load.errors
        assert sorted(load.told) == list(range(len(load.told)))
        for broker in cluster.brokers:
            assert broker.output().count("registered with the KRaft controller") == 1
            assert "Traceback" not in broker.output()


def test_controllers_with_another_clusters_id_are_given_nothing_and_take_nothing(tmp_path):
    """An empty quorum that took the cluster would write its nothing over the znodes."""
    controllers = KraftControllers(tmp_path, 1)
    plain = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}
    with migrating(tmp_path, controllers, plain) as (cluster, address):
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        create(admin, "orders", 2)
        before = comparable(tree(address))
        form(controllers, address, plain, cluster_id="_fofLz9DRFCDERJ6Q4_cPA")
        refused = "refuses the registration: INCONSISTENT_CLUSTER_ID"
        eventually(
            lambda: all(refused in broker.output() for broker in cluster.brokers), within=120, what="brokers tell of it"
        )
        eventually(lambda: "/migration" in tree(address), what="the controller has its mark there")
        after = comparable(tree(address))
        # The mark of a controller that waits for brokers, and has copied nothing.
        assert migration_state(json.dumps(after.pop("/migration")).encode()).offset == -1
        assert after == before


def test_a_cluster_goes_over_to_a_controller_that_takes_certificates(tmp_path):
    """Either side shows one, and a broker speaks to no controller whose certificate it does not trust."""
    authority = Authority(tmp_path / "authority")
    stranger = Authority(tmp_path / "stranger", "stranger")
    protocols = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"}

    def stores(name):
        prefix = "listener.name.controller.ssl"
        return {
            f"{prefix}.keystore.location": str(authority.issue(name).key_store),
            f"{prefix}.keystore.type": "PEM",
            f"{prefix}.truststore.location": str(authority.trust_store),
            f"{prefix}.truststore.type": "PEM",
        }

    controllers = KraftControllers(tmp_path, 1)
    brokers = {**protocols, **stores("broker")}
    file = tmp_path / "broker-1.properties"
    with migrating(tmp_path, controllers, brokers) as (cluster, address):
        cluster.brokers[1].stop()
        form(
            controllers,
            address,
            {
                **protocols,
                **stores("controller"),
                "listener.name.controller.ssl.client.auth": "required",
                "listener.name.controller.ssl.principal.mapping.rules": "RULE:^.*CN=([a-z]+).*$/$1/",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:broker;User:controller;User:ANONYMOUS",
            },
        )
        registered = "registered with the KRaft controller"
        eventually(lambda: registered in cluster.brokers[0].output(), within=120, what="the broker that trusts it")
        trusted = file.read_text()
        file.write_text(trusted.replace(str(authority.trust_store), str(stranger.trust_store)))
        cluster.start_broker(1)
        eventually(lambda: "certificate verify failed" in cluster.brokers[1].output(), what="the one that does not")
        assert registered not in cluster.brokers[1].output()
        file.write_text(trusted)
        cluster.brokers[1].stop()
        cluster.start_broker(1)
        eventually(lambda: reigns(address), within=120, what="all know each other, and it has migrated")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        create(admin, "made", 2)
        eventually(lambda: in_sync(admin, "made") == [[0, 1], [0, 1]], what="a broker that was fenced follows")
        cluster.brokers[0].stop()
        eventually(lambda: leaders_of(admin, "made") == {1}, what="the controller moves what a broker led that stops")
        assert all("Traceback" not in broker.output() for broker in cluster.brokers)
