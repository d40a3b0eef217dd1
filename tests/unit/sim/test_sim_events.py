"""Faults that strike at an event, and not at a time."""

from __future__ import annotations

import pytest

from barnabas.sim.plans.draw import draw
from barnabas.sim.plans.events import DISK, KINDS, RPC, ZK, Events
from barnabas.sim.plans.plan import Plan
from barnabas.sim.run import Outcome, run_plan
from barnabas.sim.scenarios import at, consume, plan, produce

CONFIGS = {"min.insync.replicas": "2"}


def test_the_nth_event_with_all_words_is_told_once_with_its_places() -> None:
    events, told = Events(), []
    events.wait_for("rpc Stop Replica", 2, lambda here, there: told.append((here, there)))
    events.happened(RPC, "LeaderAndIsr", "a", "b")
    events.happened(RPC, "StopReplica", "a", "b")
    events.happened(ZK, "StopReplica", "a", "b")
    assert told == []
    assert events.awaited(RPC)
    events.happened(RPC, "StopReplica", "c", "d")
    events.happened(RPC, "StopReplica", "e", "f")
    assert told == [("c", "d")]
    assert not any(events.awaited(kind) for kind in KINDS)


def test_who_called_it_off_is_told_nothing() -> None:
    events, told = Events(), []
    call_off = events.wait_for("disk fsync", 1, lambda here, there: told.append(here))
    call_off()
    call_off()
    events.happened(DISK, "fsync /kafka/a", "a")
    assert told == []


def test_an_event_of_no_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with one of zk, rpc, disk"):
        Events().wait_for("fsync", 1, lambda here, there: None)


def ran(drawn: Plan) -> Outcome:
    outcome = run_plan(drawn)
    assert outcome.good, list(map(str, outcome.violations))
    return outcome


def test_a_controller_dies_between_two_of_its_writes() -> None:
    outcome = ran(
        plan(
            at(1, "kill", 3, node="here", when="zk Delete /admin/delete_topics"),
            at(0.5, "create-topic", topic="passing", partitions=1, replication_factor=3),
            at(2, "delete-topic", topic="passing"),
            length=12,
            configs=CONFIGS,
        )
    )
    assert outcome.events == {"zk Delete": 1}
    assert outcome.faults["kill"] == 1


def test_a_broker_dies_of_the_operation_on_its_disk_that_it_never_does() -> None:
    outcome = ran(
        plan(
            produce(20),
            consume(20),
            at(1, "power-loss", 5, node="here", when="disk fsync .log", nth=3),
            at(4, "partition", 12, node="leader:orders-0", others=["broker-0", "broker-1", "broker-2", "zookeeper"]),
            at(4, "kill", 2, node="here", when="disk truncating"),
            length=30,
            configs=CONFIGS,
        )
    )
    assert outcome.events["disk fsync"] == 1
    assert outcome.faults["power-loss"] == 1


def test_a_member_stands_still_when_it_has_just_asked_for_its_share() -> None:
    outcome = ran(
        plan(
            produce(8),
            at(1, "group", 12, client="member-1", group="readers", topic="orders", stays=True),
            at(0.5, "pause", 4, node="here", when="rpc SyncGroup"),
            at(0.5, "kill", 4, node="here", when="rpc Heartbeat"),
            length=14,
            configs=CONFIGS,
        )
    )
    assert outcome.events == {"rpc SyncGroup": 1}, "clients stand still, and do not die"
    assert outcome.faults == {"pause": 1}


def test_a_fault_whose_event_never_comes_does_nothing() -> None:
    outcome = ran(plan(produce(4), at(1, "kill", 3, node="here", when="zk /no/such/path"), length=6, configs=CONFIGS))
    assert outcome.events == {}
    assert outcome.faults == {}


def test_an_expiry_at_a_request_lasts_from_there() -> None:
    outcome = ran(
        plan(
            produce(20),
            at(1, "zk-expire", node="controller", when="rpc AlterPartition"),
            at(3, "pause", 12, node="follower:orders-0"),
            length=24,
            configs=CONFIGS,
        )
    )
    assert outcome.events == {"rpc AlterPartition": 1}
    assert outcome.faults["zk-expire"] == 1


def test_plans_wait_for_events_of_every_kind() -> None:
    waiting = [each for seed in range(100) for each in draw(seed).actions if "when" in each.arguments]
    assert {str(each.arguments["when"]).split()[0] for each in waiting} == {*KINDS}
