"""What is asked of copies of logs can fail: a violation is made of each, by hand, in a cluster that is well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from test_sim_invariants import Cluster, broken_by, invariant_of, patched

from barnabas.client.cluster import ClusterClient
from barnabas.client.transactions import TransactionalProducer
from barnabas.log.leader_epoch_cache import LeaderEpochCache
from barnabas.log.log import Log
from barnabas.log.segment import Segment
from barnabas.log.txn_index import TransactionIndex
from barnabas.sim.judges.chain import Chain, LinkKind
from barnabas.sim.world.disk import Volume
from barnabas.sim.world.node import EPOCH_MS


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()

    async def regret(_: object, client: ClusterClient) -> None:
        producer = TransactionalProducer(client, "regrets")
        await producer.init_transactions()
        for value in (b"one", b"two"):
            await producer.begin_transaction()
            await producer.append("orders", value, partition=0)
            await producer.flush()
            await producer.abort_transaction()

    made.run(made.world.client(regret, "regrets"))
    _, _, log, _ = made.leading(0)
    made.run(made.world.until(lambda: log.last_stable_offset == log.log_end_offset, "the markers"))
    yield made
    made.checkers.__exit__()


def aborted(cluster: Cluster) -> tuple[str, Log, Chain]:
    """A leader's log whose end is the end of an aborted transaction."""
    name, _, log, chain = cluster.leading(0)
    assert chain.links[-1].kind is LinkKind.ABORT
    return name, log, chain


def cut(cluster: Cluster) -> None:
    name, log, chain = aborted(cluster)
    cluster.at(name, lambda: cluster.checkers.copies.ask_what_a_cut_leaves(log, chain))


def r27_of_a_transaction_that_is_aborted_no_more(cluster: Cluster) -> None:
    """A log is cut where a transaction is aborted, and its index goes on saying so."""
    with patched(TransactionIndex, "truncate_to", lambda *_: None):
        cut(cluster)


def r27_of_the_youngest_record(cluster: Cluster) -> None:
    """A log is cut, and says that it has a younger record than it has."""
    with patched(Segment, "max_timestamp_and_offset", lambda _: (EPOCH_MS + (1 << 40), 0)):
        cut(cluster)


def r15_of_a_batch_that_goes_with_a_swap(cluster: Cluster) -> None:
    name, log, _ = aborted(cluster)
    cluster.at(name, lambda: cluster.checkers.copies.ask_what_a_kill_leaves(log, Volume()))


def part(cluster: Cluster) -> None:
    name, partition, log, chain = cluster.leading(0)
    at, missed = chain.links[-1].base, partition.leader_epoch + 1
    ask = cluster.checkers.copies.ask_where_they_part
    log.leader_epochs.begin(missed + 1, log.log_end_offset)
    cluster.at(name, lambda: ask(partition, log, chain, at, missed))
    log.leader_epochs.truncate_from_end(log.log_end_offset)


def r13_of_a_record_that_no_leader_has(cluster: Cluster) -> None:
    """A leader takes an epoch of which it has nothing for one that it has."""
    with patched(LeaderEpochCache, "end_offset_for", lambda _, asked, end: (asked, end)):
        part(cluster)


def has_all(cluster: Cluster) -> None:
    name, partition, log, _ = cluster.leading(0)
    ask = cluster.checkers.copies.ask_whether_it_has_all
    cluster.at(name, lambda: ask(partition, log, partition.leader_epoch + 1))


def r24_of_what_ends_at_the_same_offset(cluster: Cluster) -> None:
    """A leader looks at a follower's end alone."""
    _, partition, _, _ = cluster.leading(0)
    with patched(partition, "record_fetch_of_all", lambda *_: True):
        has_all(cluster)


MADE: Final = [made for name, made in globals().items() if name[0] in "cgrt" and name[1:].partition("_")[0].isdigit()]


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_a_made_violation_is_reported(cluster: Cluster, make: Callable[[Cluster], None]) -> None:
    assert broken_by(cluster, make) == {invariant_of(make)}


@pytest.mark.parametrize("ask", [cut, part, has_all], ids=lambda ask: ask.__name__)
def test_of_a_cluster_that_is_well_nothing_is_reported(cluster: Cluster, ask: Callable[[Cluster], None]) -> None:
    assert broken_by(cluster, ask) == set()
