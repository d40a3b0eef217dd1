"""Consumer groups as the clients people use see them, and a group that moves between Apache Kafka and ours."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from cluster import Cluster, running, until
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_tools import tool

from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest


def produced(bootstrap: str, topic: str, count: int, partitions: int = 6, factor: int = 3) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, partitions, factor)]).values():
        created.result()
    append(bootstrap, topic, range(count))
    return admin


def append(bootstrap: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    for number in numbers:
        producer.produce(topic, key=str(number % 37), value=str(number))
    assert producer.flush(60) == 0


def test_the_first_who_asks_is_told_its_coordinator(tmp_path: Path) -> None:
    """A client that is told there is none asks again only after a second, which is how long a broker waits for it."""
    small = [f"{topic}.num.partitions=3" for topic in ("offsets.topic", "transaction.state.log")]
    with running(tmp_path, 3, *small) as cluster:
        port = cluster.broker(0)["port"]
        with BlockingConnection("127.0.0.1", port) as connection:
            for key_type in (0, 1):
                answer = connection.send(FindCoordinatorRequest(key="first", key_type=key_type), 3)
                assert ErrorCode(answer.error_code) is ErrorCode.NONE
                assert answer.node_id in range(3)


class Member:
    """A consumer on a thread of its own, as a program would have it."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: object) -> None:
        self.read: list[int] = []
        self.partitions: list[int] = []
        self._stop = threading.Event()
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self._consumer = Consumer(config)
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            self.partitions = sorted(each.partition for each in self._consumer.assignment())
            if message is None or message.error() is not None:
                continue
            self.read.append(int(message.value()))
            try:
                self._consumer.commit(asynchronous=False)
            except KafkaException:
                continue  # the group is moving or rebalancing; the record may come again
        self._consumer.close()

    def end(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def committed(admin: AdminClient, group: str) -> int:
    (found,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return sum(each.offset for each in found.result().topic_partitions)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_share_partitions_and_hand_them_on(cluster: Cluster, strategy: str) -> None:
    topic = group = f"shared-{strategy}"
    admin = produced(cluster.bootstrap, topic, 600)
    settings = {"partition_assignment_strategy": strategy}
    first = Member(cluster.bootstrap, group, topic, **settings)
    until(lambda: first.partitions == [0, 1, 2, 3, 4, 5], "the first has all partitions")
    second = Member(cluster.bootstrap, group, topic, **settings)
    until(lambda: len(first.partitions) == len(second.partitions) == 3, "both have three partitions")
    assert sorted(first.partitions + second.partitions) == [0, 1, 2, 3, 4, 5]
    (description,) = admin.describe_consumer_groups([group]).values()
    assert description.result().state == ConsumerGroupState.STABLE
    assert description.result().partition_assignor == strategy
    first.end()
    until(lambda: second.partitions == [0, 1, 2, 3, 4, 5], "who stays has all partitions")
    until(lambda: {*first.read, *second.read} == set(range(600)), "all is read by the two")
    second.end()
    assert committed(admin, group) == 600
    (description,) = admin.describe_consumer_groups([group]).values()
    assert description.result().state == ConsumerGroupState.EMPTY


def test_a_static_member_that_restarts_gets_its_partitions_back_without_a_rebalance(cluster: Cluster) -> None:
    topic = group = "static"
    admin = produced(cluster.bootstrap, topic, 10)
    patience = {"session_timeout_ms": 40_000}  # in which whoever restarts is back, on a busy machine as well
    members = [Member(cluster.bootstrap, group, topic, group_instance_id=name, **patience) for name in ("one", "two")]
    until(lambda: [len(each.partitions) for each in members] == [3, 3], "both have three partitions")
    before = members[0].partitions
    members[0].end()  # a static member does not leave when it closes
    again = Member(cluster.bootstrap, group, topic, group_instance_id="one", **patience)
    until(lambda: again.partitions == before, "it has the partitions that it had")
    assert len(members[1].partitions) == 3
    (description,) = admin.describe_consumer_groups([group]).values()
    assert sorted(each.group_instance_id for each in description.result().members) == ["one", "two"]
    again.end()
    members[1].end()


def test_a_group_goes_on_when_its_coordinator_is_killed(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", 3) as cluster:
        topic = group = "failover"
        admin = produced(cluster.bootstrap, topic, 300)
        members = [Member(cluster.bootstrap, group, topic) for _ in range(2)]
        until(lambda: {*members[0].read, *members[1].read} == set(range(300)), "the first half is read")
        (description,) = admin.describe_consumer_groups([group]).values()
        cluster.kill(description.result().coordinator.id)
        append(cluster.bootstrap, topic, range(300, 600))
        until(lambda: {*members[0].read, *members[1].read} == set(range(600)), "all is read by the two")
        for member in members:
            member.end()
        assert committed(admin, group) == 600


@pytest.mark.apache
def test_kafkas_tool_describes_resets_and_deletes_a_group(cluster: Cluster) -> None:
    topic = group = "tool"
    produced(cluster.bootstrap, topic, 60)
    member = Member(cluster.bootstrap, group, topic)
    until(lambda: {*member.read} == set(range(60)), "all is read")

    def groups(*arguments: str) -> str:
        said = tool("kafka-consumer-groups", "--bootstrap-server", cluster.bootstrap, *arguments)
        assert said.status == 0, said
        return said.out

    described = groups("--describe", "--group", group)
    assert sum(line.startswith("tool ") for line in described.splitlines()) == 6
    assert "rdkafka" in described
    assert "Stable" in groups("--describe", "--state", "--group", group)
    member.end()
    groups("--group", group, "--topic", topic, "--reset-offsets", "--to-earliest", "--execute")
    again = Member(cluster.bootstrap, group, topic)
    until(lambda: {*again.read} == set(range(60)), "all is read again")
    again.end()
    groups("--group", group, "--topic", f"{topic}:0", "--delete-offsets")
    assert "Deletion of requested consumer groups" in groups("--delete", "--group", group)
    assert group not in groups("--list").split()
