"""What clients of a plan do: they go on when all has healed, and give up in time where brokers soon forget them."""

from __future__ import annotations

import pytest

from barnabas.model.errors import KafkaError
from barnabas.sim.clients.sender import AFTERWARDS
from barnabas.sim.plans.draw import draw
from barnabas.sim.plans.plan import TopicPlan
from barnabas.sim.run import Outcome, run_plan
from barnabas.sim.scenarios import at, consume, events, plan, produce
from barnabas.sim.world.trace import Happening
from barnabas.sim.world.world import World


def test_whoever_writes_writes_a_little_more_when_all_has_healed() -> None:
    """Nobody is there from before the first record to the end."""
    outcome = run_plan(
        plan(
            at(0, "blackout", 7.9),
            at(0.5, "transact", 6, client="teller-1", topic="orders", records=20),
            at(0.5, "produce", 6, client="producer-1", topic="orders", records=0),
            length=8,
            configs={"min.insync.replicas": "2"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.checked["T3"] >= AFTERWARDS
    assert outcome.checked["R7"] >= AFTERWARDS


def test_where_brokers_soon_forget_producers_nobody_sends_a_batch_again_that_late() -> None:
    """And some transaction is open for longer than that."""
    naps, plans = 0, 0
    for drawn in map(draw, range(200)):
        if "producer.id.expiration.check.interval.ms" not in drawn.config:
            continue
        plans += 1
        expires_ms = int(drawn.config["producer.id.expiration.ms"])
        writing = [action for action in drawn.actions if action.name in ("produce", "transact", "work")]
        for action in writing:
            latest_ms = action.whole("delivery_timeout_ms", 120_000) + action.whole("skew_ms", 0)
            assert latest_ms < expires_ms
            assert action.whole("nap_ms", 0) < action.whole("transaction_timeout_ms", 60_000)
            naps += action.whole("nap_ms", 0) > expires_ms
    assert naps >= plans > 10


def test_who_stops_while_it_is_cut_off_comes_back_with_what_nobody_else_has() -> None:
    """Its clients write to it to the last, and it closes its log in order."""
    outcome = run_plan(
        plan(
            produce(11),
            consume(11),
            at(2, "partition", 8, node="leader:orders-0", others=["broker-0", "broker-1", "broker-2"]),
            at(3, "shutdown", 5, node="leader:orders-0"),
            length=12,
            configs={"min.insync.replicas": "2"},
            config={"controlled.shutdown.enable": "false"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    cuts = [event for event in events(outcome, Happening.TRUNCATED) if event.fields["partition"] == "orders-0"]
    assert any(event.fields["from_offset"] > event.fields["to_offset"] > 0 for event in cuts)
    assert outcome.checked["R27"] > 0


def test_clients_stand_still_and_go_on() -> None:
    clients = ["producer", "consumer", "teller-1", "member-1"]
    outcome = run_plan(
        plan(
            produce(20),
            consume(20),
            at(0, "transact", 20, client="teller-1", topic="orders", records=40, transaction_timeout_ms=3_000),
            at(0, "group", 20, client="member-1", group="readers", topic="orders", stays=True),
            at(0, "group", 20, client="member-2", group="readers", topic="orders", stays=True),
            *(at(4, "pause", 11, node=client) for client in clients),
            length=22,
            configs={"min.insync.replicas": "2"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.faults["pause"] == len(clients)
    assert outcome.checked["G7"] > 0


def test_keys_of_compacted_topics_are_deleted_as_well() -> None:
    compacted = {"cleanup.policy": "compact", "segment.bytes": "1000", "min.cleanable.dirty.ratio": "0.05"}
    ledger = TopicPlan("ledger", 1, 3, {**compacted, "delete.retention.ms": "500"})
    outcome = run_plan(
        plan(
            at(0, "produce", 15, client="producer", topic="ledger", records=150, acks=-1, tombstones=30),
            at(0, "consume", 15, client="consumer", topic="ledger", isolation="read_uncommitted"),
            more_topics=(ledger,),
            length=16,
            configs={},
            config={"log.cleaner.backoff.ms": "300"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.checked["R18"] > 3


def test_drawn_plans_have_clients_that_stand_still_and_leaders_that_stop_while_they_are_cut_off() -> None:
    plans = list(map(draw, range(60)))
    clients = {str(action.arguments.get("client")) for drawn in plans for action in drawn.actions}
    still = [
        drawn
        for drawn in plans
        if any(action.name == "pause" and action.arguments["node"] in clients for action in drawn.actions)
    ]
    hasty = [drawn for drawn in plans if drawn.config.get("controlled.shutdown.enable") == "false"]
    assert len(still) > 5
    assert len(hasty) > 2


def test_a_topic_may_be_placed_by_hand_on_a_broker_that_is_not_there() -> None:
    """Which is a replica then, and in sync once it is back."""
    outcome = run_plan(
        plan(
            at(1, "kill", 12, node="broker-2"),
            at(10, "create-topic", topic="placed", partitions=2, replicas=[2, 0]),
            length=14,
            configs={},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert [event.fields["what"] for event in events(outcome, Happening.CLIENT, client="admin")] == ["placed ok"]


def test_a_transaction_that_dawdles_for_longer_than_it_may_is_aborted() -> None:
    outcome = run_plan(
        plan(
            at(
                0,
                "transact",
                20,
                client="dawdler",
                topic="orders",
                records=9,
                transaction_timeout_ms=1_000,
                dawdle_ms=3_000,
            ),
            length=20,
            configs={},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.checked["T8"] > 0


def test_a_member_that_wants_another_topic_later_is_given_it() -> None:
    """G5 asks whether the group has read to the end of both."""
    readers = {"group": "readers", "topic": "orders", "stays": True, "assignors": "cooperative-sticky"}
    outcome = run_plan(
        plan(
            produce(9),
            *(at(0, "group", 12, client=f"member-{number}", **readers) for number in range(2)),
            at(0, "group", 12, client="member-2", **readers, also="payments", also_ms=4_000),
            at(1, "produce", 9, client="producer-2", topic="payments", records=20, acks=-1),
            more_topics=(TopicPlan("payments", 2, 3, {}),),
            length=12,
            configs={},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.checked["G5"] > 0


def test_drawn_plans_have_those_who_dawdle_and_topics_that_are_placed_by_hand() -> None:
    drawn = [action for plan in map(draw, range(60)) for action in plan.actions]
    dawdling = [action for action in drawn if "dawdle_ms" in action.arguments]
    assert {action.name for action in dawdling} == {"transact", "work"}
    assert all(action.whole("dawdle_ms", 0) < action.whole("transaction_timeout_ms", 0) for action in dawdling)
    assert any("replicas" in action.arguments for action in drawn if action.name == "create-topic")
    assert any("also_ms" in action.arguments and "also" in action.arguments for action in drawn)


def test_a_static_leader_that_comes_back_may_leave_new_partitions_to_nobody() -> None:
    """It takes what there is for what it once dealt, as Kafka's does (``ConsumerCoordinator.onLeaderElected``)."""

    def shared(assignors: str) -> Outcome:
        member = {"client": "member-1", "group": "readers", "topic": "orders", "assignors": assignors, "static": True}
        return run_plan(
            plan(
                produce(24),
                at(1, "group", 6, **member, session_timeout_ms=30_000),
                at(9, "add-partitions", topic="orders", partitions=6),
                at(11, "group", 13, **member, session_timeout_ms=30_000, stays=True),
                length=24,
                configs={},
            )
        )

    for assignors in ("range", "cooperative-sticky"):
        outcome = shared(assignors)
        assert outcome.good, list(map(str, outcome.violations))
        assert outcome.waived.get("G5", 0) == (assignors == "range"), "who gives up partitions one by one deals anew"


def test_a_keeper_of_books_commits_in_transactions_and_behind_them() -> None:
    """Nobody else has any: what counts is what was committed last, be that decided first."""
    outcome = run_plan(
        plan(
            produce(14),
            at(0, "keep-books", 14, client="bookkeeper", topic="orders"),
            at(6, "kill", 3, node="leader:__consumer_offsets-0"),
            length=15,
            configs={"min.insync.replicas": "2"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.checked["T9"] > 0
    assert outcome.checked["G1"] > 0


def test_who_is_assigned_a_partition_goes_elsewhere_before_it_hears_where_its_group_is() -> None:
    """It stays where it went: what its group has committed comes too late."""
    wanderers = [
        at(number, "wander", 14, client=f"wanderer-{number}", topic="orders", in_group=True) for number in range(4)
    ]
    outcome = run_plan(plan(produce(14), *wanderers, length=15, configs={"min.insync.replicas": "2"}))
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.checked["G4"] > 0


def test_an_error_that_a_clients_story_expects_and_that_does_not_come_ends_the_run() -> None:
    async def story(*_: object) -> None:
        with pytest.raises(KafkaError):
            pass

    world = World(1)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        world.loop.run_until_complete(world.client(story, "reader"))
