"""Reports the outcomes of a command's items: a sentence for each failure, and exit code 1 if there is one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from barnabas.cli.output import CommandError, Exit, Format, UsageError, complain
from barnabas.client.cluster import ClusterClient
from barnabas.client.metadata import ClusterMetadata
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition

K = TypeVar("K")
T = TypeVar("T")


def explained(name: object, error: KafkaError) -> str:
    """The `error` of the item `name` as a sentence that has the name and the code once each."""
    text = str(error).rstrip(".")
    start = "" if re.search(rf"(?<!\w){re.escape(str(name))}(?!\w)", text) else f"{name}: "
    return f"{start}{text}." if error.code.name in text else f"{start}{text} ({error.code.name})."


def sorted_out(outcomes: Mapping[K, T | KafkaError]) -> tuple[dict[K, T], dict[K, KafkaError]]:
    """The items that succeeded, and those that failed."""
    done = {name: outcome for name, outcome in outcomes.items() if not isinstance(outcome, KafkaError)}
    failed = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, KafkaError)}
    return done, failed


def as_json(error: KafkaError) -> dict[str, Any]:
    return {"error": error.code.name, "message": str(error)}


def fail(failed: Mapping[Any, KafkaError]) -> None:
    """Prints a sentence for each failure and exits with 1; does nothing without failures."""
    for name, error in failed.items():
        complain(explained(name, error))
    if failed:
        raise Exit(1)


def partitions_as_json(outcomes: Mapping[TopicPartition, KafkaError | None]) -> list[dict[str, Any]]:
    return [
        {"partition": str(partition), "error": None if error is None else error.code.name}
        for partition, error in outcomes.items()
    ]


def report_partitions(outcomes: Mapping[TopicPartition, KafkaError | None], done: str, output: Format) -> None:
    """Prints a sentence for each failed partition, and `done` with each other; exits with 1 if one failed."""
    for partition, error in outcomes.items():
        if error is not None:
            complain(f"{partition}: {str(error).rstrip('.')} ({error.code.name}).")
        elif output is Format.text:
            print(done.format(partition))
    if any(error is not None for error in outcomes.values()):
        raise Exit(1)


def parse_partitions(words: Iterable[str]) -> list[str | TopicPartition]:
    """``TOPIC``, ``TOPIC:0,2`` and ``TOPIC:0-3`` as topics and partitions. Raises `UsageError`."""
    wanted: list[str | TopicPartition] = []
    for word in words:
        topic, colon, ranges = word.rpartition(":")
        if not colon:
            wanted.append(word)
            continue
        try:
            for span in ranges.split(","):
                first, dash, last = span.partition("-")
                wanted += [
                    TopicPartition(topic, number) for number in range(int(first), int(last if dash else first) + 1)
                ]
        except ValueError:
            raise UsageError(f"{word!r} does not name partitions: use TOPIC, TOPIC:0,2 or TOPIC:0-3.") from None
    return wanted


async def partitions_of(
    cluster: ClusterClient, wanted: Iterable[str | TopicPartition] | None, *, internal: bool = False
) -> list[TopicPartition]:
    """The partitions of the `wanted` topics (None: of all) and its single partitions, each once.

    Raises `CommandError` for a topic or a partition that does not exist.
    """
    asked = None if wanted is None else list(wanted)
    names = None if asked is None else sorted({word if isinstance(word, str) else word.topic for word in asked})
    metadata = await cluster.look_up(names)
    for name in names or ():
        code = metadata.error_of(name)
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise CommandError(f"There is no topic {name}: `barnabas topic list` shows the topics.")
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"topic {name}: {code.name}")
    if asked is None:
        shown = [topic.name for topic in metadata.topics.values() if internal or not topic.is_internal]
        return [partition for name in sorted(shown) for partition in metadata.partitions(name)]
    found: dict[TopicPartition, None] = {}
    for word in asked:
        found.update(dict.fromkeys(metadata.partitions(word) if isinstance(word, str) else [_known(metadata, word)]))
    return list(found)


def _known(metadata: ClusterMetadata, partition: TopicPartition) -> TopicPartition:
    known = metadata.partitions(partition.topic)
    if partition not in known:
        last = len(known) - 1
        raise CommandError(f"{partition.topic} has no partition {partition.partition}: it has 0 to {last}.")
    return partition
