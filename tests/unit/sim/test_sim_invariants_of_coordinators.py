"""What coordinators and clients are asked beside what happens can fail: of each question a violation is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import pytest
from test_sim_invariants import Cluster, broken_by, coordinated, invariant_of, joined, patched, watched

from barnabas.client.asking import ConnectionLost, NeverSent
from barnabas.client.transaction_requests import TransactionIdentity
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.group_offsets import GroupOffsets
from barnabas.coordinator.group_values import COMPLETING, PREPARING, STABLE, Now, Purpose, Write
from barnabas.coordinator.groups import Group
from barnabas.coordinator.offsets_records import KeyValue, OffsetAndMetadata
from barnabas.coordinator.transactions import (
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_COMMIT,
    TransactionMachine,
    TransactionMetadata,
)
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.sim.judges.judge_books import LOOKED_FOR, is_kept_too_long
from barnabas.sim.judges.watch_admissions import AdmissionWatch
from barnabas.sim.judges.watch_fencing import FencingWatch
from barnabas.sim.world.probes import Probes

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


def g9_of_a_share_that_the_log_has_not(cluster: Cluster) -> None:
    _, group = joined(cluster, "shares otherwise")
    (member,) = group.members.values()
    kept, member.assignment = member.assignment, b"another"
    cluster.checkers.coordinators.judge()
    member.assignment = kept


def g9_of_a_group_that_the_log_has_not(cluster: Cluster) -> None:
    """It has gone on to a generation of which nothing is written."""
    _, group = joined(cluster, "is ahead")
    group.generation_id += 1
    cluster.checkers.coordinators.judge()
    group.generation_id -= 1


def g9_of_one_that_is_not_told_of_a_rebalance(cluster: Cluster) -> None:
    _, group = joined(cluster, "shares in silence")
    (member_id,) = group.members
    kept, group.state = group.state, PREPARING
    watched(cluster, group, "heartbeat", ErrorCode.NONE, member_id, None, group.generation_id, Now(0, 0))
    group.state = kept


def g9_of_offsets_of_a_topic_that_is_deleted(cluster: Cluster) -> None:
    async def partitions_deleted(*_: object) -> None:
        """Nothing is forgotten."""

    probes = Probes()
    with coordinated(cluster, "goes on in another topic") as offsets:
        offsets.replay(ORDERS, OffsetAndMetadata(7), 1 << 40, 4711)
        of_all = [broker.groups for broker in cluster.world.brokers.values()]
        groups = next(each for each in of_all for one in each.owned if offsets.group_id in one.groups)
        with patched(GroupCoordinator, "partitions_deleted", partitions_deleted):
            AdmissionWatch(cluster.world, probes)
            cluster.run(groups.partitions_deleted([ORDERS]))
            probes.remove()


def settles(cluster: Cluster, name: str, outcome: Any) -> None:
    """A group has its share, and decides that, whatever it is asked."""
    _, group = joined(cluster, f"decides {name}")
    kept, group.state = group.state, COMPLETING

    def stored(*_: object) -> None:
        group.state = STABLE

    probes = Probes()
    written = Write(KeyValue(b"", None), Purpose.ASSIGNMENT, group.generation_id, {})
    with patched(Group, "stored", stored), patched(Group, name, lambda *_, **__: outcome):
        FencingWatch(cluster.world, probes)
        group.stored(written, ErrorCode.NONE, Now(0, 0))
        probes.remove()
    group.state = kept


def g9_of_a_heartbeat_of_the_generation_before(cluster: Cluster) -> None:
    settles(cluster, "heartbeat", ErrorCode.NONE)


def g9_of_a_commit_of_the_generation_before(cluster: Cluster) -> None:
    settles(cluster, "commit_error", ErrorCode.NONE)


def g9_of_what_is_read_and_expires(cluster: Cluster) -> None:
    settles(cluster, "expired_offsets", [ORDERS])


def g9_of_what_a_transaction_is_about_to_replace_and_expires(cluster: Cluster) -> None:
    known = GroupOffsets("expires")
    with patched(GroupOffsets, "expired", lambda *_: [ORDERS]):
        known.append_transactional({ORDERS: OffsetAndMetadata(7)}, 0, 4711)


def changes(cluster: Cluster, name: str, outcome: Any, state: Any = ONGOING) -> None:
    """A transaction is changed, and decides that, whatever it is asked."""
    before = {PREPARE_COMMIT: ONGOING, COMPLETE_COMMIT: PREPARE_COMMIT, ONGOING: ONGOING}[state]
    machine = TransactionMachine("is asked", TransactionMetadata(4731, 3, 60_000, before, last_update_ms=1))
    written = replace(machine.metadata, state=state)
    with patched(TransactionMachine, name, lambda *_, **__: outcome):
        machine.write(written)
        machine.written(written)


def t9_of_one_that_is_added_to_in_an_earlier_epoch(cluster: Cluster) -> None:
    changes(cluster, "add_partitions", ErrorCode.NONE)


def t9_of_one_that_ends_otherwise(cluster: Cluster) -> None:
    changes(cluster, "end", ErrorCode.NONE, COMPLETE_COMMIT)


def t9_of_one_that_is_taken_over_amid_its_end(cluster: Cluster) -> None:
    changes(cluster, "init_producer_id", TransactionMetadata(4731, 4, 60_000), PREPARE_COMMIT)


def t9_of_one_that_is_forgotten_amid_a_change(cluster: Cluster) -> None:
    changes(cluster, "is_expired", outcome=True)


def t9_of_one_that_times_out_amid_its_end(cluster: Cluster) -> None:
    changes(cluster, "time_out", TransactionMetadata(4731, 4, 60_000), PREPARE_COMMIT)


def g8_of_what_is_kept_too_long(cluster: Cluster) -> None:
    """Nobody looks for what has expired."""
    keeper: Any = SimpleNamespace(group="kept", brief={ORDERS: None})
    looks = replace(cluster.checkers.plan, config={LOOKED_FOR: "500"})
    with patched(cluster.checkers, "plan", looks):
        is_kept_too_long(cluster.checkers, keeper, ORDERS, 7)


MADE: Final = (
    g8_of_what_is_kept_too_long, t10_of_a_request_that_may_come_yet, g9_of_a_share_that_the_log_has_not,
    g9_of_a_group_that_the_log_has_not,
    g9_of_one_that_is_not_told_of_a_rebalance, g9_of_offsets_of_a_topic_that_is_deleted,
    g9_of_a_heartbeat_of_the_generation_before, g9_of_a_commit_of_the_generation_before,
    g9_of_what_is_read_and_expires, g9_of_what_a_transaction_is_about_to_replace_and_expires,
    t9_of_one_that_is_added_to_in_an_earlier_epoch, t9_of_one_that_ends_otherwise,
    t9_of_one_that_is_taken_over_amid_its_end, t9_of_one_that_is_forgotten_amid_a_change,
    t9_of_one_that_times_out_amid_its_end,
)  # fmt: skip


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_a_made_violation_is_reported(cluster: Cluster, make: Callable[[Cluster], None]) -> None:
    assert invariant_of(make) in broken_by(cluster, make)


def test_what_was_never_sent_does_not_come_late(cluster: Cluster) -> None:
    assert broken_by(cluster, lambda one: begins(one, NeverSent("there was no connection"))) == set()
