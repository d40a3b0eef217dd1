"""What is under way and never comes to its end is reported: of each kind one is made, by hand, in a cluster that is
well, and one that does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from test_sim_invariants import A_SECOND, Cluster, broken_by, invariant_of, patched

from barnabas.controller.events import UpdateFeatures
from barnabas.coordinator.transaction_coordinator import TransactionPartition
from barnabas.coordinator.transactions import TransactionMachine, TransactionMetadata
from barnabas.model.errors import ErrorCode
from barnabas.model.leadership import CommittedIsr, LeaderAndIsr, PendingShrinkIsr
from barnabas.replica.leading import ProposedIsr
from barnabas.sim.world.world import broker_number


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.checkers.__exit__()


def is_looked_at_later(cluster: Cluster) -> None:
    """All are well meanwhile."""
    with patched(cluster.world.loop, "now_ns", cluster.world.loop.now_ns + 2 * A_SECOND):
        cluster.checkers.endings.look()


def asked(cluster: Cluster, *, answered: bool) -> None:
    """Somebody asks a controller, which has done with the question soon."""
    name = cluster.world.controller()
    assert name is not None
    manager = cluster.world.brokers[name].controller.event_manager

    async def process(event: UpdateFeatures) -> None:
        if answered:
            event.succeed({})

    async def story() -> None:
        manager.put(UpdateFeatures([], 1, True, asyncio.get_running_loop().create_future()))
        await cluster.world.until(lambda: not manager.event_queue_size, "the event's turn")

    with patched(manager, "_process", process):
        cluster.run(story())
        cluster.checkers.endings.look()


def refused(cluster: Cluster, *, asks_again: bool) -> None:
    """A leader wants another ISR, and is refused by who knows no better."""
    name, partition, _, _ = cluster.leading()
    before = partition.isr_state
    assert isinstance(before, CommittedIsr)
    leader = broker_number(name)
    sent = LeaderAndIsr(leader, partition.leader_epoch, (leader,), partition_epoch=partition.partition_epoch)
    proposed = ProposedIsr(PendingShrinkIsr(before.isr - {leader}, before), sent)
    partition.isr_state = proposed.state
    assert cluster.at(name, lambda: partition.isr_altered(proposed, ErrorCode.UNKNOWN_SERVER_ERROR, 0))
    if asks_again:
        replicas = cluster.world.brokers[name].replicas
        with patched(replicas, "_alter_partition", SimpleNamespace(submit=lambda *_: None)):
            cluster.at(name, lambda: replicas.alter_isr(partition, proposed))
    is_looked_at_later(cluster)
    partition.isr_state = before


def forgotten(cluster: Cluster, *, written: bool) -> None:
    """A transactional id is about to be forgotten, and nobody writes that."""
    name = cluster.world.broker_names[0]
    coordinator = cluster.world.brokers[name].transactions.coordinator
    machine = TransactionMachine("kept", TransactionMetadata(4720, 0, 60_000))
    partition = TransactionPartition(0, 0)
    partition.loading, partition.transactions["kept"] = False, machine
    with patched(coordinator, "_partitions", {coordinator.partition_for("kept"): partition}):
        cluster.at(name, machine.expire)
        if written:
            cluster.at(name, machine.not_written)
        is_looked_at_later(cluster)


def r29(cluster: Cluster) -> None:
    asked(cluster, answered=False)


def c24(cluster: Cluster) -> None:
    refused(cluster, asks_again=False)


def t8(cluster: Cluster) -> None:
    forgotten(cluster, written=False)


@pytest.mark.parametrize("make", [r29, c24, t8])
def test_what_never_comes_to_its_end_is_reported(cluster: Cluster, make: Callable[[Cluster], None]) -> None:
    assert broken_by(cluster, make) == {invariant_of(make)}


def test_what_comes_to_its_end_is_not(cluster: Cluster) -> None:
    cluster.world.violations.clear()
    asked(cluster, answered=True)
    refused(cluster, asks_again=True)
    forgotten(cluster, written=True)
    assert not cluster.world.violations
