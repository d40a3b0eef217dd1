"""What is asked of what brokers do all the time can fail: of each a violation is made, by hand, in a cluster that is
well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from test_sim_invariants import Cluster, broken_by, invariant_of, patched

from barnabas.model.ids import TopicPartition


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.checkers.__exit__()


def r16_of_a_log_that_is_closed(cluster: Cluster) -> None:
    """Retention comes to a log that was closed meanwhile."""
    name, _, log, _ = cluster.leading()
    cluster.at(name, lambda: log.delete_old_segments(now_ms=0))
    assert not cluster.world.violations
    with patched(log, "closed", True):
        cluster.at(name, lambda: log.delete_old_segments(now_ms=0))


def r30_of_one_that_is_followed_no_more(cluster: Cluster) -> None:
    """A fetcher gives a partition up, and no disk has failed."""
    cluster.checkers.fetch_sessions.look()
    assert not cluster.world.violations
    fetchers = cluster.world.brokers["broker-0"].replicas.fetchers
    with patched(fetchers, "failed_partitions", {TopicPartition("orders", 0): None}):
        cluster.checkers.fetch_sessions.look()


MADE: Final = (r16_of_a_log_that_is_closed, r30_of_one_that_is_followed_no_more)


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_a_made_violation_is_reported(cluster: Cluster, make: Callable[[Cluster], None]) -> None:
    assert invariant_of(make) in broken_by(cluster, make)
