"""How a leader asks coordinators whether transactions are open, and what it makes of their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from replica_worlds import TOPIC_PARTITION
from test_replicas import Peer, play
from turns import until

from barnabas.broker.peers import PeerTooOld
from barnabas.broker.transactions import partitions_of, transaction_result
from barnabas.broker.verification import TransactionVerification
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.runtime.real import real_runtime
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

COORDINATOR = 9
ELSEWHERE = TopicPartition("elsewhere", 0)


class Coordinator:
    """Answers every question with `code`, when it is not held; `trouble` is raised in the place of an answer."""

    def __init__(self) -> None:
        self.code = ErrorCode.NONE
        self.error = ErrorCode.NONE
        self.trouble: Exception | None = None
        self.held: asyncio.Future[None] | None = None
        self.requests: list[AddPartitionsToTxnRequest] = []

    async def __call__(self, broker_id: int, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        assert broker_id == COORDINATOR
        self.requests.append(request)
        if self.held is not None:
            await self.held
        if self.trouble is not None:
            raise self.trouble
        if self.error:
            return AddPartitionsToTxnResponse(error_code=self.error)
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                transaction_result(each.transactional_id, dict.fromkeys(partitions_of(each.topics), self.code))
                for each in request.transactions
            ]
        )


class Leader:
    """The leader of one partition, with the coordinator it asks."""

    def __init__(self, peer: Peer) -> None:
        peer.leads(1, 0, (1,), (1,))
        self.peer = peer
        self.coordinator = Coordinator()
        self.coordinator_id = COORDINATOR
        self.enabled = True
        self.verification = TransactionVerification(
            peer.replicas,
            real_runtime().clock,
            lambda transactional_id: self.coordinator_id,
            self.coordinator,
            lambda: self.enabled,
            peer.tasks,
        )

    async def verify(
        self,
        transactional_id: str = "id",
        *,
        producer_id: int = 7,
        epoch: int = 0,
        partition: TopicPartition = TOPIC_PARTITION,
        knows_abortable: bool = True,
    ) -> ErrorCode:
        errors = await self.verification.verify(
            transactional_id, producer_id, epoch, {partition: 0}, knows_abortable=knows_abortable
        )
        return errors.get(partition, ErrorCode.NONE)

    def is_confirmed(self, producer_id: int = 7) -> bool:
        verification = self.peer.partition.leader_log().producers.begin_verification(producer_id, 0, 0, 0)
        return verification is not None and verification.confirmed


def test_a_transaction_is_confirmed_by_its_coordinator(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        leader = Leader(one)
        assert await leader.verify() is ErrorCode.NONE
        assert leader.is_confirmed()
        (request,) = leader.coordinator.requests
        assert [(each.verify_only, each.producer_id) for each in request.transactions] == [(True, 7)]

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("answered", "knows_abortable", "told"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, True, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, False, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.CONCURRENT_TRANSACTIONS, True, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_a_transaction_that_is_not_confirmed_is_refused_in_words_the_client_knows(
    tmp_path: Path, answered: ErrorCode, knows_abortable: bool, told: ErrorCode
) -> None:
    async def story(one: Peer, two: Peer) -> None:
        leader = Leader(one)
        leader.coordinator.code = answered
        assert await leader.verify(knows_abortable=knows_abortable) is told
        assert not leader.is_confirmed()

    play(tmp_path, story)


def no_coordinator(leader: Leader) -> None:
    leader.coordinator_id = NO_BROKER


def lost(leader: Leader) -> None:
    leader.coordinator.trouble = ConnectionResetError("gone")


def not_allowed(leader: Leader) -> None:
    leader.coordinator.error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (no_coordinator, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (lost, ErrorCode.NETWORK_EXCEPTION),
        (not_allowed, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_without_an_answer_nothing_is_confirmed(
    tmp_path: Path, trouble: Callable[[Leader], None], told: ErrorCode
) -> None:
    async def story(one: Peer, two: Peer) -> None:
        leader = Leader(one)
        trouble(leader)
        assert await leader.verify() is told
        assert not leader.is_confirmed()

    play(tmp_path, story)


def test_a_coordinator_that_is_too_old_is_believed(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        leader = Leader(one)
        leader.coordinator.trouble = PeerTooOld()
        assert await leader.verify() is ErrorCode.NONE
        assert leader.is_confirmed()

    play(tmp_path, story)


def test_where_it_is_turned_off_nobody_is_asked(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        leader = Leader(one)
        leader.enabled = False
        assert await leader.verify() is ErrorCode.NONE
        assert leader.is_confirmed()
        assert leader.coordinator.requests == []

    play(tmp_path, story)


def test_a_partition_that_is_led_elsewhere_is_refused_without_a_question(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        leader = Leader(one)
        assert await leader.verify(partition=ELSEWHERE) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert leader.coordinator.requests == []

    play(tmp_path, story)


def test_questions_go_together_while_one_is_under_way(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        leader = Leader(one)
        leader.coordinator.held = asyncio.get_running_loop().create_future()
        asking = [asyncio.ensure_future(leader.verify(f"id-{number}", producer_id=number)) for number in range(5)]
        await until(lambda: len(leader.coordinator.requests) == 1)
        asking += [asyncio.ensure_future(leader.verify(f"id-{number}", producer_id=number)) for number in range(5, 8)]
        await asyncio.sleep(0)
        leader.coordinator.held.set_result(None)
        assert [await each for each in asking] == [ErrorCode.NONE] * 8
        assert [len(request.transactions) for request in leader.coordinator.requests] == [5, 3]

    play(tmp_path, story)


def test_of_one_id_the_newest_question_counts(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        leader = Leader(one)
        leader.coordinator.held = asyncio.get_running_loop().create_future()
        first = asyncio.ensure_future(leader.verify("other"))
        await until(lambda: len(leader.coordinator.requests) == 1)
        asked = [asyncio.ensure_future(leader.verify(epoch=epoch)) for epoch in (1, 1, 2, 1)]
        await asyncio.sleep(0)
        leader.coordinator.held.set_result(None)
        assert await first is ErrorCode.NONE
        assert [await each for each in asked] == [
            ErrorCode.NETWORK_EXCEPTION,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.NONE,
            ErrorCode.INVALID_PRODUCER_EPOCH,
        ]

    play(tmp_path, story)
