"""Tells the trace what a cluster does by itself: who is controller, what is committed, who leads, where logs end.

ZooKeeper's state is looked at after each transaction, so nothing is missed. Brokers are looked at after each
transaction and every `EVERY_NS`; where a log ended between two looks is not told.
"""

from __future__ import annotations

import json
from typing import Any, Final

from barnabas.broker.server import Broker
from barnabas.replica.partition import Partition
from barnabas.sim.world.loop import NS
from barnabas.sim.world.trace import Happening
from barnabas.sim.world.world import World, broker_name
from barnabas.zk.protocol.ops import Check, Multi
from barnabas.zk.protocol.session_ops import CloseSession

EVERY_NS: Final = 20_000_000
_LOOKED_AT: Final = ("/brokers/topics", "/controller")


class Recorder:
    """Begins with `attach`, before the coordinator starts."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._controller = ""
        self._states: dict[str, tuple[bytes, tuple[int, ...]]] = {}
        self._read: dict[bytes, dict[str, tuple[int, ...]]] = {}
        """Results of `_assigned`: the same few znodes are read at every commit."""
        self._roles: dict[tuple[str, str], tuple[bool, int, int]] = {}
        self._logs: dict[tuple[str, str], tuple[int, int, int]] = {}
        self._lives: dict[str, Broker] = {}
        self._seen: dict[Partition, tuple[int, ...]] = {}
        """What was last told of each replica."""

    def attach(self) -> None:
        told_before = self._world.on_commit

        def committed(operation: Any, session_id: int, result: Any, zxid: int) -> None:
            told_before(operation, session_id, result, zxid)
            if _may_change_who_leads(self._world.as_named(operation)):
                self._look_at_zookeeper()
            self._look_at_brokers()

        self._world.on_commit = committed
        self._tick()

    def _tick(self) -> None:
        self._look_at_brokers()
        self._world.loop.call_later(EVERY_NS / NS, self._tick)

    def _look_at_zookeeper(self) -> None:
        world = self._world
        controller = world.controller() or ""
        if controller != self._controller:
            if self._controller:
                world.trace.tell(
                    self._controller, Happening.RESIGNED, f"/controller is gone, {self._controller} was it"
                )
            if controller:
                epoch = int(world.znode("/controller_epoch") or b"0")
                world.trace.tell(
                    controller, Happening.CONTROLLER, f"is controller, epoch {epoch}", controller_epoch=epoch
                )
            self._controller = controller
        found: dict[str, tuple[bytes, tuple[int, ...]]] = {}
        for topic in world.children("/brokers/topics"):
            numbers = world.children(f"/brokers/topics/{topic}/partitions")
            assigned = self._assigned(world.znode(f"/brokers/topics/{topic}") or b"{}") if numbers else {}
            for number in numbers:
                state = world.znode(f"/brokers/topics/{topic}/partitions/{number}/state")
                if state:
                    found[f"{topic}-{number}"] = (state, assigned.get(number, ()))
        for partition, (data, replicas) in found.items():
            if self._states.get(partition) != (data, replicas):
                self._tell_state(partition, data, replicas)
        for partition in self._states:
            if partition not in found:
                world.trace.tell("", Happening.DELETED, f"{partition} is deleted", partition=partition)
        self._states = found

    def _assigned(self, topic: bytes) -> dict[str, tuple[int, ...]]:
        """The replicas by partition, from a topic's znode."""
        if topic not in self._read:
            self._read[topic] = {
                number: tuple(replicas) for number, replicas in json.loads(topic).get("partitions", {}).items()
            }
        return self._read[topic]

    def _tell_state(self, partition: str, data: bytes, replicas: tuple[int, ...]) -> None:
        read = json.loads(data)
        topic, _, number = partition.rpartition("-")
        node = self._world.tree_node(f"/brokers/topics/{topic}/partitions/{number}/state")
        leader = f"leader {read['leader']}" if read["leader"] >= 0 else "no leader"
        self._world.trace.tell(
            "",
            Happening.STATE,
            f"{partition}: {leader}, leader epoch {read['leader_epoch']}, isr {read['isr']}, replicas {list(replicas)}",
            partition=partition,
            leader=read["leader"],
            leader_epoch=read["leader_epoch"],
            isr=read["isr"],
            partition_epoch=node.version,
            controller_epoch=read["controller_epoch"],
            replicas=list(replicas),
        )

    def _look_at_brokers(self) -> None:
        world = self._world
        for name, broker in world.brokers.items():
            if self._lives.get(name) is not broker:
                self._lives[name] = broker
                for key in [key for key in self._roles if key[0] == name]:
                    del self._roles[key]
            for partition in broker.replicas.partitions:
                log = partition.log
                if log is None:
                    continue
                seen = (
                    partition.leader_epoch, partition.leader_id, log.log_start_offset, log.high_watermark,
                    log.log_end_offset,
                )  # fmt: skip
                if self._seen.get(partition) == seen:
                    continue
                self._seen[partition] = seen
                key = name, str(partition.topic_partition)
                offsets = log.log_start_offset, log.high_watermark, log.log_end_offset
                role = partition.is_leader, partition.leader_id, partition.leader_epoch
                if self._roles.get(key) != role and partition.leader_epoch >= 0:
                    self._roles[key] = role
                    self._tell_role(key, role, offsets)
                if self._logs.get(key) != offsets:
                    self._logs[key] = offsets
                    self._tell_log(key, offsets)

    def _tell_role(self, key: tuple[str, str], role: tuple[bool, int, int], offsets: tuple[int, int, int]) -> None:
        node, partition = key
        leads, leader, epoch = role
        _, high_watermark, end = offsets
        if leads:
            self._world.trace.tell(
                node, Happening.LEADING, f"leads {partition} in epoch {epoch} from {end}",
                partition=partition, leader_epoch=epoch, log_end_offset=end, high_watermark=high_watermark,
            )  # fmt: skip
        else:
            whom = broker_name(leader) if leader >= 0 else "nobody"
            self._world.trace.tell(
                node, Happening.FOLLOWING, f"follows {whom} in {partition}, epoch {epoch}, from {end}",
                partition=partition, leader=leader, leader_epoch=epoch, log_end_offset=end,
                high_watermark=high_watermark,
            )  # fmt: skip

    def _tell_log(self, key: tuple[str, str], offsets: tuple[int, int, int]) -> None:
        node, partition = key
        start, high_watermark, end = offsets
        self._world.trace.tell(
            node, Happening.LOG, f"{partition}: {start} to {end}, high watermark {high_watermark}",
            partition=partition, log_start_offset=start, high_watermark=high_watermark, log_end_offset=end,
        )  # fmt: skip


def _may_change_who_leads(operation: Any) -> bool:
    """Whether the operation may change a leader or the controller, whose znode may belong to a session that ends."""
    if type(operation) is CloseSession:
        return True
    parts = operation.operations if type(operation) is Multi else [operation]
    return any(type(part) is not Check and part.path.startswith(_LOOKED_AT) for part in parts)
