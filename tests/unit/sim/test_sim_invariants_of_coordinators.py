"""What coordinators and clients are asked beside what happens can fail: of each question a violation is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final

import pytest
from test_sim_invariants import Cluster, broken_by, invariant_of

from barnabas.client.asking import ConnectionLost, NeverSent
from barnabas.client.transaction_requests import TransactionIdentity
from barnabas.model.ids import TopicPartition

ORDERS: Final = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.checkers.__exit__()


def begins(cluster: Cluster, error: Exception) -> None:
    """A transaction in an epoch in which a request ended like this."""
    answer = cluster.world.loop.create_future()
    answer.set_exception(error)
    cluster.checkers.epochs.asked[4730, 0] = [("EndTxnRequest", answer)]
    producer: Any = SimpleNamespace(identity=TransactionIdentity("goes on", 4730, 0))
    cluster.checkers.epochs.begins(producer)


def t10_of_a_request_that_may_come_yet(cluster: Cluster) -> None:
    begins(cluster, ConnectionLost("nobody answered"))


MADE: Final = (
    t10_of_a_request_that_may_come_yet,                         )  # fmt: skip


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_a_made_violation_is_reported(cluster: Cluster, make: Callable[[Cluster], None]) -> None:
    assert invariant_of(make) in broken_by(cluster, make)


def test_what_was_never_sent_does_not_come_late(cluster: Cluster) -> None:
    assert broken_by(cluster, lambda one: begins(one, NeverSent("there was no connection"))) == set()
