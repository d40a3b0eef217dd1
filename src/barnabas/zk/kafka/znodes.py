"""Kafka's znodes: the path and the content of each. Pure; names and JSON are those of 3.9's ``ZkData.scala``.

Each class is one znode (or one family of them): ``path``, ``encode`` and ``decode``. The order of JSON keys means
nothing. A version number read from ZooKeeper comes in beside the bytes, never from them: the partition epoch is the
``version`` of the stat of ``state``, the broker epoch is the ``czxid`` of ``/brokers/ids/N``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.model.leadership import LeaderAndIsr, LeaderRecoveryState
from barnabas.zk.kafka.config_znodes import (
    BROKERS,
    CONFIG_TYPES,
    USERS,
    ConfigEntityChangeNotificationZNode,
    ConfigEntityTypeZNode,
)
from barnabas.zk.kafka.security_znodes import DelegationTokensZNode
from barnabas.zk.kafka.znode_json import Reading, ZNodeError, followed_epoch, int32, json_bytes, shown

MATCH_ANY_VERSION: Final = -1
"""``ZkVersion.MatchAnyVersion``: a set or delete with this version is unconditional."""
UNKNOWN_VERSION: Final = -2
"""``ZkVersion.UnknownVersion``: the version that a read returns for a missing znode."""

INITIAL_CONTROLLER_EPOCH: Final = 0
INITIAL_CONTROLLER_EPOCH_ZK_VERSION: Final = 0


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """The replicas of one partition; while it is reassigned also which of them come and which go."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def origin_replicas(self) -> tuple[int, ...]:
        """The replicas before the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.adding_replicas)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing_replicas)

    def reassign_to(self, target: tuple[int, ...]) -> ReplicaAssignment:
        """The assignment while the partition moves from its origin replicas to `target`."""
        origin = self.origin_replicas
        full = tuple(dict.fromkeys(target + origin))
        return ReplicaAssignment(
            full,
            tuple(replica for replica in full if replica not in origin),
            tuple(replica for replica in origin if replica not in target),
        )


@dataclass(frozen=True, slots=True)
class LeaderIsrAndControllerEpoch:
    """The content of a partition's ``state``: leader and ISR, and the epoch of the controller that wrote them."""

    leader_and_isr: LeaderAndIsr
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class TopicIdReplicaAssignment:
    """The content of a topic's znode. `topic_id` is None in a topic that a Kafka before 2.8 created."""

    topic: str
    topic_id: Uuid | None
    assignment: dict[TopicPartition, ReplicaAssignment]


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """The content of ``/controller``; `kraft_epoch` is above 0 when a KRaft controller took over in a migration."""

    broker_id: int
    kraft_epoch: int | None
    zk_version: int

    @property
    def is_kraft(self) -> bool:
        return self.kraft_epoch is not None and self.kraft_epoch > 0


@dataclass(frozen=True, slots=True)
class ProducerIdsBlock:
    """A range of producer ids given to one broker."""

    assigned_broker_id: int
    first_producer_id: int
    size: int

    @property
    def last_producer_id(self) -> int:
        return self.first_producer_id + self.size - 1


def _replicas(values: Iterable[Any]) -> tuple[int, ...]:
    return tuple(map(int32, values))


class ControllerZNode:
    """The broker that is controller; ephemeral, so that it disappears with the controller's session."""

    path: Final = "/controller"

    @staticmethod
    def encode(broker_id: int, timestamp_ms: int, kraft_controller_epoch: int = -1) -> bytes:
        return json_bytes(
            {
                "version": 2,
                "brokerid": broker_id,
                "timestamp": str(timestamp_ms),
                "kraftControllerEpoch": kraft_controller_epoch,
            }
        )

    @staticmethod
    def decode(data: bytes | None, zk_version: int = 0) -> ControllerRegistration:
        with Reading(ControllerZNode.path, data) as fields:
            kraft_epoch = fields.get("kraftControllerEpoch")
            return ControllerRegistration(
                int32(fields["brokerid"]), None if kraft_epoch is None else int32(kraft_epoch), zk_version
            )


class ControllerEpochZNode:
    """How many controllers there have been. Every write of a controller checks this znode's version."""

    path: Final = "/controller_epoch"

    @staticmethod
    def encode(epoch: int) -> bytes:
        return str(epoch).encode()

    @staticmethod
    def decode(data: bytes | None) -> int:
        try:
            return followed_epoch((data or b"").decode())
        except ValueError:
            raise ZNodeError(
                f"{ControllerEpochZNode.path} does not hold an epoch that another can follow: {shown(data)}"
            ) from None


class BrokerIdsZNode:
    path: Final = "/brokers/ids"


class BrokerIdZNode:
    """One live broker: where it listens. Ephemeral; its ``czxid`` is the broker epoch."""

    @staticmethod
    def path(broker_id: int) -> str:
        return f"{BrokerIdsZNode.path}/{broker_id}"

    @staticmethod
    def encode(broker: BrokerInfo, *, timestamp_ms: int, jmx_port: int = -1) -> bytes:
        """Version 5 since Kafka 2.7, version 4 (without features) with an older inter-broker protocol."""
        version = broker.registration_version
        plaintext = next((e for e in broker.endpoints if e.security_protocol == "PLAINTEXT"), None)
        fields: dict[str, Any] = {
            "version": version,
            # For clients older than listeners: the first plaintext endpoint, or none.
            "host": None if plaintext is None else plaintext.host,
            "port": -1 if plaintext is None else plaintext.port,
            "endpoints": [_connection_string(endpoint) for endpoint in broker.endpoints],
            "jmx_port": jmx_port,
            "timestamp": str(timestamp_ms),
            "listener_security_protocol_map": {e.listener: e.security_protocol for e in broker.endpoints},
        }
        if broker.rack is not None:
            fields["rack"] = broker.rack
        if version >= 5:
            fields["features"] = {}
        return json_bytes(fields)

    @staticmethod
    def decode(broker_id: int, data: bytes | None, epoch: int = -1) -> BrokerInfo:
        """Reads any version from 1 to 5. `epoch` is the znode's czxid."""
        path = BrokerIdZNode.path(broker_id)
        with Reading(path, data) as fields:
            version = int(fields["version"])
            if version < 1:
                raise ZNodeError(f"{path} has registration version {version}, which no Kafka writes: {shown(data)}")
            if version == 1:
                endpoints = [Endpoint("PLAINTEXT", str(fields["host"]), _port(fields["port"]))]
            else:
                protocols = fields.get("listener_security_protocol_map") or {}
                endpoints = [_endpoint(text, protocols) for text in fields["endpoints"]]
            rack = fields.get("rack")
            return BrokerInfo(broker_id, tuple(endpoints), None if rack is None else str(rack), epoch)


def _connection_string(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return Endpoint(listener, host.strip("[]"), _port(port), str(protocols.get(listener, listener)))


def _port(value: Any) -> int:
    port = int(value)
    if not 0 <= port < 1 << 16:
        raise ValueError(f"{port} is no port")
    return port


class BrokerSequenceIdZNode:
    """Its version is the next generated broker id."""

    path: Final = "/brokers/seqid"


class TopicsZNode:
    path: Final = "/brokers/topics"


class TopicZNode:
    """A topic's id and which brokers hold its partitions."""

    @staticmethod
    def path(topic: str) -> str:
        return f"{TopicsZNode.path}/{topic}"

    @staticmethod
    def encode(topic_id: Uuid | None, assignment: Mapping[TopicPartition, ReplicaAssignment]) -> bytes:
        ordered = sorted((key.partition, value) for key, value in assignment.items())
        fields: dict[str, Any] = {
            "version": 3,
            "partitions": {str(partition): list(value.replicas) for partition, value in ordered},
            "adding_replicas": {
                str(partition): list(value.adding_replicas) for partition, value in ordered if value.adding_replicas
            },
            "removing_replicas": {
                str(partition): list(value.removing_replicas) for partition, value in ordered if value.removing_replicas
            },
        }
        if topic_id is not None:
            fields["topic_id"] = str(topic_id)
        return json_bytes(fields)

    @staticmethod
    def decode(topic: str, data: bytes | None) -> TopicIdReplicaAssignment:
        with Reading(TopicZNode.path(topic), data) as fields:
            adding = fields.get("adding_replicas") or {}
            removing = fields.get("removing_replicas") or {}
            topic_id = fields.get("topic_id")
            return TopicIdReplicaAssignment(
                topic,
                None if topic_id is None else Uuid.parse(topic_id),
                {
                    TopicPartition(topic, partition): ReplicaAssignment(
                        _replicas(replicas),
                        _replicas(adding.get(str(partition), ())),
                        _replicas(removing.get(str(partition), ())),
                    )
                    for partition, replicas in sorted(
                        (int32(name, 0), replicas) for name, replicas in (fields.get("partitions") or {}).items()
                    )
                },
            )


class TopicPartitionsZNode:
    @staticmethod
    def path(topic: str) -> str:
        return f"{TopicZNode.path(topic)}/partitions"


class TopicPartitionZNode:
    @staticmethod
    def path(topic_partition: TopicPartition) -> str:
        return f"{TopicPartitionsZNode.path(topic_partition.topic)}/{topic_partition.partition}"


class TopicPartitionStateZNode:
    """A partition's leader and ISR. Its version is the partition epoch."""

    @staticmethod
    def path(topic_partition: TopicPartition) -> str:
        return f"{TopicPartitionZNode.path(topic_partition)}/state"

    @staticmethod
    def encode(state: LeaderIsrAndControllerEpoch) -> bytes:
        leader_and_isr = state.leader_and_isr
        fields: dict[str, Any] = {
            "controller_epoch": state.controller_epoch,
            "leader": leader_and_isr.leader,
            "version": 1,
            "leader_epoch": leader_and_isr.leader_epoch,
            "isr": list(leader_and_isr.isr),
        }
        if leader_and_isr.leader_recovery_state is not LeaderRecoveryState.RECOVERED:
            fields["leader_recovery_state"] = int(leader_and_isr.leader_recovery_state)
        return json_bytes(fields)

    @staticmethod
    def decode(topic_partition: TopicPartition, data: bytes | None, zk_version: int) -> LeaderIsrAndControllerEpoch:
        with Reading(TopicPartitionStateZNode.path(topic_partition), data) as fields:
            return LeaderIsrAndControllerEpoch(
                LeaderAndIsr(
                    int32(fields["leader"]),
                    followed_epoch(fields["leader_epoch"]),
                    _replicas(fields["isr"]),
                    LeaderRecoveryState(fields.get("leader_recovery_state", 0)),
                    zk_version,
                ),
                int32(fields["controller_epoch"]),
            )


class IsrChangeNotificationZNode:
    path: Final = "/isr_change_notification"


class IsrChangeNotificationSequenceZNode:
    """A leader below inter-broker protocol 2.7 tells the controller that it wrote new ISRs itself."""

    sequence_number_prefix: Final = "isr_change_"

    @staticmethod
    def path(sequence_number: str = "") -> str:
        prefix = IsrChangeNotificationSequenceZNode.sequence_number_prefix
        return f"{IsrChangeNotificationZNode.path}/{prefix}{sequence_number}"

    @staticmethod
    def encode(partitions: Iterable[TopicPartition]) -> bytes:
        return json_bytes(
            {
                "version": 1,
                "partitions": [{"topic": topic, "partition": partition} for topic, partition in sorted(partitions)],
            }
        )

    @staticmethod
    def decode(data: bytes | None) -> list[TopicPartition]:
        return _partitions(IsrChangeNotificationZNode.path, data)


def _partitions(path: str, data: bytes | None) -> list[TopicPartition]:
    with Reading(path, data) as fields:
        return [TopicPartition(str(entry["topic"]), int32(entry["partition"], 0)) for entry in fields["partitions"]]


class LogDirEventNotificationZNode:
    path: Final = "/log_dir_event_notification"


class LogDirEventNotificationSequenceZNode:
    """A broker tells the controller that one of its log directories failed."""

    sequence_number_prefix: Final = "log_dir_event_"

    @staticmethod
    def path(sequence_number: str = "") -> str:
        prefix = LogDirEventNotificationSequenceZNode.sequence_number_prefix
        return f"{LogDirEventNotificationZNode.path}/{prefix}{sequence_number}"

    @staticmethod
    def encode(broker_id: int) -> bytes:
        return json_bytes({"version": 1, "broker": broker_id, "event": 1})

    @staticmethod
    def decode(data: bytes | None) -> int:
        with Reading(LogDirEventNotificationZNode.path, data) as fields:
            return int32(fields["broker"])


class DeleteTopicsZNode:
    path: Final = "/admin/delete_topics"


class DeleteTopicsTopicZNode:
    """A topic that is to be deleted; removed last, when nothing of the topic is left."""

    @staticmethod
    def path(topic: str) -> str:
        return f"{DeleteTopicsZNode.path}/{topic}"


class ReassignPartitionsZNode:
    """A reassignment asked for by a tool older than the API for it; the controller still honours it."""

    path: Final = "/admin/reassign_partitions"

    @staticmethod
    def encode(reassignment: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
        return json_bytes(
            {
                "version": 1,
                "partitions": [
                    {"topic": topic, "partition": partition, "replicas": list(replicas)}
                    for (topic, partition), replicas in sorted(reassignment.items())
                ],
            }
        )

    @staticmethod
    def decode(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
        with Reading(ReassignPartitionsZNode.path, data) as fields:
            return {
                TopicPartition(str(entry["topic"]), int32(entry["partition"], 0)): _replicas(entry["replicas"])
                for entry in fields["partitions"]
            }


class PreferredReplicaElectionZNode:
    """Preferred-leader elections asked for by an old tool; the controller still honours it."""

    path: Final = "/admin/preferred_replica_election"

    @staticmethod
    def encode(partitions: Iterable[TopicPartition]) -> bytes:
        return IsrChangeNotificationSequenceZNode.encode(partitions)

    @staticmethod
    def decode(data: bytes | None) -> list[TopicPartition]:
        return _partitions(PreferredReplicaElectionZNode.path, data)


class ConsumerPathZNode:
    """Where consumers older than 0.9 kept their offsets. Kafka still makes it."""

    path: Final = "/consumers"


class ConsumerOffsetZNode:
    """An offset that was committed by version 0 of OffsetCommit."""

    @staticmethod
    def path(group: str, topic_partition: TopicPartition) -> str:
        return f"{ConsumerPathZNode.path}/{group}/offsets/{topic_partition.topic}/{topic_partition.partition}"

    @staticmethod
    def encode(offset: int) -> bytes:
        return str(offset).encode()

    @staticmethod
    def decode(data: bytes | None) -> int | None:
        """Raises ``ValueError``."""
        offset = None if data is None else int(data)
        if offset is not None and not -(1 << 63) <= offset < 1 << 63:
            raise ValueError(f"{offset} is no offset")
        return offset


class ClusterIdZNode:
    path: Final = "/cluster/id"

    @staticmethod
    def encode(cluster_id: str) -> bytes:
        return json_bytes({"version": "1", "id": cluster_id})

    @staticmethod
    def decode(data: bytes | None) -> str:
        with Reading(ClusterIdZNode.path, data) as fields:
            return str(fields["id"])


class ProducerIdBlockZNode:
    """The last block of producer ids that was given out; written by compare-and-set on its version."""

    path: Final = "/latest_producer_id_block"

    @staticmethod
    def encode(block: ProducerIdsBlock) -> bytes:
        return json_bytes(
            {
                "version": 1,
                "broker": block.assigned_broker_id,
                "block_start": str(block.first_producer_id),
                "block_end": str(block.last_producer_id),
            }
        )

    @staticmethod
    def decode(data: bytes | None) -> ProducerIdsBlock:
        with Reading(ProducerIdBlockZNode.path, data) as fields:
            start, end = int(fields["block_start"]), int(fields["block_end"])
            if not 0 <= start <= end < 1 << 63:
                raise ValueError(f"{start} to {end} is no block")
            return ProducerIdsBlock(int32(fields["broker"]), start, end - start + 1)


@dataclass(frozen=True, slots=True)
class Features:
    """Finalized features of the cluster. `enabled` is false below inter-broker protocol 2.7."""

    features: dict[str, int]
    enabled: bool = True
    version: int = 2


class FeatureZNode:
    """Its version is the ``finalized_features_epoch`` of ApiVersions."""

    path: Final = "/feature"

    @staticmethod
    def encode(features: Features) -> bytes:
        levels: dict[str, dict[str, int]] = {}
        for name, level in features.features.items():
            levels[name] = {"max_version_level": level}
            if features.version == 1:
                levels[name]["min_version_level"] = level
        return json_bytes({"features": levels, "version": features.version, "status": int(features.enabled)})

    @staticmethod
    def decode(data: bytes | None) -> Features:
        with Reading(FeatureZNode.path, data) as fields:
            version = int(fields["version"])
            if version not in (1, 2):
                raise ZNodeError(f"{FeatureZNode.path} has version {version}, not 1 or 2: {shown(data)}")
            status = int(fields["status"])
            if status not in (0, 1):
                raise ZNodeError(f"{FeatureZNode.path} has status {status}, not 0 or 1: {shown(data)}")
            levels = {str(name): int(entry["max_version_level"]) for name, entry in fields["features"].items()}
            return Features(levels, bool(status), version)


class MigrationZNode:
    """Exists only in a cluster that was migrated to KRaft, or whose migration was begun."""

    path: Final = "/migration"


PERSISTENT_ZK_PATHS: Final = (
    ConsumerPathZNode.path,
    BrokerIdsZNode.path,
    TopicsZNode.path,
    ConfigEntityChangeNotificationZNode.path,
    DeleteTopicsZNode.path,
    BrokerSequenceIdZNode.path,
    IsrChangeNotificationZNode.path,
    ProducerIdBlockZNode.path,
    LogDirEventNotificationZNode.path,
    *map(ConfigEntityTypeZNode.path, CONFIG_TYPES),
)
"""The znodes that every broker creates at its start, in this order."""

SENSITIVE_ROOT_PATHS: Final = (
    ConfigEntityTypeZNode.path(USERS),
    ConfigEntityTypeZNode.path(BROKERS),
    DelegationTokensZNode.path,
)
"""Only brokers may read below these when znodes have ACLs."""
