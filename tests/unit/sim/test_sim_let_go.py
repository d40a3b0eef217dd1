"""Whoever is held back, waits or moves is let go: a violation is made of each, by hand, in a cluster that is well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final

import pytest
from test_sim_invariants import Cluster, broken_by, invariant_of, patched

from barnabas.log.checkpoints import HIGH_WATERMARKS
from barnabas.log.log import Log
from barnabas.replica.readable_partition import FetchIsolation
from barnabas.replica.replication_quota import ReplicationQuota
from barnabas.sim.clients.readers import moves_come_to_their_end
from barnabas.sim.judges.chain import checkpointed
from barnabas.sim.world.world import LOG_DIR
from barnabas.wire.messages.fetch import FetchRequest


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.checkers.__exit__()


def c18_of_who_is_held_back(cluster: Cluster) -> None:
    quota = ReplicationQuota(11, 1_000)
    quota.bytes_per_second = 100
    for size in (50, 200):
        quota.record(size, 5_000)
        cluster.at("broker-0", lambda: quota.is_exceeded(5_000))
        assert cluster.world.violations == []
    cluster.at("broker-0", lambda: cluster.checkers.throttles.is_exceeded(True, quota, 60_000))


def c18_of_who_is_let_go(cluster: Cluster) -> None:
    quota = ReplicationQuota(11, 1_000)
    quota.bytes_per_second = 100
    quota.record(2_000, 5_000)
    cluster.at("broker-0", lambda: cluster.checkers.throttles.is_exceeded(False, quota, 6_000))


def r29_of_a_fetch(cluster: Cluster) -> None:
    name, partition, log, _ = cluster.leading()
    asked = FetchRequest.FetchPartition(0, -1, log.high_watermark - 1)
    params: Any = SimpleNamespace(isolation=FetchIsolation.HIGH_WATERMARK, replica_id=-1)
    fetched: Any = SimpleNamespace(partition=partition, request=asked, data=None)
    waits: Any = SimpleNamespace(params=params)
    cluster.at(name, lambda: cluster.checkers.waiting.waits_for_what_is_there(waits, fetched))


def r27_of_a_high_watermark(cluster: Cluster) -> None:
    name, _, log, _ = cluster.leading()
    replicas, names = cluster.world.brokers[name].replicas, cluster.world.nodes[name].volume.names
    cluster.at(name, replicas.checkpoint_high_watermarks)
    assert cluster.world.violations == []
    there = {LOG_DIR: checkpointed(names, LOG_DIR, HIGH_WATERMARKS)}
    with patched(log, "high_watermark", log.high_watermark + 1):
        cluster.at(name, lambda: cluster.checkers.derived.high_watermarks_written(there, replicas.partitions))


def r15_of_two_copies(cluster: Cluster) -> None:
    name, _, log, chain = cluster.leading()
    with patched(Log, "ends_as", lambda *_: True):
        cluster.at(name, lambda: cluster.checkers.copies.ask_what_a_cut_leaves(log, chain))


def l1_of_a_move(cluster: Cluster) -> None:
    name, partition, _, _ = cluster.leading()
    future = SimpleNamespace(topic_partition=partition.topic_partition, is_future=True)
    replicas = cluster.world.brokers[name].replicas
    broker = SimpleNamespace(replicas=replicas, log_dirs=SimpleNamespace(all_logs=[future]))

    async def in_vain(*_: object) -> None:
        raise TimeoutError

    with patched(cluster.world, "brokers", {name: broker}), patched(cluster.world, "until", in_vain):
        cluster.run(moves_come_to_their_end(cluster.world))


MADE: Final[tuple[Callable[[Cluster], None], ...]] = (
    c18_of_who_is_held_back, c18_of_who_is_let_go, r29_of_a_fetch, r27_of_a_high_watermark, r15_of_two_copies,
    l1_of_a_move,
)  # fmt: skip


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_a_made_violation_is_reported(cluster: Cluster, make: Callable[[Cluster], None]) -> None:
    assert broken_by(cluster, make) == {invariant_of(make)}
