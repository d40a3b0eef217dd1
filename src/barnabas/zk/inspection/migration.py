"""Finds obstacles to a migration to KRaft (KIP-866), in a cluster's znodes and a broker's file. Pure.

The rules name states in which Apache Kafka 3.9's controllers fail when they migrate a cluster from ZooKeeper, or when
it is migrated back: `ZkMigrationClient`, `KRaftMigrationDriver`, `KafkaConfig`, and the named issues. `check` finds all
other faults of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from barnabas.model.ids import Uuid
from barnabas.model.metadata_version import MetadataVersion, metadata_version
from barnabas.security.sasl.scram_credential import MECHANISMS, ScramCredential
from barnabas.zk.inspection.check.cluster import ClusterRecord
from barnabas.zk.inspection.check.entities import clients_znodes
from barnabas.zk.inspection.check.finding import ZnodeFinding, agreed, counted, listed
from barnabas.zk.kafka.config_znodes import BROKERS, ConfigEntityTypeZNode, ConfigEntityZNode
from barnabas.zk.kafka.znode_json import Reading, ZNodeError
from barnabas.zk.kafka.znodes import (
    BrokerSequenceIdZNode,
    ClusterIdZNode,
    ControllerEpochZNode,
    ControllerZNode,
    DeleteTopicsZNode,
    FeatureZNode,
    MigrationZNode,
    TopicsZNode,
    TopicZNode,
)
from barnabas.zk.protocol.paths import joined

PROTOCOL: Final = "inter.broker.protocol.version"
ENABLED: Final = "zookeeper.metadata.migration.enable"
VOTERS: Final = "controller.quorum.voters"
BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"
LISTENERS: Final = "controller.listener.names"
FILE: Final = "server.properties"


@dataclass(frozen=True, slots=True)
class MigrationState:
    """The content of ``/migration``; `offset` is -1 until the znodes were copied (``initialZkMigrationComplete``)."""

    kraft_controller_id: int
    kraft_controller_epoch: int
    offset: int
    epoch: int


def migration_state(data: bytes | None) -> MigrationState:
    """Raises `ZNodeError` for a state that a KRaft controller cannot read."""
    with Reading(MigrationZNode.path, data) as fields:
        if int(fields["version"]) != 0:
            raise ZNodeError(f"{MigrationZNode.path} has version {fields['version']}, not 0")
        return MigrationState(
            int(fields["kraft_controller_id"]),
            int(fields["kraft_controller_epoch"]),
            int(fields["kraft_metadata_offset"]),
            int(fields["kraft_metadata_epoch"]),
        )


def obstacles(cluster: ClusterRecord, properties: Mapping[str, str]) -> list[ZnodeFinding]:
    """`properties` are those of a broker's file, empty if none is given."""
    return [*cluster.unreadable, *(finding for rule in RULES for finding in rule(cluster, properties))]


def _cluster_id(cluster: ClusterRecord, _: Mapping[str, str]) -> Iterator[ZnodeFinding]:
    """KRaft controllers are formatted with the cluster's id: with another id they do not take the metadata over."""
    data = cluster.image.data(ClusterIdZNode.path)
    try:
        Uuid.parse(ClusterIdZNode.decode(data))
    except (ZNodeError, ValueError):
        yield ZnodeFinding(
            "cluster-id",
            ClusterIdZNode.path,
            "/cluster/id holds no id that `kafka-storage format -t` takes, and the controllers have to be formatted "
            "with this cluster's id and no other.",
            "Put back the id that stands in every meta.properties (`cluster.id`).",
        )


def _left_over(cluster: ClusterRecord, _: Mapping[str, str]) -> Iterator[ZnodeFinding]:
    """KAFKA-19480, and a migration that was rolled back without removing its mark (KAFKA-17146)."""
    if MigrationZNode.path not in cluster.image:
        return
    try:
        state = migration_state(cluster.image.data(MigrationZNode.path))
    except ZNodeError as error:
        yield ZnodeFinding(
            "migration-malformed",
            MigrationZNode.path,
            f"/migration cannot be read ({error}): the KRaft controller tries again and again, and the migration never "
            "begins (KAFKA-19480; `zookeeper-security-migration` makes it empty).",
            "`barnabas zk delete /migration` before the controllers are started.",
        )
        return
    if state.offset >= 0 and not _is_krafts(cluster):
        yield ZnodeFinding(
            "migration-left-over",
            MigrationZNode.path,
            f"/migration says that the znodes were copied already, up to offset {state.offset} of controller "
            f"{state.kraft_controller_id}, and a broker is controller: controllers that begin now do not copy them "
            "again but write what they have over them, and a new quorum has nothing. Topics would be deleted.",
            "`barnabas zk delete /migration`, and format the controllers anew, before they are started.",
        )


def _is_krafts(cluster: ClusterRecord) -> bool:
    controller = cluster.controller
    return controller is not None and controller.kraft_epoch is not None and controller.kraft_epoch >= 0


def _migration_state_of(cluster: ClusterRecord) -> MigrationState | None:
    """None if there is none, or it is unreadable, which `_left_over` reports."""
    try:
        return migration_state(cluster.image.data(MigrationZNode.path))
    except ZNodeError:
        return None


def _epochs(cluster: ClusterRecord, _: Mapping[str, str]) -> Iterator[ZnodeFinding]:
    """KAFKA-20488: after a rollback, brokers and partitions know a greater epoch than the next controller's."""
    epoch = cluster.controller_epoch
    if epoch is None:
        yield ZnodeFinding(
            "controller-epoch-missing",
            ControllerEpochZNode.path,
            "/controller_epoch is missing or unreadable: a KRaft controller cannot claim the cluster without it.",
            "Start a broker that becomes controller, or see `barnabas zk check`.",
        )
        return
    ahead = [
        f"{topic.name}-{number}"
        for topic in cluster.topics.values()
        for number, state in topic.states.items()
        if state.controller_epoch > epoch
    ]
    if ahead:
        yield ZnodeFinding(
            "partition-epochs-ahead",
            ControllerEpochZNode.path,
            f"/controller_epoch is {epoch}, and {counted(len(ahead), 'partition')} "
            f"{agreed(len(ahead), 'was', 'were')} written by a later controller: {listed(sorted(ahead))}. "
            "No controller of ZooKeeper's elects them a leader: they go offline (KAFKA-20488).",
            "While no broker is controller, set /controller_epoch above the greatest of them: "
            "`barnabas zk set /controller_epoch N`.",
        )
    kraft = [
        found.kraft_epoch
        for found in (cluster.controller,)
        if found is not None and found.kraft_epoch is not None and found.kraft_epoch >= 0
    ]
    state = _migration_state_of(cluster)
    if state is not None:
        kraft.append(state.kraft_controller_epoch)
    if kraft and max(kraft) > epoch:
        yield ZnodeFinding(
            "kraft-epoch-ahead",
            ControllerEpochZNode.path,
            f"The KRaft controllers are at epoch {max(kraft)}, and /controller_epoch is {epoch}: after a rollback "
            "brokers refuse the next controller's requests as stale, and partitions go offline (KAFKA-20488).",
            f"Before you roll back, when the KRaft controllers are stopped: `barnabas zk set /controller_epoch "
            f"{max(kraft) + 1}`, then delete /controller.",
        )


def _brokers(cluster: ClusterRecord, _: Mapping[str, str]) -> Iterator[ZnodeFinding]:
    """The migration driver waits until every broker with assigned replicas has registered with KRaft."""
    if _is_krafts(cluster):
        return  # a broker in KRaft mode is not registered here
    missing: dict[int, str] = {}
    for topic in cluster.topics.values():
        if topic.name in cluster.deleting:
            continue
        for partition, assignment in topic.assignment.assignment.items():
            for replica in assignment.replicas:
                if replica not in cluster.brokers:
                    missing.setdefault(replica, str(partition))
    if missing:
        yield ZnodeFinding(
            "broker-missing",
            TopicsZNode.path,
            f"{agreed(len(missing), 'Broker', 'Brokers')} {listed(sorted(missing))} "
            f"{agreed(len(missing), 'has', 'have')} replicas (of {next(iter(missing.values()))}) and "
            f"{agreed(len(missing), 'is', 'are')} not registered: the migration waits for them for ever.",
            "Start them, or move their replicas elsewhere: `barnabas reassign`.",
        )


def _topics(cluster: ClusterRecord, _: Mapping[str, str]) -> Iterator[ZnodeFinding]:
    without = sorted(topic.name for topic in cluster.topics.values() if topic.assignment.topic_id is None)
    if without:
        yield ZnodeFinding(
            "topic-without-id",
            TopicZNode.path(without[0]),
            f"{counted(len(without), 'topic')} without an id: {listed(without)}. KRaft cannot hold such, and the "
            "migration fails at the first.",
            f"Raise {PROTOCOL} to 2.8 or more on all brokers: the next controller gives ids.",
        )
    if cluster.deleting:
        yield ZnodeFinding(
            "deletion-pending",
            DeleteTopicsZNode.path,
            f"{counted(len(cluster.deleting), 'topic')} {agreed(len(cluster.deleting), 'is', 'are')} to be deleted: "
            f"{listed(cluster.deleting)}. They are not migrated, and what brokers hold of them is removed later.",
            "Wait until they are gone.",
        )
    moving = sorted(
        str(partition)
        for topic in cluster.topics.values()
        for partition, assignment in topic.assignment.assignment.items()
        if assignment.is_being_reassigned
    )
    if moving:
        yield ZnodeFinding(
            "reassignment-pending",
            TopicsZNode.path,
            f"{counted(len(moving), 'partition')} {agreed(len(moving), 'is', 'are')} being reassigned: "
            f"{listed(moving)}. What is half moved is completed by the other controller, and what it leaves "
            "behind is yours to find (KAFKA-16120).",
            "Let reassignments end, or cancel them: `barnabas reassign list`, `barnabas reassign cancel --all`.",
        )
    stateless = sorted(
        str(partition)
        for topic in cluster.topics.values()
        if topic.name not in cluster.deleting
        for partition in topic.assignment.assignment
        if partition.partition not in topic.state_paths
    )
    if stateless:
        yield ZnodeFinding(
            "partition-without-state",
            TopicsZNode.path,
            f"{counted(len(stateless), 'partition')} without a state: {listed(stateless)}. KRaft takes all replicas "
            "for in sync, and the first for the leader.",
            "See `barnabas zk check`: a controller makes them as soon as a replica is alive.",
        )


def _quotas(cluster: ClusterRecord, _: Mapping[str, str]) -> Iterator[ZnodeFinding]:
    """A value that is neither a credential nor a number ends the migration (`ZkConfigMigrationClient`)."""
    for znode in clients_znodes(cluster.image):
        for key, value in ConfigEntityZNode.decode(znode.data).items():
            credential = key in MECHANISMS
            try:
                if credential:
                    ScramCredential.decode(value)
                else:
                    float(value)
            except ValueError:
                yield ZnodeFinding(
                    "credential-unreadable" if credential else "quota-no-number",
                    znode.path,
                    f"{znode.path} has {key}, which is {'no' if credential else 'neither a number nor a'} SCRAM "
                    "credential: the migration fails at it.",
                    f"Remove or mend it: `barnabas zk get {znode.path}`.",
                )


def _passwords(cluster: ClusterRecord, properties: Mapping[str, str]) -> Iterator[ZnodeFinding]:
    """Dynamic passwords are enciphered in ZooKeeper with the brokers' ``password.encoder.secret``."""
    root = ConfigEntityTypeZNode.path(BROKERS)
    enciphered = sorted(
        f"{znode.path.rpartition('/')[2]} ({key})"
        for znode in cluster.image.below(root)
        for key, value in ConfigEntityZNode.decode(znode.data).items()
        if "encryptedPassword:" in value
    )
    if enciphered:
        yield ZnodeFinding(
            "enciphered-password",
            joined(root, enciphered[0].partition(" ")[0]),
            f"{counted(len(enciphered), 'dynamic password')} of brokers: {listed(enciphered)}. A KRaft controller that "
            "lacks password.encoder.secret cannot read them.",
            "Give the controllers the brokers' password.encoder.secret for the migration.",
        )


def _ids(cluster: ClusterRecord, properties: Mapping[str, str]) -> Iterator[ZnodeFinding]:
    image = cluster.image
    sequence = image.znodes.get(BrokerSequenceIdZNode.path)
    generated = [number for number in cluster.brokers if number > 1000]
    if sequence is not None and sequence.stat.version > 0 and generated:
        yield ZnodeFinding(
            "generated-broker-id",
            BrokerSequenceIdZNode.path,
            f"{agreed(len(generated), 'Broker', 'Brokers')} {listed(generated)} may have a generated id, which a "
            "migration refuses.",
            "Set broker.id to the id that stands in their meta.properties.",
        )
    voters = [voter.partition("@")[0].strip() for voter in properties.get(VOTERS, "").split(",")]
    both = sorted(number for number in cluster.brokers if str(number) in voters)
    if both:
        yield ZnodeFinding(
            "controller-is-broker",
            FILE,
            f"{VOTERS} names {listed(both)}, as {agreed(len(both), 'a broker is', 'brokers are')} called: "
            "controllers of a migration are nodes of their own.",
            "Give the controllers ids that no broker has, such as 3000.",
        )


def _versions(cluster: ClusterRecord, properties: Mapping[str, str]) -> Iterator[ZnodeFinding]:
    wanted = "Set it to the version that the brokers run, and restart them one by one; only then enable the migration."
    text = properties.get(PROTOCOL)
    if text is not None:
        try:
            version = metadata_version(text)
        except ValueError as error:
            yield ZnodeFinding("protocol-version", FILE, f"{PROTOCOL}={text} is no version ({error}).", wanted)
        else:
            if version < MetadataVersion.IBP_3_4_IV0:
                yield ZnodeFinding(
                    "protocol-version", FILE, f"{PROTOCOL}={text}, and a migration wants 3.4 or more.", wanted
                )
            elif "," in properties.get("log.dirs", "") and version < MetadataVersion.IBP_3_7_IV2:
                yield ZnodeFinding(
                    "protocol-version",
                    FILE,
                    f"There are several log.dirs and {PROTOCOL}={text}: with several a migration wants 3.7 or more.",
                    wanted,
                )
    feature = cluster.image.znodes.get(FeatureZNode.path)
    try:
        old = feature is None or FeatureZNode.decode(feature.data).version < 2
    except ZNodeError:
        old = False  # `check` reports it
    if old and text is None:
        yield ZnodeFinding(
            "protocol-version",
            FeatureZNode.path,
            f"/feature is {'missing' if feature is None else 'of the form of before 3.3'}: the controller's {PROTOCOL} "
            "is below 3.3, and a migration wants 3.4 or more.",
            wanted,
        )


def _settings(cluster: ClusterRecord, properties: Mapping[str, str]) -> Iterator[ZnodeFinding]:
    """With a file that enables the migration and lacks a setting for it the broker does not start."""
    if properties.get(ENABLED, "").strip().lower() != "true":
        return
    for key, why in (
        (LISTENERS, "the listener of the controllers"),
        (VOTERS if BOOTSTRAP not in properties else BOOTSTRAP, "the controllers"),
    ):
        if not properties.get(key, "").strip():
            yield ZnodeFinding("setting-missing", FILE, f"{ENABLED}=true without {key}, {why}.", f"Set {key}.")
    if _whole_number(properties.get("broker.id", properties.get("node.id", ""))) is None:
        yield ZnodeFinding(
            "setting-missing",
            FILE,
            f"{ENABLED}=true without a broker.id of 0 or more.",
            "Set broker.id to the id that stands in meta.properties.",
        )


def _whole_number(text: str) -> int | None:
    """A whole number from 0 on."""
    return int(text) if text.strip().isdecimal() else None


def _controller(cluster: ClusterRecord, _: Mapping[str, str]) -> Iterator[ZnodeFinding]:
    """Once a KRaft controller has the cluster, the checks before the first step come too late."""
    found = cluster.controller
    if found is not None and _is_krafts(cluster):
        yield ZnodeFinding(
            "migration-under-way",
            ControllerZNode.path,
            f"KRaft controller {found.broker_id} (epoch {found.kraft_epoch}) has the cluster: the migration is under "
            "way. Do not replace a node or wipe its disk now (KAFKA-20762).",
            "Finish the migration, or roll it back, before nodes are replaced.",
        )


Rule: TypeAlias = Callable[[ClusterRecord, Mapping[str, str]], Iterator[ZnodeFinding]]

RULES: Final[tuple[Rule, ...]] = (
    _controller,
    _cluster_id,
    _left_over,
    _epochs,
    _brokers,
    _topics,
    _quotas,
    _passwords,
    _ids,
    _versions,
    _settings,
)
