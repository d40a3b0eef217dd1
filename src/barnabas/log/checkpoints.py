"""Kafka's text checkpoints in a log directory: one offset a partition, replaced whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import OFFSET_MAX
from barnabas.runtime import Disk
from barnabas.runtime.unreadable import Skip, told

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
    """The fields of each line. Raises `CorruptCheckpoint`, also if the last line is incomplete."""
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


def read_offsets(disk: Disk, directory: str, name: str, skip: Skip = told) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint file; none if there is no file.

    An unreadable line is skipped, and so is a file that has lost one; `skip` is told. Each of these offsets has a safe
    substitute: reading more of the log (recovery points), the leader (high watermarks), or the segments.
    """
    path = f"{directory}/{name}"
    if not disk.exists(path):
        return {}
    data = disk.read(path)
    if not data:
        return {}
    try:
        lines = decode_lines(data, path)
    except CorruptCheckpoint as error:
        skip("checkpoint", path, error)
        return {}
    offsets: dict[TopicPartition, int] = {}
    for line in lines:
        try:
            topic, partition, offset = line
            key, value = TopicPartition(topic, int(partition)), int(offset)
            if key.partition < 0 or not 0 <= value <= OFFSET_MAX:
                raise ValueError(f"{key} has the offset {value}")
        except ValueError as error:
            skip("checkpoint line", path, f"{' '.join(line)!r}: {error}")
        else:
            offsets[key] = value
    return offsets
