"""What brokers have to refuse can be taken: a violation is made of each, by hand, in a cluster that is well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final

import pytest
from test_sim_invariants import Cluster, broken_by, invariant_of, others, patched

from barnabas.model.errors import ErrorCode
from barnabas.model.leadership import CommittedIsr
from barnabas.model.sentinels import ACKS_ALL
from barnabas.replica.partition import Partition
from barnabas.replica.replicas import Replicas
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.checkers.__exit__()


def r14_of_another_epoch(cluster: Cluster) -> None:
    name, partition, _, _ = cluster.leading()
    with patched(Partition, "last_offset_for_leader_epoch", lambda *_, **__: (0, 0)):
        cluster.at(name, lambda: cluster.checkers.refusals.ask_in_other_epochs(partition))


def r24_of_who_asks_in_another_epoch(cluster: Cluster) -> None:
    name, partition, log, _ = cluster.leading()
    with patched(Partition, "record_fetch_of_all", lambda _, __, ___, ____, asked, *_____: asked.fetch_offset >= 0):
        cluster.at(name, lambda: cluster.checkers.refusals.ask_for_who_has_not_all(partition, log, others(cluster)[0]))


def c3_of_an_earlier_controller(cluster: Cluster) -> None:
    name, _, _, _ = cluster.leading()
    replicas = cluster.world.brokers[name].replicas
    request = LeaderAndIsrRequest(0, False, 3)
    with (
        patched(replicas, "controller_epoch", 3),
        patched(Replicas, "stop_replicas", lambda *_: SimpleNamespace(error_code=0)),
    ):
        cluster.at(name, lambda: cluster.checkers.refusals.ask_as_an_earlier_controller(replicas, request))


def c23_of_a_replica_that_is_stopped(cluster: Cluster) -> None:
    name, partition, _, _ = cluster.leading()
    replicas = cluster.world.brokers[name].replicas
    with patched(Replicas, "stop_replica", lambda *_: ErrorCode.NONE):
        cluster.at(name, lambda: cluster.checkers.refusals.ask_to_stop_as_before(replicas, partition))


def r8_of_too_few_in_sync(cluster: Cluster) -> None:
    alone: Any = SimpleNamespace(
        topic_partition="orders-0", log=object(), isr_state=CommittedIsr(frozenset({0}), 1), effective_min_isr=2
    )
    cluster.at("broker-0", lambda: cluster.checkers.refusals.is_written_where_enough_are(alone, 1))
    assert cluster.world.violations == []
    cluster.at("broker-0", lambda: cluster.checkers.refusals.is_written_where_enough_are(alone, ACKS_ALL))


MADE: Final[tuple[Callable[[Cluster], None], ...]] = (
    r14_of_another_epoch, r24_of_who_asks_in_another_epoch, c3_of_an_earlier_controller,
    c23_of_a_replica_that_is_stopped, r8_of_too_few_in_sync,
)  # fmt: skip


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_a_made_violation_is_reported(cluster: Cluster, make: Callable[[Cluster], None]) -> None:
    assert broken_by(cluster, make) == {invariant_of(make)}
