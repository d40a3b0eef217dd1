"""Runs a plain ``async`` story without a task, and keeps the background tasks of a node in order.

`drive` steps a coroutine at once, in the caller's frame. Most requests never suspend, so most stories end inside the
call and cost no task, no queue and no trip through the event loop; one that waits on a future goes on when the future
is done. A driven story may await futures, ``asyncio.sleep`` and other coroutines. What needs ``current_task`` (such as
``asyncio.timeout``) belongs in a task of `Tasks`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")


class Story(Generic[T]):
    """A coroutine in progress; made only when the coroutine suspended."""

    __slots__ = ("_coroutine", "_waiting_for", "on_done")

    def __init__(
        self, coroutine: Coroutine[Any, Any, T], on_done: Callable[[T | None, BaseException | None], None]
    ) -> None:
        self._coroutine = coroutine
        self.on_done = on_done
        self._waiting_for: asyncio.Future[Any] | None = None

    def wait_for(self, yielded: Any) -> None:
        """Goes on when the future that the coroutine yielded is done."""
        if yielded is None:  # a bare yield, as asyncio.sleep(0) does
            asyncio.get_running_loop().call_soon(self._step)
            return
        yielded._asyncio_future_blocking = False
        self._waiting_for = yielded
        yielded.add_done_callback(self._step)

    def _step(self, future: asyncio.Future[Any] | None = None) -> None:
        self._waiting_for = None
        try:
            # The awaiting future re-raises its own exception or cancellation inside the coroutine.
            yielded = self._coroutine.send(None)
        except StopIteration as end:
            self.on_done(end.value, None)
        except BaseException as error:
            self.on_done(None, error)
        else:
            self.wait_for(yielded)

    def abandon(self) -> None:
        """Ends the story where it is: its ``await`` raises ``GeneratorExit``; `on_done` is not called."""
        if self._waiting_for is not None:
            self._waiting_for.remove_done_callback(self._step)
            self._waiting_for = None
        self.on_done = _nobody
        self._coroutine.close()


def _nobody(value: object, error: BaseException | None) -> None:
    """The `on_done` of an abandoned story."""


def drive(
    coroutine: Coroutine[Any, Any, T], on_done: Callable[[T | None, BaseException | None], None]
) -> Story[T] | None:
    """Runs `coroutine` up to its first wait. Returns None if it has ended (`on_done` was called already)."""
    try:
        yielded = coroutine.send(None)
    except StopIteration as end:
        on_done(end.value, None)
        return None
    except BaseException as error:
        on_done(None, error)
        return None
    story = Story(coroutine, on_done)
    story.wait_for(yielded)
    return story


def to_its_end(story: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Makes a story that goes on when its awaiter is cancelled: its first writes are worth nothing without the rest."""

    @wraps(story)
    async def awaited(*args: P.args, **kwargs: P.kwargs) -> T:
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        told: asyncio.Future[T] | None = outcome

        def done(value: Any, error: BaseException | None) -> None:
            nonlocal told
            waited, told = told, None
            assert waited is not None, "a story ends once"
            if waited.done():  # the awaiter was cancelled
                return
            if error is None:
                waited.set_result(value)
            else:
                waited.set_exception(error)
                waited.exception()  # the awaiter may be gone; asyncio would log an unread exception

        drive(story(*args, **kwargs), done)
        try:
            return await outcome
        finally:
            del outcome  # else the error and this frame would keep each other alive, by the traceback

    return awaited


class Tasks:
    """The background tasks of one node: named, strongly held, ended in the order they were begun.

    A task that fails in an unforeseen way calls `on_failure` once, which decides what stops (a controller resigns, a
    broker halts); it is never swallowed.
    """

    def __init__(self, on_failure: Callable[[str, BaseException], None]) -> None:
        self._on_failure = on_failure
        self._running: dict[asyncio.Task[Any], None] = {}

    def begin(self, story: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(story, name=name)
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            logger.error("task %s failed", task.get_name(), exc_info=error)
            self._on_failure(task.get_name(), error)

    def __len__(self) -> int:
        return len(self._running)

    async def end(self) -> None:
        """Cancels every task but the caller's own, oldest first, and waits until each is over."""
        current = asyncio.current_task()
        ending = [task for task in self._running if task is not current]
        for task in ending:
            task.cancel()
        for task in ending:
            await ended(task)


async def ended(task: asyncio.Task[Any]) -> None:
    """Waits until `task` is over, however it ends. A cancellation of the caller goes through."""
    if task.done():
        return
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def notice(_: asyncio.Task[Any]) -> None:
        if not over.done():
            over.set_result(None)

    task.add_done_callback(notice)
    await over


class Condition:
    """Waits for a fact to become true on one loop: `notify` wakes every waiter in the order they came."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    def notify(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def __await__(self) -> Generator[Any, None, None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter.__await__()


async def within(waited: asyncio.Future[T], timeout_ms: float) -> bool:
    """Waits for `waited`, at most `timeout_ms`; True when it is done. It is not cancelled, and its result not read."""
    if waited.done():
        return True
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not over.done():
            over.set_result(None)

    timer = loop.call_later(timeout_ms / 1000, wake)
    waited.add_done_callback(wake)
    try:
        await over
    finally:
        timer.cancel()
        waited.remove_done_callback(wake)
    return waited.done()


async def and_then(first: Awaitable[None], then: Callable[[], Awaitable[None]]) -> None:
    """Runs `then` after `first`, also after an error or an interruption; but not in a discarded coroutine, which may
    not await."""
    try:
        await first
    except GeneratorExit:
        raise
    except BaseException:
        await then()
        raise
    await then()
