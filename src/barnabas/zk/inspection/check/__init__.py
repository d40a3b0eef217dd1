"""Finds what is wrong with a cluster, by its znodes. Pure: an image of the tree in, findings out.

Each rule is a function that takes the result of `cluster.read_cluster` and yields `ZnodeFinding`s: sentences, with a
way to repair. Rules know Apache Kafka's clusters up to 3.9 as well as ours; they write nothing. A rule also finds
states that a healthy cluster passes through (a partition without a leader for an instant). So a caller reads a living
cluster twice and reports only `lasting` findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from barnabas.zk.inspection.check import brokers, entities, leftovers, topics
from barnabas.zk.inspection.check.cluster import ClusterRecord, read_cluster
from barnabas.zk.inspection.check.finding import ZnodeFinding
from barnabas.zk.inspection.image import TreeImage

__all__ = ["RULES", "ZnodeFinding", "check", "lasting"]

Rule: TypeAlias = Callable[[ClusterRecord], Iterator[ZnodeFinding]]

RULES: Final[tuple[Rule, ...]] = (
    brokers.missing_paths,
    brokers.registrations,
    brokers.controller,
    brokers.controller_epoch,
    brokers.features,
    leftovers.migration,
    topics.half_made,
    topics.stray_states,
    topics.topic_ids,
    topics.assignments,
    topics.leaders,
    topics.reassignments,
    topics.preferred_election,
    topics.deletions,
    entities.configs,
    entities.acls,
    entities.tokens,
    leftovers.notifications,
)


def check(image: TreeImage, now_ms: int) -> tuple[ClusterRecord, list[ZnodeFinding]]:
    """The cluster in `image`, and its findings at `now_ms` (wall clock), in the order of the rules."""
    cluster = read_cluster(image, now_ms)
    nothing = list(brokers.no_cluster(cluster))
    if nothing:
        return cluster, nothing
    return cluster, [*cluster.unreadable, *(finding for rule in RULES for finding in rule(cluster))]


def lasting(before: Sequence[ZnodeFinding], after: Sequence[ZnodeFinding]) -> list[ZnodeFinding]:
    """Those of `after` whose rule found the same znode `before` as well."""
    known = {(finding.rule, finding.path) for finding in before}
    return [finding for finding in after if (finding.rule, finding.path) in known]
