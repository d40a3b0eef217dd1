from __future__ import annotations

import re
from typing import Any

from barnabas.sim.plans.plan import SECOND, Action, Plan, TopicPlan
from barnabas.sim.timeline import Picture, page, picture_at, report, timeline
from barnabas.sim.world.trace import Event, Happening, Violation

PLAN = Plan(
    42, "KILL", 2, 20 * SECOND, (TopicPlan("orders", 1, 2),), (Action(0, SECOND, "kill", {"node": "broker-0"}),)
)


def event(at_s: float, node: str, kind: str, words: str = "", **fields: Any) -> Event:
    return Event(round(at_s * SECOND), node, Happening(kind), words, fields)


def state(at_s: float, leader: int, epoch: int, isr: list[int], partition: str = "orders-0") -> Event:
    return event(
        at_s, "", "state", f"{partition}: leader {leader}", partition=partition, leader=leader, leader_epoch=epoch,
        isr=isr, partition_epoch=0, controller_epoch=1, replicas=[0, 1],
    )  # fmt: skip


def log(at_s: float, node: str, start: int, high: int, end: int) -> Event:
    return event(
        at_s, node, "log", partition="orders-0", log_start_offset=start, high_watermark=high, log_end_offset=end
    )


TRACE = [
    event(0, "broker-0", "process", "broker-0 is up", what="up"),
    event(0, "broker-1", "process", "broker-1 is up", what="up"),
    event(1, "broker-0", "controller", "broker-0 is controller, epoch 1", controller_epoch=1),
    state(2, 0, 0, [0, 1]),
    event(2, "broker-0", "leading", "leads", partition="orders-0", leader_epoch=0, log_end_offset=0, high_watermark=0),
    event(
        2, "broker-1", "following", "follows", partition="orders-0", leader=0, leader_epoch=0, log_end_offset=0,
        high_watermark=0,
    ),
    log(3, "broker-0", 0, 4, 7),
    event(4, "broker-0", "process", "kill -9 broker-0", what="killed"),
    event(4, "broker-0", "resigned", "/controller is gone"),
    state(5, 1, 1, [1]),
]  # fmt: skip
BROKEN = Violation("R7", "a record is lost </script>", 5 * SECOND, "orders-0", "broker-1")


def lines(*more: Event) -> list[str]:
    return timeline(PLAN, [*TRACE, *more], [BROKEN]).splitlines()


def test_lanes_tell_each_brokers_part() -> None:
    told = lines()
    assert re.search(r"^ +2\.0000 s  \*L 0/0 +f 0/0 +broker-1: follows$", told[6]), told
    assert re.search(r"^ +4\.0000 s  \*\. +f 0/0 +kill -9 broker-0$", told[7]), told
    assert re.search(r"^ +5\.0000 s   \. +f 0/0 +orders-0: leader 1$", told[9]), told


def test_a_replica_outside_of_the_isr_has_a_mark_of_its_own() -> None:
    assert "o 0/0" in lines(state(6, -1, 2, [0]))[-1]


def test_where_logs_end_is_no_line_of_its_own() -> None:
    assert len(lines()) == len(TRACE)  # the head, and all but one


def test_partitions_that_a_violation_is_not_about_are_left_out() -> None:
    assert not any("orders-1" in line for line in lines(state(6, 1, 1, [1], "orders-1"))[1:])


def test_a_picture_is_what_there_was_to_be_seen_then() -> None:
    picture: Picture = picture_at(TRACE, 3 * SECOND)
    assert (picture.controller, picture.controller_epoch) == ("broker-0", 1)
    assert picture.partitions["orders-0"].isr == (0, 1)
    replica = picture.replicas["broker-0", "orders-0"]
    assert (replica.role, replica.high_watermark, replica.log_end_offset) == ("leader", 4, 7)


def test_a_failure_ends_with_the_command_that_shows_it_again() -> None:
    told = report(PLAN, TRACE, [BROKEN], "barnabas sim replay 42 --profile KILL")
    assert told.endswith("again: barnabas sim replay 42 --profile KILL")
    assert "WRONG  R7: a record is lost" in told
    assert "orders-0: leader 1, leader epoch 1, isr [1]" in told


def test_the_page_needs_nothing_from_anywhere() -> None:
    html = page(PLAN, TRACE, [BROKEN], "again")
    assert html.count("</script>") == 1
    assert "/*DATA*/" not in html
    without_namespace = html.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|src=|<link|@import|url\((?!#)", without_namespace)
