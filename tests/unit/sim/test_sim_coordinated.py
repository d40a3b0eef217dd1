"""Plans are widened by what coordinators meet of clients with habits, and of words that are lost or late."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from widened import widened

from barnabas.client.producing import PartitionQueue, Producing
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC
from barnabas.sim.clients.commits_in_order import NOTHING, CommitsInOrder
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.draw import drawn_from
from barnabas.sim.plans.plan import Plan, TopicPlan, with_actions
from barnabas.sim.plans.widen_coordinated import COORDINATED, kept_thoroughly
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, plan, produce
from barnabas.sim.world.probes import Probes


def with_transactions(seed: int) -> Plan:
    """A plan has no transactions before it is widened."""
    drawn = drawn_from(seed)
    teller = {"client": "teller-1", "topic": "orders", "records": 30, "transaction_timeout_ms": 4_000}
    return with_actions(drawn, [(0, "transact", teller, drawn.length_ns)])


@pytest.mark.parametrize("widen", COORDINATED, ids=lambda widen: widen.__name__)
def test_some_plans_have_each_and_most_have_not(widen: Callable[[Plan, Chance], Plan]) -> None:
    widened(widen, with_transactions)


def test_groups_that_the_same_transactions_commit_for_are_kept_in_the_same_partition() -> None:
    kept = [(plan, each.arguments) for _, plan in widened(kept_thoroughly, with_transactions) for each in plan.actions]
    pairs = [
        (plan, f"books of {said['client']}", str(said["also"]))
        for plan, said in kept
        if "thorough" in said and "also" in said
    ]
    assert pairs
    assert all(len({plan.kept_in(GROUP_METADATA_TOPIC, name) for name in names}) == 1 for plan, *names in pairs)


def test_of_what_is_written_in_one_place_the_later_record_counts() -> None:
    ledger = CommitsInOrder(7)
    ledger.write(8, "first")
    ledger.write(9, "second")
    ledger.end("second", committed=True)
    ledger.end("first", committed=True)
    assert ledger.value == 9
    ledger.write(10, "third")
    ledger.delete()
    ledger.end("third", committed=True)
    assert ledger.value == NOTHING
    ledger.write(11, "fourth")
    ledger.end("fourth", committed=False)
    assert ledger.value == NOTHING


def test_books_are_right_where_transactions_commit_at_once_and_offsets_expire() -> None:
    said = {"topic": "orders", "thorough": True, "pause_ms": 200}
    outcome = run_plan(
        plan(
            at(0, "keep-books", 14, client="keeper-1", also="books of keeper-1 too", **said),
            at(0, "keep-books", 14, client="keeper-2", **said),
            at(5, "bounce", 0.3, node="leader:__consumer_offsets-0"),
            at(8, "elect", topic="__consumer_offsets", unclean=False),
            length=15,
            configs={"min.insync.replicas": "2"},
            config={"offsets.retention.check.interval.ms": "300"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.checked["G1"] > 0


def test_batches_that_are_larger_than_their_topic_takes_are_written_all_the_same() -> None:
    """Some of their records have no key."""
    said = {"acks": -1, "idempotent": True, "records": 60, "at_once": 10, "keyless": 50, "linger_ms": 5, "bytes": 200}
    small = TopicPlan("small", 2, 3, {"min.insync.replicas": "2", "max.message.bytes": "500"})
    halved = list[PartitionQueue]()
    probes = Probes()
    probes.after(Producing, "_halve", lambda _, __, queue: halved.append(queue))
    outcome = run_plan(
        plan(
            at(0, "produce", 9, client="producer", topic="small", **said),
            at(4, "bounce", 0.3, node="leader:small-0"),
            more_topics=(small,),
            length=10,
            configs={},
        )
    )
    probes.remove()
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.acknowledged > 30
    assert len(halved) > 3


@pytest.mark.parametrize("assignors", ["range", "cooperative-sticky"])
def test_members_with_habits_read_to_the_end(assignors: str) -> None:
    """They hold partitions back, go back, take other topics, are busy for too long, and two have one name."""
    said = {"group": "readers", "topic": "orders", "also": "new-1", "assignors": assignors, "stays": True}
    short = {"session_timeout_ms": 1_000, "rebalance_timeout_ms": 2_000}
    outcome = run_plan(
        plan(
            produce(19),
            at(0, "roam", 19, client="rover-1", pattern=True, **said, **short),
            at(0, "roam", 19, client="rover-2", static=True, **said, **short),
            at(0, "roam", 19, client="rover-3", **said),
            at(5, "roam", 3, client="rover-4", instance="rover-2", **{**said, **short, "stays": False}),
            at(3, "create-topic", topic="new-1", partitions=2),
            at(9, "kill", 1, node="rover-2"),
            length=20,
            configs={"min.insync.replicas": "2"},
            config={"group.min.session.timeout.ms": "500"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.operations["roam"] == 4
    assert outcome.checked["G5"] > 0
