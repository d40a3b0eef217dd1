"""``barnabas rehearse migration``: shows the obstacles to a migration to KRaft, and the effect of the rolling restart
that begins it."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.cli.output import Exit, Format, print_json
from barnabas.model.ids import TopicPartition
from barnabas.sim.rehearsal.cluster import rehearse
from barnabas.sim.rehearsal.forecast import Forecast
from barnabas.sim.rehearsal.steps import DRAIN, START, RehearsalStep
from barnabas.sim.rehearsal.tree import ClusterTree, RehearsalError, cluster_tree, copied_of, image_of
from barnabas.zk.inspection.check.cluster import read_cluster
from barnabas.zk.inspection.check.finding import ZnodeFinding, counted, listed
from barnabas.zk.inspection.migration import obstacles
from barnabas.zk.inspection.transfer import ExportedZNode
from barnabas.zk.kafka.znode_json import ZNodeError
from barnabas.zk.kafka.znodes import BrokerIdsZNode, ClusterIdZNode

MIGRATION: Final = "migration"


def rehearse_quietly(
    tree: ClusterTree, steps: Sequence[RehearsalStep], properties: Mapping[str, str]
) -> list[Forecast]:
    """`rehearse` without the log of the copied brokers, which is not about a real cluster."""
    logging.disable(logging.CRITICAL)
    try:
        return rehearse(tree, steps, properties)
    finally:
        logging.disable(logging.NOTSET)


def tell_migration(source: str, znodes: Sequence[ExportedZNode], properties: Mapping[str, str], output: Format) -> None:
    """Prints the obstacles to a migration, and exits with 1 if there are any."""
    image = image_of(znodes)
    findings = obstacles(read_cluster(image, 0), properties)
    try:
        findings += _roll(cluster_tree(source, copied_of(znodes)), properties)
    except (RehearsalError, ZNodeError) as error:
        findings.append(
            ZnodeFinding("roll", BrokerIdsZNode.path, f"No restart can be rehearsed: {error}", "See above.")
        )
    try:
        cluster_id = ClusterIdZNode.decode(image.data(ClusterIdZNode.path))
    except ZNodeError:
        cluster_id = None
    if output is Format.json:
        found = [_as_json(finding) for finding in findings]
        print_json({"source": source, "cluster_id": cluster_id, "findings": found})
    else:
        for finding in findings:
            print(textwrap.fill(f"{finding.problem} ({finding.rule})", 120, break_on_hyphens=False))
            print(textwrap.fill(finding.fix, 120, initial_indent="    ", subsequent_indent="    "))
        print(f"{source}: {counted(len(findings), 'finding') if findings else 'nothing stands in the way'}")
        if cluster_id is not None:
            print(f"format the controllers with this cluster's id: kafka-storage format -t {cluster_id}")
    if findings:
        raise Exit(1)


def _as_json(finding: ZnodeFinding) -> dict[str, str]:
    return {"rule": finding.rule, "path": finding.path, "problem": finding.problem, "fix": finding.fix}


def _roll(tree: ClusterTree, properties: Mapping[str, str]) -> list[ZnodeFinding]:
    """The effect on partitions of restarting each broker, the controller last, as every stage of a migration does."""
    order = sorted(tree.brokers, key=lambda broker: (broker == tree.state.controller, broker))
    steps = [RehearsalStep(kind, f"{kind} {broker}", (broker,)) for broker in order for kind in (DRAIN, START)]
    offline: dict[TopicPartition, str] = {}
    under: dict[TopicPartition, str] = {}
    for forecast in rehearse_quietly(tree, steps, properties):
        offline |= {partition: forecast.step for partition in forecast.offline() if partition not in offline}
        under |= {partition: forecast.step for partition in forecast.under_min_isr() if partition not in under}
    findings = []
    for rule, partitions, what in (
        ("roll-offline", offline, "offline"),
        ("roll-under-min-isr", under, "under min.insync.replicas"),
    ):
        if partitions:
            first = next(iter(partitions))
            findings.append(
                ZnodeFinding(
                    rule,
                    BrokerIdsZNode.path,
                    f"A rolling restart takes {counted(len(partitions), 'partition')} {what}: "
                    f"{listed(sorted(partitions))} ({first} at `{partitions[first]}`). "
                    "A migration restarts every broker twice, a rollback again.",
                    "Give them more replicas, bring their replicas back in sync, or announce the restart to users.",
                )
            )
    return findings
