"""``meta.properties``: which cluster and which broker a log directory belongs to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from barnabas.model.config import parse_properties
from barnabas.model.errors import ConfigError
from barnabas.model.ids import Uuid
from barnabas.runtime import Disk

NUMBER: Final = re.compile(r"-?\d{1,10}", re.ASCII).fullmatch
FILE_NAME: Final = "meta.properties"


class CorruptMetaProperties(ValueError):
    """The file does not name a cluster and a broker: the directory cannot be used."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Version 0, the one of ZooKeeper mode. Where a migration to KRaft is enabled the directory has an id."""

    cluster_id: str | None
    broker_id: int | None
    directory_id: Uuid | None = None

    @classmethod
    def read(cls, disk: Disk, directory: str) -> MetaProperties | None:
        """Reads the directory's file; None if there is none.

        Raises `CorruptMetaProperties`; `ConfigError` for a directory that is not of ZooKeeper mode.
        """
        path = f"{directory}/{FILE_NAME}"
        if not disk.exists(path):
            return None
        try:
            values = parse_properties(disk.read(path).decode("utf-8"))
        except (UnicodeDecodeError, ConfigError):
            raise CorruptMetaProperties(f"{path} is no properties file") from None
        version = values.get("version")
        if version is None or not NUMBER(version):
            raise CorruptMetaProperties(f"{path} has no version")
        if version != "0":
            raise ConfigError(
                f"{path} has version {version}: it is not a log directory of a broker in ZooKeeper mode. "
                "Point log.dirs at another directory."
            )
        broker_id = values.get("broker.id")
        if broker_id is not None and not NUMBER(broker_id):
            raise CorruptMetaProperties(f"{path} names the broker.id {broker_id!r}, which is not a number")
        directory_id = values.get("directory.id")
        try:
            uuid = None if directory_id is None else Uuid.parse(directory_id)
        except ValueError as error:
            raise CorruptMetaProperties(f"{path} names a directory.id that is none: {error}") from None
        return cls(values.get("cluster.id"), None if broker_id is None else int(broker_id), uuid)

    def write(self, disk: Disk, directory: str) -> None:
        lines = ["#", f"broker.id={self.broker_id}", "version=0", f"cluster.id={self.cluster_id}", ""]
        if self.directory_id is not None:
            lines.insert(1, f"directory.id={self.directory_id}")
        disk.replace(f"{directory}/{FILE_NAME}", "\n".join(lines).encode())

    def verify(self, directory: str, cluster_id: str, broker_id: int) -> None:
        """Raises `ConfigError` when the directory belongs to another cluster or another broker."""
        if self.cluster_id is not None and self.cluster_id != cluster_id:
            raise ConfigError(
                f"The log directory {directory} belongs to the cluster {self.cluster_id}, but ZooKeeper says this is "
                f"{cluster_id} (InconsistentClusterIdException). Point zookeeper.connect at the right ensemble, or "
                "log.dirs at another directory."
            )
        if self.broker_id is not None and self.broker_id != broker_id:
            raise ConfigError(
                f"The log directory {directory} belongs to broker {self.broker_id}, but broker.id is {broker_id} "
                "(InconsistentBrokerIdException). Set broker.id to it, or point log.dirs at another directory."
            )
