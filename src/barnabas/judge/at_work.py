"""The working clients of a run, and those that did not end. Clients are threads; all of ours are tasks in one
thread."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Final

_SHOWN: Final = 4
"""The number of a client's present calls that are reported."""


class ClientsAtWork:
    """The working clients. If one fails by its own error, the error is in `trouble` and `stop` is set."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self.trouble: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._tasks_in: threading.Thread | None = None

    def begin(self, name: str, work: Callable[[], None]) -> None:
        """Starts a client in a thread of its own."""

        def body() -> None:
            try:
                work()
            except Exception as error:
                self.trouble.append(error)
                self._stop.set()

        self._threads.append(threading.Thread(target=body, name=name, daemon=True))
        self._threads[-1].start()

    async def together(self, clients: Mapping[str, Coroutine[Any, Any, None]]) -> None:
        """Runs clients by name in the calling thread. Raises the first error of a client."""
        self._tasks_in = threading.current_thread()
        self._tasks = [asyncio.create_task(client, name=name) for name, client in clients.items()]
        await asyncio.gather(*self._tasks)

    def late(self, seconds: float) -> list[str]:
        """Waits up to `seconds` for all clients. Returns those that have not ended: each name with its present place in
        the code."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        alive = [thread for thread in self._threads if thread.is_alive()]
        return [name for thread in alive for name in self._named(thread)]

    def _named(self, thread: threading.Thread) -> Iterator[str]:
        calls = list(_called(thread))
        tasks = [task for task in self._tasks if not task.done()] if thread is self._tasks_in else []
        for task in tasks:
            yield f"{task.get_name()} (in {_place(_awaited(task.get_coro()))})"
        if not tasks:
            yield f"{thread.name} (in {_place(calls)})"
        elif not calls[-1].endswith(".select"):
            # All clients of the thread have ended: something else of theirs keeps it running, perhaps another task.
            yield f"their thread {thread.name} (in {_place(calls)})"


def _place(calls: Iterable[str]) -> str:
    return " > ".join(list(calls)[-_SHOWN:])


def _awaited(coroutine: Any) -> Iterator[str]:
    """The functions in which a task waits, the innermost last."""
    while (code := getattr(coroutine, "cr_code", None)) is not None:
        yield code.co_qualname
        coroutine = coroutine.cr_await


def _called(thread: threading.Thread) -> Iterator[str]:
    """The functions in which a thread is, the innermost last."""
    frame = sys._current_frames().get(thread.ident or 0)
    names = []
    while frame is not None:
        names.append(frame.f_code.co_qualname)
        frame = frame.f_back
    yield from reversed(names)
