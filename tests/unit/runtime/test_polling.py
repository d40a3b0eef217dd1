"""A loop looks for what is to arrive soon, and stops where that is of no use."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from barnabas.runtime.polling import POLL_S, REST, REST_MAX_S, Polling

STEP_S = POLL_S / 10.5


class Core:
    """A clock that goes on while others have the core, and how often they had it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.given_away = 0
        self.others_take = itertools.repeat(STEP_S)
        self.polling = Polling(lambda: self.now, self.give_way)

    def give_way(self) -> None:
        self.given_away += 1
        self.now += next(self.others_take)

    async def looks(self) -> int:
        """How often it looks after an expectation, until the loop may sleep."""
        before = self.given_away
        self.polling.expect()
        while True:
            seen = self.given_away
            await asyncio.sleep(0)
            if self.given_away == seen:
                return seen - before


def test_what_is_expected_is_looked_for_until_its_time_is_up() -> None:
    assert asyncio.run(Core().looks()) == 11


def test_every_expectation_begins_the_time_anew() -> None:
    async def run() -> int:
        core = Core()
        core.polling.expect()
        for _ in range(50):
            await asyncio.sleep(0)
            core.polling.expect()
        return core.given_away

    assert asyncio.run(run()) == 50


def test_after_looking_in_vain_it_rests_many_times_as_long() -> None:
    async def run() -> tuple[int, int]:
        core = Core()
        await core.looks()
        core.now += REST * POLL_S - STEP_S / 2
        resting = await core.looks()
        core.now += STEP_S
        return resting, await core.looks()

    assert asyncio.run(run()) == (0, 11)


@pytest.mark.parametrize("taken_s", [2 * POLL_S, 0.003], ids=["a little", "a slice"])
def test_where_others_keep_the_core_it_rests_many_times_as_long_as_they_had_it(taken_s: float) -> None:
    async def run() -> tuple[int, int, int]:
        core = Core()
        core.others_take = itertools.chain([taken_s], itertools.repeat(STEP_S))
        first = await core.looks()
        core.now += REST * taken_s - STEP_S / 2
        resting = await core.looks()
        core.now += STEP_S
        return first, resting, await core.looks()

    assert asyncio.run(run()) == (1, 0, 11)


def test_a_process_that_stood_still_looks_again_soon() -> None:
    async def run() -> int:
        core = Core()
        core.others_take = itertools.chain([3600.0], itertools.repeat(STEP_S))
        await core.looks()
        core.now += REST_MAX_S + STEP_S
        return await core.looks()

    assert asyncio.run(run()) == 11


def test_the_loop_does_whatever_else_is_to_be_done_while_it_looks() -> None:
    async def run() -> list[int]:
        core = Core()
        loop = asyncio.get_running_loop()
        looks_before: list[int] = []

        def something_else() -> None:
            looks_before.append(core.given_away)
            if len(looks_before) < 5:
                loop.call_soon(something_else)

        core.polling.expect()
        loop.call_soon(something_else)
        await core.looks()
        return looks_before

    assert asyncio.run(run()) == [1, 2, 3, 4, 5]
