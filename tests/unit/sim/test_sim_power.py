"""What a loss of power would leave can be wrong: a violation is made, by hand, in a cluster that is well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from test_sim_invariants import Cluster, broken_by, invariant_of, now_ms, patched

from barnabas.log.checkpoints import RECOVERY_POINTS, write_offsets
from barnabas.sim.judges.watch_power import FLUSHED
from barnabas.sim.world.disk import Inode, SimDisk
from barnabas.sim.world.world import LOG_DIR


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.checkers.__exit__()


def r15_of_a_checkpoint_that_trusts_too_much(cluster: Cluster) -> None:
    """What nobody has flushed counts as flushed by the platter."""
    cluster.append(3, b"not flushed")
    name, partition, log, chain = cluster.leading(3)
    volume = cluster.world.nodes[name].volume
    disk = SimDisk(volume, lambda *_: None, lambda: now_ms(cluster.world))
    write_offsets(disk, LOG_DIR, RECOVERY_POINTS, {partition.topic_partition: log.log_end_offset})
    cluster.at(name, lambda: cluster.checkers.power.ask_what_a_loss_leaves(log, chain, FLUSHED))


def r15_of_what_is_flushed_and_lost(cluster: Cluster) -> None:
    cluster.append(4, b"flushed")
    name, _, log, chain = cluster.leading(4)
    cluster.at(name, lambda: log.flush(now_ms=now_ms(cluster.world)))
    assert cluster.world.violations == []
    with patched(Inode, "lose_power", lambda inode, *_: inode.cached.clear()):
        cluster.at(name, lambda: cluster.checkers.power.ask_what_a_loss_leaves(log, chain, FLUSHED))


MADE: Final[tuple[Callable[[Cluster], None], ...]] = (
    r15_of_a_checkpoint_that_trusts_too_much, r15_of_what_is_flushed_and_lost,
)  # fmt: skip


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_a_made_violation_is_reported(cluster: Cluster, make: Callable[[Cluster], None]) -> None:
    assert broken_by(cluster, make) == {invariant_of(make)}
