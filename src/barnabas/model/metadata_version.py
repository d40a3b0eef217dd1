"""The version of the requests between brokers: ``inter.broker.protocol.version`` (Kafka's ``MetadataVersion``).

Brokers do not ask each other for their versions; this configuration decides what each sends, so that a cluster can be
upgraded broker by broker. The order of this enumeration is Kafka's. Versions before 1.0 are not supported: their
LeaderAndIsr cannot distinguish a new replica from one whose log directory failed.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Final

from barnabas.model.config import Config
from barnabas.model.errors import ConfigError

KEY: Final = "inter.broker.protocol.version"


class MetadataVersion(IntEnum):
    """``2.6-IV0`` is `IBP_2_6_IV0`; later ones are greater."""

    IBP_1_0_IV0 = auto()
    IBP_1_1_IV0 = auto()
    IBP_2_0_IV0 = auto()
    IBP_2_0_IV1 = auto()
    IBP_2_1_IV0 = auto()
    IBP_2_1_IV1 = auto()
    IBP_2_1_IV2 = auto()
    IBP_2_2_IV0 = auto()
    IBP_2_2_IV1 = auto()
    IBP_2_3_IV0 = auto()
    IBP_2_3_IV1 = auto()
    IBP_2_4_IV0 = auto()
    IBP_2_4_IV1 = auto()
    IBP_2_5_IV0 = auto()
    IBP_2_6_IV0 = auto()
    IBP_2_7_IV0 = auto()
    IBP_2_7_IV1 = auto()
    IBP_2_7_IV2 = auto()
    IBP_2_8_IV0 = auto()
    IBP_2_8_IV1 = auto()
    IBP_3_0_IV0 = auto()
    IBP_3_0_IV1 = auto()
    IBP_3_1_IV0 = auto()
    IBP_3_2_IV0 = auto()
    IBP_3_3_IV0 = auto()
    IBP_3_3_IV1 = auto()
    IBP_3_3_IV2 = auto()
    IBP_3_3_IV3 = auto()
    IBP_3_4_IV0 = auto()
    IBP_3_5_IV0 = auto()
    IBP_3_5_IV1 = auto()
    IBP_3_5_IV2 = auto()
    IBP_3_6_IV0 = auto()
    IBP_3_6_IV1 = auto()
    IBP_3_6_IV2 = auto()
    IBP_3_7_IV0 = auto()
    IBP_3_7_IV1 = auto()
    IBP_3_7_IV2 = auto()
    IBP_3_7_IV3 = auto()
    IBP_3_7_IV4 = auto()
    IBP_3_8_IV0 = auto()
    IBP_3_9_IV0 = auto()

    @property
    def text(self) -> str:
        """The version as the configuration has it, ``2.6-IV0``."""
        _, major, minor, internal = self.name.split("_")
        return f"{major}.{minor}-{internal}"

    @property
    def feature_level(self) -> int:
        """KRaft's number of the version: 1 for 3.0-IV1, the first that KRaft has; 0 before."""
        return max(self - MetadataVersion.IBP_3_0_IV1 + 1, 0)

    @property
    def is_feature_versioning_supported(self) -> bool:
        """KIP-584: ``/feature`` is enabled, and a registration has the broker's features."""
        return self >= MetadataVersion.IBP_2_7_IV0

    @property
    def is_truncation_on_fetch_supported(self) -> bool:
        """KIP-595: a fetch has the follower's last epoch. Before, an OffsetForLeaderEpoch request precedes it."""
        return self >= MetadataVersion.IBP_2_7_IV1

    @property
    def is_alter_partition_supported(self) -> bool:
        """KIP-497: a leader asks the controller for a new ISR. Before, it writes the partition's state itself."""
        return self >= MetadataVersion.IBP_2_7_IV2

    @property
    def is_topic_ids_supported(self) -> bool:
        """KIP-516: topics have ids."""
        return self >= MetadataVersion.IBP_2_8_IV0

    @property
    def is_allocate_producer_ids_supported(self) -> bool:
        """KIP-730: the controller gives out producer ids. Before, each broker takes a block in ZooKeeper."""
        return self >= MetadataVersion.IBP_3_0_IV0

    @property
    def is_leader_recovery_supported(self) -> bool:
        """KIP-704: after an unclean election the leader's recovery state is RECOVERING."""
        return self >= MetadataVersion.IBP_3_2_IV0

    @property
    def leader_and_isr_version(self) -> int:
        return _newest(self, _LEADER_AND_ISR)

    @property
    def update_metadata_version(self) -> int:
        return _newest(self, _UPDATE_METADATA)

    @property
    def stop_replica_version(self) -> int:
        return _newest(self, _STOP_REPLICA)

    @property
    def controlled_shutdown_version(self) -> int:
        return _newest(self, _CONTROLLED_SHUTDOWN)

    @property
    def fetch_version(self) -> int:
        return _newest(self, _FETCH)

    @property
    def list_offsets_version(self) -> int:
        return _newest(self, _LIST_OFFSETS)

    @property
    def offset_for_leader_epoch_version(self) -> int:
        return _newest(self, _OFFSET_FOR_LEADER_EPOCH)

    @property
    def write_txn_markers_version(self) -> int:
        return _newest(self, _WRITE_TXN_MARKERS)


LATEST: Final = max(MetadataVersion)

_V = MetadataVersion
_Since = tuple[tuple[MetadataVersion, int], ...]
"""The first protocol version that sends each request version, oldest first."""
_LEADER_AND_ISR: Final[_Since] = (
    (_V.IBP_1_0_IV0, 1),
    (_V.IBP_2_2_IV0, 2),
    (_V.IBP_2_4_IV0, 3),
    (_V.IBP_2_4_IV1, 4),
    (_V.IBP_2_8_IV1, 5),
    (_V.IBP_3_2_IV0, 6),
    (_V.IBP_3_4_IV0, 7),
)
_UPDATE_METADATA: Final[_Since] = (
    (_V.IBP_1_0_IV0, 4),
    (_V.IBP_2_2_IV0, 5),
    (_V.IBP_2_4_IV1, 6),
    (_V.IBP_2_8_IV1, 7),
    (_V.IBP_3_4_IV0, 8),
)
_STOP_REPLICA: Final[_Since] = (
    (_V.IBP_1_0_IV0, 0),
    (_V.IBP_2_2_IV0, 1),
    (_V.IBP_2_4_IV1, 2),
    (_V.IBP_2_6_IV0, 3),
    (_V.IBP_3_4_IV0, 4),
)
_CONTROLLED_SHUTDOWN: Final[_Since] = ((_V.IBP_1_0_IV0, 1), (_V.IBP_2_2_IV0, 2), (_V.IBP_2_4_IV1, 3))
_FETCH: Final[_Since] = (
    (_V.IBP_1_0_IV0, 5),
    (_V.IBP_1_1_IV0, 7),
    (_V.IBP_2_0_IV1, 8),
    (_V.IBP_2_1_IV2, 10),
    (_V.IBP_2_3_IV1, 11),
    (_V.IBP_2_7_IV1, 12),
    (_V.IBP_3_1_IV0, 13),
    (_V.IBP_3_5_IV0, 14),
    (_V.IBP_3_5_IV1, 15),
    (_V.IBP_3_7_IV4, 16),
    (_V.IBP_3_9_IV0, 17),
)
_LIST_OFFSETS: Final[_Since] = (
    (_V.IBP_1_0_IV0, 2),
    (_V.IBP_2_0_IV1, 3),
    (_V.IBP_2_1_IV1, 4),
    (_V.IBP_2_2_IV1, 5),
    (_V.IBP_2_8_IV0, 6),
    (_V.IBP_3_0_IV1, 7),
    (_V.IBP_3_5_IV0, 8),
    (_V.IBP_3_9_IV0, 9),
)
_OFFSET_FOR_LEADER_EPOCH: Final[_Since] = (
    (_V.IBP_1_0_IV0, 0),
    (_V.IBP_2_0_IV0, 1),
    (_V.IBP_2_1_IV1, 2),
    (_V.IBP_2_3_IV1, 3),
    (_V.IBP_2_8_IV0, 4),
)
_WRITE_TXN_MARKERS: Final[_Since] = ((_V.IBP_1_0_IV0, 0), (_V.IBP_2_8_IV0, 1))


def _newest(version: MetadataVersion, since: _Since) -> int:
    return next(sent for first, sent in reversed(since) if version >= first)


_BY_TEXT: Final = {version.text: version for version in MetadataVersion} | {
    version.text.partition("-")[0]: version
    for version in MetadataVersion  # the latest of a release comes last
}


def metadata_version(text: str) -> MetadataVersion:
    """``2.6-IV0``, ``2.6`` (the latest of that release) or ``2.6.1``. Raises `ConfigError` saying what is allowed."""
    found = _BY_TEXT.get(text) or _BY_TEXT.get(".".join(text.split(".")[:2]))
    if found is None:
        allowed = ", ".join(version.text for version in MetadataVersion)
        raise ConfigError(f"Invalid value {text!r} for configuration {KEY}: it takes one of {allowed}.")
    return found


def metadata_version_of(config: Config) -> MetadataVersion:
    """The ``inter.broker.protocol.version`` of `config`, 3.9 by default."""
    return metadata_version(config.text(KEY))
