from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Coroutine
from typing import Any

from barnabas.replica.purgatory import DelayedOperation, Purgatory


class Waiting(DelayedOperation[str]):
    """Complete when each key was named as often as it says."""

    def __init__(self, **wanted: int) -> None:
        super().__init__()
        self.wanted = wanted
        self.looked: list[str | None] = []
        self.expired = False
        self.completions = 0

    def try_complete(self, key: str | None) -> bool:
        self.looked.append(key)
        if key is not None:
            self.wanted[key] -= 1
        return all(count <= 0 for count in self.wanted.values())

    def on_expiration(self) -> None:
        self.expired = True

    def on_complete(self) -> None:
        self.completions += 1


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


async def started(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(coroutine)
    await asyncio.sleep(0)
    return task


def test_what_is_complete_already_does_not_wait() -> None:
    async def story() -> None:
        purgatory: Purgatory[str] = Purgatory()
        operation = Waiting(a=0)
        await purgatory.wait(operation, ["a"], 1000)
        assert operation.completions == 1
        assert not purgatory.watched("a")

    run(story())


def test_what_is_complete_is_not_kept_until_its_time_is_up() -> None:
    async def story() -> None:
        purgatory: Purgatory[str] = Purgatory()
        operation = Waiting(a=1)
        gone = weakref.ref(operation)
        purgatory.watch(operation, ("a",), 30_000)
        del operation
        assert purgatory.check_and_complete("a") == 1
        assert gone() is None
        purgatory.shutdown()

    run(story())


def test_an_operation_completes_once_when_its_last_key_turns() -> None:
    async def story() -> None:
        purgatory: Purgatory[str] = Purgatory()
        operation = Waiting(a=1, b=1)
        task = await started(purgatory.wait(operation, ["a", "b"], 10_000))
        assert purgatory.check_and_complete("c") == 0
        assert purgatory.check_and_complete("a") == 0
        assert purgatory.check_and_complete("b") == 1
        assert purgatory.check_and_complete("b") == 0
        await task
        assert operation.looked == [None, "a", "b"]
        assert operation.completions == 1
        assert not operation.expired
        assert purgatory.delayed == 0
        assert not purgatory.watched("a")
        assert not purgatory.watched("b")

    run(story())


def test_a_key_completes_all_that_are_due_in_the_order_they_came() -> None:
    async def story() -> None:
        purgatory: Purgatory[str] = Purgatory()
        answered: list[int] = []

        async def request(number: int, wanted: int) -> None:
            await purgatory.wait(Waiting(a=wanted), ["a"], 10_000)
            answered.append(number)

        tasks = [await started(request(number, wanted)) for number, wanted in enumerate((1, 2, 1))]
        assert purgatory.check_and_complete("a") == 2
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert answered == [0, 2]
        assert purgatory.check_and_complete("a") == 1
        for task in tasks:
            await task
        assert answered == [0, 2, 1]

    run(story())


def test_timeouts_expire_in_their_order_whatever_the_order_of_arrival() -> None:
    async def story() -> None:
        purgatory: Purgatory[str] = Purgatory()
        answered: list[int] = []

        async def request(timeout_ms: int) -> None:
            operation = Waiting(a=1)
            await purgatory.wait(operation, ["a"], timeout_ms)
            assert operation.expired
            answered.append(timeout_ms)

        tasks = [await started(request(timeout_ms)) for timeout_ms in (40, 10, 25)]
        for task in tasks:
            await task
        assert answered == [10, 25, 40]
        assert not purgatory.watched("a")

    run(story())


def test_no_time_to_wait_is_an_expiration_at_once() -> None:
    async def story() -> None:
        purgatory: Purgatory[str] = Purgatory()
        operation = Waiting(a=1)
        await purgatory.wait(operation, ["a"], 0)
        assert operation.expired
        assert operation.completions == 1

    run(story())


def test_shutdown_answers_whatever_waits_and_lets_nothing_wait_any_more() -> None:
    async def story() -> None:
        purgatory: Purgatory[str] = Purgatory()
        operations = [Waiting(a=1), Waiting(b=1)]
        tasks = [await started(purgatory.wait(each, ["a"], 100_000)) for each in operations]
        purgatory.shutdown()
        for task in tasks:
            await task
        assert all(each.expired for each in operations)
        late = Waiting(a=1)
        await purgatory.wait(late, ["a"], 100_000)
        assert late.expired

    run(story())


def test_a_cancelled_request_leaves_nothing_behind() -> None:
    async def story() -> None:
        purgatory: Purgatory[str] = Purgatory()
        operation = Waiting(a=1)
        task = await started(purgatory.wait(operation, ["a"], 100_000))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert purgatory.delayed == 0
        assert not purgatory.watched("a")
        assert purgatory.check_and_complete("a") == 0

    run(story())


def test_completed_operations_do_not_pile_up_until_their_timeouts() -> None:
    async def story() -> None:
        purgatory: Purgatory[str] = Purgatory()

        def objects() -> int:
            gc.collect()
            return len(gc.get_objects())

        purgatory.watch(Waiting(a=10**6), ("a",), 3_600_000)
        before = objects()
        for number in range(10_000):
            purgatory.watch(Waiting(a=1), ("a",), 3_600_000 + number % 2 * number)
            assert purgatory.check_and_complete("a") == 1
        assert objects() - before <= 3_000, "every second one's timeout was of another length"
        purgatory.shutdown()

    run(story())


def test_every_timeout_expires_once_and_in_its_time_among_many_of_several_lengths() -> None:
    async def story() -> None:
        purgatory: Purgatory[str] = Purgatory()
        loop = asyncio.get_running_loop()
        over = asyncio.Event()

        class Timed(Waiting):
            def __init__(self, timeout_ms: int) -> None:
                super().__init__(a=10**6)
                self.timeout_ms = timeout_ms
                self.due = 0.0

            def on_expiration(self) -> None:
                assert not self.expired
                assert loop.time() >= self.due
                super().on_expiration()

            def on_complete(self) -> None:
                super().on_complete()
                if all(operation.completed for operation in operations):
                    over.set()

        operations = [Timed((30, 5, 60)[number % 7 % 3]) for number in range(300)]
        for number, operation in enumerate(operations):
            operation.due = loop.time() + operation.timeout_ms / 1000
            purgatory.watch(operation, ("a",), operation.timeout_ms)
            if number % 50 == 0:
                await asyncio.sleep(0.002)
        for operation in operations[::3]:
            operation.force_complete()
        await over.wait()
        assert all(operation.completions == 1 for operation in operations)
        assert all(operation.expired for index, operation in enumerate(operations) if index % 3)
        assert not purgatory.watched("a")

    run(story())


def test_what_is_watched_completes_in_the_call_that_turned_it_and_leaves_nothing_behind() -> None:
    async def story() -> None:
        purgatory: Purgatory[str] = Purgatory()
        operation, other = Waiting(a=1, b=9), Waiting(a=9)
        purgatory.watch(operation, ("a", "b"), 100_000)
        purgatory.watch(other, ("a",), 100_000)
        assert purgatory.delayed == 2
        assert purgatory.check_and_complete("a") == 0
        operation.wanted["b"] = 0
        assert purgatory.check_and_complete("a") == 1
        assert operation.completions == 1
        assert purgatory.delayed == 1
        assert purgatory.watched("a")
        assert not purgatory.watched("b")
        other.abandon()
        assert other.completions == 0
        assert purgatory.delayed == 0
        assert not purgatory.watched("a")

    run(story())


def test_what_completes_may_make_others_wait_and_complete() -> None:
    async def story() -> None:
        purgatory: Purgatory[str] = Purgatory()

        class Chained(Waiting):
            def on_complete(self) -> None:
                super().on_complete()
                purgatory.watch(following, ("a",), 100_000)
                purgatory.check_and_complete("a")

        following, third = Waiting(a=1), Waiting(a=2)
        purgatory.watch(Chained(a=1), ("a",), 100_000)
        purgatory.watch(third, ("a",), 100_000)
        assert purgatory.check_and_complete("a") == 2
        assert following.completions == 1
        assert third.completions == 1
        assert purgatory.delayed == 0

    run(story())
