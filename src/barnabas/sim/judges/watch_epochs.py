"""Watches the epoch in which transactions begin (T10). A request without an answer may arrive late, and looks like a
request of the producer's next transaction. So that transaction begins in an epoch in which the late request is refused
(KIP-360).

A late EndTxn would end what has just begun, and a late batch would count as another one. Both are rare, and lost
answers are not.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypeAlias

from barnabas.client.asking import NeverSent
from barnabas.client.connection import Connection
from barnabas.client.transactions import TransactionalProducer
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from barnabas.wire.records import parse_header

ProducerEpoch: TypeAlias = tuple[int, int]
"""A producer id and an epoch of it."""
_NAMED_ALIKE: Final = (AddOffsetsToTxnRequest, EndTxnRequest, TxnOffsetCommitRequest)


class EpochWatch:
    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        self.asked: dict[ProducerEpoch, list[tuple[str, asyncio.Future[Any]]]] = {}
        """By epoch in use: the requests that were sent in it, and their answers."""
        probes.around(Connection, "send_nowait", self._around_send)
        probes.around(TransactionalProducer, "begin_transaction", self._around_begin)

    def _around_send(
        self, original: Any, connection: Connection, message: Any, *arguments: Any, **named: Any
    ) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = original(connection, message, *arguments, **named)
        epoch = _epoch_of(message)
        if epoch is not None:
            self.asked.setdefault(epoch, []).append((type(message).__name__, answer))
        return answer

    async def _around_begin(self, original: Any, producer: TransactionalProducer) -> None:
        before = _in_use(producer)
        await original(producer)
        if before != _in_use(producer):
            self.asked.pop(before, None)
        self.begins(producer)

    def begins(self, producer: TransactionalProducer) -> None:
        self.world.check("T10")
        in_use = _in_use(producer)
        unanswered = [what for what, answer in self.asked.pop(in_use, ()) if _is_open(answer)]
        if unanswered:
            self.world.violated(
                "T10", f"{node()} begins a transaction of {producer.identity.transactional_id!r} in epoch {in_use[1]} "
                f"of producer {in_use[0]}, in which an {unanswered[0]} was not answered", node=node(),
            )  # fmt: skip


def _in_use(producer: TransactionalProducer) -> ProducerEpoch:
    return producer.identity.producer_id, producer.identity.epoch


def _epoch_of(message: Any) -> ProducerEpoch | None:
    """The producer id and epoch that the request names, if it belongs to a transaction."""
    if isinstance(message, _NAMED_ALIKE):
        return message.producer_id, message.producer_epoch
    if isinstance(message, AddPartitionsToTxnRequest):
        return message.v3_and_below_producer_id, message.v3_and_below_producer_epoch
    if isinstance(message, ProduceRequest) and message.transactional_id is not None:
        records: Any = message.topic_data[0].partition_data[0].records
        header = parse_header(records)
        return header.producer_id, header.producer_epoch
    return None


def _is_open(answer: asyncio.Future[Any]) -> bool:
    """Whether the request may still arrive, as far as its sender knows."""
    if not answer.done() or answer.cancelled():
        return True
    return answer.exception() is not None and not isinstance(answer.exception(), NeverSent)
