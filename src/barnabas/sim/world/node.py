"""A machine: its volume, its clock, and the process that runs on it."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from barnabas.model.ids import Uuid
from barnabas.runtime.doors import Runtime
from barnabas.runtime.real import uuid_from
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.events import DISK, Events
from barnabas.sim.world.disk import Loss, ProcessDied, SimDisk, Volume
from barnabas.sim.world.loop import Incarnation, SimLoop
from barnabas.sim.world.network import SimListener, SimulatedNetwork

P = TypeVar("P", bound=asyncio.BaseProtocol)

EPOCH_MS: Final = 1_700_000_000_000
"""The wall clock when virtual time is 0."""


class SimNetwork:
    """One process's door to the simulated network."""

    def __init__(self, network: SimulatedNetwork, owner: Incarnation) -> None:
        self._network = network
        self._owner = owner

    async def listen(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, tls: object = None
    ) -> SimListener:
        assert tls is None, "the simulated network speaks no TLS"
        return self._network.listen(self._owner, protocol_factory, port)

    async def connect(
        self, protocol_factory: Callable[[], P], host: str, port: int, *, timeout_ms: int, tls: object = None
    ) -> P:
        assert tls is None, "the simulated network speaks no TLS"
        return await self._network.connect(self._owner, protocol_factory, host, port, timeout_ms)

    async def address_of(self, host: str) -> str:
        return host


class SimClock:
    """`skew_ms` moves the wall clock alone; the monotonic clock follows virtual time."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.skew_ms = 0
        self.drift_ppm = 0
        self._drifting_since_ns = 0

    def now_ms(self) -> int:
        drifted = (self._loop.now_ns - self._drifting_since_ns) // 1000 * self.drift_ppm // 1_000_000_000
        return EPOCH_MS + self._loop.now_ns // 1_000_000 + self.skew_ms + drifted

    def drift(self, parts_per_million: int) -> None:
        """From now on the wall clock gains so many microseconds a second; what it has gained before stays."""
        self.skew_ms = self.now_ms() - EPOCH_MS - self._loop.now_ns // 1_000_000
        self.drift_ppm = parts_per_million
        self._drifting_since_ns = self._loop.now_ns

    def monotonic_ms(self) -> int:
        return self._loop.now_ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self._loop.now_ns


class SimEntropy:
    def __init__(self, chance: Chance) -> None:
        self._chance = chance

    def randrange(self, start: int, stop: int) -> int:
        return self._chance.whole(start, stop - 1)

    def shuffle(self, items: list[int]) -> None:
        self._chance.shuffle(items)

    def token(self, length: int) -> bytes:
        return self._chance.bytes(length)

    def uuid(self) -> Uuid:
        return uuid_from(self._chance.bytes)


class DiskFaults:
    """The faults of a machine's disk below `prefix`. `struck` counts operations that met one, `errors` those that
    failed by it.

    `on_error` is called with the path before an error is raised in a process.
    """

    def __init__(self) -> None:
        self.prefix = "/"
        self.suffix = ""
        """Only files whose names end with it are struck."""
        self.read_fails = False
        self.writes_left: int | None = None
        """How many writes still succeed; all others fail."""
        self.fsync_failures = 0
        """How many fsyncs fail and lose their pages."""
        self.fsync_takes_ns = 0
        self.gone = False
        self.struck = 0
        self.errors = 0
        self.failed_path = ""
        """The path of the last failed operation."""
        self.on_error: Callable[[str, str], None] = lambda operation, path: None
        self.events: Events | None = None
        self.doing = ""
        """What the log of that file is doing: ``truncating``, ``deleting``."""
        self.looked_at = False

    @property
    def armed(self) -> bool:
        return bool(
            self.gone or self.read_fails or self.fsync_failures or self.fsync_takes_ns or self.writes_left is not None
        )

    @contextmanager
    def as_it_is(self) -> Iterator[None]:
        """While a checker reads: it is no operation of the process, so no fault strikes and no event is told."""
        before, self.looked_at = self.looked_at, True
        try:
            yield
        finally:
            self.looked_at = before

    def repair(self) -> None:
        self.read_fails = self.gone = False
        self.fsync_failures = 0
        self.writes_left = None
        self.fsync_takes_ns = 0
        self.suffix = ""

    def strike(self, operation: str, path: str, process: Incarnation, loop: SimLoop) -> None:
        if operation == "fsync" and self.fsync_takes_ns:
            self.struck += 1
            process.busy_for(loop, self.fsync_takes_ns)
        fails = self.gone or (operation == "read" and self.read_fails)
        if operation == "fsync" and self.fsync_failures:
            self.fsync_failures -= 1  # the next one may succeed: what matters is that nobody trusts it
            fails = True
        if operation == "write" and self.writes_left is not None:
            fails = fails or self.writes_left <= 0
            self.writes_left = max(0, self.writes_left - 1)
        if fails:
            self.struck += 1
            self.errors += 1
            self.failed_path = path
            self.on_error(operation, path)
            raise OSError(errno.EIO, "input/output error", path)


class Node:
    """One machine. `begin` starts a process with a story; `kill` and `lose_power` end it without notice."""

    def __init__(self, loop: SimLoop, network: SimulatedNetwork, chance: Chance, name: str) -> None:
        self.name = name
        self.volume = Volume()
        self.clock = SimClock(loop)
        self.process: Incarnation | None = None
        self.disk = DiskFaults()
        self._loop = loop
        self._network = network
        self._chance = chance.stream(name)
        self._graveyard: list[Incarnation] = []

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def deaths(self) -> int:
        return len(self._graveyard)

    def begin(self, story: Callable[[Runtime], Coroutine[Any, Any, Any]]) -> Incarnation:
        """Starts a process whose main story is `story(runtime)`."""
        assert not self.alive, f"{self.name} runs already"
        process = Incarnation(self.name, len(self._graveyard))
        self.process = process
        self._network.dark.pop(self.name, None)
        runtime = Runtime(
            self.clock,
            SimDisk(self.volume, self._guard(process), self.clock.now_ms),
            SimNetwork(self._network, process),
            SimEntropy(self._chance.stream(str(process.number))),
        )

        def start() -> None:
            self._loop.create_task(story(runtime), name=f"{self.name} main")

        self._loop.call_soon(start, context=process.context)
        return process

    def _guard(self, process: Incarnation) -> Callable[[str, str], None]:
        faults = self.disk

        def guard(operation: str, path: str) -> None:
            if not process.alive:
                raise ProcessDied(errno.EIO, f"{process} is dead", path)
            if faults.looked_at:
                return
            if faults.events is not None and faults.events.awaited(DISK):
                faults.events.happened(DISK, f"{operation} {faults.doing} {path}", process.name)
                if not process.alive:
                    raise ProcessDied(errno.EIO, f"{process} is dead", path)
            if faults.armed and path.startswith(faults.prefix) and path.endswith(faults.suffix):
                faults.strike(operation, path, process, self._loop)

        return guard

    def kill(self) -> None:
        """``kill -9``: the page cache stays, connections are reset."""
        self._end(silently=False)

    def lose_power(self, loss: Loss | None = None, chance: Chance | None = None) -> Loss:
        """The page cache is lost, and peers are not told."""
        self._end(silently=True)
        return self.volume.lose_power(self._chance if chance is None else chance, loss)

    def _end(self, *, silently: bool) -> None:
        process = self.process
        if process is None or not process.alive:
            return
        process.alive = False
        process.drop_unbegun()
        self._network.process_died(process, silently=silently)
        self.volume.release_locks()
        self._graveyard.append(process)
        self.process = None

    def exited(self) -> None:
        """The process ended by itself, after a controlled shutdown."""
        self._end(silently=False)
