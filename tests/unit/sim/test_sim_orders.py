"""What is asked of a controller's orders can fail: of each a violation is made, by hand, in a cluster that is well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from test_sim_invariants import Cluster, broken_by, invariant_of

from barnabas.controller.context import ControllerContext
from barnabas.model.ids import TopicPartition


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.checkers.__exit__()


def ruling(cluster: Cluster) -> tuple[str, ControllerContext]:
    name = cluster.world.controller()
    assert name is not None
    reign = cluster.world.brokers[name].controller.reign
    assert reign is not None
    return name, reign.context


def c20_of_a_leader_that_one_does_not_hear_of(cluster: Cluster) -> None:
    """A leader is elected, and one of those who have the partition, and are there, is not told."""
    name, context = ruling(cluster)
    partition = TopicPartition("orders", 0)
    epoch, replicas = context.leader_epoch(partition), [*context.partition_replica_assignment(partition)]
    cluster.at(name, lambda: cluster.checkers.orders.all_are_told(context, partition, epoch, replicas))
    assert not cluster.world.violations
    cluster.at(name, lambda: cluster.checkers.orders.all_are_told(context, partition, epoch + 1, replicas))


def c20_of_a_replica_that_a_move_has_added(cluster: Cluster) -> None:
    """A move is called off, and the broker that it would have given a replica is not told to delete it."""
    name, context = ruling(cluster)
    cluster.at(name, lambda: cluster.checkers.orders.none_keeps_it(context, TopicPartition("orders", 99), [1]))


MADE: Final = (c20_of_a_leader_that_one_does_not_hear_of, c20_of_a_replica_that_a_move_has_added)


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_a_made_violation_is_reported(cluster: Cluster, make: Callable[[Cluster], None]) -> None:
    assert invariant_of(make) in broken_by(cluster, make)
