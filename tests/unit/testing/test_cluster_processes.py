"""The gate between a process and the loop it lives on: killed, it runs nothing; paused, it runs later."""

import asyncio
import time

from barnabas.testing.loop import Process, StallFreeClock, background


def test_a_killed_process_runs_no_finally_and_no_timer():
    said = []

    async def story():
        try:
            said.append("begins")
            await asyncio.sleep(0.05)
            said.append("goes on")
        finally:
            said.append("finally")

    async def main():
        process = Process(background().loop, "p", lambda who, what: None)
        task = background().loop.create_task(story(), context=process.context)
        await asyncio.sleep(0.01)
        process.kill()
        await asyncio.sleep(0.1)
        assert not task.done()
        before = list(said)
        process.bury()
        return before

    assert background().run(main()) == ["begins"]


def test_a_paused_process_does_everything_in_its_order_when_it_is_resumed():
    said = []

    async def main():
        loop = background().loop
        process = Process(loop, "p", lambda who, what: None)
        process.pause()
        context = process.context
        loop.call_later(0.01, said.append, "a timer", context=context)
        cancelled = loop.call_later(0.02, said.append, "a cancelled timer", context=context)
        loop.call_soon(said.append, "at once", context=context)
        await asyncio.sleep(0.05)
        assert said == []
        cancelled.cancel()
        process.resume()
        await asyncio.sleep(0.01)

    background().run(main())
    assert said == ["at once", "a timer"]


def test_a_process_that_waits_in_a_finally_can_be_buried():
    async def story():
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(100)

    async def main():
        process = Process(background().loop, "p", lambda who, what: None)
        task = background().loop.create_task(story(), context=process.context)
        await asyncio.sleep(0.01)
        process.kill()
        process.bury()
        return task.get_coro().cr_frame

    assert background().run(main()) is None


def test_the_clock_leaves_out_what_the_thread_stood_still():
    clock = StallFreeClock(background())

    async def stand_still():
        before = clock.monotonic_ms()
        time.sleep(0.4)  # noqa: ASYNC251 - that is the point
        return clock.monotonic_ms() - before

    assert background().run(stand_still()) < 100
