"""Long work in slices: everybody's turn comes, in order, and others are served in between."""

from __future__ import annotations

import asyncio

from barnabas.runtime import turns as turns_module
from barnabas.runtime.event_loop import fastest_loop
from barnabas.runtime.turns import FEW, Turns


def test_one_story_goes_on_at_each_turn_of_the_loop_in_the_order_they_came():
    async def play():
        turns, seen = Turns(), []

        async def work(name):
            for _ in range(3):
                await turns.next()
                seen.append(name)

        async def others():
            for _ in range(12):
                seen.append(".")
                await asyncio.sleep(0)

        await asyncio.gather(work("a"), work("b"), work("c"), others())
        return "".join(seen)

    seen = asyncio.run(play())
    assert seen.replace(".", "") == "abcabcabc"
    assert all(pair not in seen for pair in ("ab", "bc", "ca")), seen


def test_the_urgent_go_before_those_that_waited_longer():
    async def play():
        turns, seen = Turns(), []
        loop = asyncio.get_running_loop()
        for name in "abc":
            turns.next().add_done_callback(lambda _, name=name: seen.append(name))
        last = turns.next(urgent=True)
        last.add_done_callback(lambda _: seen.append("urgent"))
        over = loop.create_future()
        turns.next().add_done_callback(over.set_result)
        await over
        return seen

    assert asyncio.run(play()) == ["urgent", "a", "b", "c"]


def test_who_is_gone_when_its_turn_comes_holds_nobody_up():
    async def play():
        turns = Turns()
        turns.next().cancel()
        await asyncio.wait_for(turns.next(), 5)

    asyncio.run(play())


def test_only_slices_of_what_passes_are_marked_each_alone():
    async def play():
        turns, seen, marked = Turns(), [], False

        def mark(passing):
            nonlocal marked
            assert passing is not marked
            marked = passing

        turns.mark_passing = mark

        async def work(name, **how):
            for _ in range(5):
                await turns.next(**how)
                seen.append((name, marked))

        async def other():
            for _ in range(20):
                seen.append(("other", marked))
                await asyncio.sleep(0)

        await asyncio.gather(
            work("a", passing=True), other(), work("b", passing=True), other(), work("stays"), work("told", urgent=True)
        )
        return set(seen)

    expected = {("a", True), ("b", True), ("other", False), ("stays", False), ("told", False)}
    for factory in (None, fastest_loop()):
        with asyncio.Runner(loop_factory=factory) as runner:
            assert runner.run(play()) == expected


def test_where_much_is_held_who_has_had_little_goes_on_and_else_the_one_that_began_first(monkeypatch):
    monkeypatch.setattr(turns_module, "HELD_MAX", 3 * FEW)

    async def play():
        turns, ended = Turns(), []

        async def work(name, slices):
            turns.begin(name)
            try:
                for _ in range(slices):
                    await turns.next(name)
            finally:
                turns.end(name)
            ended.append(name)

        long = [work(name, 10 * FEW) for name in "abcde"]
        short = [work(name, FEW) for name in "xyz"]
        await asyncio.gather(*long, *short)
        assert not turns._begun
        assert turns._held == 0
        return "".join(ended)

    assert asyncio.run(play()) == "xyzabcde"


def test_as_long_as_little_is_held_all_go_on_side_by_side():
    async def play():
        turns, seen = Turns(), []

        async def work(name):
            turns.begin(name)
            for _ in range(10 * FEW):
                await turns.next(name)
                seen.append(name)
            turns.end(name)

        await asyncio.gather(work("a"), work("b"))
        return "".join(seen)

    assert asyncio.run(play()) == "ab" * 10 * FEW


def test_stories_that_are_abandoned_hold_nothing_up(monkeypatch):
    monkeypatch.setattr(turns_module, "HELD_MAX", FEW)

    async def play():
        turns = Turns()

        async def work(name):
            turns.begin(name)
            try:
                while True:
                    await turns.next(name)
            finally:
                turns.end(name)

        tasks = [asyncio.create_task(work(name)) for name in "abc"]
        for _ in range(10 * FEW):  # turns of the loop
            await asyncio.sleep(0)
        assert turns._held > FEW
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert turns._held == 0
        await asyncio.wait_for(turns.next("d"), 5)

    asyncio.run(play())
