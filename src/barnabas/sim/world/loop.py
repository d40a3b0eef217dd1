"""An asyncio event loop on virtual time, whose order of ready callbacks is drawn from the seed.

Time is whole nanoseconds and moves only when nothing is ready: a minute of waiting costs nothing. asyncio promises to
run ready callbacks first in, first out; here each turn's callbacks are shuffled, because in a real cluster their order
is chance, and code that needs an order must say so. Every callback belongs to the node in whose context it was
scheduled; those of a dead node are dropped, which is how a crash runs no ``finally``.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import inspect
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import CoroutineType
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack, cast

from barnabas.sim.plans.chance import Chance, EventHash
from barnabas.sim.world.standstill import no_standstill

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

NS: Final = 1_000_000_000


class Incarnation:
    """One process on a node, from its start to its death. Its callbacks run in `context`."""

    __slots__ = (
        "_held", "alive", "busy_until_ns", "chance", "context", "freed_ns", "hindered", "name", "number", "paused",
        "remains", "stall_ns", "stalls", "tasks",
    )  # fmt: skip

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.alive = True
        self.hindered = False
        """Whether the process is paused, busy or slow, so that its callbacks may not run at once."""
        self.freed_ns = 0
        """Since when it is not hindered any more."""
        self.paused = False
        self.busy_until_ns = 0
        self.stall_ns = 0
        """Now and then a callback takes up to that long, and all later ones wait for it."""
        self.stalls = 0
        self.chance: Chance | None = None
        self._held: list[_Handle] = []
        self.context = contextvars.copy_context()
        self.context.run(current_incarnation.set, self)
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.remains: list[object] = []
        """What must not be collected after a crash: a coroutine would run its ``finally``."""

    def __repr__(self) -> str:
        return f"{self.name}#{self.number}"

    def drop_unbegun(self) -> None:
        """After its death, drops tasks that never took a step: they have nothing to end, and asyncio need not warn of
        them."""
        for task in self.tasks:
            coroutine = task.get_coro()
            if isinstance(coroutine, CoroutineType) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                coroutine.close()

    def pause(self) -> None:
        """As SIGSTOP: nothing runs; what arrives waits in the kernel."""
        self.paused = self.hindered = True

    def resume(self, loop: SimLoop) -> None:
        self.paused = False
        self.freed_ns = loop.now_ns
        held, self._held = self._held, []
        for number, handle in enumerate(held):
            # One after the other: bytes that arrived in an order keep it.
            loop.call_at_ns(loop.now_ns + number, _run_unless_cancelled, handle, context=self.context.copy())

    def busy_for(self, loop: SimLoop, ns: int) -> None:
        """The process is busy for so long, as while it waits for a disk."""
        self.busy_until_ns = max(self.busy_until_ns, loop.now_ns) + ns
        self.hindered = True

    def stall(self, stall_ns: int, chance: Chance) -> None:
        self.stall_ns = stall_ns
        self.chance = chance
        self.hindered = True

    def hold(self, handle: _Handle, loop: SimLoop) -> bool:
        """Whether `handle` has to wait; if so it runs later, behind those before it."""
        if self.paused:
            self._held.append(handle)
            return True
        now_ns = loop.now_ns
        if self.busy_until_ns > now_ns:
            loop.call_at_ns(self.busy_until_ns, _run_unless_cancelled, handle, context=self.context.copy())
            self.busy_until_ns += 1
            return True
        if self.stall_ns and self.chance is not None:
            if self.chance.happens(_STALLS):
                self.stalls += 1
                self.busy_until_ns = now_ns + self.chance.whole(0, self.stall_ns)
        elif self.hindered:
            self.hindered = False
            self.freed_ns = now_ns
        return False


_STALLS: Final = 0.005


def _run_unless_cancelled(handle: _Handle) -> None:
    if not handle.cancelled():
        handle.run()


current_incarnation: contextvars.ContextVar[Incarnation | None] = contextvars.ContextVar("incarnation", default=None)


class _Handle(asyncio.TimerHandle):
    """A callback that is ready, or will be.

    There are some 20,000 of them in a second of CPU, so it holds nothing that only debugging or asyncio's own timers
    need.
    """

    __slots__ = ("owner",)

    owner: Incarnation | None

    def __init__(self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False
        self.owner = context.get(current_incarnation)

    def __repr__(self) -> str:
        return f"<{'cancelled' if self._cancelled else repr(self._callback)} at {self._when} s>"

    def run(self) -> None:
        self._context.run(self._callback, *self._args)

    def cancel(self) -> None:
        """A cancelled timer stays in the heap until it is due; then nothing runs."""
        self._cancelled = True
        self._callback = self._args = None  # type: ignore[assignment]


RESTLESS_NS: Final = 5 * NS


class SimLoop(asyncio.AbstractEventLoop):
    """Raises `Deadlock` where something is awaited that nothing will ever bring about, and `Restless` where as many
    callbacks as `restless_from` run within `RESTLESS_NS`."""

    def __init__(self, chance: Chance, event_hash: EventHash, restless_from: int = 1 << 62) -> None:
        self.now_ns = 0
        self.callbacks = 0
        self.unhandled: list[str] = []
        """Exceptions that nobody handled; checkers want none."""
        self._chance = chance
        self._hash = event_hash
        self._ready: list[_Handle] = []
        self._timers: list[tuple[int, int, _Handle]] = []
        """When each timer is due, and its number, so that two timers are never compared themselves."""
        self._timer_number = 0
        self._restless_from = self._count_to = restless_from
        self._counts_since_ns = 0
        self._running = False
        self._closed = False

    # ---- time

    def time(self) -> float:
        return self.now_ns / NS

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(0.0, callback, args, contextvars.copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at_ns(self.now_ns + round(delay * NS), callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        at_ns = round(when * NS)
        if at_ns / NS < when:
            at_ns += 1  # never early: code that compares `when` with the time would set the same timer again, for ever
        return self.call_at_ns(at_ns, callback, *args, context=context)

    def call_at_ns(
        self, at_ns: int, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """At once where that time is over."""
        timer = _Handle(at_ns / NS, callback, args, contextvars.copy_context() if context is None else context)
        self._timer_number = number = self._timer_number + 1
        heapq.heappush(self._timers, (at_ns if at_ns > self.now_ns else self.now_ns, number, timer))
        return timer

    # ---- futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        task: asyncio.Task[T] = asyncio.Task(cast(Any, coro), loop=self, name=name, context=context, **options)
        owner = current_incarnation.get() if context is None else context.get(current_incarnation)
        if owner is not None and not owner.alive and isinstance(coro, CoroutineType):
            coro.close()  # its process died amid the callback that asks for it
        elif owner is not None:
            owner.tasks[task] = None
            task.add_done_callback(lambda done: owner.tasks.pop(done, None) if owner.alive else None)
        return task

    # ---- running

    def run_until_complete(self, future: Any, *, until_ns: int | None = None) -> Any:
        """The outcome of `future`; None where `until_ns` came first."""
        waited: asyncio.Future[Any] = asyncio.ensure_future(future, loop=self)
        self._running = True
        previous = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            with no_standstill(lambda: self.now_ns):
                self._turn_until(waited, until_ns)
            if not waited.done():
                return None
        finally:
            asyncio._set_running_loop(previous)
            self._running = False
        return waited.result()

    def _turn_until(self, waited: asyncio.Future[Any], until_ns: int | None) -> None:
        """Turn by turn: all ready callbacks run, or time goes on to the next timer."""
        timers, shuffle, heappop = self._timers, self._chance.shuffle, heapq.heappop
        hashed, turn = self._hash.pending.extend, EventHash.TURN
        while not waited.done():
            if not self._ready:
                while timers and timers[0][2]._cancelled:
                    heappop(timers)
                if not timers:
                    raise Deadlock(
                        f"at {self.now_ns / NS:.6f} s nothing will ever happen again, and {waited!r} is awaited"
                    )
                if timers[0][0] > self.now_ns:
                    self.now_ns = timers[0][0]
            batch, now_ns = self._ready, self.now_ns
            while timers and timers[0][0] <= now_ns:
                batch.append(heappop(timers)[2])
            self._ready = []
            if len(batch) > 1:
                shuffle(batch)
            hashed(turn(now_ns, len(batch)))
            for handle in batch:
                owner = handle.owner
                if handle._cancelled or (owner is not None and not owner.alive):
                    continue
                if owner is not None and owner.hindered:
                    has_waited = handle._callback is _run_unless_cancelled
                    if (owner.paused or not has_waited) and owner.hold(handle, self):
                        continue
                self.callbacks += 1
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self.call_exception_handler({"message": "an exception in a callback", "exception": error})
            if self.callbacks >= self._count_to:
                self._count_anew()
            if until_ns is not None and self.now_ns > until_ns:
                return

    def _count_anew(self) -> None:
        if self.now_ns - self._counts_since_ns < RESTLESS_NS:
            raise Restless(
                f"{self._restless_from} callbacks ran from {self._counts_since_ns / NS:.6f} s to "
                f"{self.now_ns / NS:.6f} s: something is done again and again without a pause"
            )
        self._count_to = self.callbacks + self._restless_from
        self._counts_since_ns = self.now_ns

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """asyncio's debug mode measures real time, which has no meaning here."""

    # ---- failures

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        owner = current_incarnation.get()
        if owner is not None and not owner.alive:
            return  # it died amid a callback, and what that came upon then
        self.unhandled.append(f"{self.now_ns / NS:.6f} s {owner}: {context.get('message')}: {error!r}")

    async def shutdown_asyncgens(self) -> None:
        return None


class Deadlock(AssertionError):
    """Something is awaited, and nothing is scheduled any more."""


class Restless(AssertionError):
    """Somebody retries without waiting; the run would take hours of CPU."""
