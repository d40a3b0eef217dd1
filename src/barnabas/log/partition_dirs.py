"""The names of partitions' directories: ``topic-0``, and ``topic-0.<uuid>-delete`` when it is to be removed.

The names are those of Kafka's ``LocalLog``; Kafka's broker does not start beside a name that it cannot parse.
"""

from __future__ import annotations

import re
from typing import Final

from barnabas.model.ids import TopicPartition, Uuid

DELETE_SUFFIX: Final = "-delete"
FUTURE_SUFFIX: Final = "-future"
STRAY_SUFFIX: Final = "-stray"
_NAME_LENGTH_MAX: Final = 255
_RENAMED: Final = re.compile(rf"(.+)\.[0-9a-f]{{32}}({DELETE_SUFFIX}|{FUTURE_SUFFIX}|{STRAY_SUFFIX})").fullmatch


def renamed(partition: TopicPartition, uuid: Uuid, suffix: str) -> str:
    """The new name of a partition's directory; a topic name that is too long for it is shortened."""
    end = f"-{partition.partition}.{uuid.hex()}{suffix}"
    return f"{partition.topic[: _NAME_LENGTH_MAX - len(end)]}{end}"


def may_have_future(partition: TopicPartition) -> bool:
    """Whether a future log's directory can hold the topic's full name, by which it is found again."""
    return renamed(partition, Uuid(), FUTURE_SUFFIX).startswith(f"{partition}.")


def with_suffix(name: str) -> tuple[str, str]:
    """The partition's part of a directory's name, and its suffix, which is empty for an ordinary partition."""
    match = _RENAMED(name)
    return (name, "") if match is None else (match[1], match[2])
