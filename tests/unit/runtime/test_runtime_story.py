"""Stories run without a task, tasks end in order, and nothing is swallowed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.runtime import Condition, Story, Tasks, drive, to_its_end, within


class Told:
    """What a story's end was told as."""

    def __init__(self) -> None:
        self.ends: list[tuple[Any, BaseException | None]] = []

    def __call__(self, value: Any, error: BaseException | None) -> None:
        self.ends.append((value, error))


def test_a_story_that_does_not_wait_ends_inside_the_call() -> None:
    async def story() -> int:
        return 7

    told = Told()
    assert drive(story(), told) is None
    assert told.ends == [(7, None)]


def test_a_story_goes_on_when_its_future_is_done_without_any_task() -> None:
    async def run() -> None:
        gate: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def inner() -> int:
            return await gate + 1

        async def story() -> int:
            await asyncio.sleep(0)
            return await inner() + 1

        told = Told()
        tasks = len(asyncio.all_tasks())
        assert isinstance(drive(story(), told), Story)
        await asyncio.sleep(0)
        assert told.ends == []
        assert len(asyncio.all_tasks()) == tasks
        gate.set_result(5)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert told.ends == [(7, None)]

    asyncio.run(run())


def test_what_goes_to_its_end_goes_on_when_nobody_waits_any_more() -> None:
    async def run() -> None:
        ends: list[str] = []

        @to_its_end
        async def writes(name: str) -> str:
            await asyncio.sleep(0)
            ends.append(name)
            return name

        async def asks(name: str) -> str:
            return await writes(name)

        assert await asks("heard") == "heard"
        abandoned = drive(asks("abandoned"), Told())
        assert abandoned is not None
        abandoned.abandon()
        cancelled = asyncio.create_task(asks("cancelled"))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await asyncio.sleep(0)
        assert ends == ["heard", "abandoned", "cancelled"]

    asyncio.run(run())


def test_a_storys_failure_is_told_whether_it_waited_or_not() -> None:
    async def run() -> None:
        async def fails(waits: bool) -> None:
            if waits:
                await asyncio.sleep(0)
            raise KeyError("x")

        for waits in (False, True):
            told = Told()
            drive(fails(waits), told)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert [type(error) for _, error in told.ends] == [KeyError]

    asyncio.run(run())


def test_an_abandoned_story_runs_its_finally_and_tells_nobody() -> None:
    async def run() -> None:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ran: list[str] = []

        async def story() -> None:
            try:
                await gate
            finally:
                ran.append("finally")

        told = Told()
        waiting = drive(story(), told)
        assert waiting is not None
        waiting.abandon()
        gate.set_result(None)
        await asyncio.sleep(0)
        assert ran == ["finally"]
        assert told.ends == []

    asyncio.run(run())


def test_a_task_that_fails_is_told_to_whoever_answers_for_it() -> None:
    async def run() -> None:
        failed: list[tuple[str, BaseException]] = []
        tasks = Tasks(lambda name, error: failed.append((name, error)))

        async def fails() -> None:
            raise ValueError("no")

        tasks.begin(fails(), "the failing one")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [(name, str(error)) for name, error in failed] == [("the failing one", "no")]
        assert len(tasks) == 0

    asyncio.run(run())


def test_tasks_end_in_the_order_they_were_begun() -> None:
    async def run() -> list[int]:
        tasks = Tasks(lambda name, error: pytest.fail(f"{name}: {error}"))
        ended: list[int] = []

        async def waits(number: int) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                ended.append(number)

        for number in range(20):
            tasks.begin(waits(number), str(number))
        await asyncio.sleep(0)
        await tasks.end()
        return ended

    assert asyncio.run(run()) == list(range(20))


def test_a_condition_wakes_everyone_who_waits_and_only_those() -> None:
    async def run() -> None:
        condition = Condition()
        woken: list[int] = []

        async def waits(number: int) -> None:
            await condition
            woken.append(number)

        tasks = [asyncio.ensure_future(waits(number)) for number in range(3)]
        await asyncio.sleep(0)
        condition.notify()
        late = asyncio.ensure_future(waits(9))
        await asyncio.gather(*tasks)
        assert woken == [0, 1, 2]
        assert not late.done()
        late.cancel()

    asyncio.run(run())


def test_within_says_whether_it_came_in_time_and_leaves_it_alone() -> None:
    async def run() -> None:
        gate: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        assert await within(gate, 1) is False
        asyncio.get_running_loop().call_soon(gate.set_result, 3)
        assert await within(gate, 10_000) is True
        assert gate.result() == 3

    asyncio.run(run())
