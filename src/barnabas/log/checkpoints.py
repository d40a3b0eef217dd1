"""Kafka's text checkpoints in a log directory: one offset a partition, replaced whole or not at all."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from barnabas.model.ids import TopicPartition
from barnabas.runtime import Disk

logger = logging.getLogger(__name__)

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
_VERSION: Final = "0"


class CorruptCheckpoint(ValueError):
    """A checkpoint file that does not say what it should."""


def encode_lines(lines: list[str]) -> bytes:
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def decode_lines(data: bytes, path: str) -> list[list[str]]:
    """The fields of each line. Raises `CorruptCheckpoint`, also where the last line has lost its end."""
    try:
        version, count, *lines = data.decode("utf-8").split("\n")
        expected = int(count)
    except ValueError:
        raise CorruptCheckpoint(f"{path} is not a checkpoint file") from None
    if version != _VERSION:
        raise CorruptCheckpoint(f"{path} has version {version!r}, not {_VERSION}")
    if not data.endswith(b"\n"):
        raise CorruptCheckpoint(f"{path} ends within a line")
    lines = [line for line in lines if line]
    if len(lines) != expected:
        raise CorruptCheckpoint(f"{path} announces {expected} lines and has {len(lines)}")
    return [line.split() for line in lines]


def write_offsets(disk: Disk, directory: str, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    lines = [f"{partition.topic} {partition.partition} {offset}" for partition, offset in sorted(offsets.items())]
    disk.replace(f"{directory}/{name}", encode_lines(lines))


def read_offsets(disk: Disk, directory: str, name: str) -> dict[TopicPartition, int]:
    """What the file says; nothing where there is none.

    A file that cannot be read says nothing either, with a warning: every one of these offsets has a safe substitute,
    found by reading more of the log (recovery points), from the leader (high watermarks) or from the segments.
    """
    path = f"{directory}/{name}"
    if not disk.exists(path):
        return {}
    data = disk.read(path)
    if not data:
        return {}
    try:
        offsets = {
            TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in decode_lines(data, path)
        }
    except ValueError as error:
        logger.warning("%s is ignored: %s", path, error)
        return {}
    return offsets
