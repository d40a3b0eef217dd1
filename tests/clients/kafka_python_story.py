"""What kafka-python makes of a cluster: topics, configurations, an idempotent producer, eager and cooperative groups,
static members, transactions with their offsets. Facts, without ids and times."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from cluster import until
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

WAIT_S = 60
FIRST_MS = 1_700_000_000_000
MEMBERS: Mapping[str, Callable[[int], dict[str, Any]]] = {
    "eager": lambda _: {"partition_assignment_strategy": [RangePartitionAssignor]},
    "cooperative": lambda _: {"partition_assignment_strategy": [CooperativeStickyAssignor]},
    "static": lambda number: {"group_instance_id": f"instance-{number}"},
}


def word(call: Callable[[], object]) -> str:
    """The name of the error, or ``done``."""
    try:
        call()
    except KafkaError as error:
        return type(error).__name__
    return "done"


def tell(bootstrap: str, name: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    topic = f"{name}-topic"
    try:
        topics(admin, topic, facts)
        produced(bootstrap, topic, facts)
        for how in MEMBERS:
            group(bootstrap, admin, f"{name}-{how}", topic, how, facts)
        offsets(admin, name, topic, facts)
        transactions(bootstrap, admin, name, topic, facts)
        facts["deleted"] = [word(lambda each=each: admin.delete_topics([each])) for each in (topic, f"{name}-absent")]
    finally:
        admin.close()
    return facts


def topics(admin: KafkaAdminClient, topic: str, facts: dict[str, Any]) -> None:
    def create(name: str, partitions: int, factor: int, **configs: str) -> str:
        new = {"num_partitions": partitions, "replication_factor": factor, "configs": configs}
        return word(lambda: admin.create_topics({name: new}))

    facts["created"] = [
        create(topic, 3, 3, **{"retention.ms": "-1"}),
        create(topic, 3, 3),
        create("not a name", 3, 3),
        create(f"{topic}-many", 1, 9),
        create(f"{topic}-odd", 1, 3, **{"no.such": "1"}),
    ]
    facts["grown"] = [word(lambda count=count: admin.create_partitions({topic: count})) for count in (4, 3)]
    resource = lambda configs: ConfigResource(ConfigResourceType.TOPIC, topic, configs)  # noqa: E731
    facts["altered"] = [
        admin.alter_configs([resource(each)])["topic"][topic].partition(":")[0]  # what follows is the broker's wording
        for each in (
            {"max.message.bytes": "2000000", "cleanup.policy": ("append", "compact")},
            {"cleanup.policy": ("subtract", "compact"), "min.insync.replicas": "2"},
            {"segment.bytes": "nonsense"},
        )
    ]
    described = admin.describe_configs([resource(None)], include_synonyms=True, config_filter="all")["topic"][topic]
    facts["configs"] = {
        key: [each["value"], each["config_source"], [synonym["source"] for synonym in each["synonyms"]]]
        for key, each in sorted(described.items())
    }
    (listed,) = admin.describe_topics([topic])
    facts["partitions"] = sorted([each["partition_index"], len(each["replica_nodes"])] for each in listed["partitions"])
    facts["brokers"] = len(admin.describe_cluster()["brokers"])


def produced(bootstrap: str, topic: str, facts: dict[str, Any]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, acks="all")
    sent = [
        producer.send(
            topic, b"v%d" % number, b"k%d" % (number % 17), [("n", b"%d" % number)], timestamp_ms=FIRST_MS + number
        )
        for number in range(300)
    ]
    reports: dict[int, int] = {}
    for each in sent:
        told = each.get(WAIT_S)
        reports[told.partition] = max(reports.get(told.partition, 0), told.offset)
    producer.close()
    facts["produced"] = dict(sorted(reports.items()))


class Member:
    """A consumer on a thread of its own: of two on one thread, each would miss what the other's polls wait for."""

    def __init__(self, topic: str, **settings: Any) -> None:
        self.values: set[bytes] = set()
        self._stop = threading.Event()
        self._consumer = KafkaConsumer(
            topic, auto_offset_reset="earliest", enable_auto_commit=False, session_timeout_ms=10_000,
            heartbeat_interval_ms=300, **settings,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def share(self) -> int:
        return len(self._consumer.assignment())

    def _run(self) -> None:
        committed = False
        while not (self._stop.is_set() and committed):
            for messages in self._consumer.poll(timeout_ms=100).values():
                for message in messages:
                    assert dict(message.headers)["n"] == message.value[1:]
                    self.values.add(message.value)
            committed = word(self._consumer.commit) == "done"  # not while the group rebalances
        self._consumer.close(autocommit=False)

    def end(self) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


def group(bootstrap: str, admin: KafkaAdminClient, name: str, topic: str, how: str, facts: dict[str, Any]) -> None:
    """Two members, until each has two of four partitions and all 300 records were seen."""
    settings = {"bootstrap_servers": bootstrap, "group_id": name}
    members = [Member(topic, **settings, **MEMBERS[how](number)) for number in range(2)]

    def settled() -> bool:
        shared = [member.share for member in members] == [2, 2] and len(members[0].values | members[1].values) == 300
        return shared and admin.describe_groups([name])[name]["group_state"] == "Stable"

    try:
        until(settled, f"{how}: two members share")
        describe(admin, name, how, facts)
    finally:
        for member in members:
            member.end()
    facts[f"{how} committed"] = committed(admin, name)


def describe(admin: KafkaAdminClient, name: str, how: str, facts: dict[str, Any]) -> None:
    described = admin.describe_groups([name])[name]
    facts[how] = [
        described["group_state"],
        described["protocol_type"],
        described["protocol_data"],
        sorted(str(each["group_instance_id"]) for each in described["members"]),
    ]
    facts[f"{how} deleted in use"] = admin.delete_groups([name])


def committed(admin: KafkaAdminClient, name: str) -> dict[int, int]:
    found = admin.list_group_offsets([name])[name]
    return dict(sorted((at.partition, each.offset) for at, each in found.items()))


def offsets(admin: KafkaAdminClient, name: str, topic: str, facts: dict[str, Any]) -> None:
    first = TopicPartition(topic, 0)
    facts["records deleted"] = admin.delete_records({first: 5})[first]["low_watermark"]
    facts["too many deleted"] = word(lambda: admin.delete_records({first: 10_000}))
    specs = {"earliest": -2, "latest": -1, "max timestamp": -3, "at a time": FIRST_MS + 150}
    for what, spec in specs.items():
        found = admin.list_partition_offsets({first: spec})[first]
        facts[what] = [found.offset, found.timestamp]
    eager = f"{name}-eager"
    reset = admin.alter_group_offsets(eager, {first: OffsetAndMetadata(7, "reset", -1)})
    facts["reset"] = [each.__name__ for each in reset.values()]
    facts["after reset"] = committed(admin, eager)
    facts["groups deleted"] = [
        [*each.split("-")[-1:], told]
        for group_id in (eager, eager, f"{name}-absent")
        for each, told in admin.delete_groups([group_id]).items()
    ]
    mine = [each for each in admin.list_groups() if each["group_id"].startswith(name)]
    facts["groups"] = sorted([each["group_id"], each["protocol_type"], each["group_state"]] for each in mine)
    dirs = admin.describe_log_dirs({topic: [0]})
    facts["log dirs"] = sorted([each["broker"], len(each["log_dirs"])] for each in dirs)


def transactions(bootstrap: str, admin: KafkaAdminClient, name: str, topic: str, facts: dict[str, Any]) -> None:
    target, eos = f"{name}-target", f"{name}-eos"
    admin.create_topics({target: {"num_partitions": 1, "replication_factor": 3}}, wait_for_metadata=True)
    settings = {"bootstrap_servers": bootstrap, "transactional_id": name}
    producer, successor = KafkaProducer(**settings), KafkaProducer(**settings)
    producer.init_transactions()
    for kept in (True, False, True):
        producer.begin_transaction()
        for number in range(10):
            producer.send(target, f"{kept} {number}".encode())
        producer.flush(WAIT_S)
        producer.send_offsets_to_transaction(
            {TopicPartition(topic, 0): OffsetAndMetadata(7 if kept else 99, "", -1)}, eos
        )
        if kept:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    reader = KafkaConsumer(
        target, bootstrap_servers=bootstrap, group_id=f"{name}-plain", isolation_level="read_committed",
        auto_offset_reset="earliest", consumer_timeout_ms=WAIT_S * 1000,
    )  # fmt: skip
    facts["transacted"] = [next(reader).value.decode() for _ in range(20)]
    reader.close()
    # The markers follow the answer to the commit.
    until(lambda: admin.describe_transactions([name])[name].state.value == "CompleteCommit", "the markers")
    facts["sent offsets"] = committed(admin, eos)
    facts["timeout"] = admin.describe_transactions([name])[name].transaction_timeout_ms
    states = {each.transactional_id: each.state for told in admin.list_transactions().values() for each in told}
    facts["listed"] = states[name].value

    producer.begin_transaction()
    producer.send(target, b"zombie")
    producer.flush(WAIT_S)
    at = TopicPartition(target, 0)
    active = admin.describe_producers([at])[at].active_producers
    facts["producers"] = sorted([each.producer_epoch, each.last_sequence] for each in active)
    successor.init_transactions()
    facts["fenced"] = word(producer.commit_transaction)
    for each in (producer, successor):
        each.close(5)
