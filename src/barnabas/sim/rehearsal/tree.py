"""Which of a cluster's znodes are copied, and the cluster that they describe.

Only znodes that the controller reads are read at all: no users (SCRAM), no delegation tokens, no ACLs, no other
application's znodes. Of configurations only the keys that elections and ISRs depend on are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.model.cluster import BrokerInfo
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.inspection.image import SYSTEM_ROOT, ReadZNode, TreeImage, creations_of, read_tree
from barnabas.zk.inspection.transfer import ExportedZNode, first_line, last_line
from barnabas.zk.kafka.config_znodes import BROKERS, DEFAULT_ENTITY, TOPICS, ConfigEntityTypeZNode, ConfigEntityZNode
from barnabas.zk.kafka.znodes import (
    BrokerIdsZNode,
    BrokerIdZNode,
    ClusterIdZNode,
    ControllerEpochZNode,
    ControllerZNode,
    DeleteTopicsZNode,
    FeatureZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
    TopicPartitionStateZNode,
    TopicsZNode,
    TopicZNode,
)
from barnabas.zk.protocol.data import Stat
from barnabas.zk.protocol.errors import NoNode
from barnabas.zk.protocol.paths import parent_of

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
KEYS: Final = (MIN_ISR, UNCLEAN)
"""What is copied of configurations."""

ROOTS: Final = (
    ClusterIdZNode.path,
    FeatureZNode.path,
    ControllerEpochZNode.path,
    ControllerZNode.path,
    BrokerIdsZNode.path,
    TopicsZNode.path,
    DeleteTopicsZNode.path,
    ReassignPartitionsZNode.path,
    PreferredReplicaElectionZNode.path,
    ConfigEntityTypeZNode.path(TOPICS),
    ConfigEntityTypeZNode.path(BROKERS),
)


class RehearsalError(ValueError):
    """A tree that cannot be rehearsed on, or a step that cannot be done there; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class PartitionZnodes:
    """A partition as ZooKeeper has it; `leader` is -1 where there is none."""

    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    being_reassigned: bool = False

    def effective_min_isr(self, configured: int) -> int:
        """``min.insync.replicas``, or the number of replicas if that is less, as ``Partition`` counts it."""
        return min(configured, len(self.replicas))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The live brokers, the controller (-1: nobody), and every partition."""

    brokers: tuple[int, ...]
    controller: int
    partitions: Mapping[TopicPartition, PartitionZnodes]


def snapshot(data: Callable[[str], bytes | None], children: Callable[[str], Iterable[str]]) -> Snapshot:
    """Reads a tree through `data` (None: no such znode) and `children`. Raises `ZNodeError`."""
    partitions: dict[TopicPartition, PartitionZnodes] = {}
    for topic in sorted(children(TopicsZNode.path)):
        for partition, assignment in TopicZNode.decode(topic, data(TopicZNode.path(topic))).assignment.items():
            written = data(TopicPartitionStateZNode.path(partition))
            state = TopicPartitionStateZNode.decode(partition, written, 0).leader_and_isr if written else None
            partitions[partition] = PartitionZnodes(
                NO_BROKER if state is None else state.leader,
                () if state is None else state.isr,
                assignment.replicas,
                assignment.is_being_reassigned,
            )
    registered = data(ControllerZNode.path)
    return Snapshot(
        tuple(sorted(int(name) for name in children(BrokerIdsZNode.path) if name.isdigit())),
        NO_BROKER if registered is None else ControllerZNode.decode(registered).broker_id,
        partitions,
    )


@dataclass(frozen=True)
class ClusterTree:
    """The copied znodes, a parent before its children, and the brokers that were registered."""

    source: str
    znodes: tuple[ExportedZNode, ...]
    brokers: Mapping[int, BrokerInfo]
    state: Snapshot
    topic_configs: Mapping[str, Mapping[str, str]]
    broker_configs: Mapping[str, Mapping[str, str]]
    """By broker id, and ``<default>``."""

    @property
    def racks(self) -> dict[str, tuple[int, ...]]:
        """The living brokers of each rack."""
        found: dict[str, list[int]] = {}
        for broker in self.brokers.values():
            if broker.rack is not None:
                found.setdefault(broker.rack, []).append(broker.broker_id)
        return {rack: tuple(sorted(brokers)) for rack, brokers in sorted(found.items())}

    def min_isr(self, topic: str, static: Mapping[str, str]) -> int:
        """A topic's ``min.insync.replicas``: its own, the cluster's dynamic default, the brokers' file, Kafka's 1."""
        for layer in (self.topic_configs.get(topic, {}), self.broker_configs.get(DEFAULT_ENTITY, {}), static):
            text = layer.get(MIN_ISR, "")
            if text.isdecimal():
                return int(text)
        return 1


async def read_cluster_tree(client: ZooKeeperClient) -> tuple[ExportedZNode, ...]:
    """Reads the znodes that are copied from a live ZooKeeper, and writes nothing there."""
    await client.sync("/")
    found: list[ExportedZNode] = []

    def take(batch: Sequence[ReadZNode]) -> None:
        found.extend(kept for read in batch if (kept := copied(_without_acls(read))) is not None)

    for root in ROOTS:
        try:
            await read_tree(client, root, take)
        except NoNode:
            continue
    return tuple(found)


async def read_whole_tree(client: ZooKeeperClient) -> tuple[ExportedZNode, ...]:
    """Every znode with its secrets, of which nothing leaves this process. Raises as `read_tree`."""
    await client.sync("/")
    found: list[ExportedZNode] = []
    await read_tree(client, "/", lambda batch: found.extend(map(_without_acls, batch)), hidden=(SYSTEM_ROOT,))
    return tuple(found)


def _without_acls(read: ReadZNode) -> ExportedZNode:
    stat = read.stat
    return ExportedZNode(
        read.path,
        read.data,
        version=stat.version,
        creations=creations_of(stat),
        ephemeral=stat.ephemeral_owner != 0,
    )


def _names_below(paths: Iterable[str]) -> dict[str, list[str]]:
    """The names of the children of each znode that has any."""
    names: dict[str, list[str]] = {}
    for path in paths:
        if path != "/":
            names.setdefault(parent_of(path), []).append(path.rpartition("/")[2])
    return names


def image_of(znodes: Iterable[ExportedZNode]) -> TreeImage:
    """The znodes as rules read them; their Stats have version, owner (1 where there is one) and children."""
    by_path = {znode.path: znode for znode in znodes}
    names = _names_below(by_path)
    return TreeImage(
        {
            path: ReadZNode(
                path,
                znode.data,
                Stat(
                    *(0, 0, 0, 0, znode.version, 2 * znode.creations - len(names.get(path, ())), 0),
                    *(int(znode.ephemeral), len(znode.data or b""), len(names.get(path, ())), 0),
                ),
                tuple(sorted(names.get(path, ()))),
                None,
            )
            for path, znode in by_path.items()
        }
    )


def copied(znode: ExportedZNode) -> ExportedZNode | None:
    """The part of a znode that is kept; None where that is nothing. ACLs are not copied: the copy belongs to nobody
    else."""
    path = znode.path
    if not any(path == root or path.startswith(f"{root}/") for root in ROOTS):
        return None
    data = znode.data
    if path.startswith("/config/") and path.count("/") == 3:
        config = ConfigEntityZNode.decode(data)
        data = ConfigEntityZNode.encode({key: config[key] for key in KEYS if key in config})
    return ExportedZNode(path, data, version=znode.version, creations=znode.creations, ephemeral=znode.ephemeral)


def export_lines(source: str, znodes: Sequence[ExportedZNode]) -> Iterator[str]:
    """The lines of a file, in the form of ``barnabas zk export``."""
    yield first_line(source)
    ephemerals = 0
    for znode in znodes:
        ephemerals += znode.ephemeral
        yield znode.line()
    yield last_line(len(znodes) - ephemerals, ephemerals)


def copied_of(znodes: Iterable[ExportedZNode]) -> tuple[ExportedZNode, ...]:
    return tuple(kept for znode in znodes if (kept := copied(znode)) is not None)


def cluster_tree(source: str, znodes: Sequence[ExportedZNode]) -> ClusterTree:
    """The cluster that the znodes describe. Raises `RehearsalError` where there is none, `ZNodeError` for nonsense."""
    by_path = {znode.path: znode for znode in znodes}
    names = _names_below(by_path)

    def data(path: str) -> bytes | None:
        znode = by_path.get(path)
        return None if znode is None else znode.data or b""

    def configs(entity_type: str) -> dict[str, dict[str, str]]:
        root = ConfigEntityTypeZNode.path(entity_type)
        return {name: ConfigEntityZNode.decode(data(f"{root}/{name}")) for name in sorted(names.get(root, ()))}

    state = snapshot(data, lambda path: names.get(path, ()))
    if not state.brokers:
        raise RehearsalError(
            f"No broker is registered in {source}: name a running cluster's ZooKeeper, with its chroot "
            "(host:port/chroot), or a file that was exported while its brokers ran."
        )
    written = data(ControllerZNode.path)
    kraft_epoch = None if written is None else ControllerZNode.decode(written).kraft_epoch
    if kraft_epoch is not None and kraft_epoch >= 0:
        raise RehearsalError(
            f"A KRaft controller holds /controller in {source} (epoch {kraft_epoch}): it is no ZooKeeper-mode "
            "controller that decides there."
        )
    brokers = {number: BrokerIdZNode.decode(number, data(BrokerIdZNode.path(number))) for number in state.brokers}
    return ClusterTree(source, tuple(znodes), brokers, state, configs(TOPICS), configs(BROKERS))
