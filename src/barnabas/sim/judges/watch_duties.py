"""Watches that an undisturbed controller does its work (C25): what is asked of it happens, and every broker concerned
is told.

A controller that fails to look again leaves a partition without a leader, a finished move under way, an order undone,
or a broker in an old epoch. Any later broker death or election would mend that, and at the end of a run there is one.
So the controller is judged as the run goes, while nothing disturbs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from barnabas.controller.context import ControllerContext
from barnabas.model.ids import TopicPartition
from barnabas.sim.judges.watch_zookeeper import TopicSeen, ZooKeeperWatch
from barnabas.sim.world.world import World, broker_name

DONE_NS: Final = 5_000_000_000
"""For what the controller does alone."""
TOLD_NS: Final = 10_000_000_000
"""For what it does with brokers, which it may not reach at first."""
LOOKS: Final = 4
"""Looks of other watchers to one of these."""
PREFERRED: Final = "/admin/preferred_replica_election"
MOVES: Final = "/admin/reassign_partitions"
DELETIONS: Final = "/admin/delete_topics"
NOTES: Final = ("/isr_change_notification", "/log_dir_event_notification")


class Duty(NamedTuple):
    """What is not as it should be, and the `nodes` that have to be well for it."""

    sentence: str
    partition: str = ""
    nodes: tuple[str, ...] = ()
    within_ns: int = DONE_NS


class DutyWatch:
    def __init__(
        self,
        world: World,
        ensemble: ZooKeeperWatch,
        reached_since: Callable[[str, str], int],
        calm_since_ns: Mapping[str, int],
    ) -> None:
        """`reached_since` is asked for two nodes: since when both run and nothing keeps one from telling the other."""
        self.world = world
        self.ensemble = ensemble
        self._reached_since = reached_since
        self._calm_since_ns = calm_since_ns
        self._since_ns: dict[tuple[int, Duty], int] = {}
        """By the controller's epoch and what it owes: since when."""
        self._looks = 0

    def look(self) -> None:
        self._looks += 1
        if self._looks % LOOKS == 0:
            self.look_once_more()

    def look_once_more(self) -> None:
        before, self._since_ns = self._since_ns, {}
        context = self.ensemble.known_to_controller()
        if context is None:
            return
        now_ns, ruler = self.world.loop.now_ns, broker_name(self.ensemble.controller)
        self.world.check("C25")
        for duty in self._owed(context):
            key = context.epoch, duty
            since_ns = self._since_ns[key] = before.get(key, now_ns)
            for name in duty.nodes:
                since_ns = max(since_ns, self._calm_since_ns.get(name, now_ns), self._reached_since(ruler, name))
            late = now_ns - since_ns > duty.within_ns and self.ensemble.is_known_since(since_ns, duty.within_ns)
            if late:
                node = duty.nodes[0] if len(duty.nodes) == 1 else ruler
                sentence = f"{ruler} rules, and for {duty.within_ns / 1e9:.0f} s {duty.sentence}"
                self.world.violated("C25", sentence, duty.partition, node)
                self._since_ns[key] = now_ns

    def _owed(self, context: ControllerContext) -> Iterator[Duty]:
        deleted = self.world.children(DELETIONS)
        for topic, seen in self.ensemble.topics.items():
            if topic in deleted:
                yield from self._deletion(context, topic, seen)
            else:
                for number, replicas in seen.replicas.items():
                    yield from self._of_partition(context, TopicPartition(topic, number), seen, replicas)
        yield from self._orders(deleted)

    def _of_partition(
        self, context: ControllerContext, each: TopicPartition, seen: TopicSeen, replicas: list[int]
    ) -> Iterator[Duty]:
        partition = str(each)
        state = self.ensemble.states.get(partition)
        in_sync = replicas if state is None else state["isr"]
        if state is None or state["leader"] < 0:
            if able := context.online_replicas(in_sync, each):
                at = "" if state is None else f" since epoch {state['leader_epoch']}"
                yield Duty(f"nobody leads {partition}{at}, and {[*able]} may", partition)
            return
        if seen.adding.get(each.partition) or seen.removing.get(each.partition):
            targets = [replica for replica in replicas if replica not in seen.removing.get(each.partition, [])]
            if all(replica in in_sync and context.is_replica_online(replica, each) for replica in targets):
                yield Duty(f"{partition} moves to {targets}, which are all in sync", partition, (), TOLD_NS)
        yield from self._unheard(context, each, state, replicas)

    def _unheard(
        self, context: ControllerContext, each: TopicPartition, state: Mapping[str, Any], replicas: list[int]
    ) -> Iterator[Duty]:
        """Brokers whose metadata lack the partition's present leader, and replicas that have not been told to lead or
        follow. A leader that writes its ISR itself announces it only when no other has changed for a while."""
        leader, epoch, isr = state["leader"], state["leader_epoch"], state["isr"]
        tells = self.world.metadata_version.is_alter_partition_supported

        def what() -> str:
            told = f"that {leader} leads {each} in epoch {epoch}, of the replicas {replicas}"
            return f"{told} and the ISR {isr}" if tells else told

        for name, broker in self.world.brokers.items():
            number = broker.broker_id
            if not self.ensemble.is_registered(number):
                continue
            topic = broker.metadata.image.topics.get(each.topic)
            known = None if topic is None else topic.partitions.get(each.partition)
            if (
                known is None
                or (known.leader, known.leader_epoch, [*known.replicas]) != (leader, epoch, replicas)
                or (tells and sorted(known.isr) != sorted(isr))
            ):
                yield Duty(f"{name} does not know {what()}", str(each), (name,), TOLD_NS)
            if number in replicas and context.is_replica_online(number, each) and not broker.replicas.is_shutting_down:
                copy = broker.replicas.partition(each)
                is_told = copy is not None and copy.leader_epoch >= epoch
                if not is_told and each not in broker.replicas.offline_partitions:
                    yield Duty(f"{name}, who has {each}, is not told {what()}", str(each), (name,), TOLD_NS)

    def _deletion(self, context: ControllerContext, topic: str, seen: TopicSeen) -> Iterator[Duty]:
        """A deletion waits for moves of the topic, and for replicas that are offline."""
        replicas = [(TopicPartition(topic, number), each) for number, all_ in seen.replicas.items() for each in all_]
        if any(seen.adding.values()) or any(seen.removing.values()):
            return
        if all(context.is_replica_online(number, each) for each, number in replicas):
            names = tuple(sorted({broker_name(number) for _, number in replicas}))
            yield Duty(f"{topic}, of which all replicas are there, is to be deleted", topic, names, TOLD_NS)

    def _orders(self, deleted: list[str]) -> Iterator[Duty]:
        """What tools and brokers ask for by znodes."""
        if self.world.znode(PREFERRED) is not None:
            yield Duty(f"{PREFERRED} asks for elections")
        for topic in deleted:
            if topic not in self.ensemble.topics:
                yield Duty(f"{topic}, which is not there, is to be deleted")
        if (asked := self.world.znode(MOVES)) is not None:
            left = [each for each in json.loads(asked)["partitions"] if not self._is_under_way(each, deleted)]
            if left:
                yield Duty(f"{MOVES} asks for {left}, and none of it is under way", within_ns=TOLD_NS)
        for path in NOTES:
            for name in self.world.children(path):
                yield Duty(f"{path}/{name} is not read")

    def _is_under_way(self, asked: Mapping[str, Any], deleted: list[str]) -> bool:
        topic, number = asked["topic"], asked["partition"]
        seen = self.ensemble.topics.get(topic)
        if seen is None:
            return False
        return topic in deleted or bool(seen.adding.get(number) or seen.removing.get(number))
