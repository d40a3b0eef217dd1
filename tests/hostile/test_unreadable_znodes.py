"""Znodes of every kind that hold nonsense, beside a cluster that lives: each costs itself alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from cluster import until
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from barnabas.testing import KafkaCluster

GARBAGE = b"\xff\x00{garbage"
HUGE = b'{"version":1e999,"leader":1e999,"controller_epoch":99999999999999999999,"leader_epoch":0,"isr":["x"]}'
DEEP = b"[" * 20_000
LAST_EPOCH = b'{"version":1,"leader":0,"controller_epoch":1,"leader_epoch":2147483647,"isr":[0,1,2]}'
"""After it there is no other that a request can hold."""


@contextlib.contextmanager
def tree(cluster: KafkaCluster) -> Iterator[KazooClient]:
    client = KazooClient(cluster.zookeeper)
    client.start(10)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def put(client: KazooClient, path: str, data: bytes) -> None:
    try:
        client.create(path, data, makepath=True)
    except NodeExistsError:
        client.set(path, data)


def produced(cluster: KafkaCluster, topic: str, value: str, **config: object) -> str:
    """What became of one record: "" where it is acknowledged."""
    outcomes: list[str] = []
    common = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "reconnect.backoff.max.ms": 200, "log_level": 0}
    producer = Producer({**common, **config})
    producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append("" if error is None else error.name()))
    assert producer.flush(30) == 0
    (outcome,) = outcomes
    return outcome


STRAY = {
    "/brokers/ids/99": GARBAGE,
    "/brokers/ids/98": b'{"version":5,"endpoints":["PLAINTEXT://\\u0000:99999999"]}',
    "/brokers/ids/x": b"",
    "/brokers/topics/stray": GARBAGE,
    "/brokers/topics/deep": DEEP,
    "/brokers/topics/numbers": b'{"version":3,"partitions":{"0":[1e999],"99999999999":[1]}}',
    "/config/topics/stray": GARBAGE,
    "/config/topics/kept": b'{"version":1,"config":{"retention.ms":"soon","cleanup.policy":"","segment.bytes":null}}',
    "/config/topics/deep": DEEP,
    "/config/brokers/<default>": b'{"version":1,"config":{"log.retention.ms":"soon","nonsense":7}}',
    "/config/brokers/0": GARBAGE,
    "/config/users/somebody": b'{"version":1,"config":{"SCRAM-SHA-256":"nonsense","producer_byte_rate":"much"}}',
    "/config/changes/config_change_0000000900": GARBAGE,
    "/config/changes/config_change_0000000901": b'{"version":2,"entity_path":"topics/"}',
    "/config/changes/config_change_0000000902": b'{"version":2,"entity_path":"topics/\\u0000"}',
    "/config/changes/config_change_0000000903": b'{"version":2,"entity_path":"topics/kept"}',
    "/config/changes/config_change_0000000904": b'{"version":1e999}',
    "/isr_change_notification/isr_change_0000000900": GARBAGE,
    "/isr_change_notification/isr_change_0000000901": b'{"version":1,"partitions":[{"topic":1,"partition":1e999}]}',
    "/log_dir_event_notification/log_dir_event_0000000900": HUGE,
    "/admin/delete_topics/nobody": GARBAGE,
    "/delegation_token/tokens/stray": GARBAGE,
    "/feature": GARBAGE,
    "/admin/reassign_partitions": HUGE,
    "/admin/preferred_replica_election": GARBAGE,
}


def test_a_cluster_lives_beside_znodes_that_nobody_can_read() -> None:
    with KafkaCluster(3) as cluster:
        cluster.create_topic("kept", partitions=3, replication_factor=3, config={"min.insync.replicas": 2})
        cluster.create_topic("damaged", partitions=1, replication_factor=3)
        cluster.create_topic("exhausted", partitions=3, replication_factor=3)
        assert not produced(cluster, "kept", "before")
        with tree(cluster) as client:
            put(client, "/brokers/topics/damaged/partitions/0/state", HUGE)
            put(client, "/brokers/topics/damaged", GARBAGE)
            for number in range(3):
                put(client, f"/brokers/topics/exhausted/partitions/{number}/state", LAST_EPOCH)
            for path, data in STRAY.items():
                put(client, path, data)
        assert not produced(cluster, "kept", "beside")
        for broker in cluster.brokers:
            broker.kill()
            for number in range(3):
                cluster.partition("kept", number).wait(not_leader=broker, timeout=30)
            assert not produced(cluster, "kept", f"without {broker.id}")
            broker.start()
            for number in range(3):
                cluster.partition("kept", number).wait(isr=cluster.brokers, timeout=30)
        values = sorted((record.value or b"").decode() for record in cluster.records("kept"))
        assert values == ["before", "beside", "without 0", "without 1", "without 2"]
        cluster.create_topic("made-later", partitions=1, replication_factor=3)
        assert not produced(cluster, "made-later", "x")
        cluster.verify()


def test_a_topics_value_that_is_not_allowed_counts_as_not_set_and_can_be_set_right() -> None:
    with KafkaCluster(1) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=1)
        with tree(cluster) as client:
            put(client, "/config/topics/t", b'{"version":1,"config":{"retention.ms":"soon","max.message.bytes":"500"}}')
            put(client, "/config/changes/config_change_0000000900", b'{"version":2,"entity_path":"topics/t"}')
        for broker in cluster.brokers:
            broker.kill()
            broker.start()
        assert not produced(cluster, "t", "small")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        resource = ConfigResource(ConfigResource.Type.TOPIC, "t")
        (told,) = admin.describe_configs([resource]).values()
        entries = told.result(30)
        assert (entries["retention.ms"].value, entries["max.message.bytes"].value) == ("soon", "500")
        assert produced(cluster, "t", "x" * 600) == "MSG_SIZE_TOO_LARGE"
        resource.add_incremental_config(
            ConfigEntry("retention.ms", "7000", incremental_operation=AlterConfigOpType.SET)
        )
        (altered,) = admin.incremental_alter_configs([resource]).values()
        altered.result(30)
        (told,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "t")]).values()
        assert told.result(30)["retention.ms"].value == "7000"


def test_whoever_asks_for_producer_ids_hears_that_the_block_cannot_be_read() -> None:
    with KafkaCluster(2) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=2)
        with tree(cluster) as client:
            put(client, "/latest_producer_id_block", GARBAGE)
            reigns = client.get("/controller_epoch")[0]
        settings = {"enable.idempotence": True, "message.timeout.ms": 2000}
        assert produced(cluster, "t", "x", **settings) == "_MSG_TIMED_OUT"
        assert not produced(cluster, "t", "y")
        with tree(cluster) as client:
            assert client.get("/latest_producer_id_block")[0] == GARBAGE
            assert client.get("/controller_epoch")[0] == reigns, "the controller did not give up for it"


def test_a_controllers_znode_that_nobody_can_read_costs_its_reign_alone() -> None:
    with KafkaCluster(3) as cluster:
        cluster.create_topic("before", partitions=3, replication_factor=3)
        with tree(cluster) as client:
            reigns = int(client.get("/controller_epoch")[0])
            for garbage in (GARBAGE, b"", HUGE):
                put(client, "/controller", garbage)
                reigns += 1
                until(lambda reigns=reigns: int(client.get("/controller_epoch")[0]) == reigns, "another is elected", 30)
                until(lambda: client.get("/controller")[0].startswith(b"{"), "and says so", 30)
        cluster.create_topic("behind", partitions=3, replication_factor=3)
        assert not produced(cluster, "behind", "x")
        cluster.verify()


def test_who_cannot_read_the_last_epoch_does_not_reign_until_it_is_set_right() -> None:
    with KafkaCluster(3) as cluster:
        cluster.create_topic("before", partitions=3, replication_factor=3)
        with tree(cluster) as client:
            last = client.get("/controller_epoch")[0]
            put(client, "/controller_epoch", GARBAGE)
            client.delete("/controller")
            assert not produced(cluster, "before", "x"), "leaders need no controller"
            put(client, "/controller_epoch", last)
            until(lambda: int(client.get("/controller_epoch")[0]) > int(last), "another is elected", 30)
        cluster.create_topic("behind", partitions=3, replication_factor=3)
        assert not produced(cluster, "behind", "x")
        cluster.verify()
