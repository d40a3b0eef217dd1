"""``partition.metadata``: the topic id for which a partition directory was made."""

from __future__ import annotations

from typing import Final

from barnabas.model.ids import Uuid
from barnabas.runtime import Disk

FILE_NAME: Final = "partition.metadata"


def read_topic_id(disk: Disk, directory: str) -> Uuid | None:
    """The topic id, None where there is no file. Raises ``ValueError`` for a file that says something else."""
    path = f"{directory}/{FILE_NAME}"
    if not disk.exists(path):
        return None
    fields = dict(line.split(": ", 1) for line in disk.read(path).decode("utf-8").splitlines() if ": " in line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError(f"{path} does not name a topic id")
    return Uuid.parse(fields["topic_id"])


def write_topic_id(disk: Disk, directory: str, topic_id: Uuid) -> None:
    disk.replace(f"{directory}/{FILE_NAME}", f"version: 0\ntopic_id: {topic_id}".encode())
