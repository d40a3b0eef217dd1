"""Checks a cluster's promises: its history against its brokers' files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from barnabas.client.admin import Admin, ResourceType
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import ZERO_UUID, TopicPartition, Uuid
from barnabas.testing.handles import is_led
from barnabas.testing.history import Acknowledged, Served
from barnabas.testing.host import PartitionView
from barnabas.testing.running import RunningCluster
from barnabas.testing.verdict import StoredReplica, promised_is_there, read_replica, replicas_agree

_BROKEN_SHOWN: Final = 20
_STORY_LINES: Final = 200


class AcknowledgedRecordLost(AssertionError):
    """The cluster broke a promise. The text has the lost batches and the timeline."""


class Verdict(NamedTuple):
    """The result of `KafkaCluster.verify`: what it checked."""

    acknowledged: int
    """Batches that were acknowledged to producers with acks=all."""
    served: int
    """Batches that consumers received."""
    partitions: int
    replicas: int


class Broken(NamedTuple):
    """A broken promise; without a partition it concerns the whole cluster."""

    topic_partition: TopicPartition | None
    how: str

    def __str__(self) -> str:
        return self.how if self.topic_partition is None else f"{self.topic_partition}: {self.how}"


@dataclass(slots=True)
class _Promised:
    """The promises about one partition, by the topic ids that its topic has had."""

    acknowledged: list[Acknowledged] = field(default_factory=list)
    served: list[tuple[Uuid, int, Served]] = field(default_factory=list)

    def of(self, topic_id: Uuid) -> _Promised:
        return _Promised(
            [ack for ack in self.acknowledged if ack.topic_id in (topic_id, ZERO_UUID)],
            [place for place in self.served if place[0] == topic_id],
        )


async def examine(cluster: RunningCluster, timeout: float) -> tuple[Verdict, list[Broken]]:
    """Checks the promises; returns what was checked and what is broken. Runs on the background loop."""
    history = cluster.history
    broken = [Broken(None, sentence) for sentence in history.contradictions]
    for broker_id in cluster.broker_ids:
        if cluster.host.state(broker_id) == "failed" and not cluster.host.is_full(broker_id):
            broken.append(Broken(None, f"broker {broker_id} halted by itself"))
    concerned: dict[TopicPartition, _Promised] = {}
    for ack in history.acknowledged:
        concerned.setdefault(ack.topic_partition, _Promised()).acknowledged.append(ack)
    for (topic_id, topic_partition, offset), served in history.served.items():
        concerned.setdefault(topic_partition, _Promised()).served.append((topic_id, offset, served))
    replicas = 0
    compacted: dict[str, bool] = {}
    for topic_partition, promised in sorted(concerned.items(), key=lambda item: item[0]):
        topic = topic_partition.topic
        metadata = await cluster.client.look_up([topic])
        if metadata.error_of(topic) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue  # deleted, and its promises with it
        if topic not in compacted:
            compacted[topic] = await cluster.client.retrying(partial(_is_compacted, cluster, topic))
        try:
            view = await cluster.until(
                is_led,
                partial(cluster.host.view, topic_partition),
                f"{topic_partition} has a leader, to be verified",
                timeout,
            )
        except ValueError:
            continue  # the topic was created anew with fewer partitions
        assert view is not None
        looked_at, wrong = await _examine_partition(
            cluster, topic_partition, promised.of(metadata.topic_id(topic)), view, compacted[topic]
        )
        replicas += looked_at
        broken += wrong
    return Verdict(len(history.acknowledged), len(history.served), len(concerned), replicas), broken


async def _is_compacted(cluster: RunningCluster, topic: str) -> bool:
    configs = await Admin(cluster.client).describe_configs(ResourceType.TOPIC, topic)
    return "compact" in next((config.value or "" for config in configs if config.name == "cleanup.policy"), "")


async def _examine_partition(
    cluster: RunningCluster, topic_partition: TopicPartition, promised: _Promised, view: PartitionView, compacted: bool
) -> tuple[int, list[Broken]]:
    history = cluster.history
    start = (await cluster.offsets([topic_partition], EARLIEST))[topic_partition]
    high_watermark = (await cluster.offsets([topic_partition], LATEST))[topic_partition]
    broken: list[Broken] = []
    replicas: dict[int, StoredReplica] = {}
    for broker_id in sorted(view.isr, key=lambda member: member != view.leader):
        replica = read_replica(*cluster.host.files(broker_id), topic_partition)
        if replica is not None:
            replicas[broker_id] = replica
            broken += [Broken(topic_partition, f"broker {broker_id}: {sentence}") for sentence in replica.wrong]
    leader = replicas.get(view.leader)
    if compacted or leader is None:
        return len(replicas), broken
    broken += [Broken(topic_partition, sentence) for sentence in replicas_agree(replicas, start, high_watermark)]
    by_offset = {ack.base_offset: ack for ack in promised.acknowledged}
    for offset, how in promised_is_there(
        [(ack.base_offset, ack.last_offset, ack.crc) for ack in by_offset.values()], leader, start
    ):
        ack = by_offset[offset]
        records = f"@{offset}" if ack.last_offset == offset else f"@{offset} to {ack.last_offset}"
        broken.append(
            Broken(
                topic_partition,
                f"{records}, acknowledged by broker {ack.broker_id} after "
                f"{(ack.at_ms - history.began_ms) / 1000:.3f} s, {how} "
                f"(leader {view.leader}, high watermark {high_watermark})",
            )
        )
    there = {batch.base_offset: batch.crc for batch in leader.batches}
    for _, offset, served in promised.served:
        if offset >= start and there.get(offset) != served.crc:
            broken.append(
                Broken(
                    topic_partition,
                    f"@{offset}, given to a consumer by broker {served.broker_id} after "
                    f"{(served.at_ms - history.began_ms) / 1000:.3f} s, is gone or changed",
                )
            )
    return len(replicas), broken


def explained(cluster: RunningCluster, broken: Sequence[Broken]) -> str:
    partitions = dict.fromkeys(promise.topic_partition for promise in broken if promise.topic_partition is not None)
    more = len(broken) - _BROKEN_SHOWN
    return "\n".join(
        [
            f"The cluster broke {len(broken)} promise{'s' if len(broken) > 1 else ''} (seed {cluster.seed}):",
            *(f"  {promise}" for promise in broken[:_BROKEN_SHOWN]),
            *([f"  and {more} more"] if more > 0 else []),
            "What happened:",
            cluster.history.story(partitions, last=_STORY_LINES),
        ]
    )
