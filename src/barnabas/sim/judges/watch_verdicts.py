"""Watches what coordinators and leaders decide about transactions (T9): a producer that is given up is fenced, and a
transaction counts as open only as long as its coordinator says so.

A wrong decision costs nothing until a late request comes, and those are rare. So each decision is judged. An abort that
the producer did not ask for takes its epoch away. When the end is decided, a leader that asks is told that the
transaction is over. What a leader takes for verified (KIP-890) a coordinator has said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from barnabas.broker.verification import TransactionVerification
from barnabas.coordinator.transaction_coordinator import TransactionCoordinator
from barnabas.coordinator.transactions import (
    LAST_GIVEN_EPOCH,
    NO_PRODUCER_EPOCH,
    PREPARE_ABORT,
    PREPARED,
    TransactionMachine,
    TransactionMetadata,
)
from barnabas.log.batches import StoredBatch
from barnabas.log.producer_state import ProducerStateManager, Verification
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World

_IS_ASKED: Final = "transaction.partition.verification.enable"
NOW_MS: Final = 0


class VerdictWatch:
    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        self._told: dict[tuple[int, int, TopicPartition], None] = {}
        """By producer id, epoch and partition: what some coordinator has said is open."""
        self._confirmed: dict[ProducerStateManager, None] = {}
        """The logs in which the present verification has noted a yes."""
        for name in ("time_out", "init_producer_id"):
            probes.across(TransactionMachine, name, lambda machine: machine.metadata, self._given_up)
        probes.after(TransactionMachine, "written", self._written)
        probes.after(TransactionCoordinator, "verify_partitions", self._says)
        probes.after(ProducerStateManager, "confirm", self._confirms)
        probes.around(TransactionVerification, "verify", self._around_verify)
        probes.around(ProducerStateManager, "append_stored", self._around_append_stored)

    def _given_up(self, before: TransactionMetadata, decided: object, machine: TransactionMachine, *_: object) -> None:
        """A producer whose transaction is aborted by another one, or by its timeout, writes no more in its epoch."""
        if not isinstance(decided, TransactionMetadata) or decided.state is not PREPARE_ABORT:
            return
        self.world.check("T9")
        if decided.producer_epoch <= min(before.producer_epoch, LAST_GIVEN_EPOCH):
            self.world.violated(
                "T9", f"{node()} aborts the transaction of {machine.transactional_id!r} in epoch "
                f"{decided.producer_epoch}, in which its producer still writes", node=node(),
            )  # fmt: skip

    def _written(self, _: None, machine: TransactionMachine, metadata: TransactionMetadata) -> None:
        """A batch that arrives when the end is decided might lie behind the marker, and no end would follow it."""
        if metadata.state not in PREPARED:
            return
        self.world.check("T9")
        if machine.verification_error(metadata.producer_id, metadata.producer_epoch) is ErrorCode.NONE:
            self.world.violated(
                "T9", f"{node()} has decided the end of {machine.transactional_id!r}, and would say that its "
                "transaction is open", node=node(),
            )  # fmt: skip

    def _around_append_stored(
        self, original: Any, producers: ProducerStateManager, batch: StoredBatch, marker: Callable[[], object]
    ) -> Any:
        """A marker cancels what is being verified: an answer about the transaction before it confirms nothing."""
        if not batch.is_control:
            return original(producers, batch, marker)
        asked = list[Verification]()

        def read() -> object:
            ends = marker()
            if ends is not None and (
                verification := producers.begin_verification(batch.producer_id, NO_PRODUCER_EPOCH, 0, NOW_MS)
            ):
                asked.append(verification)
            return ends

        appended = original(producers, batch, read)
        for verification in asked:
            self.confirms_nothing(producers, batch.producer_id, verification)
        return appended

    def confirms_nothing(self, producers: ProducerStateManager, producer_id: int, asked: Verification) -> None:
        self.world.check("T9")
        asked.confirmed, confirmed = False, dict(self._confirmed)
        producers.confirm(producer_id, asked)
        self._confirmed = confirmed  # nobody was asked
        if asked.confirmed:
            self.world.violated(
                "T9", f"{node()} has a marker of producer {producer_id}, and would take what was asked before it for a "
                "transaction that goes on", node=node(),
            )  # fmt: skip

    def _says(
        self,
        answers: Mapping[TopicPartition, ErrorCode],
        _: TransactionCoordinator,
        __: str,
        producer_id: int,
        producer_epoch: int,
        ___: object,
    ) -> None:
        for partition, error in answers.items():
            if error is ErrorCode.NONE:
                self._told[producer_id, producer_epoch, partition] = None

    def _confirms(self, _: None, producers: ProducerStateManager, *__: object) -> None:
        self._confirmed[producers] = None

    async def _around_verify(
        self,
        original: Any,
        verification: TransactionVerification,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        first_sequences: Mapping[TopicPartition, int],
        **named: Any,
    ) -> Any:
        errors = await original(verification, transactional_id, producer_id, producer_epoch, first_sequences, **named)
        # What is confirmed is confirmed when all is answered, and nothing comes between that and this.
        confirmed, self._confirmed = self._confirmed, {}
        self._are_told(producer_id, producer_epoch, first_sequences, confirmed)
        return errors

    def _are_told(
        self,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        confirmed: Mapping[ProducerStateManager, None],
    ) -> None:
        broker = self.world.brokers.get(node())
        if broker is None or not broker.config.flag(_IS_ASKED):
            return
        for each in partitions:
            partition = broker.replicas.partition(each)
            if partition is None or partition.log is None or partition.log.producers not in confirmed:
                continue
            self.world.check("T9")
            if (producer_id, producer_epoch, each) not in self._told:
                self.world.violated(
                    "T9", f"{node()} takes {each} for a part of the transaction of producer {producer_id}, and no "
                    "coordinator has said so", str(each), node(),
                )  # fmt: skip
