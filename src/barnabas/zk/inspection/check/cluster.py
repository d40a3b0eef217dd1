"""The cluster that a tree describes, as far as its znodes can be read; unreadable znodes are findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from barnabas.model.cluster import BrokerInfo
from barnabas.model.ids import TopicPartition
from barnabas.zk.inspection.check.finding import ZnodeFinding
from barnabas.zk.inspection.image import ReadZNode, TreeImage
from barnabas.zk.kafka.znode_json import ZNodeError, parsed_json
from barnabas.zk.kafka.znodes import (
    BrokerIdsZNode,
    BrokerIdZNode,
    ControllerEpochZNode,
    ControllerRegistration,
    ControllerZNode,
    DeleteTopicsZNode,
    LeaderIsrAndControllerEpoch,
    TopicIdReplicaAssignment,
    TopicPartitionStateZNode,
    TopicsZNode,
    TopicZNode,
)
from barnabas.zk.protocol.data import Stat
from barnabas.zk.protocol.paths import joined

T = TypeVar("T")

UNREADABLE: Final = "unreadable"


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """A broker's registration. `fields` is its JSON; `info` is made from it."""

    info: BrokerInfo
    stat: Stat
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic's assignment and the states of its partitions, by partition number; `stat` is of the topic's znode."""

    name: str
    stat: Stat
    assignment: TopicIdReplicaAssignment
    states: Mapping[int, LeaderIsrAndControllerEpoch]
    state_paths: Mapping[int, str]
    """The partitions with a state, readable or not."""


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The content of a tree, read at `now_ms`, wall clock."""

    image: TreeImage
    now_ms: int
    brokers: Mapping[int, RegisteredBroker]
    controller: ControllerRegistration | None
    controller_epoch: int | None
    topics: Mapping[str, TopicRecord]
    deleting: tuple[str, ...]
    unreadable: tuple[ZnodeFinding, ...] = field(default=())

    def age_ms(self, since_ms: int) -> int:
        return self.now_ms - since_ms

    def dead(self, brokers: tuple[int, ...]) -> tuple[int, ...]:
        """The brokers that are not registered."""
        return tuple(broker for broker in brokers if broker not in self.brokers)


class Parse(Protocol):
    """Decodes a znode; None if it cannot be read, which is a finding."""

    def __call__(self, znode: ReadZNode, decode: Callable[[], T]) -> T | None: ...


def read_cluster(image: TreeImage, now_ms: int) -> ClusterRecord:
    unreadable: list[ZnodeFinding] = []

    def parsed(znode: ReadZNode, decode: Callable[[], T]) -> T | None:
        try:
            return decode()
        except (ZNodeError, ValueError) as error:
            unreadable.append(unreadable_finding(znode.path, error))
            return None

    brokers: dict[int, RegisteredBroker] = {}
    for znode in image.below(BrokerIdsZNode.path):
        name = znode.path.rpartition("/")[2]
        if not (name.isascii() and name.isdigit()):
            unreadable.append(
                ZnodeFinding(
                    "broker-id",
                    znode.path,
                    f"{znode.path} is no broker's id, which is a whole number from 0 on.",
                    f"Find out who made it and remove it: `barnabas zk delete {znode.path}`.",
                )
            )
            continue
        info = parsed(znode, partial(BrokerIdZNode.decode, int(name), znode.data, znode.stat.czxid))
        if info is not None:
            brokers[int(name)] = RegisteredBroker(info, znode.stat, parsed_json(znode.path, znode.data))

    controller = controller_epoch = None
    if (found := image.znodes.get(ControllerZNode.path)) is not None:
        controller = parsed(found, partial(ControllerZNode.decode, found.data, found.stat.version))
    if (found := image.znodes.get(ControllerEpochZNode.path)) is not None:
        controller_epoch = parsed(found, partial(ControllerEpochZNode.decode, found.data))

    return ClusterRecord(
        image,
        now_ms,
        dict(sorted(brokers.items())),
        controller,
        controller_epoch,
        _topics(image, parsed),
        image.children(DeleteTopicsZNode.path),
        tuple(unreadable),
    )


def _topics(image: TreeImage, parsed: Parse) -> dict[str, TopicRecord]:
    topics: dict[str, TopicRecord] = {}
    for znode in image.below(TopicsZNode.path):
        name = znode.path.rpartition("/")[2]
        assignment = parsed(znode, partial(TopicZNode.decode, name, znode.data))
        if assignment is None:
            continue
        states: dict[int, LeaderIsrAndControllerEpoch] = {}
        state_paths: dict[int, str] = {}
        for partition_znode in image.below(f"{znode.path}/partitions"):
            number_text = partition_znode.path.rpartition("/")[2]
            state = image.znodes.get(joined(partition_znode.path, "state"))
            if state is None or not number_text.isdigit():
                continue
            partition = TopicPartition(name, int(number_text))
            state_paths[partition.partition] = state.path
            decode = partial(TopicPartitionStateZNode.decode, partition, state.data, state.stat.version)
            if (decoded := parsed(state, decode)) is not None:
                states[partition.partition] = decoded
        topics[name] = TopicRecord(name, znode.stat, assignment, states, dict(sorted(state_paths.items())))
    return topics


def unreadable_finding(path: str, error: Exception) -> ZnodeFinding:
    """Bytes that Kafka does not write there."""
    text = str(error)
    if len(text) > 300:
        text = text[:300] + ".."
    return ZnodeFinding(
        UNREADABLE,
        path,
        f"{text}.",
        f"No broker can read it: look at it (`barnabas zk get {path}`), and put back what belongs there "
        f"(`barnabas zk set {path} ..`) from a backup or from a znode of the same kind.",
    )
