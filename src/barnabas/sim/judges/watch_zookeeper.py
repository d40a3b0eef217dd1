"""Watches every ZooKeeper transaction: who is controller, who leads, who is in sync, and whether the writer was allowed
to say so.

It keeps the state of each partition beside the tree, so that each change is compared with what was there before.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.controller.context import ControllerContext
from barnabas.model.ids import TopicPartition
from barnabas.sim.judges.watch_logs import LogWatch
from barnabas.sim.world.loop import Incarnation
from barnabas.sim.world.world import ZOOKEEPER, World, broker_name, broker_number
from barnabas.zk.protocol.errors import NoNode
from barnabas.zk.protocol.ops import Check, Create, Delete, Multi, SetData
from barnabas.zk.protocol.session_ops import CloseSession

_TOPICS: Final = "/brokers/topics/"
_IDS: Final = "/brokers/ids/"
_DELETIONS: Final = "/admin/delete_topics/"
_SEEN_S: Final = 3_000_000_000
"""For a controller to hear that a broker is gone; without a controller nobody hears it."""


@dataclass
class TopicSeen:
    topic_id: str
    replicas: dict[int, list[int]]
    adding: dict[int, list[int]] = field(default_factory=dict)
    removing: dict[int, list[int]] = field(default_factory=dict)


class ZooKeeperWatch:
    def __init__(self, world: World, logs: LogWatch) -> None:
        self.world = world
        self.logs = logs
        self.states: dict[str, dict[str, Any]] = {}
        """By partition."""
        self._been_in_sync: dict[str, dict[int, None]] = {}
        """By partition: brokers that are or were in its ISR since its replicas last changed."""
        self.topics: dict[str, TopicSeen] = {}
        self.controller_epoch = 0
        self.controller = -1
        self.gone_ns: dict[int, int] = {}
        """Since when a broker is not registered."""
        self._registered_ns: dict[int, int] = {}
        self._registered_by: dict[int, tuple[int, Incarnation | None]] = {}
        """By broker: the session of its registration, or of its last, and the process whose session that is."""
        self.broker_epochs: dict[int, int] = {}
        """By broker: the epoch of its registration, or of its last."""
        self.told_to_delete: dict[tuple[int, str, int], None] = {}
        """By controller epoch, partition and broker: the controller has sent, or is about to send, a StopReplica that
        deletes."""
        self.left: dict[int, int] = {}
        """Brokers whose controlled shutdown was granted, and in which controller epoch."""
        self.asked_to_leave_ns: dict[int, int] = {}
        """By broker: when it, or its earlier process, last asked for its controlled shutdown."""
        self.deleted_ns: dict[str, int] = {}
        """When a topic was last deleted."""
        self._ordered: dict[str, str] = {}
        """By topic that is to be deleted: its id."""
        self._settings_ordered: dict[str, int] = {}
        """By the same: the transaction that made its settings."""
        self._last_producer_id = -1
        self.reigns_since_ns = 0
        """When the controller was elected."""
        self._half_configured: dict[str, dict[str, Incarnation | None]] = {}
        """By topic whose configuration was written and not announced since: the processes of that time, by node. As in
        Kafka the writer changes two znodes, and may die between them."""
        self._announced: dict[str, None] = {}
        """Topics whose configuration was written, and announced."""
        self.on_shrunk: Callable[[str, int, int], None] = lambda partition, leader, member: None
        """Told when a leader has had a member taken out of its ISR."""
        self.on_dropped: Callable[[str, int], None] = lambda partition, broker_id: None
        """Told when a broker is a replica of a partition no more."""

    def is_assigned(self, partition: str, broker_id: int) -> bool:
        topic, _, number = partition.rpartition("-")
        seen = self.topics.get(topic)
        return seen is not None and broker_id in seen.replicas.get(int(number), [])

    def committed(self, operation: Any, session: int, result: Any, zxid: int) -> None:
        """A transaction was done."""
        if type(operation) is Multi:
            parts = list(operation.operations)
            checked = any(type(one) is Check and one.path == "/controller_epoch" for one in parts)
            for part in parts:
                self._changed(part, session, zxid, checked, parts)
        elif type(operation) is CloseSession:
            self._look_for_the_missing()
        else:
            self._changed(operation, session, zxid, False, [operation])

    def _changed(self, part: Any, session: int, zxid: int, checked: bool, parts: list[Any]) -> None:
        path = getattr(part, "path", "")
        if path.startswith(_TOPICS):
            self._topics_changed(part, path, session, checked)
        elif path == "/controller":
            self._controller_changed(part, parts)
        elif path == "/controller_epoch" and type(part) is SetData:
            self._epoch_changed(part, parts)
        elif path.startswith(_IDS):
            number = int(path[len(_IDS) :])
            if type(part) is Delete:
                self._taken_away(number, session)
                self.gone_ns[number] = self.world.loop.now_ns
            elif type(part) is Create:
                self._registered_by[number] = session, self._process_of(session)
                self.broker_epochs[number] = zxid
                self.gone_ns.pop(number, None)
                self.left.pop(number, None)
                self._registered_ns[number] = self.world.loop.now_ns
        elif path.startswith(_DELETIONS):
            self._deletion_changed(part, path[len(_DELETIONS) :], session, checked)
        elif path.startswith("/isr_change_notification/") and type(part) is Delete:
            self._fenced(path, session, checked)
        elif path == "/latest_producer_id_block" and getattr(part, "data", None):
            self._block_given(json.loads(part.data))
        elif path.startswith("/config/topics/"):
            self._config_changed(part, path)
        elif path.startswith("/config/changes/"):
            self._config_announced(part)

    # C4

    def _taken_away(self, number: int, session: int) -> None:
        """C4: a registration ends with its session; nobody else deletes it while its owner lives. A broker that
        ZooKeeper refuses to authenticate begins another session, and need not wait for the end of the one that it gave
        up."""
        world = self.world
        owner, process = self._registered_by.get(number, (session, None))
        assert world.coordinator is not None
        world.check("C4")
        given_up = process is not None and process is self._process_of(session)
        if owner != session and owner in world.coordinator.sessions.live and not given_up:
            world.violated(
                "C4", f"session {session:#x} has deleted the registration of broker {number}; session {owner:#x}, "
                "which made it, lives", node=broker_name(number),
            )  # fmt: skip

    def _process_of(self, session: int) -> Incarnation | None:
        assert self.world.coordinator is not None
        node = self.world.nodes.get(self.world.coordinator.session_nodes.get(session, ""))
        return None if node is None else node.process

    # C1, C2

    def _fenced(self, path: str, session: int, checked: bool) -> None:
        """C1: a controller's write carries its epoch, and its writer is the present controller, if there is one."""
        world = self.world
        world.check("C1")
        if not checked:
            world.violated("C1", f"{path} was written without a check of the controller's epoch")
            return
        try:
            owner = world.tree_node("/controller").ephemeral_owner
        except Exception:
            return  # nobody rules: the epoch alone fences
        if owner != session:
            world.violated("C1", f"{path} was written by session {session:#x}; {owner:#x} holds /controller")

    def _controller_changed(self, part: Any, parts: list[Any]) -> None:
        world = self.world
        if type(part) is Delete:
            self._resigned()
            return
        if type(part) is not Create:
            return
        world.check("C2")
        if not any(type(other) is SetData and other.path == "/controller_epoch" for other in parts):
            world.violated("C2", "/controller was created without raising /controller_epoch with it")
        self.controller = int(json.loads(part.data or b"{}")["brokerid"])
        self.reigns_since_ns = world.loop.now_ns

    def _resigned(self) -> None:
        self.controller = -1

    def _epoch_changed(self, part: Any, parts: list[Any]) -> None:
        world, epoch = self.world, int(part.data or b"0")
        world.check("C2")
        if epoch != self.controller_epoch + 1 and self.controller_epoch:
            world.violated("C2", f"the controller's epoch went from {self.controller_epoch} to {epoch}")
        if not any(type(other) is Create and other.path == "/controller" for other in parts):
            world.violated("C2", f"the controller's epoch was raised to {epoch} without an election")
        self.controller_epoch = epoch

    def _look_for_the_missing(self) -> None:
        """A session ended, and its ephemeral znodes are gone."""
        world = self.world
        registered = world.tree_node("/brokers/ids").children
        for name in world.broker_names:
            number = int(name.split("-")[1])
            if str(number) not in registered:
                self.gone_ns.setdefault(number, world.loop.now_ns)
        if self.controller >= 0 and "controller" not in world.tree_node("/").children:
            self._resigned()

    # Topics

    def _topics_changed(self, part: Any, path: str, session: int, checked: bool) -> None:
        names = path[len(_TOPICS) :].split("/")
        if len(names) == 1 and type(part) in (Create, SetData) and part.data:
            before = self.topics.get(names[0])
            self._assigned(names[0], json.loads(part.data))
            if type(part) is SetData and before is not None and before != self.topics[names[0]]:
                self._follows_what_was_read(part, names[0], before, session)
        elif len(names) == 1 and type(part) is Delete:
            self._deleted(names[0])
        elif len(names) == 4 and names[3] == "state":
            partition = f"{names[0]}-{names[2]}"
            if checked or not self._written_by_its_leader(part, partition, session):
                self._fenced(path, session, checked)
            if type(part) is not Delete and part.data:
                self._state(partition, json.loads(part.data))

    def _written_by_its_leader(self, part: Any, partition: str, session: int) -> bool:
        """Below inter.broker.protocol.version 2.7 a leader changes its ISR itself, and nothing else of the state."""
        before = self.states.get(partition)
        if self.world.metadata_version.is_alter_partition_supported or type(part) is not SetData or before is None:
            return False
        leader = before["leader"]
        written = json.loads(part.data or b"{}")
        assert self.world.coordinator is not None
        writer = self.world.coordinator.session_nodes[session].split("-")  # a twin is another node of the same number
        return (
            writer[:2] == broker_name(leader).split("-")
            and part.version >= 0  # it was the znode's, then
            and all(written[field] == before[field] for field in ("leader", "leader_epoch"))
            and leader in written["isr"]
        )

    def _follows_what_was_read(self, part: SetData, topic: str, before: TopicSeen, session: int) -> None:
        """C13: a broker that changes a topic's replicas names the version that it has read, so that the change of
        another in between is not lost. Old tools do not, and a controller that deletes the topic or gives it its first
        id takes its own word for all."""
        coordinator = self.world.coordinator
        assert coordinator is not None
        self.world.check("C13")
        if part.version >= 0 or not before.topic_id or topic in self._ordered:
            return
        if coordinator.session_nodes[session].startswith("broker-"):
            self.world.violated("C13", f"the replicas of {topic} are written whatever another has made of them", topic)

    def _assigned(self, topic: str, read: dict[str, Any]) -> None:
        """C12: an original replica is removed only when the targets are in sync, or when the move is cancelled. C13: a
        partition goes only with its topic."""
        world = self.world
        now = TopicSeen(
            str(read.get("topic_id", "")),
            {int(number): list(replicas) for number, replicas in read["partitions"].items()},
            {int(number): list(members) for number, members in (read.get("adding_replicas") or {}).items()},
            {int(number): list(members) for number, members in (read.get("removing_replicas") or {}).items()},
        )
        before = self.topics.get(topic)
        self.topics[topic] = now
        if before is None:
            return
        world.check("C13")
        if before.topic_id and now.topic_id != before.topic_id:
            world.violated("C13", f"topic {topic} had the id {before.topic_id} and has {now.topic_id}", topic)
        if (gone := sorted(before.replicas.keys() - now.replicas.keys())) and topic not in self._ordered:
            world.violated("C13", f"topic {topic} had the partitions {gone}, and has them no more", topic)
        for number, replicas in now.replicas.items():
            was = before.replicas.get(number)
            if was is None or sorted(was) == sorted(replicas):
                continue
            partition = f"{topic}-{number}"
            dropped = [replica for replica in was if replica not in replicas]
            if not dropped:
                continue
            for replica in dropped:
                self.on_dropped(partition, replica)
                if replica in before.removing.get(number, []):
                    self._left_for_good(partition, replica)
            world.check("C12")
            original = [replica for replica in was if replica not in before.adding.get(number, [])]
            isr = self.states.get(partition, {}).get("isr", [])
            cancelled = all(replica in before.adding.get(number, []) for replica in dropped)
            in_sync = [replica for replica in dropped if replica in isr]
            if in_sync and sorted(in_sync) == sorted(isr) and world.metadata_version.is_alter_partition_supported:
                world.violated(
                    "C12",
                    f"{partition} went from replicas {was} to {replicas}, without any of its ISR {isr}",
                    partition,
                )
            if in_sync and not cancelled and world.metadata_version.is_alter_partition_supported:
                world.violated(
                    "C12", f"{in_sync} are no replicas of {partition} any more, and in its ISR {isr}", partition
                )
            # A leader that writes its ISR itself may shrink it while the controller completes what it saw complete.
            seen = self._been_in_sync.get(partition, {})
            self._been_in_sync[partition] = dict.fromkeys(isr)
            known = isr if world.metadata_version.is_alter_partition_supported else seen
            completed = all(replica in known for replica in replicas)
            if not cancelled and not completed and set(original) - set(replicas):
                world.violated(
                    "C12", f"{partition} went from replicas {was} to {replicas} with the ISR {isr}", partition
                )

    def _left_for_good(self, partition: str, broker_id: int) -> None:
        """C20: a replica that is noted as removed is told to delete its log before the note goes, since a next
        controller goes by that note."""
        world, told = self.world, (self.controller_epoch, partition, broker_id)
        world.check("C20")
        if told in self.told_to_delete:
            del self.told_to_delete[told]
        elif (
            broker_id in self.gone_ns
            or not self.is_known_since(self._registered_ns.get(broker_id, 0))
            or not world.metadata_version.is_alter_partition_supported
        ):
            world.waive("C20")
        else:
            world.violated(
                "C20", f"the note that {broker_id} leaves {partition} is gone, and {broker_id} was not told to delete "
                "its log", partition,
            )  # fmt: skip

    def _deleted(self, topic: str) -> None:
        if (seen := self.topics.pop(topic, None)) is not None:
            self._is_gone_everywhere(topic, seen)
        self.deleted_ns[topic] = self.world.loop.now_ns
        self.logs.unclean.pop(topic, None)
        for partition in [known for known in self.states if known.rpartition("-")[0] == topic]:
            del self.states[partition]
            self._been_in_sync.pop(partition, None)
            self.logs.losses.forgotten(partition)

    def _is_gone_everywhere(self, topic: str, seen: TopicSeen) -> None:
        """C15: a topic's znode goes when every replica on a running broker is gone."""
        world = self.world
        for number, replicas in seen.replicas.items():
            for name in map(broker_name, replicas):
                log, process = self.logs.of.get((name, f"{topic}-{number}")), world.nodes[name].process
                chain = None if log is None else self.logs.chain_of(log)
                world.check("C15")
                if chain is None or process is None or process.number != chain.life or name not in world.brokers:
                    continue
                if chain.topic_id == seen.topic_id:
                    world.violated("C15", f"{topic} is deleted, and {name} has its partition {number}", topic, name)

    def _config_changed(self, part: Any, path: str) -> None:
        topic = path.rpartition("/")[2]
        data = getattr(part, "data", None)
        if data and topic in self.topics:
            self._half_configured[topic] = self._running()
        if data:
            value = json.loads(data).get("config", {}).get("unclean.leader.election.enable")
            if value == "true":
                self.logs.unclean[topic] = True

    def _config_announced(self, part: Any) -> None:
        """An announcement is deleted when it is a quarter of an hour old by a clock that may be wrong; a broker that
        was paused meanwhile has not read it."""
        if type(part) is Create and part.data:
            topic = str(json.loads(part.data).get("entity_path", "")).removeprefix("topics/")
            self._half_configured.pop(topic, None)
            self._announced[topic] = None
        elif type(part) is Delete:
            self._half_configured |= {topic: self._running() for topic in self._announced}

    def _running(self) -> dict[str, Incarnation | None]:
        return {name: self.world.nodes[name].process for name in self.world.broker_names}

    def _deletion_changed(self, part: Any, topic: str, session: int, checked: bool) -> None:
        """C20: the order to delete a topic goes when the topic is gone; until then a next controller goes by it."""
        if type(part) is Create:
            seen = self.topics.get(topic)
            self._ordered[topic] = "" if seen is None else seen.topic_id
            self._settings_ordered[topic] = self._settings_of(topic)
        if type(part) is not Delete:
            return
        world, ordered = self.world, self._ordered.pop(topic, "")
        self._fenced(f"{_DELETIONS}{topic}", session, checked)
        world.check("C20")
        seen = self.topics.get(topic)
        if seen is not None and ordered and seen.topic_id == ordered:
            world.violated("C20", f"the order to delete {topic} is gone, and the topic is there", topic)
        elif (left := self._settings_of(topic)) and left == self._settings_ordered.get(topic):
            world.violated("C20", f"the order to delete {topic} is gone, and its settings are there", topic)

    def _settings_of(self, topic: str) -> int:
        """The transaction that made the znode of the topic's settings; 0 where there is none."""
        try:
            return self.world.tree_node(f"/config/topics/{topic}").czxid
        except NoNode:
            return 0

    def _block_given(self, read: dict[str, Any]) -> None:
        """C16: no two blocks of producer ids overlap."""
        first, last = int(read["block_start"]), int(read["block_end"])
        self.world.check("C16")
        if first <= self._last_producer_id:
            sentence = f"broker {read['broker']} got the producer ids {first} to {last}, after {self._last_producer_id}"
            self.world.violated("C16", f"{sentence} was given")
        self._last_producer_id = max(last, self._last_producer_id)

    def knows_config(self, name: str, partition: str) -> bool:
        """C18: whether the broker was told the topic's configuration, or has started since and read it.

        A leftover copy of a partition that is not assigned to the broker is deleted at its next start; it need not have
        the settings of a later topic of that name.
        """
        ran = self._half_configured.get(partition.rpartition("-")[0], {}).get(name)
        told = ran is None or ran is not self.world.nodes[name].process
        return told and self.is_assigned(partition, broker_number(name))

    def _state(self, partition: str, read: dict[str, Any]) -> None:
        """A partition's state changed: C5, C7, C8, C9, C10."""
        world = self.world
        leader, isr, epoch = int(read["leader"]), [int(member) for member in read["isr"]], int(read["leader_epoch"])
        before = self.states.get(partition)
        topic, _, number = partition.rpartition("-")
        seen = self.topics.get(topic)
        replicas = [] if seen is None else seen.replicas.get(int(number), [])
        self.states[partition] = read
        self._been_in_sync.setdefault(partition, {}).update(dict.fromkeys(isr))
        world.check("C8")
        if not isr:
            world.violated("C8", f"the ISR of {partition} is empty", partition)
        if leader >= 0 and leader not in isr:
            world.violated("C8", f"{leader} leads {partition} and is not in its ISR {isr}", partition)
        known = [] if before is None else before["isr"]
        strangers = [member for member in isr if member not in replicas and member not in known]
        # A leader that writes its ISR itself knows the replicas that it was told of last; its next epoch mends that.
        by_leader = before is not None and epoch == before["leader_epoch"]
        if strangers and replicas and not (by_leader and not world.metadata_version.is_alter_partition_supported):
            world.violated(
                "C8", f"{strangers} in the ISR of {partition} are not among its replicas {replicas}", partition
            )
        if before is None:
            self._made(partition, isr)
            return
        self._compared(partition, before, leader, isr, epoch, int(read["controller_epoch"]))

    def _made(self, partition: str, isr: list[int]) -> None:
        """C9: a new partition's ISR has live brokers only."""
        self.world.check("C9")
        if gone := [member for member in isr if self._known_gone(member)]:
            self.world.violated(
                "C9", f"{partition} is made with the ISR {isr}, and {gone} are not registered", partition
            )

    def _compared(
        self, partition: str, before: dict[str, Any], leader: int, isr: list[int], epoch: int, controller_epoch: int
    ) -> None:
        world = self.world
        world.check("C5")
        world.check("C7")
        if leader == before["leader"] and epoch == before["leader_epoch"]:
            for member in (other for other in before["isr"] if other not in isr):
                self.on_shrunk(partition, leader, member)
        if epoch < before["leader_epoch"]:
            world.violated("C5", f"{partition} went from leader epoch {before['leader_epoch']} to {epoch}", partition)
        if leader not in (before["leader"], -1) and epoch == before["leader_epoch"]:
            world.violated("C5", f"{partition} has another leader, {leader}, in the same epoch {epoch}", partition)
        if controller_epoch < before["controller_epoch"]:
            world.violated(
                "C7", f"{partition} went from controller epoch {before['controller_epoch']} to {controller_epoch}",
                partition,
            )  # fmt: skip
        if leader >= 0 and leader not in before["isr"]:
            world.check("C10")
            if self.logs.may_be_unclean(partition):
                self.logs.restarts.elected_unclean(broker_name(leader), partition)
            else:
                world.violated(
                    "C10", f"{leader} was elected for {partition} from outside of the ISR {before['isr']}", partition
                )
        elif leader >= 0 and leader != before["leader"]:
            world.check("C10")
            if self._known_gone(leader):
                world.violated("C10", f"{leader} was elected for {partition} and is not registered", partition)
            self.is_the_first(partition, leader, before["isr"])
        for member in isr:
            if member in before["isr"] or member == leader:
                continue
            world.check("C9")
            # What the controller knows a leader need not that writes its ISR itself; nor is it told while nobody rules.
            by_itself = epoch == before["leader_epoch"] and not world.metadata_version.is_alter_partition_supported
            told = self.controller >= 0 and self._must_be_known_gone(member)
            if told if by_itself else self._known_gone(member):
                world.violated("C9", f"{member} came into the ISR of {partition} and is not registered", partition)
            # A leader that writes its ISR itself does not know which brokers shut down (KAFKA-14140).
            if self.left.get(member) == self.controller_epoch and world.metadata_version.is_alter_partition_supported:
                world.violated(
                    "C9", f"{member} came into the ISR of {partition} after its shutdown was granted", partition
                )

    def is_the_first(self, partition: str, leader: int, isr: list[int]) -> None:
        """C10: of the replicas that are in sync and may lead, as the controller knows them, the first of the assignment
        leads."""
        context = self.known_to_controller()
        if context is None:
            return
        topic, _, number = partition.rpartition("-")
        each = TopicPartition(topic, int(number))
        able = context.online_replicas(context.partition_replica_assignment(each), each)
        if (first := [replica for replica in able if replica in isr][:1]) != [leader]:
            self.world.violated(
                "C10", f"{leader} was elected for {partition} from the ISR {isr}, and {first} was to be", partition
            )

    def _known_gone(self, number: int) -> bool:
        """Whether the broker is not registered, and the controller knows it or must have heard of it."""
        return self._must_be_known_gone(number) or (number in self.gone_ns and self._is_dead_to_controller(number))

    def _must_be_known_gone(self, number: int) -> bool:
        gone_ns = self.gone_ns.get(number)
        return gone_ns is not None and self.is_known_since(gone_ns)

    def _is_dead_to_controller(self, number: int) -> bool:
        alive = self.alive_to_controller()
        return alive is not None and number not in alive

    def alive_to_controller(self) -> list[int] | None:
        """The brokers that the controller takes for alive; None without a controller, or before it has read what there
        is."""
        context = self.known_to_controller()
        return None if context is None else context.live_or_shutting_down_broker_ids

    def known_to_controller(self) -> ControllerContext | None:
        """The controller's state; None without a controller, or before it has read what there is."""
        broker = self.world.brokers.get(broker_name(self.controller))
        reign = None if broker is None else broker.controller.reign
        if reign is None or reign.context.epoch != self.controller_epoch:
            return None
        return reign.context if self.controller in reign.context.live_or_shutting_down_broker_ids else None

    def is_registered(self, number: int) -> bool:
        return number in self._registered_ns and number not in self.gone_ns

    def dead_before_the_reign(self) -> list[int]:
        """The brokers that were not registered when the controller was elected."""
        return [number for number, gone_ns in self.gone_ns.items() if gone_ns < self.reigns_since_ns]

    def registered_ns(self, number: int) -> int | None:
        """Since when the broker has its present registration; None where it has none."""
        return self._registered_ns[number] if self.is_registered(number) else None

    def is_back(self, number: int) -> bool:
        """Whether the broker has registered again since it last asked for its controlled shutdown."""
        return self.is_registered(number) and self._registered_ns[number] > self.asked_to_leave_ns.get(number, -1)

    def is_known_since(self, happened_ns: int, within_ns: int = _SEEN_S) -> bool:
        """Whether the controller must have heard by now, through a watch, of what happened then. While nobody rules,
        who ruled before may write in its epoch, and hears nothing."""
        if self.controller < 0:
            return False
        world, since_ns, name = self.world, max(happened_ns, self.reigns_since_ns), broker_name(self.controller)
        if world.disturbed(name):
            return False
        freed = (world.nodes[node].process for node in (name, ZOOKEEPER))
        since_ns = max(since_ns, *(process.freed_ns for process in freed if process is not None))
        since_ns = max(since_ns, *(link.clear_ns for link in world.links_to_zookeeper(name)))
        return world.loop.now_ns - since_ns > within_ns

    # C11

    def shutdown_granted(self, broker_id: int) -> None:
        """C11: the controller answered that no partition remains to be moved."""
        world = self.world
        world.check("C11")
        self.left[broker_id] = self.controller_epoch
        deleted = world.children("/admin/delete_topics")
        for partition, state in self.states.items():
            topic, _, number = partition.rpartition("-")
            seen = self.topics.get(topic)
            if topic in deleted or seen is None:
                continue  # a topic that is being deleted needs no leader
            # A partition with other replicas remains, also where none of them may lead: the broker is to ask again.
            if state["leader"] == broker_id and len(seen.replicas.get(int(number), [])) > 1:
                world.violated(
                    "C11", f"{broker_id} may shut down and leads {partition}, whose ISR is {state['isr']}", partition
                )
            elif (
                state["leader"] != broker_id
                and state["leader"] >= 0
                and broker_id in state["isr"]
                and world.metadata_version.is_alter_partition_supported
            ):
                world.violated("C11", f"{broker_id} may shut down and is in the ISR of {partition}", partition)
