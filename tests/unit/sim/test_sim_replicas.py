"""What is asked of replicas' logs can fail: of each a violation is made, by hand, in a cluster that is well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from test_sim_invariants import Cluster, broken_by, invariant_of, now_ms, patched, with_records

from barnabas.log.leader_epoch_cache import LeaderEpochCache
from barnabas.log.log_dirs import CLEAN_SHUTDOWN_FILE
from barnabas.model.ids import Uuid
from barnabas.model.leadership import CommittedIsr
from barnabas.replica.fetch_session_handler import FetchSessionHandler
from barnabas.replica.replica_selector import ReplicaView
from barnabas.sim.world.world import LOG_DIR
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse

TOPIC_ID: Final = Uuid(bytes(range(16)))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.checkers.__exit__()


def c13_of_a_log_of_a_topic_that_is_gone(cluster: Cluster) -> None:
    """A broker leads a topic with the log of the one before that had its name."""
    name, partition, _, _ = cluster.leading(with_records(cluster))
    cluster.at(name, lambda: cluster.checkers.namesakes._has_its_own(True, partition, None, TOPIC_ID))


def r11_of_a_segment_that_goes_on_and_on(cluster: Cluster) -> None:
    """A log would put into a segment what lies too far behind its beginning for an index."""
    _, _, log, chain = cluster.leading(with_records(cluster))
    with patched(log.segments, "should_roll", lambda *_: False):
        cluster.logs.inquiries.ask_whether_it_rolls(log, chain)


def r13_of_an_epoch_that_nobody_saw(cluster: Cluster) -> None:
    """Of an epoch in which it has no records, a leader says where that ends, as if it had some."""
    name, partition, _, chain = cluster.leading(with_records(cluster))
    links = chain.links[:]
    chain.links[-1] = chain.links[-1]._replace(epoch=links[-1].epoch + 2)
    with patched(LeaderEpochCache, "end_offset_for", lambda _, asked, end: (asked, links[-1].base)):
        cluster.at(name, lambda: cluster.logs.inquiries._leads(partition.leading_since_epoch, None, partition))
    chain.links[:] = links


def r15_of_a_marker_that_comes_back(cluster: Cluster) -> None:
    """A broker serves, and after a loss of power it would trust its files."""
    volume = cluster.world.nodes["broker-0"].volume
    with patched(volume, "durable_names", lambda _: [f"{LOG_DIR}/{CLEAN_SHUTDOWN_FILE}"]):
        cluster.logs.restarts.serves("broker-0")


def r24_of_one_that_has_something_else(cluster: Cluster) -> None:
    """A follower asks for what comes behind a batch that its leader has not."""
    number = with_records(cluster)
    name, partition, _, _ = cluster.leading(number)
    follower, _, copy, its_own = cluster.following(number)
    at, end = now_ms(cluster.world), copy.log_end_offset
    link, its_own.links[-1] = its_own.links[-1], its_own.links[-1]._replace(hash=4711)
    member = int(follower.rpartition("-")[2])
    cluster.at(name, lambda: partition.record_fetch(member, -1, end, 0, end, at))
    its_own.links[-1] = link


def r30_of_an_answer_to_something_else(cluster: Cluster) -> None:
    """A session's first answer leaves a partition out."""
    session = FetchSessionHandler()
    session.want((TOPIC_ID, 0), FetchRequest.FetchPartition(0))
    cluster.at("broker-0", lambda: (session.build(), session.handle(FetchResponse())))


def r31_of_one_that_nobody_has_asked_for(cluster: Cluster) -> None:
    """A leader whose ISR has shrunk would send consumers to the follower that has left it."""
    name, partition, _, _ = cluster.leading()
    gone = next(each for each in partition.assigned_replicas if each != partition.leader_id)
    isr = partition.isr_state.isr - {gone}

    def offers(select: Any, *_: object) -> int:
        return int(select("", ReplicaView(partition.leader_id, None, 0, 0), [ReplicaView(gone, None, 0, 0)]).broker_id)

    kept, partition.isr_state = partition.isr_state, CommittedIsr(isr, partition.partition_epoch)
    with patched(partition, "preferred_read_replica", offers), patched(cluster.world, "state", lambda *_: None):
        cluster.at(name, lambda: cluster.checkers.fetch_sessions.ask_where_to_read(False, partition))
    partition.isr_state = kept


MADE: Final = (
    c13_of_a_log_of_a_topic_that_is_gone, r11_of_a_segment_that_goes_on_and_on,
    r13_of_an_epoch_that_nobody_saw, r15_of_a_marker_that_comes_back,
    r24_of_one_that_has_something_else, r30_of_an_answer_to_something_else,
    r31_of_one_that_nobody_has_asked_for,
)  # fmt: skip


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_a_made_violation_is_reported(cluster: Cluster, make: Callable[[Cluster], None]) -> None:
    assert invariant_of(make) in broken_by(cluster, make)
