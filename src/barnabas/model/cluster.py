"""The cluster as one broker knows it from UpdateMetadata: live brokers, topics, leaders. Immutable values."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

from barnabas.model.ids import Uuid


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one listener of a broker is reached. `security_protocol`: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        return f"{self.listener}://{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a listener bound to `host`; False for any name but ``localhost``."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def host_address(host: str) -> str:
    """An address as Java's ``InetAddress.getHostAddress`` writes it, and so as ACLs name it: all eight groups of IPv6,
    and plain IPv4 for an IPv4 address mapped into IPv6. Anything but an IPv6 address stays as it is."""
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    scope = f"%{address.scope_id}" if address.scope_id else ""
    packed = address.packed
    return ":".join(f"{packed[at] << 8 | packed[at + 1]:x}" for at in range(0, 16, 2)) + scope


SECURITY_PROTOCOL_IDS: dict[str, int] = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """One registered broker. `epoch` is the czxid of its znode, -1 where that is not known."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    epoch: int = -1
    registration_version: int = 5
    """The form in which the broker writes its own registration."""

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((e for e in self.endpoints if e.listener == listener), None)


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition as the metadata cache holds it (UpdateMetadataPartitionState)."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    partition_epoch: int = 0
    controller_epoch: int = 0


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """`partitions` maps a partition's number to its state; a topic that is being deleted is not here any more."""

    name: str
    topic_id: Uuid
    partitions: dict[int, PartitionInfo]


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """A consistent picture; a change makes a new one and shares what did not change."""

    controller_id: int = -1
    brokers: dict[int, BrokerInfo] = field(default_factory=dict)
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    topic_names: dict[Uuid, str] = field(default_factory=dict)
    is_kraft_controller: bool = False
    """Whether the controller is a KRaft node (KIP-866), separate from the brokers, which clients do not reach."""

    def controller_for_clients(self, asked: int) -> int:
        """The broker that clients take for the controller, -1 if there is none.

        For a KRaft controller it is the broker that they ask, which forwards. (Apache's names any live broker.)
        """
        if not self.is_kraft_controller:
            return self.controller_id
        return asked if asked in self.brokers else -1
