"""Repeats requests that were granted, on behalf of clients that lost the answer: C24 of the controller, T10 of
transactions.

Runs hardly ever lose an answer just where its repetition would be answered otherwise. The answer depends on values
alone and changes none, so each request is repeated as soon as it is done.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from barnabas.controller import alter_partition
from barnabas.controller.alter_partition import AlterPartitionDecision, judge
from barnabas.controller.context import ControllerContext
from barnabas.coordinator.transactions import (
    PREPARE_ABORT,
    PREPARED,
    ProducerIdAndEpoch,
    TransactionMachine,
    TransactionMetadata,
)
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import LeaderAndIsr
from barnabas.sim.world.probes import Probes, life, node
from barnabas.sim.world.world import World
from barnabas.wire.messages.alter_partition import AlterPartitionRequest
from barnabas.zk.kafka.znodes import LeaderIsrAndControllerEpoch


class RepeatWatch:
    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        self._accepted: dict[tuple[str, int, TopicPartition], tuple[LeaderAndIsr, int]] = {}
        """By node, process and partition: the ISR that the leader was granted, and the version of its request."""
        self._decided: dict[TransactionMachine, tuple[TransactionMetadata, Callable[[], Any]]] = {}
        """By machine: the state that is being written, and how to ask for it again. A broker that coordinates an id a
        second time has another machine for it, which may complete what the former one was asked."""
        probes.after(alter_partition, "decide", self._granted)
        probes.after(ControllerContext, "put_partition_leadership_info", self.put)
        self._ending: dict[TransactionMachine, Callable[[], Any] | None] = {}
        """How to ask again for an end that is written, and not complete."""
        self._had: dict[TransactionMachine, ProducerIdAndEpoch] = {}
        self._fenced: dict[TransactionMachine, ProducerIdAndEpoch] = {}
        """The producer whose transaction is being aborted in a later epoch."""
        probes.around(TransactionMachine, "init_producer_id", self._around_init)
        probes.around(TransactionMachine, "add_partitions", self._around_decision)
        probes.around(TransactionMachine, "end", self._around_decision)
        probes.after(TransactionMachine, "written", self._written)

    def _granted(
        self, decision: AlterPartitionDecision, context: ControllerContext, request: AlterPartitionRequest, version: int
    ) -> None:
        for each, proposed in decision.accepted.items():
            self._accepted[node(), life(), each] = proposed, version

    def put(
        self, _: None, context: ControllerContext, each: TopicPartition, leadership: LeaderIsrAndControllerEpoch
    ) -> None:
        """C24: a leader whose AlterPartition is done, and that repeats it, is told the present state."""
        proposed, version = self._accepted.pop((node(), life(), each), (None, 0))
        current = leadership.leader_and_isr
        if (
            proposed is None
            or (proposed.leader, proposed.leader_epoch) != (current.leader, current.leader_epoch)
            or sorted(proposed.isr) != sorted(current.isr)
        ):
            return
        self.world.check("C24")
        told = judge(context, each, proposed, version)
        if isinstance(told, ErrorCode):
            sentence = f"{node()} has granted the leader of {each} the ISR {proposed.isr}, and answers {told.name}"
            self.world.violated("C24", f"{sentence} when it asks again", str(each), node())

    def _around_decision(self, original: Any, machine: TransactionMachine, *arguments: Any) -> Any:
        decided = original(machine, *arguments)
        self._remember(machine, decided, partial(original, machine, *arguments))
        return decided

    def _around_init(
        self, original: Any, machine: TransactionMachine, timeout_ms: int, expected: Any, *arguments: Any
    ) -> Any:
        """InitProducerId without an epoch takes the id over and gets another epoch each time. While a transaction is
        open it ends that, and gives out no epoch."""
        decided = original(machine, timeout_ms, expected, *arguments)
        if expected is not None and isinstance(decided, TransactionMetadata) and decided.state not in PREPARED:
            self._remember(machine, decided, partial(original, machine, timeout_ms, expected, *arguments))
        return decided

    def _remember(self, machine: TransactionMachine, decided: Any, again: Callable[[], Any]) -> None:
        if isinstance(decided, TransactionMetadata):
            self._decided[machine] = decided, again

    def _written(self, _: None, machine: TransactionMachine, metadata: TransactionMetadata) -> None:
        """T10: a producer that repeats a finished request is told that it is done, and does not fence itself."""
        self._stays_fenced(machine, metadata)
        decided, again = self._decided.pop(machine, (None, None))
        if decided is metadata and metadata.state in PREPARED:
            self._ending[machine] = again
            return
        ended = self._ending.pop(machine, None)
        again = again if decided is metadata else ended
        if again is None:
            return
        self.world.check("T10")
        told = again()
        if isinstance(told, TransactionMetadata):
            is_so = (told.producer_id, told.producer_epoch) == (metadata.producer_id, metadata.producer_epoch)
        else:
            is_so = told is ErrorCode.NONE
        if not is_so:
            self.world.violated(
                "T10", f"{node()} has written {metadata} of {machine.transactional_id!r}, and answers {told!r} when "
                "the request is repeated", node=node(),
            )  # fmt: skip

    def _stays_fenced(self, machine: TransactionMachine, metadata: TransactionMetadata) -> None:
        """T10: a producer that was fenced by an abort is not given the epoch of that abort."""
        before, now = self._had.get(machine), ProducerIdAndEpoch(metadata.producer_id, metadata.producer_epoch)
        self._had[machine] = now
        if metadata.state is PREPARE_ABORT:
            if before is not None and before != now:
                self._fenced[machine] = before
            return
        fenced = self._fenced.pop(machine, None)
        if fenced is None:
            return
        self.world.check("T10")
        told = machine.init_producer_id(metadata.timeout_ms, fenced, None, metadata.last_update_ms)
        if told is not ErrorCode.PRODUCER_FENCED:
            ended = f"{node()} has ended a transaction of {machine.transactional_id!r} in {now}"
            self.world.violated("T10", f"{ended}, and answers {told!r} to {fenced}, which that fenced", node=node())
