"""Are the replicas of a partition equal, on whatever kind of broker: by their files, and by Kafka's own tool."""

from __future__ import annotations

import asyncio
import re
import subprocess
import threading

from apache import tool_command
from mixed_brokers import BothKinds

from barnabas.client import KafkaError, TopicPartition, connect
from barnabas.client.offsets import LATEST
from barnabas.runtime.real import RealDisk
from barnabas.testing.verdict import read_replica, replicas_agree

REPORTS = 3
VERIFIES_WITHIN_S = 180.0
_LAG = re.compile(r"max lag is (-?\d+) for partition (\S+) at offset")


def differing(brokers: BothKinds) -> tuple[int, list[str]]:
    """How many batches were compared, and what is wrong, in every partition there is up to its high watermark."""
    replicas_of, high_watermarks = asyncio.run(_partitions(brokers.bootstrap))
    wrong: list[str] = []
    compared = 0
    for at, high_watermark in high_watermarks.items():
        found = {}
        for broker in replicas_of[at]:
            replica = read_replica(RealDisk(), str(brokers.log_dir(broker)), at)
            if replica is None or replica.end < high_watermark:
                wrong.append(f"{at} on broker {broker} ends before {high_watermark}")
                continue
            wrong += [f"{at} on broker {broker}: {each}" for each in replica.wrong]
            compared += len(replica.batches)
            found[broker] = replica
        wrong += [f"{at}: {each}" for each in replicas_agree(found, 0, high_watermark)]
    return compared, wrong


async def _partitions(bootstrap: str) -> tuple[dict[TopicPartition, tuple[int, ...]], dict[TopicPartition, int]]:
    """Each partition's replicas and high watermark."""
    async with connect(bootstrap) as cluster:
        topics = (await cluster.refresh(None)).topics
        replicas = {
            TopicPartition(name, number): state.replicas
            for name, topic in topics.items()
            for number, state in topic.partitions.items()
        }
        high_watermarks = {}
        for at, listed in (await cluster.admin.list_offsets(dict.fromkeys(replicas, LATEST))).items():
            if isinstance(listed, KafkaError):
                raise listed
            high_watermarks[at] = listed.offset
        return replicas, high_watermarks


def verified(brokers: BothKinds) -> list[str]:
    """What `kafka-replica-verification` reports of the run's topics from their first records on, three times: a lag of
    0 when all is well.

    The tool goes on for ever. Raises `TimeoutError` where it does not report within `VERIFIES_WITHIN_S`.
    """
    words = (
        *("--broker-list", brokers.bootstrap, "--topics-include", "judge-.*"),
        *("--time", "-2", "--report-interval-ms", "1000"),
    )
    with subprocess.Popen(
        tool_command("kafka-replica-verification", *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        late = threading.Timer(VERIFIES_WITHIN_S, process.kill)
        late.start()
        try:
            reports: list[str] = []
            for line in process.stdout:
                if _LAG.search(line):
                    reports.append(line.strip())
                if len(reports) == REPORTS:
                    return reports
            raise TimeoutError(f"kafka-replica-verification said {reports} in {VERIFIES_WITHIN_S:.0f} s")
        finally:
            late.cancel()
            process.kill()


def lags(reports: list[str]) -> list[int]:
    return [int(found[1]) for found in map(_LAG.search, reports) if found is not None]
