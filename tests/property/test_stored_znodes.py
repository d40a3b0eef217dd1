"""Whatever stands in a znode, reading it gives what Kafka writes there or a `ZNodeError`, which costs that entry.

`READERS` names every class that reads a znode; one that is not in it fails `test_every_reader_is_in_the_table`.
"""

from __future__ import annotations

import asyncio
import pkgutil
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import mutated

from barnabas.broker.client_quotas import describe as describe_quotas
from barnabas.broker.scram_credentials import describe_all as describe_credentials
from barnabas.log.settings import LogSettings
from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.model.config import broker_config, refused_values, topic_config, topic_definitions
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.model.leadership import LeaderAndIsr
from barnabas.runtime.real import real_runtime
from barnabas.security.sasl.scram_credential import ScramCredential, ScramMechanism
from barnabas.zk import kafka
from barnabas.zk.kafka.config_znodes import ConfigEntityChangeNotificationSequenceZNode, ConfigEntityZNode
from barnabas.zk.kafka.delegation_tokens import TokenInformation
from barnabas.zk.kafka.security_znodes import AclChangeZNode, AclEntry, ResourcePattern, ResourceZNode
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znode_json import ZNodeError
from barnabas.zk.kafka.znodes import (
    BrokerIdZNode,
    ClusterIdZNode,
    ConsumerOffsetZNode,
    ControllerEpochZNode,
    ControllerZNode,
    Features,
    FeatureZNode,
    IsrChangeNotificationSequenceZNode,
    LeaderIsrAndControllerEpoch,
    LogDirEventNotificationSequenceZNode,
    PreferredReplicaElectionZNode,
    ProducerIdBlockZNode,
    ProducerIdsBlock,
    ReassignPartitionsZNode,
    ReplicaAssignment,
    TopicPartitionStateZNode,
    TopicZNode,
)
from barnabas.zk.protocol.data import Stat
from barnabas.zk.protocol.ops import GetChildren, GetData

T0 = TopicPartition("t", 0)
BROKER = BrokerInfo(1, (Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),), "rack", 5)
STATE = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 2, (1, 2)), 3)
TOKEN = TokenInformation("id", "User:a", "User:b", ("User:c",), 1, 2, 3)

READERS: dict[str, tuple[bytes, Callable[[bytes | None], object]]] = {
    "ControllerZNode.decode": (ControllerZNode.encode(1, 2), ControllerZNode.decode),
    "ControllerEpochZNode.decode": (ControllerEpochZNode.encode(7), ControllerEpochZNode.decode),
    "BrokerIdZNode.decode": (BrokerIdZNode.encode(BROKER, timestamp_ms=1), lambda data: BrokerIdZNode.decode(1, data)),
    "TopicZNode.decode": (
        TopicZNode.encode(Uuid(b"i" * 16), {T0: ReplicaAssignment((1, 2, 3), (3,), (1,))}),
        lambda data: TopicZNode.decode("t", data),
    ),
    "TopicPartitionStateZNode.decode": (
        TopicPartitionStateZNode.encode(STATE),
        lambda data: TopicPartitionStateZNode.decode(T0, data, 0),
    ),
    "ConfigEntityZNode.decode": (ConfigEntityZNode.encode({"retention.ms": "1"}), ConfigEntityZNode.decode),
    "ConfigEntityChangeNotificationSequenceZNode.decode": (
        ConfigEntityChangeNotificationSequenceZNode.encode("topics/t"),
        ConfigEntityChangeNotificationSequenceZNode.decode,
    ),
    "IsrChangeNotificationSequenceZNode.decode": (
        IsrChangeNotificationSequenceZNode.encode([T0]),
        IsrChangeNotificationSequenceZNode.decode,
    ),
    "LogDirEventNotificationSequenceZNode.decode": (
        LogDirEventNotificationSequenceZNode.encode(1),
        LogDirEventNotificationSequenceZNode.decode,
    ),
    "ReassignPartitionsZNode.decode": (ReassignPartitionsZNode.encode({T0: (1, 2)}), ReassignPartitionsZNode.decode),
    "PreferredReplicaElectionZNode.decode": (
        PreferredReplicaElectionZNode.encode([T0]),
        PreferredReplicaElectionZNode.decode,
    ),
    "ConsumerOffsetZNode.decode": (ConsumerOffsetZNode.encode(7), ConsumerOffsetZNode.decode),
    "ClusterIdZNode.decode": (ClusterIdZNode.encode("c"), ClusterIdZNode.decode),
    "ProducerIdBlockZNode.decode": (
        ProducerIdBlockZNode.encode(ProducerIdsBlock(1, 1000, 1000)),
        ProducerIdBlockZNode.decode,
    ),
    "FeatureZNode.decode": (FeatureZNode.encode(Features({"f": 1})), FeatureZNode.decode),
    "ResourceZNode.decode": (
        ResourceZNode.encode([AclEntry("User:a", "Allow", "*", "Read")]),
        lambda data: ResourceZNode.decode("/kafka-acl/Topic/t", data),
    ),
    "AclChangeZNode.decode_literal": (
        AclChangeZNode.encode(ResourcePattern("TOPIC", "t")),
        AclChangeZNode.decode_literal,
    ),
    "AclChangeZNode.decode_extended": (
        AclChangeZNode.encode(ResourcePattern("TOPIC", "t", "PREFIXED")),
        AclChangeZNode.decode_extended,
    ),
    "TokenInformation.decode": (TOKEN.encode(), lambda data: TokenInformation.decode("id", data)),
}


MODULES = [module.name for module in pkgutil.iter_modules(kafka.__path__)]


def test_every_reader_is_in_the_table() -> None:
    found = {
        f"{name}.{method}"
        for module in (import_module(f"{kafka.__name__}.{module}") for module in MODULES)
        for name, each in vars(module).items()
        if isinstance(each, type) and each.__module__ == module.__name__
        for method in vars(each)
        if method.startswith("decode")
    }
    assert found == READERS.keys()


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_znode_that_cannot_be_read_says_so(name: str, data: st.DataObject) -> None:
    valid, decode = READERS[name]
    decode(valid)
    content = data.draw(st.one_of(mutated(valid), st.none(), st.sampled_from([b"[" * 5000, b'{"version":1e999}'])))
    told = ""
    try:
        decode(content)
    except ZNodeError as error:
        told = str(error)
    except ValueError:
        assert name == "ConsumerOffsetZNode.decode"
    assert len(told) < 2_000


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_a_topics_stored_values_that_are_not_allowed_count_as_not_set(data: st.DataObject) -> None:
    names = st.sampled_from(sorted(topic_definitions()))
    values = data.draw(st.dictionaries(names, st.text(max_size=12) | st.integers().map(str), max_size=6))
    usable = {name: text for name, text in values.items() if name not in refused_values(topic_definitions(), values)}
    LogSettings.of(topic_config(broker_config({}), usable))


# --- many of a kind ---------------------------------------------------------------------------------------------------


class OneAnswer:
    """A ZooKeeper with a few znodes; what is asked of it is answered at once."""

    def __init__(self, tree: dict[str, bytes]) -> None:
        self.tree = tree

    async def pipelined(self, ops: list[Any]) -> list[Any]:
        return [self.answer(op) for op in ops]

    def answer(self, op: Any) -> Any:
        stat = Stat(*[1] * len(Stat._fields))
        if isinstance(op, GetData):
            return self.tree[op.path], stat
        assert isinstance(op, GetChildren)
        return [path.removeprefix(f"{op.path}/") for path in self.tree if path.rpartition("/")[0] == op.path]


class Reading(KafkaZkClient):
    """Kafka's words over `OneAnswer`."""

    def __init__(self, tree: dict[str, bytes]) -> None:
        super().__init__(real_runtime(), None)  # type: ignore[arg-type]
        self.tree = OneAnswer(tree)

    async def _requests(self, ops: Any, *, in_order: bool = False) -> list[Any]:
        return await self.tree.pipelined(ops)


GARBAGE = b"\xff\x00garbage"
CREDENTIAL = ScramCredential.of(ScramMechanism.SCRAM_SHA_256, b"salt", b"password", 4096).encode()


@pytest.mark.parametrize(
    ("tree", "read", "found", "passed_over"),
    [
        (
            {"/brokers/ids/1": BrokerIdZNode.encode(BROKER, timestamp_ms=1), "/brokers/ids/2": GARBAGE},
            lambda zk: zk.get_sorted_broker_list(),
            [1, 2],
            {},
        ),
        (
            {
                "/brokers/ids/1": BrokerIdZNode.encode(BROKER, timestamp_ms=1),
                "/brokers/ids/2147483647": BrokerIdZNode.encode(BROKER, timestamp_ms=1),
                "/brokers/ids/2147483648": b"",
                "/brokers/ids/99999999999": b"",
                "/brokers/ids/x": b"",
                "/brokers/ids/²": b"",
            },
            lambda zk: zk.get_sorted_broker_list(),
            [1, 2147483647],
            {},
        ),
        (
            {"/isr_change_notification/isr_change_1": IsrChangeNotificationSequenceZNode.encode([T0])}
            | {"/isr_change_notification/isr_change_2": GARBAGE},
            lambda zk: zk.get_partitions_from_isr_change_notifications(["1", "2"]),
            [T0],
            {"znode": 1},
        ),
        (
            {"/log_dir_event_notification/log_dir_event_1": LogDirEventNotificationSequenceZNode.encode(4)}
            | {"/log_dir_event_notification/log_dir_event_2": GARBAGE},
            lambda zk: zk.get_broker_ids_from_log_dir_events(["1", "2"]),
            [4],
            {"znode": 1},
        ),
        (
            {"/delegation_token/tokens/id": TOKEN.encode(), "/delegation_token/tokens/other": GARBAGE},
            lambda zk: zk.get_delegation_tokens(),
            {"id": TOKEN},
            {"znode": 1},
        ),
        (
            {"/config/users/a": ConfigEntityZNode.encode({"SCRAM-SHA-256": CREDENTIAL, "SCRAM-SHA-512": "salt=?"})}
            | {"/config/users/b": ConfigEntityZNode.encode({"SCRAM-SHA-256": "nonsense"})}
            | {"/config/users/c": GARBAGE},
            describe_credentials,
            {"a": [(ScramMechanism.SCRAM_SHA_256, 4096)]},
            {"credential": 2},
        ),
        (
            {"/config/ips/a": ConfigEntityZNode.encode({"connection_creation_rate": "7"})}
            | {"/config/ips/b": ConfigEntityZNode.encode({"connection_creation_rate": "many"})},
            lambda zk: describe_quotas(zk, {}, strict=False),
            [({"ip": "a"}, {"connection_creation_rate": 7.0})],
            {"quota": 1},
        ),
    ],
    ids=["brokers", "strange brokers", "isr changes", "log dir events", "tokens", "credentials", "quotas"],
)
def test_one_that_cannot_be_read_costs_itself_alone(
    tree: dict[str, bytes],
    read: Callable[[KafkaZkClient], Awaitable[object]],
    found: object,
    passed_over: dict[str, int],
) -> None:
    async def story() -> None:
        zk = Reading(tree)
        assert await read(zk) == found
        assert zk.unreadable.counts == passed_over

    asyncio.run(story())
