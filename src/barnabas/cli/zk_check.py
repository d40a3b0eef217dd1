"""``barnabas zk check``: finds faults of a cluster in its znodes, and explains how to repair them. It writes
nothing."""

from __future__ import annotations

import asyncio
import textwrap
import time
from typing import Annotated, Any, Final

from barnabas.cli.command import Option
from barnabas.cli.options import OutputFormat
from barnabas.cli.output import Exit, Format, print_json
from barnabas.cli.zookeeper import HERE, ZooKeeperReach, with_zookeeper
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.inspection.check import ZnodeFinding, check, lasting
from barnabas.zk.inspection.check.cluster import ClusterRecord
from barnabas.zk.inspection.check.finding import counted
from barnabas.zk.inspection.image import read_image

SETTLE_S: Final = 2.0


def check_(
    settle: Annotated[
        float,
        Option(
            "--settle", metavar="S", help="Read again after S seconds, and report only findings that are still there."
        ),
    ] = SETTLE_S,
    at: ZooKeeperReach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Show faults in a cluster's znodes and how to repair them; exit 1 if there are any."""
    place = at.where()

    async def story(client: ZooKeeperClient) -> tuple[ClusterRecord, list[ZnodeFinding]]:
        cluster, findings = check(await read_image(client), time.time_ns() // 1_000_000)
        if not findings or settle <= 0:
            return cluster, findings
        # The transient states of a running cluster are over by then.
        await asyncio.sleep(settle)
        cluster, again = check(await read_image(client), time.time_ns() // 1_000_000)
        return cluster, lasting(findings, again)

    cluster, findings = with_zookeeper(place, story)
    counts = {
        "znodes": len(cluster.image.znodes),
        "brokers": len(cluster.brokers),
        "topics": len(cluster.topics),
        "partitions": sum(len(topic.assignment.assignment) for topic in cluster.topics.values()),
    }
    if output is Format.json:
        print_json(_report(place.connect, counts, findings))
    else:
        for finding in findings:
            print(textwrap.fill(f"{finding.problem} ({finding.rule})", 120, break_on_hyphens=False))
            print(
                textwrap.fill(finding.fix, 120, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
            )
        looked = ", ".join(counted(count, noun[:-1]) for noun, count in counts.items())
        print(f"{looked}: {counted(len(findings), 'finding') if findings else 'nothing is wrong'}")
    if findings:
        raise Exit(1)


def _report(connect: str, counts: dict[str, int], findings: list[ZnodeFinding]) -> dict[str, Any]:
    return {
        "zookeeper": connect,
        **counts,
        "findings": [
            {"rule": finding.rule, "path": finding.path, "problem": finding.problem, "fix": finding.fix}
            for finding in findings
        ],
    }
