"""``lag``: the lag of groups, streaming queries among them, in records and in time. No Spark."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from barnabas.client.blocking import BlockingCluster
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.model.errors import check_code
from barnabas.spark.access import Servers, cluster_of, options_of
from barnabas.spark.behind import timestamp_at
from barnabas.spark.options import AUTOMATIC_GROUP, SourceOptions
from barnabas.spark.sink_options import MARKER_GROUP_PREFIX
from barnabas.wire.messages.list_groups import ListGroupsRequest


class Lag(NamedTuple):
    """One partition's lag; `behind_s` is the age of the first unread record, None if all were read."""

    group: str
    topic: str
    partition: int
    committed: int
    end: int
    lag: int
    behind_s: float | None
    lost: int
    """Records that were deleted before the group read them."""


def lag(bootstrap: Servers, groups: Sequence[str] | None = None, topics: Sequence[str] | None = None) -> list[Lag]:
    """The lag of `groups` (None: all) in `topics` (None: all for which they have committed). Raises `KafkaError`."""
    with cluster_of(bootstrap, "barnabas-lag") as cluster:
        cluster.refresh(None)
        committed = {
            (group, partition): at.offset
            for group in (groups if groups is not None else list_groups(cluster))
            for partition, at in cluster.committed_offsets(group, None).items()
            if partition.topic in cluster.metadata.topics and (topics is None or partition.topic in topics)
        }
        partitions = sorted({partition for _, partition in committed})
        ends = cluster.list_offsets(dict.fromkeys(partitions, LATEST)) if partitions else {}
        starts = cluster.list_offsets(dict.fromkeys(partitions, EARLIEST)) if partitions else {}
        options = SourceOptions.parse({**options_of(bootstrap), "subscribePattern": "."})
        now_ms = time.time_ns() // 1_000_000
        found = []
        for (group, partition), offset in sorted(committed.items()):
            end, low = ends[partition].offset, starts[partition].offset
            left = max(0, end - max(offset, low))
            when_ms = timestamp_at(cluster, partition, max(offset, low), options) if left else None
            behind_s = None if when_ms is None else max(0.0, (now_ms - when_ms) / 1000)
            found.append(Lag(group, *partition, offset, end, left, behind_s, max(0, low - offset)))
        return found


def chosen_groups(bootstrap: Servers) -> tuple[list[str], list[str]]:
    """The cluster's groups, and those of them that streaming queries have by default, without a named group.

    Sinks keep their markers in groups, whose offsets count micro-batches: those are in neither. Raises `KafkaError`.
    """
    with cluster_of(bootstrap, "barnabas-lag") as cluster:
        cluster.refresh(None)
        groups = [group for group in list_groups(cluster) if not group.startswith(MARKER_GROUP_PREFIX)]
    automatic = [group for group in groups if AUTOMATIC_GROUP.fullmatch(group)]
    return [group for group in groups if group not in automatic], automatic


def list_groups(cluster: BlockingCluster) -> list[str]:
    """The groups of all brokers; each broker knows only those that it coordinates. Raises `KafkaError`."""
    found: set[str] = set()
    for broker_id in sorted(cluster.metadata.brokers):
        answer = cluster.broker(broker_id).send(ListGroupsRequest())
        check_code(answer.error_code, what=f"the groups of broker {broker_id}")
        found.update(group.group_id for group in answer.groups)
    return sorted(found)
