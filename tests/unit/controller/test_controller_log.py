"""What the controller's log says of an election, in Kafka's words and at its level."""

from __future__ import annotations

import asyncio
import logging
import tracemalloc
from collections.abc import Callable

import pytest
from controller_world import Play, World, played

from barnabas.controller import state_change_log
from barnabas.controller.state_change_log import STATE_CHANGES_KEPT_MAX, StateChangeLog
from barnabas.runtime.real import RealClock
from barnabas.zk.kafka.znodes import ControllerZNode

READY = "Broker 1 is ready to serve as the new controller with epoch 1"
SCHEDULER = "Starting the controller scheduler"
REBALANCE = "starting the partition rebalance scheduler"
TOKENS = "starting the token expiry check scheduler"
SHUT_DOWN = "Controller has been shut down, aborting startup/failover"


@pytest.fixture
def play(caplog: pytest.LogCaptureFixture) -> Callable[[Play], list[str]]:
    """Plays a story; returns the controller's lines of level INFO, without what stands before each."""

    def lines(story: Play) -> list[str]:
        with caplog.at_level(logging.INFO, "barnabas.controller"):
            played(story)
        return [
            record.getMessage().partition("] ")[2]
            for record in caplog.records
            if record.name == "barnabas.controller" and record.levelno == logging.INFO
        ]

    return lines


def test_a_failover_ends_with_the_schedulers_that_it_starts(play: Callable[[Play], list[str]]) -> None:
    async def story(made: World) -> None:
        made.config |= {"auto.leader.rebalance.enable": "true", "delegation.token.secret.key": "secret"}
        await (await made.zk()).create_delegation_token_paths()
        await made.start(1)
        await made.settled()

    told = play(story)
    assert [line for line in told if line in (READY, SCHEDULER, REBALANCE, TOKENS)] == [
        READY,
        SCHEDULER,
        REBALANCE,
        TOKENS,
    ]


def test_schedulers_that_are_not_configured_are_not_told_of(play: Callable[[Play], list[str]]) -> None:
    async def story(made: World) -> None:
        await made.start(1)
        await made.settled()

    told = play(story)
    assert SCHEDULER in told
    assert not {REBALANCE, TOKENS} & {*told}


def test_a_controller_that_stops_during_an_election_says_that_it_gives_up(
    play: Callable[[Play], list[str]],
) -> None:
    async def story(made: World) -> None:
        zk = await made.zk()
        await made.start(1)
        await made.settled()
        controller = made.controllers.pop(1)
        await zk.delete_path(ControllerZNode.path)
        while controller.event_manager.status().event != "Reelect":  # noqa: ASYNC110 -- it is in hand for a moment
            await asyncio.sleep(0)
        await controller.shutdown()
        await made.tasks.pop(1).end()
        assert not await zk.path_exists(ControllerZNode.path), "it did not become controller on its way out"

    told = play(story)
    assert told.count(SHUT_DOWN) == 1
    assert told.count(READY) == 1


def test_a_deletion_that_waits_for_a_broker_is_signalled_when_it_returns(play: Callable[[Play], list[str]]) -> None:
    async def story(made: World) -> None:
        await made.delete_without_broker_3()
        await made.start(3)
        await made.until_deleted("t")

    told = play(story)
    signalled = (
        "Some replicas [Topic=t,Partition=1,Replica=3] for topics scheduled for deletion t are on the newly restarted "
        "brokers 3. Signaling restart of topic deletion for these topics"
    )
    assert told.count(signalled) == 1
    assert told.index("Starting topic deletion for topics t") < told.index(signalled)


def test_a_broker_that_shut_down_under_control_leaves_the_list_when_it_is_gone(
    play: Callable[[Play], list[str]],
) -> None:
    async def story(made: World) -> None:
        await made.start(1, 2, 3)
        await made.settled()
        await made.controller.controlled_shutdown(2, made.epochs[2])
        await made.die(2)
        await made.settled()
        await made.die(3)
        await made.settled()

    told = play(story)
    assert [line for line in told if line.startswith(("Shutting down", "Broker failure", "Removed"))] == [
        "Shutting down broker 2",
        "Broker failure callback for 2",
        "Removed 2 from list of shutting down brokers.",
        "Broker failure callback for 3",
    ]


def test_the_newest_lines_are_kept_in_one_piece_of_memory_each() -> None:
    log = StateChangeLog(1, RealClock())
    tracemalloc.start()
    try:
        for number in range(2 * STATE_CHANGES_KEPT_MAX):
            log.trace(f"line {number}")
        taken = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    here = taken.filter_traces([tracemalloc.Filter(True, state_change_log.__file__)]).statistics("filename")
    assert sum(found.count for found in here) < 1.1 * STATE_CHANGES_KEPT_MAX
    newest = log.since(2 * STATE_CHANGES_KEPT_MAX - 2)
    assert [line.partition("] ")[2] for _, line in newest] == [
        f"line {2 * STATE_CHANGES_KEPT_MAX - 2}",
        f"line {2 * STATE_CHANGES_KEPT_MAX - 1}",
    ]
    assert all(0 <= RealClock().now_ms() - ms < 60_000 for ms, _ in newest)
    assert len(log.since(0)) == STATE_CHANGES_KEPT_MAX
    assert log.since(log.written) == []
