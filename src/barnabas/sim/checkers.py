"""The checkers of one run: those that watch as it goes, and those that judge at its end."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.group import committed_offsets
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.client.producer import Producer
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.plan import Plan
from barnabas.sim.workload import History, Workload
from barnabas.sim.world import World

Place = tuple[str, int]
"""A partition and an offset in it."""


class Checkers:
    """Told what clients saw while the run goes on; judges at the end."""

    def __init__(self, world: World, history: History, plan: Plan) -> None:
        self.world = world
        self.history = history
        self.plan = plan

    def __enter__(self) -> Checkers:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to undo."""

    def begin(self) -> None:
        """The cluster is up; from now on things may go wrong."""

    def is_excused(self, partition: str) -> bool:
        """Whether R7's premise failed for the partition at some time."""
        return False

    # As the run goes

    def read(self, partition: str, offset: int, value: bytes) -> None:
        """R10: a consumer was given `value`; whoever reads that offset later must be given the same."""
        world, place = self.world, (partition, offset)
        world.check("R10")
        known = self.history.read.get(place)
        topic = partition.rpartition("-")[0]
        if known is None or known[1] <= self.history.recreated_ns.get(topic, -1):
            self.history.read[place] = value, world.loop.now_ns
        elif known[0] != value:
            sentence = f"{partition}@{offset} was read as {known[0][:40]!r}, later as {value[:40]!r}"
            if self.is_excused(partition):
                world.excuse("R10", sentence, partition)
                self.history.read[place] = value, world.loop.now_ns
            else:
                world.violated("R10", sentence, partition)

    # What there is

    def topics(self) -> dict[str, dict[int, list[int]]]:
        """By topic and partition: the replicas, as ZooKeeper has them."""
        found: dict[str, dict[int, list[int]]] = {}
        for topic in self.world.children("/brokers/topics"):
            data = self.world.znode(f"/brokers/topics/{topic}")
            if data:
                partitions = json.loads(data)["partitions"]
                found[topic] = {int(number): replicas for number, replicas in sorted(partitions.items())}
        return found

    def replicas_in_sync(self) -> bool:
        """Every partition of every topic has a leader and a full ISR, and nothing is being moved or deleted."""
        world = self.world
        if world.znode("/admin/reassign_partitions") or world.children("/admin/delete_topics"):
            return False
        for topic, partitions in self.topics().items():
            data = json.loads(world.znode(f"/brokers/topics/{topic}") or b"{}")
            if data.get("adding_replicas") or data.get("removing_replicas"):
                return False
            for number, replicas in partitions.items():
                state = world.state(f"{topic}-{number}")
                if state is None or state["leader"] < 0 or len(state["isr"]) < len(replicas):
                    return False
        return True

    # At the end

    async def judge(self, world: World, workload: Workload) -> None:
        await self._everything_works(world)
        workload.stopping = True
        for each in workload.consumers:
            await world.until(each.done, "a consumer's end")
            each.result()
        await world.until(lambda: self.replicas_in_sync(), "every replica in sync for the audit")
        found = await world.client(lambda _, cluster: self._read_all(cluster), "auditor")
        starts = found.pop(_STARTS)
        self._acknowledged_survive(found, starts)
        self._reads_stay(found, starts)
        await world.client(lambda _, cluster: self._commits_stay(cluster), "auditor-2")

    async def _everything_works(self, world: World) -> None:
        """L1: a fresh record can be produced to each partition of each topic, and is read back."""
        world.check("L1")

        async def story(runtime: Runtime, cluster: ClusterClient) -> None:
            producer = Producer(cluster, delivery_timeout_ms=60_000)
            for topic, partitions in self.topics().items():
                if topic.startswith("__"):
                    continue
                for number in partitions:
                    await producer.send(topic, b"after all", partition=number)
            await producer.close()

        try:
            await world.client(story, "survivor")
        except (KafkaError, OSError) as error:
            world.violated("L1", f"a record could not be produced after all had healed: {error!r}")

    async def _read_all(self, cluster: ClusterClient) -> dict[Any, Any]:
        """Every committed record of every topic by place, and under `_STARTS` where each partition begins."""
        everything: dict[Any, Any] = {}
        starts: dict[str, int] = {}
        for topic, partitions in self.topics().items():
            if topic.startswith("__"):
                continue
            each = [TopicPartition(topic, number) for number in partitions]
            ends = await cluster.list_offsets(dict.fromkeys(each, LATEST))
            begins = await cluster.list_offsets(dict.fromkeys(each, EARLIEST))
            starts.update((str(one), begins[one].offset) for one in each)
            consumer = Consumer(cluster, max_wait_ms=100)
            await consumer.assign({one: begins[one].offset for one in each})
            for _ in range(400):
                if all(consumer.position(one) >= ends[one].offset for one in each):
                    break
                for name, number, record in await consumer.poll(500):
                    everything[f"{name}-{number}", record.offset] = record.value or b""
            else:
                self.world.violated("L1", f"topic {topic} could not be read to its end")
            await consumer.close()
        everything[_STARTS] = starts
        return everything

    def _acknowledged_survive(self, found: dict[Place, bytes], starts: dict[str, int]) -> None:
        """R7, T1 and Jepsen's rules: nothing lost, moved, doubled, reordered or invented."""
        world, history = self.world, self.history
        places: dict[bytes, list[Place]] = {}
        for place, value in found.items():
            places.setdefault(value, []).append(place)
        for value, sent in history.sent.items():
            gone_ns = history.recreated_ns.get(sent.topic, -1)
            if sent.answered != "acknowledged" or sent.acks != -1 or sent.sent_ns <= gone_ns:
                continue
            world.check("R7")
            partition = f"{sent.topic}-{sent.partition}"
            at = places.get(value, [])
            start = starts.get(partition, 0)
            short = value[:40]
            if not at and (sent.offset < start if sent.offset >= 0 else start > 0):
                continue
            if not at:
                self._lost(partition, f"{short!r} was acknowledged at {partition}@{sent.offset} and is lost")
            elif sent.offset >= 0 and (partition, sent.offset) not in at:
                self._lost(partition, f"{short!r} was acknowledged at {partition}@{sent.offset} and is at {at}")
            if sent.idempotent and len(at) > 1:
                world.check("T1")
                world.violated("T1", f"{short!r} is there more than once: {at}", partition)
        last: dict[tuple[str, str], int] = {}
        for (partition, offset), value in found.items():
            known = history.sent.get(value)
            if known is None:
                if value != b"after all":
                    world.violated("R10", f"{value[:40]!r} at {partition}@{offset} was never sent", partition)
                continue
            if known.sent_ns <= history.recreated_ns.get(known.topic, -1) - _DELETION_NS:
                world.check("C13")
                world.violated("C13", f"{value[:40]!r} of the deleted topic is at {partition}@{offset}", partition)
            if known.answered.startswith("refused"):
                world.violated("R8", f"{value[:40]!r} was refused and is at {partition}@{offset}", partition)
            if known.idempotent:
                world.check("T1")
                key = known.client, partition
                if last.get(key, -1) >= known.number and not self.is_excused(partition):
                    sentence = f"record {known.number} of {known.client} at {partition}@{offset} after {last[key]}"
                    world.violated("T1", sentence, partition)
                last[key] = known.number

    def _lost(self, partition: str, sentence: str) -> None:
        if self.is_excused(partition):
            self.world.excuse("R7", sentence, partition)
        else:
            self.world.violated("R7", sentence, partition)

    def _reads_stay(self, found: dict[Place, bytes], starts: dict[str, int]) -> None:
        """R10: what a consumer was once given is still there, unchanged."""
        for (partition, offset), (value, at_ns) in self.history.read.items():
            topic = partition.rpartition("-")[0]
            if offset < starts.get(partition, 1 << 62) or at_ns <= self.history.recreated_ns.get(topic, -1):
                continue
            if self.is_excused(partition):
                continue
            self.world.check("R10")
            if found.get((partition, offset)) != value:
                now = found.get((partition, offset))
                self.world.violated(
                    "R10",
                    f"{partition}@{offset} was read as {value[:40]!r} and is {now if now is None else now[:40]!r}",
                    partition,
                )

    async def _commits_stay(self, cluster: ClusterClient) -> None:
        """G1: an acknowledged commit is still there, or a later one."""
        for (group, partition), offset in sorted(self.history.commits.items()):
            topic, _, number = partition.rpartition("-")
            if topic in self.history.recreated_ns:
                continue
            each = TopicPartition(topic, int(number))
            self.world.check("G1")
            now = (await committed_offsets(cluster, group, [each]))[each]
            if now < offset:
                sentence = f"group {group} committed {offset} for {partition}, and {now} is what it has"
                if any(self.is_excused(f"__consumer_offsets-{number}") for number in range(3)):
                    self.world.excuse("G1", sentence, partition)
                else:
                    self.world.violated("G1", sentence, partition)


_STARTS: Final = ("", -1)
_DELETION_NS: Final = 5_000_000_000
"""A topic is deleted some time between the request and its answer."""

_ = asyncio
