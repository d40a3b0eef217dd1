"""The controller's one queue: events are handled in order, one at a time (``ControllerEventManager.scala``).

`ControllerEventManager.put` may be called from anywhere on the loop. The queue, the current event and its age can be
read at any moment.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from barnabas.controller.events import ControllerEvent, ControllerState
from barnabas.runtime import Clock, Condition, Tasks, ended, within

CLOSE_TIMEOUT_MS: Final = 5_000
"""How long the present event may go on when the broker stops: ZooKeeper may never answer it."""


class QueuedEvent:
    """A queued event; `processing_started` is done when its processing begins, or when it never will."""

    __slots__ = ("enqueue_time_ms", "event", "processing_started")

    def __init__(self, event: ControllerEvent, enqueue_time_ms: int) -> None:
        self.event = event
        self.enqueue_time_ms = enqueue_time_ms
        self.processing_started: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def await_processing(self) -> None:
        await asyncio.shield(self.processing_started)

    def started(self) -> None:
        if not self.processing_started.done():
            self.processing_started.set_result(None)


@dataclass(slots=True)
class StateFigures:
    """How often events of one state came, how long they took and how long they had waited."""

    count: int = 0
    total_ms: int = 0
    max_ms: int = 0
    queue_total_ms: int = 0
    queue_max_ms: int = 0


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """`event` is the current one (None when idle), in processing for `event_ms` milliseconds."""

    state: ControllerState
    event: str | None
    event_ms: int
    queue_size: int
    oldest_ms: int
    waiting: tuple[str, ...] = field(default=())


class ControllerEventManager:
    """`process` handles one event and never raises: it handles errors itself."""

    def __init__(self, clock: Clock, process: Callable[[ControllerEvent], Awaitable[None]]) -> None:
        self._clock = clock
        self._process = process
        self._queue: deque[QueuedEvent] = deque()
        self._waiting = Condition()
        self._in_hand: QueuedEvent | None = None
        self._in_hand_since_ms = 0
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self.figures: dict[ControllerState, StateFigures] = {state: StateFigures() for state in ControllerState}

    @property
    def state(self) -> ControllerState:
        return ControllerState.Idle if self._in_hand is None else self._in_hand.event.state

    @property
    def event_queue_size(self) -> int:
        return len(self._queue)

    def status(self) -> QueueStatus:
        now_ms = self._clock.monotonic_ms()
        return QueueStatus(
            self.state,
            None if self._in_hand is None else self._in_hand.event.name,
            0 if self._in_hand is None else now_ms - self._in_hand_since_ms,
            len(self._queue),
            now_ms - self._queue[0].enqueue_time_ms if self._queue else 0,
            tuple(queued.event.name for queued in self._queue),
        )

    def start(self, tasks: Tasks, name: str) -> None:
        assert self._task is None, "the event queue starts once"
        self._task = tasks.begin(self._run(), name)

    async def close(self) -> None:
        """Waits a while for the present event; waiting and later ones are preempted."""
        self._closed = True
        self._preempt_all()
        self._waiting.notify()
        if self._task is not None:
            if not await within(self._task, CLOSE_TIMEOUT_MS):
                self._task.cancel()
            await ended(self._task)

    def put(self, event: ControllerEvent) -> QueuedEvent:
        queued = QueuedEvent(event, self._clock.monotonic_ms())
        if self._closed:
            event.preempt()
            queued.started()
        else:
            self._queue.append(queued)
            self._waiting.notify()
        return queued

    def clear_and_put(self, event: ControllerEvent) -> QueuedEvent:
        """Preempts all waiting events and puts `event`: the earlier ones no longer count."""
        self._preempt_all()
        return self.put(event)

    def _preempt_all(self) -> None:
        preempted, self._queue = self._queue, deque()
        for queued in preempted:
            queued.event.preempt()
            queued.started()

    async def _run(self) -> None:
        while True:
            while not self._queue:
                if self._closed:
                    return
                await self._waiting
            queued = self._queue.popleft()
            self._in_hand = queued
            self._in_hand_since_ms = self._clock.monotonic_ms()
            waited_ms = self._in_hand_since_ms - queued.enqueue_time_ms
            queued.started()
            try:
                await self._process(queued.event)
            finally:
                took_ms = self._clock.monotonic_ms() - self._in_hand_since_ms
                self._in_hand = None
            figures = self.figures[queued.event.state]
            figures.count += 1
            figures.total_ms += took_ms
            figures.max_ms = max(figures.max_ms, took_ms)
            figures.queue_total_ms += waited_ms
            figures.queue_max_ms = max(figures.queue_max_ms, waited_ms)
            del queued  # it may be large, and the next one may come late
