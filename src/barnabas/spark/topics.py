"""The cluster's side of a read: the topics' ids and partitions, and the offsets of positions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from barnabas.client.blocking import BlockingCluster
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import AtTimestamp, Bounds, Positions


def covered(cluster: BlockingCluster, options: SourceOptions) -> dict[TopicPartition, Uuid]:
    """The partitions that the options name, in order, each with its topic's id.

    Raises `KafkaError` for a named topic or partition that does not exist, or may not be described.
    """
    names = sorted({partition.topic for partition in options.assign} or set(options.subscribe))
    if options.subscribe_pattern is not None:
        pattern = re.compile(options.subscribe_pattern)
        names = [
            name
            for name, topic in sorted(cluster.refresh().topics.items())
            if pattern.search(name) and (options.internal_topics or not topic.is_internal)
        ]
    if not names:
        return {}
    metadata = cluster.look_up(names)
    found: dict[TopicPartition, Uuid] = {}
    for name in names:
        topic = metadata.topics.get(name)
        code = topic.error if topic is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            if options.subscribe_pattern is not None:
                continue  # deleted since the names were listed
            raise KafkaError(
                code,
                f"Topic {name!r} does not exist on {options.access.bootstrap}: create it, correct its name, or do not "
                "name it any more.",
            )
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise KafkaError(code, f"Topic {name!r} cannot be read: this user has no DESCRIBE permission on it.")
        if code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
            raise KafkaError(code, f"Topic {name!r} cannot be read: {code.name}.")
        assert topic is not None
        found |= {TopicPartition(name, partition): topic.topic_id for partition in sorted(topic.partitions)}
    if options.assign:
        missing = sorted(set(options.assign) - set(found))
        if missing:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"Option assign names {', '.join(map(str, missing))}, which the cluster does not have.",
            )
        return {partition: found[partition] for partition in sorted(options.assign)}
    return found


def bounds(
    cluster: BlockingCluster, partitions: Iterable[TopicPartition], options: SourceOptions
) -> dict[TopicPartition, Bounds]:
    """The readable offsets now; with read_committed up to the last stable offset."""
    asked = list(partitions)
    if not asked:
        return {}
    low = cluster.list_offsets(dict.fromkeys(asked, EARLIEST))
    high = ends(cluster, asked, options)
    return {partition: Bounds(low[partition].offset, high[partition]) for partition in asked}


def ends(
    cluster: BlockingCluster, partitions: Iterable[TopicPartition], options: SourceOptions
) -> dict[TopicPartition, int]:
    asked = dict.fromkeys(partitions, LATEST)
    if not asked:
        return {}
    listed = cluster.list_offsets(asked, isolation_level=options.isolation_level)
    return {partition: answer.offset for partition, answer in listed.items()}


def resolved(
    cluster: BlockingCluster,
    positions: Positions,
    within: Mapping[TopicPartition, Bounds],
    options: SourceOptions,
    *,
    start: bool,
) -> dict[TopicPartition, int]:
    """An offset for every partition of `within`, not necessarily inside its bounds.

    A timestamp after every record stands for the end; as a start it is an error, unless
    ``startingOffsetsByTimestampStrategy=latest``. Raises ``ValueError``.
    """
    unknown = sorted(set(positions.by_partition) - set(within))
    if unknown:
        raise ValueError(f"Offsets are given for {', '.join(map(str, unknown))}, which the read does not cover.")
    left_out = sorted(set(within) - set(positions.by_partition)) if positions.by_partition else []
    if left_out:
        raise ValueError(
            f"Offsets are given for some partitions and not for {', '.join(map(str, left_out))}: name each of them, "
            "with -2 for its first offset and -1 for its end. What was forgotten would be read from a place "
            "that nobody chose."
        )
    wanted = {partition: positions.of(partition) for partition in within}
    timestamps = {partition: at.timestamp_ms for partition, at in wanted.items() if isinstance(at, AtTimestamp)}
    listed = cluster.list_offsets(timestamps, isolation_level=options.isolation_level) if timestamps else {}
    found: dict[TopicPartition, int] = {}
    for partition, at in wanted.items():
        if isinstance(at, AtTimestamp):
            offset = listed[partition].offset
            if offset < 0 and start and not options.late_start_is_latest:
                raise ValueError(
                    f"{partition} has no record at or after the timestamp {at.timestamp_ms}: take an earlier one, or "
                    "set startingOffsetsByTimestampStrategy=latest to begin at the end."
                )
            found[partition] = offset if offset >= 0 else within[partition].high
        else:
            found[partition] = {EARLIEST: within[partition].low, LATEST: within[partition].high}.get(at, at)
    return found
