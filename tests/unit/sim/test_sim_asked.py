"""What is asked of brokers that has not come to pass can fail: of each a violation is made, by hand, in a cluster that
is well, and without that there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final

import pytest
from test_sim_invariants import Cluster, batch, broken_by, invariant_of, now_ms, patched, with_records

from barnabas.controller.context import ControllerContext
from barnabas.coordinator.leader_epochs import LeaderEpochs
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import CommittedIsr, PendingExpandIsr
from barnabas.sim.judges import watch_former_lives, watch_inquiries, watch_retention
from barnabas.sim.world.node import EPOCH_MS


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.checkers.__exit__()


def wait(cluster: Cluster) -> None:
    name, partition, log, _ = cluster.leading(0)
    member = next(iter(partition.progress))
    kept = partition.isr_state
    state = PendingExpandIsr(frozenset((member,)), CommittedIsr(kept.isr - {member}, partition.partition_epoch))
    partition.isr_state = state
    inquiries = cluster.logs.inquiries
    cluster.at(name, lambda: inquiries.ask_whom_it_waits_for(partition, log))
    cluster.at(name, lambda: inquiries.ask_what_it_makes_of_an_answer(partition, state, kept.isr))
    partition.isr_state = kept


def r6_of_one_that_was_perhaps_added(cluster: Cluster) -> None:
    """A leader gives up what it has proposed when it is told that another has written."""
    with patched(watch_inquiries, "refused_isr", lambda proposed, _: (proposed.state.committed, False)):
        wait(cluster)


def c24_of_what_was_not_done(cluster: Cluster) -> None:
    """A leader goes on waiting for what the controller has refused."""
    judged = watch_inquiries.refused_isr

    def refused(proposed: Any, error: ErrorCode) -> Any:
        return (proposed.state, False) if error in watch_inquiries.NOT_DONE else judged(proposed, error)

    with patched(watch_inquiries, "refused_isr", refused):
        wait(cluster)


def is_elected(cluster: Cluster, epochs: LeaderEpochs) -> None:
    epochs.elected(1, 7)
    cluster.at("broker-0", lambda: cluster.logs.inquiries._elected(True, epochs, 1, 7))


def coordinate(cluster: Cluster) -> None:
    is_elected(cluster, LeaderEpochs())


def c23_of_a_late_word(cluster: Cluster) -> None:
    """Who coordinates gives up what it leads, as it should have in the epoch before."""

    class Heeding(LeaderEpochs):
        def resigned(self, number: int, leader_epoch: int | None) -> bool:
            return True

    is_elected(cluster, Heeding())


def leave(cluster: Cluster) -> None:
    name = cluster.world.controller()
    assert name is not None
    reign = cluster.world.brokers[name].controller.reign
    assert reign is not None
    cluster.checkers.proposals.ask_who_leads_no_more(name, reign.context)


def c10_of_one_that_has_not_left_yet(cluster: Cluster) -> None:
    """The controller takes for gone who is about to leave."""
    with patched(ControllerContext, "partitions_with_offline_leader", lambda _: [TopicPartition("orders", 0)]):
        leave(cluster)


def former(cluster: Cluster) -> None:
    name = cluster.world.controller()
    assert name is not None
    reign = cluster.world.brokers[name].controller.reign
    assert reign is not None
    epoch = reign.context.broker_epoch(0)
    assert epoch is not None
    cluster.checkers.former_lives.ask_as_before(name, reign, 0, epoch - 1)


def c4_of_a_wish_for_an_isr(cluster: Cluster) -> None:
    with patched(watch_former_lives, "refusal", lambda *_: None):
        former(cluster)


def c4_of_a_wish_to_stop_that_comes_late(cluster: Cluster) -> None:
    async def granted(*_: object) -> None:
        pass

    with patched(watch_former_lives, "process_controlled_shutdown", granted):
        former(cluster)


def c4_of_a_disk_that_failed_once(cluster: Cluster) -> None:
    async def takes_it(reign: Any, event: Any) -> None:
        reign.context.replicas_on_offline_dirs[event.broker_id] = {TopicPartition("orders", 0): None}

    with patched(watch_former_lives, "process_leader_and_isr_response", takes_it):
        former(cluster)
    for broker in cluster.world.brokers.values():
        if broker.controller.reign is not None:
            broker.controller.reign.context.replicas_on_offline_dirs.clear()


def r6_of_one_that_may_be_in_sync(cluster: Cluster) -> None:
    """A leader would not wait for a follower that it has proposed for the ISR."""
    with patched(watch_inquiries, "next_high_watermark", lambda high_watermark, end, *_: end):
        wait(cluster)


def r17_of_what_is_deleted_anyway(cluster: Cluster) -> None:
    """Retention counts what is deleted already, and takes as much of the rest."""
    _, _, _, chain = cluster.leading(0)
    segments = [SimpleNamespace(base_offset=number, size=10) for number in range(4)]
    log: Any = SimpleNamespace(segments=segments, settings=cluster.leading(0)[2].settings, log_end_offset=4)
    cluster.logs.retention.ask_what_stays(log, chain, now_ms(cluster.world))
    assert not cluster.world.violations
    with patched(watch_retention, "segments_to_delete", lambda *_, **__: 3):
        cluster.logs.retention.ask_what_stays(log, chain, now_ms(cluster.world))


def r18_of_a_batch_that_is_younger_than_its_records(cluster: Cluster) -> None:
    kept = SimpleNamespace(attributes=0, max_timestamp=EPOCH_MS + 1, base_offset=0)
    cleaned: Any = SimpleNamespace(batches=lambda: [kept], read_batch=lambda _: bytes(batch(b"one")))
    cluster.checkers.cleaner._is_as_young_as_it_says("broker-0", "orders-0", cleaned)


def r22_of_a_batch_that_is_older_than_its_records(cluster: Cluster) -> None:
    _, _, log, chain = cluster.leading(0)
    info: Any = SimpleNamespace(max_timestamp=EPOCH_MS + 1, first_offset=0)
    cluster.logs.is_as_young_as_it_says(log, chain, info, EPOCH_MS + 1)
    assert not cluster.world.violations
    cluster.logs.is_as_young_as_it_says(log, chain, info, EPOCH_MS)


def r24_of_a_follower_that_has_all_and_is_held_back(cluster: Cluster) -> None:
    name, partition, _, _ = cluster.following(0)
    nobody: Any = None
    cluster.at(name, lambda: cluster.checkers.lag.is_held_back(True, nobody, partition, 1))
    assert not cluster.world.violations
    cluster.at(name, lambda: cluster.checkers.lag.is_held_back(True, nobody, partition, 0))


def r24_of_what_was_there_before_an_epoch_that_nobody_told(cluster: Cluster) -> None:
    """A leader leads again, after an epoch of which it has not heard, and believes what it knew before."""
    name, partition, _, _ = cluster.leading(0)
    cluster.at(name, lambda: cluster.logs.inquiries.counts_nothing_of_before(partition.leader_epoch - 1, partition))
    assert not cluster.world.violations
    cluster.at(name, lambda: cluster.logs.inquiries.counts_nothing_of_before(partition.leader_epoch - 2, partition))


def r24_of_a_member_that_its_leader_holds_back(cluster: Cluster) -> None:
    name, partition, _, _ = cluster.leading(0)
    nobody: Any = None
    cluster.at(name, lambda: cluster.checkers.lag.holds_back(True, nobody, partition, 99))
    assert not cluster.world.violations
    cluster.at(name, lambda: cluster.checkers.lag.holds_back(True, nobody, partition, next(iter(partition.progress))))


def r30_of_what_is_told_no_more(cluster: Cluster) -> None:
    """A partition rests, and what its follower was told last is not how it is."""
    name, partition, log, _ = cluster.leading(with_records(cluster))
    told: Any = SimpleNamespace(high_watermark=log.high_watermark - 1, log_start_offset=log.log_start_offset)
    cached: Any = None
    cluster.at(name, lambda: cluster.checkers.fetch_sessions.is_told_all(True, cached, partition, told))


MADE: Final = [made for name, made in globals().items() if name[0] in "cgrt" and name[1:].partition("_")[0].isdigit()]


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_a_made_violation_is_reported(cluster: Cluster, make: Callable[[Cluster], None]) -> None:
    assert broken_by(cluster, make) == {invariant_of(make)}


@pytest.mark.parametrize("ask", [wait, former, coordinate, leave], ids=lambda ask: ask.__name__)
def test_of_a_cluster_that_is_well_nothing_is_reported(cluster: Cluster, ask: Callable[[Cluster], None]) -> None:
    assert broken_by(cluster, ask) == set()
