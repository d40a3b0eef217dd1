"""Long work in slices: everybody's turn comes, in order, and others are served in between."""

from __future__ import annotations

import asyncio

from barnabas.runtime.event_loop import fastest_loop
from barnabas.runtime.story import drive
from barnabas.runtime.turns import Lane, Turns


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


def test_a_lane_lets_so_many_in_and_those_abandoned_before_or_at_their_turn_leave_no_hole():
    async def play():
        lane, inside = Lane(2), []

        async def enter(name):
            await lane.enter()
            inside.append(name)

        stories = {name: drive(enter(name), lambda value, error: None) for name in "abcde"}
        assert inside == ["a", "b"]
        stories["c"].abandon()
        lane.leave()
        stories["d"].abandon()  # its turn has come, and it has not gone on yet
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert inside == ["a", "b", "e"]
        lane.leave()
        lane.leave()
        await lane.enter()
        await lane.enter()

    asyncio.run(play())
