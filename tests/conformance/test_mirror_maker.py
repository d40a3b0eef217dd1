"""MirrorMaker 2 between three brokers of ours and one of Apache Kafka 3.9.2: both ways, exactly once, while it and a
broker are killed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import apache
import pytest
from clients.connect import MirrorMaker
from clients.topic_records import records
from cluster import running, until
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

pytestmark = [pytest.mark.long(2), pytest.mark.apache, pytest.mark.timeout(600)]

CONFIG: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
RECORDS: Final = 600
READ: Final = 400
"""How many of them a group has read when it goes over to the other cluster."""


class Side:
    """One of the clusters: `topic` is its own, `mirror` the other's, and `group` reads here and goes on there."""

    def __init__(self, bootstrap: str, name: str, other: str, replicas: int) -> None:
        self.bootstrap = bootstrap
        self.topic, self.mirror, self.group = f"{name}-events", f"{other}.{other}-events", f"group-{name}"
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self.admin.create_topics([NewTopic(self.topic, 2, replicas)])[self.topic].result(60)
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})

    def produce(self, numbers: range) -> None:
        for number in numbers:
            self.producer.produce(self.topic, f"{number}", f"{number % 20}")
        self.producer.poll(0)

    def has_mirrored(self, count: int) -> bool:
        known = self.mirror in self.admin.list_topics(timeout=60).topics
        return known and len(records(self.bootstrap, self.mirror)) >= count

    def change_topic(self) -> None:
        """Another configuration, an ACL, and a third partition."""
        entry = ConfigEntry("retention.ms", "7654321", incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ConfigResource.Type.TOPIC, self.topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([topic])[topic].result(60)
        acl = AclBinding(
            ResourceType.TOPIC, self.topic, ResourcePatternType.LITERAL, "User:carl", "*", AclOperation.READ,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        self.admin.create_acls([acl])[acl].result(60)
        self.admin.create_partitions([NewPartitions(self.topic, 3)])[self.topic].result(60)

    def mirror_has_changed(self) -> bool:
        topic = ConfigResource(ConfigResource.Type.TOPIC, self.mirror)
        acls = AclBindingFilter(
            ResourceType.TOPIC, self.mirror, ResourcePatternType.LITERAL, "User:carl", None, AclOperation.READ,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        return (
            self.admin.describe_configs([topic])[topic].result(60)["retention.ms"].value == "7654321"
            and len(self.admin.describe_acls(acls).result(60)) == 1
            and len(self.admin.list_topics(self.mirror, 60).topics[self.mirror].partitions) == 3
        )

    def committed(self, group: str) -> dict[int, int]:
        """How far a group is in the mirror."""
        asked = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        told = asked[group].result(60).topic_partitions
        return {each.partition: each.offset for each in told if each.topic == self.mirror}

    def read(self, topic: str, group: str, enough: Callable[[set[str]], bool]) -> set[str]:
        """What a member of the group reads until it is `enough`, and commits."""
        reader = Consumer(
            {
                "bootstrap.servers": self.bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                "isolation.level": "read_committed", "enable.auto.commit": False, "log_level": 0,
            }
        )  # fmt: skip
        reader.subscribe([topic])
        found: set[str] = set()
        while not enough(found):
            record = reader.poll(60)
            assert record is not None, f"{group} reads no more than {len(found)} records"
            assert not record.error()
            found.add(record.value().decode())
        reader.commit(asynchronous=False)
        reader.close()
        return found


def test_mirrors_are_whole_and_groups_go_on_in_them(tmp_path: Path) -> None:
    apache.require()
    ours = running(tmp_path / "ours", 3, *(f"{key}={value}" for key, value in CONFIG.items()))
    theirs = apache.ApacheCluster(tmp_path / "apache", 1, config=CONFIG)
    with ours as cluster, theirs:
        bootstraps = {"a": cluster.bootstrap, "b": theirs.bootstrap}
        a, b = Side(bootstraps["a"], "a", "b", 3), Side(bootstraps["b"], "b", "a", 1)
        with MirrorMaker(bootstraps, {"a": 3, "b": 1}, tmp_path / "mirrors") as mirrors:
            for first in range(0, RECORDS, 200):
                for side in (a, b):
                    side.produce(range(first, first + 200))
                if first == 200:
                    cluster.kill(0)
                    mirrors.kill()
                    mirrors.start()
                    cluster.up()
                for side, other in ((a, b), (b, a)):
                    until(partial(other.has_mirrored, first + 200), f"{first + 200} of {side.topic} are mirrored", 120)
            for side, other in ((a, b), (b, a)):
                assert records(other.bootstrap, other.mirror) == records(side.bootstrap, side.topic)
            read = {side: side.read(side.topic, side.group, lambda found: len(found) >= READ) for side in (a, b)}
            for side in (a, b):
                side.change_topic()
            for side, other in ((a, b), (b, a)):
                until(partial(other.committed, side.group), f"{side.group} is known in the other cluster")
                until(other.mirror_has_changed, f"{side.topic} is changed in the other cluster")
        for side, other in ((a, b), (b, a)):
            missing = {f"{number}" for number in range(RECORDS)} - read[side]
            other.read(other.mirror, side.group, missing.issubset)
