"""Watches operations that are under way: each comes to an end, also if what it waits for fails.

An operation under way holds up those behind it. If one of the many ways in which a write or a question can fail is
forgotten, a transactional id is refused for ever, an ISR stays as it is, or a client waits for its answer. R29:
questions to controllers. C24: ISRs that a leader proposes. T8: writes of a transaction's state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from barnabas.broker.server import Broker
from barnabas.controller.event_manager import ControllerEventManager, QueuedEvent
from barnabas.controller.events import AnsweredEvent, ControllerEvent
from barnabas.coordinator.transactions import TransactionMachine
from barnabas.model.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.replica.leading import ProposedIsr
from barnabas.replica.partition import Partition
from barnabas.replica.replicas import Replicas
from barnabas.sim.judges.watch_deadlines import is_coordinated
from barnabas.sim.world.loop import Incarnation
from barnabas.sim.world.probes import Probes, life, node
from barnabas.sim.world.world import World

LATE_NS: Final = 1_000_000_000
"""For a process that is not hindered to begin what it does after a short pause."""


@dataclass(slots=True)
class UnderWay:
    """In one life of a node, since then; `proposed` is the ISR that was refused."""

    node: str
    life: int
    since_ns: int
    proposed: ProposedIsr | None = None


class EndingWatch:
    def __init__(self, world: World, is_writing: Callable[[str, int, str], bool], probes: Probes) -> None:
        """`is_writing` tells whether a node, in one of its lives, appends to a partition of coordinators just now."""
        self.world = world
        self._is_writing = is_writing
        self._questions: dict[ControllerEventManager, list[AnsweredEvent[Any]]] = {}
        self._refused: dict[Partition, UnderWay] = {}
        self._pending: dict[TransactionMachine, UnderWay] = {}
        probes.after(ControllerEventManager, "put", self._put)
        probes.after(Partition, "isr_altered", self._isr_altered)
        probes.after(Replicas, "alter_isr", self._isr_asked)
        for name in ("write", "expire"):
            probes.after(TransactionMachine, name, self._begins)
        for name in ("written", "not_written"):
            probes.after(TransactionMachine, name, self._ends)

    def look(self) -> None:
        self._questions = {
            broker.controller.event_manager: left
            for name, broker in self.world.brokers.items()
            if (left := self._unanswered(name, broker.controller.event_manager))
        }
        for partition, refused in list(self._refused.items()):
            self._look_at_isr(partition, refused)
        for machine, pending in list(self._pending.items()):
            self._look_at_transaction(machine, pending)

    def _put(self, _: QueuedEvent, manager: ControllerEventManager, event: ControllerEvent) -> None:
        if isinstance(event, AnsweredEvent):
            self._questions.setdefault(manager, []).append(event)

    def _unanswered(self, name: str, manager: ControllerEventManager) -> list[AnsweredEvent[Any]]:
        """Events go in order, one at a time: who has none in hand, and none to come, owes nobody an answer."""
        left = [event for event in self._questions.get(manager, ()) if not event.answer.done()]
        if not left or manager.status().event is not None or manager.event_queue_size:
            return left
        self.world.check("R29")
        for event in left:
            self.world.violated("R29", f"{name} has done with {event.name}, and answers nobody", node=name)
        return []

    def _isr_altered(self, again: bool, partition: Partition, proposed: ProposedIsr, *_: object) -> None:
        if again:
            self._refused[partition] = UnderWay(node(), life(), self.world.loop.now_ns, proposed)

    def _isr_asked(self, _: None, __: Replicas, partition: Partition, *___: object) -> None:
        self._refused.pop(partition, None)

    def _look_at_isr(self, partition: Partition, refused: UnderWay) -> None:
        """What a controller has refused that knows no better is asked for again, of it or of the next one."""
        process, _ = self._of(refused)
        if process is None or refused.proposed is None or partition.isr_state is not refused.proposed.state:
            del self._refused[partition]
        elif self._is_late(process, refused):
            del self._refused[partition]
            self.world.violated(
                "C24", f"{refused.node} was refused the ISR {refused.proposed.sent.isr} of {partition.topic_partition},"
                " and does not ask again", str(partition.topic_partition), refused.node,
            )  # fmt: skip

    def _begins(self, _: None, machine: TransactionMachine, *__: object) -> None:
        self._pending[machine] = UnderWay(node(), life(), self.world.loop.now_ns)

    def _ends(self, _: None, machine: TransactionMachine, *__: object) -> None:
        self._pending.pop(machine, None)

    def _look_at_transaction(self, machine: TransactionMachine, pending: UnderWay) -> None:
        process, broker = self._of(pending)
        if process is None or broker is None or not is_coordinated(broker, machine):
            del self._pending[machine]
            return
        self.world.check("T8")
        number = broker.transactions.coordinator.partition_for(machine.transactional_id)
        if self._is_writing(pending.node, pending.life, f"{TRANSACTION_STATE_TOPIC}-{number}"):
            pending.since_ns = self.world.loop.now_ns
        elif self._is_late(process, pending):
            del self._pending[machine]
            self.world.violated(
                "T8", f"{pending.node} waits for what is to be written of {machine.transactional_id!r}, and writes "
                "nothing", node=pending.node,
            )  # fmt: skip

    def _of(self, under_way: UnderWay) -> tuple[Incarnation | None, Broker | None]:
        """The process, and its broker; neither where another life has begun."""
        process = self.world.nodes[under_way.node].process
        if process is None or process.number != under_way.life:
            return None, None
        return process, self.world.brokers.get(under_way.node)

    def _is_late(self, process: Incarnation, under_way: UnderWay) -> bool:
        since_ns = max(under_way.since_ns, process.freed_ns)
        return not process.hindered and self.world.loop.now_ns - since_ns > LATE_NS
