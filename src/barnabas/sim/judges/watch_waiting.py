"""Watches requests that wait (R29): none waits longer than it allows, nor for something that is there.

A request in a purgatory is answered when its condition is met or its time is up. A broker that forgets to look again,
or to set a timer, leaves the client waiting until something else happens there. In a busy cluster that is soon, so
nobody would notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from barnabas.broker.server import Broker
from barnabas.model.ids import NO_EPOCH, TopicPartition
from barnabas.replica.delayed_delete_records import DelayedDeleteRecords, DeletedRecords
from barnabas.replica.delayed_fetch import DelayedFetch, FetchedPartition
from barnabas.replica.delayed_produce import Appended, DelayedProduce
from barnabas.replica.partition import Partition
from barnabas.replica.purgatory import DelayedOperation, Purgatory
from barnabas.sim.plans.plan import MS
from barnabas.sim.world.probes import Probes, life, node
from barnabas.sim.world.world import World, broker_name

LATE_NS: Final = 1_000_000_000
"""For an unhindered process to answer a request that is due."""
TOLD_NS: Final = 5_000_000_000
"""For followers to fetch again, and so to tell what they have deleted."""


class Waiter:
    """A waiting request at one process, which is to be answered by `due_ns`."""

    __slots__ = ("due_ns", "life", "node", "ready_ns")

    def __init__(self, name: str, number: int, due_ns: int) -> None:
        self.node = name
        self.life = number
        self.due_ns = due_ns
        self.ready_ns: int | None = None
        """Since when what it waits for is there."""


class WaitingWatch:
    def __init__(self, world: World, calm_since_ns: Mapping[str, int], probes: Probes) -> None:
        """`calm_since_ns` has for each node since when nothing has happened to it."""
        self.world = world
        self._calm_since_ns = calm_since_ns
        self.waiting: dict[DelayedOperation[Any], Waiter] = {}
        self._produced: dict[DelayedOperation[Any], list[Appended]] = {}
        self._deleted: dict[DelayedOperation[Any], list[DeletedRecords]] = {}
        probes.around(Purgatory, "watch", self._around_watch)
        probes.after(DelayedProduce, "__init__", self._produces)
        probes.after(DelayedDeleteRecords, "__init__", self._deletes)
        probes.after(DelayedDeleteRecords, "try_complete", self._reckoned)
        probes.around(DelayedFetch, "on_expiration", self._around_expiration)

    def _around_watch(
        self, original: Any, purgatory: Any, operation: DelayedOperation[Any], keys: Any, timeout_ms: float
    ) -> None:
        original(purgatory, operation, keys, timeout_ms)
        if not operation.completed:
            due_ns = self.world.loop.now_ns + round(timeout_ms * MS)
            self.waiting[operation] = Waiter(node(), life(), due_ns)

    def _produces(self, _: None, operation: DelayedProduce, results: list[Appended], find: object) -> None:
        self._produced[operation] = results

    def _deletes(self, _: None, operation: DelayedDeleteRecords, results: list[DeletedRecords], find: object) -> None:
        self._deleted[operation] = results

    def _around_expiration(self, original: Any, operation: DelayedFetch) -> None:
        broker = self.world.brokers.get(node())
        if broker is not None and not broker.replicas.is_shutting_down:
            for fetched in operation.fetched if operation.params.min_bytes <= 1 else ():
                self.waits_for_what_is_there(operation, fetched)
        original(operation)

    def waits_for_what_is_there(self, operation: DelayedFetch, fetched: FetchedPartition) -> None:
        """A fetch that times out has waited in vain all the time: an append or a commit wakes a fetch."""
        self.world.check("R29")
        partition, asked, params = fetched.partition, fetched.request, operation.params
        if (
            partition is None
            or partition.log is None
            or fetched.data is not None
            or (params.replica_id >= 0 and partition.log.settings.throttled_leaders)
            or (params.replica_id >= 0 and partition.log.just_appended is not None)
        ):
            return  # followers are told of appended records at the end of the loop's turn
        begins, there = partition.log.log_start_offset, partition.bound(params.isolation)
        if begins <= asked.fetch_offset < there and asked.current_leader_epoch in (NO_EPOCH, partition.leader_epoch):
            self.world.violated(
                "R29", f"{node()} has {partition.topic_partition} to {there}, and lets a fetch from "
                f"{asked.fetch_offset} wait until its time is up", str(partition.topic_partition), node(),
            )  # fmt: skip

    def _reckoned(self, _: bool, operation: DelayedDeleteRecords, key: TopicPartition | None) -> None:
        """DeleteRecords is done when every replica on a live broker has reported the new start; others are not waited
        for."""
        broker = self.world.brokers.get(node())
        if broker is None:
            return
        for result in self._deleted.get(operation, ()):
            partition = broker.replicas.partition(result.topic_partition)
            if result.error or key not in (None, result.topic_partition):
                continue
            if partition is None or partition.log is None or not partition.is_leader:
                continue
            self.world.check("R29")
            alive = [told for member, told in partition.progress.items() if member in broker.metadata.image.brokers]
            lowest = min([partition.log.log_start_offset, *(told.log_start_offset for told in alive)])
            if result.pending and lowest >= result.required_offset:
                self.world.violated(
                    "R29", f"{node()} waits for {result.topic_partition} to begin at {result.required_offset}, and all "
                    f"live replicas begin at {lowest}", str(result.topic_partition), node(),
                )  # fmt: skip

    def look(self) -> None:
        for operation, waiter in list(self.waiting.items()):
            process = self.world.nodes[waiter.node].process
            broker = self.world.brokers.get(waiter.node)
            if operation.completed or process is None or process.number != waiter.life or broker is None:
                del self.waiting[operation]
            elif not process.hindered:
                self._look_at(operation, waiter, broker, process.freed_ns)
        for known in (self._produced, self._deleted):
            for operation in [each for each in known if each not in self.waiting]:
                del known[operation]

    def _look_at(self, operation: DelayedOperation[Any], waiter: Waiter, broker: Broker, freed_ns: int) -> None:
        world = self.world
        world.check("R29")
        what, now_ns = type(operation).__name__, world.loop.now_ns
        if now_ns - max(waiter.due_ns, freed_ns) > LATE_NS:
            self._is_late(
                operation, waiter, f"{what} is not answered, and its time was up at {waiter.due_ns / 1e9:.3f} s"
            )
            return
        within_ns = self._within_ns(operation, waiter, broker)
        if within_ns is None:
            waiter.ready_ns = None
            return
        if waiter.ready_ns is None:
            waiter.ready_ns = now_ns
        if now_ns - max(waiter.ready_ns, freed_ns) > within_ns:
            self._is_late(operation, waiter, f"{what} is not answered, and what it waits for is there")

    def _is_late(self, operation: DelayedOperation[Any], waiter: Waiter, sentence: str) -> None:
        self.world.violated("R29", f"{waiter.node}: {sentence}", node=waiter.node)
        del self.waiting[operation]

    def _within_ns(self, operation: DelayedOperation[Any], waiter: Waiter, broker: Broker) -> int | None:
        """How soon the request is to be answered, if what it waits for is there; else None."""
        if operation in self._produced:
            return LATE_NS if _are_replicated(broker, self._produced[operation]) else None
        if operation in self._deleted:
            pending = [result for result in self._deleted[operation] if result.pending]
            return TOLD_NS if all(self._is_deleted(broker, result) for result in pending) else None
        return None

    def _is_deleted(self, broker: Broker, result: DeletedRecords) -> bool:
        """Whether every replica on a live broker has the new start. A broker that is disturbed, waits for an answer
        that will not come, or is throttled reports nothing, and is waited for."""
        partition = broker.replicas.partition(result.topic_partition)
        if partition is None or not partition.is_leader:
            return False
        alive = [member for member in partition.assigned_replicas if member in broker.metadata.image.brokers]
        leader, now_ms = broker_name(broker.broker_id), self.world.loop.now_ns // MS
        if broker.replicas.quotas.leader.is_exceeded(now_ms):
            return False
        return all(
            self._begins_at(broker_name(member), result.topic_partition, result.required_offset)
            and not self.world.network.waits_in_vain(broker_name(member), leader)
            for member in alive
        )

    def _begins_at(self, name: str, each: TopicPartition, offset: int) -> bool:
        broker = self.world.brokers.get(name)
        if broker is None or broker.replicas.is_shutting_down:
            return False  # it may follow nobody any more, and tell nobody
        if broker.replicas.quotas.follower.is_exceeded(self.world.loop.now_ns // MS):
            return False
        partition = broker.replicas.partition(each)
        calm_ns = self.world.loop.now_ns - self._calm_since_ns.get(name, 0)
        return (
            partition is not None
            and partition.log is not None
            and (partition.log.log_start_offset >= offset and calm_ns > TOLD_NS)
        )


def _are_replicated(broker: Broker, results: Iterable[Appended]) -> bool:
    return all(
        not each.pending or _is_replicated(broker.replicas.partition(each.topic_partition), each) for each in results
    )


def _is_replicated(partition: Partition | None, result: Appended) -> bool:
    """Or never can be, because the broker leads no more or in a later term."""
    return (
        partition is None
        or partition.log is None
        or not partition.is_leader
        or partition.leading_since_epoch != result.leading_since_epoch
        or partition.log.high_watermark >= result.required_offset
    )
