"""``partition.metadata``: the topic id for which a partition directory was made."""

from __future__ import annotations

from typing import Final

from barnabas.model.ids import Uuid
from barnabas.runtime import Disk
from barnabas.runtime.unreadable import Skip

FILE_NAME: Final = "partition.metadata"


def read_topic_id(disk: Disk, directory: str, skip: Skip) -> Uuid | None:
    """The topic id; None if there is no file, as in a log of a Kafka before 2.8.

    A file with other content is skipped, and `skip` is told: the log then takes the controller's id.
    (Apache takes the whole log directory offline.)
    """
    path = f"{directory}/{FILE_NAME}"
    if not disk.exists(path):
        return None
    try:
        fields = dict(line.split(": ", 1) for line in disk.read(path).decode("utf-8").splitlines() if ": " in line)
        if fields.get("version") != "0" or "topic_id" not in fields:
            raise ValueError("it does not name a topic id")
        return Uuid.parse(fields["topic_id"])
    except ValueError as error:
        skip("partition.metadata", path, error)
        return None


def write_topic_id(disk: Disk, directory: str, topic_id: Uuid) -> None:
    disk.replace(f"{directory}/{FILE_NAME}", f"version: 0\ntopic_id: {topic_id}".encode())
