"""The background loop of a test's process, and the simulated processes that run on it.

All clusters of a test process run on one thread, so that brokers share only sockets with the test. Each broker has a
`Process`, through which all callbacks and tasks of its context pass. A killed process runs no code any more. A paused
one runs none until it is resumed, and then everything in order, as after SIGSTOP and SIGCONT.

The whole thread may stand still, for a test that keeps the interpreter busy or on a slow machine. `StallFreeClock`
leaves that time out, so that it does not count for the cluster's sessions and short timeouts make no test flaky.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

from barnabas.runtime.event_loop import fastest_loop

logger = logging.getLogger(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TICK_S: Final = 0.02
_STALL_S: Final = 0.05
_BURIAL_ATTEMPTS: Final = 8
_WAITS_MAX: Final = 1_000


class Process:
    """The simulated process of a broker or coordinator."""

    def __init__(self, loop: ClusterLoop, name: str, tell: Callable[[str, str], None]) -> None:
        self.loop = loop
        self.name = name
        self.tell = tell
        """Adds a line to the cluster's timeline: who, what."""
        self.alive = True
        self.paused = False
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.context = copy_context()
        self.context.run(current_process.set, self)
        self._held: list[_Call] = []

    def hold(self, call: _Call) -> None:
        self._held.append(call)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        held, self._held = self._held, []
        for call in held:
            if call.handle is None or not call.handle.cancelled():
                self.loop.call_soon_ungated(call)

    def kill(self) -> None:
        """Ends the process: none of its code runs any more, not even a ``finally``."""
        self.alive = False
        self._held.clear()

    def bury(self) -> None:
        """Closes its coroutines, once its doors are shut and they cannot have an effect. The garbage collector would
        end them at any time and in any thread.
        """
        tasks, self.tasks = list(self.tasks), {}
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            for _ in range(_BURIAL_ATTEMPTS):
                try:
                    assert coroutine is not None
                    self.context.copy().run(coroutine.close)
                    break
                except RuntimeError:
                    continue  # the coroutine awaits in a `finally`
                except Exception as error:
                    logger.debug("%s: %s ended with %r", self.name, task.get_name(), error)
                    break


current_process: ContextVar[Process | None] = ContextVar("process", default=None)
_stories: ContextVar[list[Future[Any]] | None] = ContextVar("stories", default=None)
"""The work that a coroutine's call has started on the background loop."""


class _Call:
    """A callback of a process; it runs only while the process does."""

    __slots__ = ("args", "callback", "context", "handle", "process")

    def __init__(self, process: Process, callback: Callable[..., object], args: tuple[Any, ...], context: Context):
        self.process = process
        self.callback = callback
        self.args = args
        self.context = context
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        process = self.process
        if process.alive:
            if process.paused:
                process.hold(self)
            else:
                self.callback(*self.args)


_Loop: Any = fastest_loop()


class ClusterLoop(_Loop):  # type: ignore[misc]
    """The fastest event loop; each process's callbacks pass its gate."""

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        process = current_process.get() if context is None else context.get(current_process)
        if process is None:
            handle: asyncio.Handle = super().call_soon(callback, *args, context=context)
            return handle
        call = _Call(process, callback, args, copy_context() if context is None else context)
        call.handle = handle = super().call_soon(call, context=call.context)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        process = current_process.get() if context is None else context.get(current_process)
        if process is None:
            timer: asyncio.TimerHandle = super().call_later(delay, callback, *args, context=context)
            return timer
        call = _Call(process, callback, args, copy_context() if context is None else context)
        call.handle = timer = super().call_later(delay, call, context=call.context)
        return timer

    def call_soon_ungated(self, call: _Call) -> None:
        super().call_soon(call, context=call.context)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        task: asyncio.Task[T] = super().create_task(coro, name=name, context=context, **options)
        process = current_process.get() if context is None else context.get(current_process)
        if process is not None:
            process.tasks[task] = None
            task.add_done_callback(lambda done: process.tasks.pop(done, None))
        return task


class Background:
    """The thread and its loop. It starts with the first cluster of a test process, and ends with the process."""

    def __init__(self) -> None:
        self.loop = ClusterLoop()
        self.stalled_ms = 0
        """The total time for which this thread could not run."""
        self._due = 0.0
        self._threads = ThreadPoolExecutor(_WAITS_MAX, "kafka-cluster-waits")
        """Threads for waiting coroutines. A loop's own pool has six threads on two cores: waits would take all of them,
        before the work that they wait for."""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-cluster", daemon=True)
        self._thread.start()
        self._ready.wait()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self._due = time.monotonic()
        self.loop.call_soon(self._ready.set)
        self.loop.call_soon(self._tick)
        self.loop.run_forever()

    def _tick(self) -> None:
        self.look_for_stall()
        self._due = time.monotonic() + TICK_S
        self.loop.call_later(TICK_S, self._tick)

    def look_for_stall(self) -> None:
        """Detects a standstill, at the first reading of the clock after it."""
        late = time.monotonic() - self._due
        if late > _STALL_S:
            self.stalled_ms += round(late * 1000)
            self._due += late

    @property
    def is_a_forks(self) -> bool:
        """Whether this process is a fork of the one that has the thread."""
        return not self._thread.is_alive()

    def run(self, story: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Runs the coroutine `story` on the loop, called from another thread, and waits for its outcome."""
        assert threading.current_thread() is not self._thread, "the cluster's own thread cannot wait for itself"
        future = asyncio.run_coroutine_threadsafe(story, self.loop)
        stories = _stories.get()
        if stories is not None:
            stories.append(future)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    async def awaited(self, call: Callable[[], T]) -> T:
        """Runs `call`, which waits for coroutines of the background loop, in a thread, so that the caller's own loop
        goes on. Cancelling it ends the present coroutine, and so the thread.
        """
        stories: list[Future[Any]] = []
        context = copy_context()
        context.run(_stories.set, stories)
        outcome = asyncio.get_running_loop().run_in_executor(self._threads, lambda: context.run(call))
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            for story in list(stories):
                story.cancel()
            await asyncio.gather(outcome, return_exceptions=True)
            raise

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(2)


class StallFreeClock:
    """The wall clock, and a monotonic clock without the thread's standstills."""

    def __init__(self, background: Background) -> None:
        self._background = background

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        self._background.look_for_stall()
        return time.monotonic_ns() // 1_000_000 - self._background.stalled_ms

    monotonic_ns = staticmethod(time.monotonic_ns)


_lock = threading.Lock()
_background: Background | None = None


def background() -> Background:
    global _background
    with _lock:
        if _background is None:
            _background = Background()
            atexit.register(_background.stop)
        return _background


def _forget() -> None:
    """Forgets the loop: a forked child has its memory, but not its thread."""
    global _background
    _background = None


os.register_at_fork(after_in_child=_forget)
