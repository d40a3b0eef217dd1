"""A simulated process of a broker or coordinator within a test's process: its doors and its end."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Coroutine
from typing import Any

from barnabas.model.ids import Uuid
from barnabas.runtime.doors import Runtime
from barnabas.runtime.real import RealEntropy, uuid_from
from barnabas.sim.world.disk import SimDisk, Volume
from barnabas.testing.disk import MortalDisk
from barnabas.testing.loop import Process, StallFreeClock
from barnabas.testing.network import LinkNetwork, Links


class ClusterError(Exception):
    """The cluster cannot do what the test requested; the text has the reason."""


class SeededEntropy(RealEntropy):
    """Entropy drawn from the test's seed: a test's cluster has no secrets."""

    __slots__ = ()

    def __init__(self, seed: str) -> None:
        super().__init__()
        self._random = random.Random(seed)

    def token(self, length: int) -> bytes:
        return self._random.randbytes(length)

    def uuid(self) -> Uuid:
        return uuid_from(self.token)


class Life:
    """A simulated process on the background loop, and its doors."""

    def __init__(self, process: Process, links: Links, volume: Volume | None, clock: StallFreeClock, seed: str) -> None:
        self.process = process
        self.network = LinkNetwork(links, process)
        self.disk: MortalDisk | SimDisk
        self.disk = MortalDisk(lambda: process.alive) if volume is None else SimDisk(volume, self._guard, clock.now_ms)
        self.runtime = Runtime(clock, self.disk, self.network, SeededEntropy(seed))

    def _guard(self, operation: str, path: str) -> None:
        if not self.process.alive:
            raise OSError(errno.EIO, "the process is dead", path)

    async def run(self, story: Coroutine[Any, Any, Any], name: str) -> None:
        """Runs a coroutine within the process. Raises `ClusterError` if the process is killed meanwhile."""
        task = self.process.loop.create_task(story, name=name, context=self.process.context)
        while not task.done():
            await asyncio.sleep(0.001)
            if not self.process.alive:
                raise ClusterError(f"{self.process.name} was killed meanwhile.")
        task.result()

    def end(self) -> None:
        """As ``kill -9``: resets sockets, closes files; none of the process's code runs any more."""
        self.process.kill()
        ends = self.network.shut()
        if isinstance(self.disk, MortalDisk):
            self.disk.shut()
        for end in ends:
            end.bury()
        self.process.bury()
