"""Watches what brokers do with requests: fences of epochs, producer ids, groups, requests under way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from barnabas.broker.handlers import produce
from barnabas.broker.parts import BrokerParts
from barnabas.broker.producer_ids import ProducerIds
from barnabas.client.connection import Connection
from barnabas.client.group import GroupMember, Joined
from barnabas.controller.batch import BrokerRequest, ControllerBrokerRequestBatch
from barnabas.controller.controller import KafkaController
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.group_offsets import CommitRecord
from barnabas.coordinator.group_values import DEAD
from barnabas.coordinator.groups import Group
from barnabas.log.checkpoints import HIGH_WATERMARKS
from barnabas.log.log_dirs import LogDirs
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC
from barnabas.replica.replicas import Replicas
from barnabas.sim.clients.history import History
from barnabas.sim.judges.chain import checkpointed
from barnabas.sim.judges.watch_zookeeper import ZooKeeperWatch
from barnabas.sim.plans.events import RPC
from barnabas.sim.world.probes import Probes, life, node
from barnabas.sim.world.world import World
from barnabas.wire.messages import APIS
from barnabas.wire.messages.stop_replica import StopReplicaRequest

_LATE_MS: Final = 2_000
_API_KEY_AT: Final = 4
"""In a request's frame, behind its size."""


class ClusterWatch:
    def __init__(self, world: World, history: History, ensemble: ZooKeeperWatch, probes: Probes) -> None:
        self.world = world
        self.history = history
        self.ensemble = ensemble
        self._controller_epochs: dict[tuple[str, int], int] = {}
        self._producer_ids: dict[int, str] = {}
        self._died_ns: dict[str, int] = {}
        """By group: when a coordinator last forgot it."""
        self._awaiting_sync: dict[tuple[str, str, int], int] = {}
        """By node, group and generation: since when the group waits for members that have not sent SyncGroup."""
        self.generations_may_begin_anew: Callable[[str], bool] = lambda group: False
        probes.around(Replicas, "become_leader_or_follower", partial(self._around_control, "LeaderAndIsr"))
        probes.around(Replicas, "stop_replicas", partial(self._around_control, "StopReplica"))
        probes.around(Replicas, "stop_replica", self._around_stop_replica)
        probes.around(Replicas, "maybe_update_metadata_cache", self._around_update_metadata)
        probes.around(ProducerIds, "next", self._around_next_producer_id)
        probes.around(KafkaController, "controlled_shutdown", self._around_controlled_shutdown)
        probes.after(BrokerParts, "is_stale", self._is_stale)
        probes.after(ControllerBrokerRequestBatch, "requests", self._told)
        probes.around(produce, "response", self._around_produce_response)
        probes.around(LogDirs, "checkpoint_high_watermarks", self._around_checkpoint)
        probes.around(Connection, "send_request_frame", self._around_send)
        probes.around(GroupMember, "ask_to_join", self._around_join)
        probes.around(Group, "maybe_die", self._around_maybe_die)
        probes.around(GroupCoordinator, "commit_offsets", self._around_commit)
        probes.around(GroupCoordinator, "commit_transactional_offsets", self._around_transactional_commit)

    # C3, C4

    def _around_control(
        self, name: str, original: Any, replicas: Any, request: Any, *arguments: Any, **named: Any
    ) -> Any:
        result = original(replicas, request, *arguments, **named)
        self._control(name, request, result.error_code, replicas.broker_epoch)
        return result

    def _around_update_metadata(self, original: Any, replicas: Any, request: Any, *arguments: Any) -> Any:
        result = original(replicas, request, *arguments)
        self._control("UpdateMetadata", request, result, replicas.broker_epoch)
        return result

    def _control(self, name: str, request: Any, code: int, broker_epoch: int) -> None:
        world, key = self.world, (node(), life())
        world.check("C3")
        world.check("C4")
        seen = self._controller_epochs.get(key, 0)
        if int(code) != ErrorCode.STALE_CONTROLLER_EPOCH:
            if request.controller_epoch < seen:
                world.violated(
                    "C3", f"{key[0]} applied {name} of controller epoch {request.controller_epoch} after {seen}",
                    node=key[0],
                )  # fmt: skip
            meant = getattr(request, "broker_epoch", -1)
            if meant != -1 and meant < broker_epoch:
                world.violated(
                    "C4", f"{key[0]} of broker epoch {broker_epoch} applied {name} that was meant for {meant}",
                    node=key[0],
                )  # fmt: skip
            self._controller_epochs[key] = max(seen, request.controller_epoch)

    def _is_stale(self, stale: bool, parts: BrokerParts, broker_epoch: int, *_: bool) -> None:
        """A broker does not refuse a request for its present registration, even before it has heard of that
        registration (KAFKA-9839)."""
        self.world.check("C4")
        registered = self.ensemble.broker_epochs.get(parts.node.broker_id)
        if stale and registered is not None and broker_epoch >= registered:
            self.world.violated(
                "C4", f"{node()} refuses a request for broker epoch {broker_epoch}, and is registered in {registered}",
                node=node(),
            )  # fmt: skip

    # C12

    def _around_stop_replica(
        self, original: Any, replicas: Any, topic_partition: TopicPartition, leader_epoch: int, delete: bool
    ) -> Any:
        code = original(replicas, topic_partition, leader_epoch, delete)
        partition = replicas.partition(topic_partition)
        self.world.check("C12")
        if code is ErrorCode.FENCED_LEADER_EPOCH and partition is not None and leader_epoch >= partition.leader_epoch:
            self.world.violated(
                "C12", f"{node()} keeps {topic_partition}: StopReplica of epoch {leader_epoch} is refused in epoch "
                f"{partition.leader_epoch}", str(topic_partition), node(),
            )  # fmt: skip
        return code

    # C11, C16, C20

    def _told(self, requests: list[BrokerRequest], _: object, controller_epoch: int) -> None:
        for each in requests:
            if not isinstance(each.request, StopReplicaRequest):
                continue
            for topic in each.request.topic_states:
                for state in topic.partition_states:
                    partition = f"{topic.topic_name}-{state.partition_index}"
                    if state.delete_partition:
                        self.ensemble.told_to_delete[controller_epoch, partition, each.broker_id] = None

    async def _around_controlled_shutdown(
        self, original: Any, controller: Any, broker_id: int, broker_epoch: int
    ) -> Any:
        self.ensemble.asked_to_leave_ns[broker_id] = self.world.loop.now_ns
        known = None if controller.reign is None else controller.reign.context.broker_epoch(broker_id)
        remaining = await original(controller, broker_id, broker_epoch)
        self.world.check("C4")
        if 0 <= broker_epoch < (known or 0):
            self.world.violated(
                "C4", f"{node()} knows broker {broker_id} by its epoch {known}, and let it stop in {broker_epoch}",
                node=node(),
            )  # fmt: skip
        # One whose session is over may not know it yet; what it wrote last was refused.
        in_office = self.ensemble.controller == controller.broker_id
        if not remaining and in_office and controller.epoch == self.ensemble.controller_epoch:
            self.ensemble.shutdown_granted(broker_id)
        return remaining

    async def _around_next_producer_id(self, original: Any, ids: Any) -> int:
        given: int = await original(ids)
        self.world.check("C16")
        if given in self._producer_ids:
            self.world.violated(
                "C16", f"{node()} gave producer id {given}, as {self._producer_ids[given]} did before", node=node()
            )
        self._producer_ids[given] = node()
        return given

    # R8

    def _around_produce_response(self, original: Any, broker: Any, request: Any, context: Any, told: Any) -> Any:
        answer = original(broker, request, context, told)
        if request.acks == 0:
            self.world.check("R8")
            failed = [
                f"{partition.index} {ErrorCode(partition.error_code).name}"
                for partition in told
                if partition.error_code
            ]
            if failed:
                self.world.violated(
                    "R8",
                    f"{node()} keeps the connection of a producer with acks=0 that failed: {failed}",
                    node=node(),
                )
        return answer

    # R5

    def _around_checkpoint(self, original: Any, log_dirs: Any, offsets: Any) -> None:
        """A replica that exists stays in the checkpoint of high watermarks (KAFKA-769)."""
        names = self.world.nodes[node()].volume.names
        before = {path: checkpointed(names, path, HIGH_WATERMARKS) for path in log_dirs.online_paths}
        original(log_dirs, offsets)
        self.world.check("R5")
        for path, known in before.items():
            there = {str(partition) for partition in log_dirs.logs_in(path)}
            now = checkpointed(names, path, HIGH_WATERMARKS)
            lost = [partition for partition in known if partition in there and partition not in now]
            if lost and path in log_dirs.online_paths:
                self.world.violated("R5", f"{node()} forgets the high watermarks of {lost} in {path}", lost[0], node())

    # What is sent

    def _around_send(
        self, original: Any, connection: Any, correlation_id: int, parts: list[Any], *arguments: Any
    ) -> None:
        original(connection, correlation_id, parts, *arguments)
        network, events = self.world.network, self.world.events
        if network.replies_to_lose or events.awaited(RPC):
            name = APIS[int.from_bytes(parts[0][_API_KEY_AT : _API_KEY_AT + 2], "big")].name
            network.asked(connection.transport, name)
            peer = connection.transport.peer
            events.happened(RPC, name, node(), "" if peer is None else peer.owner.name)

    def look_at_groups(self) -> None:
        """L1: a generation begins without the members that send no SyncGroup within the rebalance timeout
        (KAFKA-12890)."""
        world, waiting = self.world, {}
        for name, broker in world.brokers.items():
            for partition in broker.groups.hosted:
                for group_id, group in partition.groups.items():
                    if not group.awaits_sync or world.disturbed(name):
                        continue
                    key = name, group_id, group.generation_id
                    since_ns = waiting[key] = self._awaiting_sync.get(key, world.loop.now_ns)
                    world.check("L1")
                    longest_ms = max(member.rebalance_timeout_ms for member in group.members.values())
                    if world.loop.now_ns - since_ns > (longest_ms + _LATE_MS) * 1_000_000:
                        world.violated(
                            "L1", f"group {group_id} waits for members to sync for {longest_ms + _LATE_MS} ms in "
                            f"generation {group.generation_id}", node=name,
                        )  # fmt: skip
        self._awaiting_sync = waiting

    # G2, G3

    async def _around_join(self, original: Any, member: GroupMember) -> Joined:
        asked_ns = self.world.loop.now_ns
        joined: Joined = await original(member)
        if asked_ns > self._died_ns.get(member.group, -1):  # else the answer may be of the group that is dead
            self._joined(member, joined)
        return joined

    def _around_maybe_die(self, original: Any, group: Group, *arguments: Any) -> Any:
        tombstone = original(group, *arguments)
        if group.state is DEAD:
            # Nobody remembers it: the next group of the name counts its generations from one again.
            self.history.generations.pop(group.group_id, None)
            self._died_ns[group.group_id] = self.world.loop.now_ns
            for key in [owned for owned in self.history.owners if owned[0] == group.group_id]:
                del self.history.owners[key]
        return tombstone

    async def _around_commit(
        self,
        original: Any,
        groups: GroupCoordinator,
        group: str,
        member: str,
        instance: str | None,
        generation: int,
        offsets: Any,
    ) -> Any:
        """G2: no commit of an earlier generation is accepted, as far as any member knows of a later one. G7: an
        acknowledged commit is known to the coordinator, and on all replicas in sync."""
        latest = self.history.generations.get(group, -1)
        before = {key: _committed(groups, group, key) for key in offsets}
        outcome = await original(groups, group, member, instance, generation, offsets)
        for key in [known for known, error in outcome.items() if error is ErrorCode.NONE]:
            self._is_kept(groups, group, key, before.get(key))
        self._is_of_the_latest(group, generation, latest, outcome)
        return outcome

    async def _around_transactional_commit(
        self,
        original: Any,
        groups: GroupCoordinator,
        group: str,
        member: str,
        instance: str | None,
        generation: int,
        *given: Any,
    ) -> Any:
        """G2, for offsets that count when their transaction is committed."""
        latest = self.history.generations.get(group, -1)
        outcome = await original(groups, group, member, instance, generation, *given)
        self._is_of_the_latest(group, generation, latest, outcome)
        return outcome

    def _is_of_the_latest(
        self, group: str, generation: int, latest: int, outcome: Mapping[TopicPartition, ErrorCode]
    ) -> None:
        self.world.check("G2")
        if not 0 <= generation < latest or ErrorCode.NONE not in outcome.values():
            return
        if self.generations_may_begin_anew(group):
            self.world.waive("G2")
        else:
            sentence = f"{node()} took a commit of generation {generation} of {group}, after {latest} had begun"
            self.world.violated("G2", sentence, node=node())

    def _is_kept(self, groups: GroupCoordinator, group: str, key: TopicPartition, before: CommitRecord | None) -> None:
        name, now = node(), _committed(groups, group, key)
        if now is None or name not in self.world.brokers:
            return  # the topic is gone, or another broker coordinates the group
        kept_in = TopicPartition(GROUP_METADATA_TOPIC, groups.partition_for(group))
        partition = self.world.brokers[name].replicas.partition(kept_in)
        if partition is None or partition.log is None or not partition.is_leader:
            return
        self.world.check("G7")
        if now is before:
            self.world.violated("G7", f"{name} acknowledged a commit of {group} for {key}, and has {now} as before")
        elif now.record_offset >= partition.log.high_watermark:
            self.world.violated(
                "G7", f"{name} acknowledged a commit of {group} for {key} that lies at {now.record_offset} of "
                f"{kept_in}; {partition.log.high_watermark} is reached", str(kept_in), name,
            )  # fmt: skip

    def _joined(self, member: GroupMember, joined: Joined) -> None:
        world, history, group, generation = self.world, self.history, member.group, joined.generation
        # A static member that comes again is another member id, of the same generation (KIP-345).
        name = member.metadata.group_instance_id or member.member_id
        latest = history.generations.get(group, -1)
        if generation > latest:
            history.generations[group] = generation
        for partition in joined.assignment:
            world.check("G3")
            key = group, generation, str(partition)
            owner = history.owners.setdefault(key, name)
            if owner != name and not self.generations_may_begin_anew(group):
                world.violated(
                    "G3", f"{owner} and {name} both own {partition} in generation {generation} of {group}",
                    str(partition),
                )  # fmt: skip


def _committed(groups: GroupCoordinator, group_id: str, key: TopicPartition) -> CommitRecord | None:
    """The offsets that the coordinator knows the group has committed."""
    for partition in groups.hosted:
        group = partition.groups.get(group_id)
        if group is not None:
            return group.offsets.committed.get(key)
    return None
