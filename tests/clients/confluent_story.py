"""What confluent-kafka (librdkafka) makes of a cluster: topics, configurations, an idempotent producer, eager
and cooperative groups, static members, transactions with their offsets. Facts, without ids and times."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from cluster import until
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

WAIT_S = 60
FIRST_MS = 1_700_000_000_000
MEMBERS: Mapping[str, Callable[[int], dict[str, str]]] = {
    "eager": lambda _: {"partition.assignment.strategy": "range"},
    "cooperative": lambda _: {"partition.assignment.strategy": "cooperative-sticky"},
    "static": lambda number: {"group.instance.id": f"instance-{number}"},
}


def word(call: Callable[[], object]) -> str:
    """The name of the error, or ``done``."""
    try:
        call()
    except KafkaException as error:
        return str(error.args[0].name())
    return "done"


def done(futures: Mapping[Any, Any]) -> Any:
    """The result of the only one."""
    (future,) = futures.values()
    return future.result(WAIT_S)


def tell(bootstrap: str, name: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topic = f"{name}-topic"
    topics(admin, topic, facts)
    produced(bootstrap, topic, facts)
    for how in MEMBERS:
        group(bootstrap, admin, f"{name}-{how}", topic, how, facts)
    offsets(admin, name, topic, facts)
    transactions(bootstrap, admin, name, topic, facts)
    facts["deleted"] = [word(lambda each=each: done(admin.delete_topics([each]))) for each in (topic, f"{name}-absent")]
    return facts


def topics(admin: AdminClient, topic: str, facts: dict[str, Any]) -> None:
    def create(*arguments: Any, **more: Any) -> str:
        return word(lambda: done(admin.create_topics([NewTopic(*arguments, **more)])))

    facts["created"] = [
        create(topic, 3, 3, config={"retention.ms": "-1"}),
        create(topic, 3, 3),
        create("not a name", 3, 3),
        create(f"{topic}-many", 1, 9),
        create(f"{topic}-odd", 1, 3, config={"no.such": "1"}),
    ]
    grow = lambda count: word(lambda: done(admin.create_partitions([NewPartitions(topic, count)])))  # noqa: E731
    facts["grown"] = [grow(4), grow(3), grow(4)]
    changes = [
        ("max.message.bytes", "2000000", AlterConfigOpType.SET),
        ("cleanup.policy", "compact", AlterConfigOpType.APPEND),
        ("min.insync.replicas", "2", AlterConfigOpType.SET),
    ]

    def alter(entries: list[tuple[str, str, Any]]) -> str:
        made = [ConfigEntry(key, value, incremental_operation=operation) for key, value, operation in entries]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=made)
        return word(lambda: done(admin.incremental_alter_configs([resource])))

    facts["altered"] = [
        alter(changes),
        alter([("cleanup.policy", "compact", AlterConfigOpType.SUBTRACT)]),
        alter([("segment.bytes", "nonsense", AlterConfigOpType.SET)]),
        alter([("segment.bytes", "1", AlterConfigOpType.APPEND)]),
    ]
    described = done(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]))
    facts["configs"] = {
        key: [each.value, each.source, each.is_read_only, each.is_sensitive, sorted(each.synonyms)]
        for key, each in described.items()
    }
    listed = admin.list_topics(topic, timeout=WAIT_S)
    facts["partitions"] = {number: len(each.replicas) for number, each in listed.topics[topic].partitions.items()}
    broker = ConfigResource(ConfigResource.Type.BROKER, str(min(listed.brokers)))
    facts["broker configs"] = sorted(key for key in done(admin.describe_configs([broker])) if "barnabas" not in key)


def produced(bootstrap: str, topic: str, facts: dict[str, Any]) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "partitioner": "murmur2", "log_level": 0}
    )
    reports: dict[int, int] = {}

    def delivered(error: object, message: Any) -> None:
        assert error is None, error
        reports[message.partition()] = max(reports.get(message.partition(), 0), message.offset())

    for number in range(300):
        producer.produce(
            topic, b"v%d" % number, b"k%d" % (number % 17), headers={"n": b"%d" % number}, on_delivery=delivered,
            timestamp=FIRST_MS + number,
        )  # fmt: skip
    assert producer.flush(WAIT_S) == 0
    facts["produced"] = dict(sorted(reports.items()))


def group(bootstrap: str, admin: AdminClient, name: str, topic: str, how: str, facts: dict[str, Any]) -> None:
    """Two members, until each has two of four partitions and all 300 records were seen."""
    members = [
        Consumer(
            {
                "bootstrap.servers": bootstrap, "group.id": name, "auto.offset.reset": "earliest", "log_level": 0,
                "enable.auto.commit": False, "session.timeout.ms": 10_000, "heartbeat.interval.ms": 300,
                **MEMBERS[how](number),
            }
        )
        for number in range(2)
    ]  # fmt: skip
    for member in members:
        member.subscribe([topic])
    values = set()
    deadline = time.monotonic() + WAIT_S
    while len(values) < 300 or any(len(member.assignment()) != 2 for member in members):
        assert time.monotonic() < deadline, (
            f"{how}: {len(values)} records, {[len(member.assignment()) for member in members]} partitions"
        )
        for member in members:
            message = member.poll(0.05)
            if message is not None and message.error() is None:
                assert dict(message.headers())["n"] == message.value()[1:]
                values.add(message.value())
    described = done(admin.describe_consumer_groups([name]))
    facts[how] = [
        described.state.name,
        described.partition_assignor,
        described.is_simple_consumer_group,
        sorted(str(each.group_instance_id) for each in described.members),
        sorted(len(each.assignment.topic_partitions) for each in described.members),
    ]
    facts[f"{how} deleted in use"] = word(lambda: done(admin.delete_consumer_groups([name])))
    for member in members:
        member.commit(offsets=member.position(member.assignment()), asynchronous=False)
        member.close()
    facts[f"{how} committed"] = committed(admin, name)


def committed(admin: AdminClient, name: str) -> dict[int, int]:
    found = done(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)]))
    return dict(sorted((each.partition, each.offset) for each in found.topic_partitions))


def offsets(admin: AdminClient, name: str, topic: str, facts: dict[str, Any]) -> None:
    first = TopicPartition(topic, 0)
    facts["records deleted"] = done(admin.delete_records([TopicPartition(topic, 0, 5)])).low_watermark
    facts["too many deleted"] = word(lambda: done(admin.delete_records([TopicPartition(topic, 0, 10_000)])))
    specs = {
        "earliest": OffsetSpec.earliest(),
        "latest": OffsetSpec.latest(),
        "max timestamp": OffsetSpec.max_timestamp(),
        "at a time": OffsetSpec.for_timestamp(FIRST_MS + 150),
        "after all": OffsetSpec.for_timestamp(FIRST_MS + 1_000_000),
    }
    for what, spec in specs.items():
        found = done(admin.list_offsets({first: spec}))
        facts[what] = [found.offset, found.timestamp]
    reset = ConsumerGroupTopicPartitions(f"{name}-eager", [TopicPartition(topic, 0, 7)])
    facts["reset"] = word(lambda: done(admin.alter_consumer_group_offsets([reset])))
    facts["after reset"] = committed(admin, f"{name}-eager")
    in_use = ConsumerGroupTopicPartitions(f"{name}-static", [TopicPartition(topic, 0, 7)])
    facts["reset in use"] = word(lambda: done(admin.alter_consumer_group_offsets([in_use])))
    facts["groups deleted"] = [
        word(lambda each=each: done(admin.delete_consumer_groups([each])))
        for each in (f"{name}-eager", f"{name}-eager", f"{name}-absent")
    ]
    listed = admin.list_consumer_groups().result(WAIT_S).valid
    facts["groups"] = sorted((each.group_id, each.state.name) for each in listed if each.group_id.startswith(name))
    facts["brokers"] = len(admin.describe_cluster().result(WAIT_S).nodes)


def transactions(bootstrap: str, admin: AdminClient, name: str, topic: str, facts: dict[str, Any]) -> None:
    target = f"{name}-target"
    facts["target"] = word(lambda: done(admin.create_topics([NewTopic(target, 1, 3)])))
    settings = {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(WAIT_S)
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{name}-eos", "log_level": 0})
    for kept in (True, False, True):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(target, f"{kept} {number}")
        at = TopicPartition(topic, 0, 7 if kept else 99)
        producer.send_offsets_to_transaction([at], reader.consumer_group_metadata(), WAIT_S)
        if kept:
            producer.commit_transaction(WAIT_S)
        else:
            producer.flush(WAIT_S)
            producer.abort_transaction(WAIT_S)
    reader.close()
    plain = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": f"{name}-plain", "isolation.level": "read_committed",
            "log_level": 0,
        }
    )  # fmt: skip
    plain.assign([TopicPartition(target, 0, 0)])
    found = [message.value().decode() for message in plain.consume(20, WAIT_S)]
    plain.close()
    facts["transacted"] = found
    # The markers follow the answer to the commit.
    until(lambda: committed(admin, f"{name}-eos") == {0: 7}, "the markers")

    producer.begin_transaction()
    producer.produce(target, "zombie")
    assert producer.flush(WAIT_S) == 0
    successor = Producer(settings)
    successor.init_transactions(WAIT_S)
    facts["fenced"] = word(lambda: producer.commit_transaction(WAIT_S))
    too_long = Producer({**settings, "transactional.id": f"{name}-long", "transaction.timeout.ms": 900_001})
    facts["timeout above the maximum"] = word(lambda: too_long.init_transactions(WAIT_S))
