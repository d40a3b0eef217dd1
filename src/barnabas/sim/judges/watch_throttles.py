"""Watches the throttles of copying between brokers and between log directories (C18): a replica above its rate is held
back until less is copied or more is allowed (KIP-73).

The rate is that of one-second samples over a window. Above some rate a replica is held back however the samples lie.
The oldest sample begins with some copy within the window; where from none of these on too much was copied, a replica is
not held back. Between the two nothing is judged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from barnabas.model.config import UNLIMITED_RATE, broker_config
from barnabas.replica.replication_quota import ReplicationQuota
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World, broker_name

SAMPLE_MS: Final = 1_000


class ThrottleWatch:
    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        config = broker_config(world.config_of(0, broker_name(0)))
        self.window_ms = config.number("replication.quota.window.num") * SAMPLE_MS
        self._copied: dict[ReplicationQuota, deque[tuple[int, int]]] = {}
        """When, and how many bytes."""
        probes.after(ReplicationQuota, "record", self._recorded)
        probes.after(ReplicationQuota, "is_exceeded", self.is_exceeded)

    def _recorded(self, _: None, quota: ReplicationQuota, size: int, now_ms: int) -> None:
        copied = self._copied.setdefault(quota, deque())
        copied.append((now_ms, size))
        while copied[0][0] <= now_ms - self.window_ms - SAMPLE_MS:
            copied.popleft()

    def is_exceeded(self, exceeded: bool, quota: ReplicationQuota, now_ms: int) -> None:
        self.world.check("C18")
        copied, allowed = self._copied.get(quota, ()), quota.bytes_per_second
        surely = sum(size for at_ms, size in copied if at_ms > now_ms - self.window_ms + SAMPLE_MS)
        told = f"{surely} bytes in {self.window_ms - SAMPLE_MS} ms, where {allowed} a second"
        if exceeded and (allowed == UNLIMITED_RATE or self._fastest(copied, now_ms) <= allowed):
            self.world.violated("C18", f"{node()} throttles copying after {told} are allowed", node=node())
        elif not exceeded and allowed != UNLIMITED_RATE and surely * 1_000 > allowed * self.window_ms:
            self.world.violated("C18", f"{node()} does not throttle copying after {told} are allowed", node=node())

    def _fastest(self, copied: Iterable[tuple[int, int]], now_ms: int) -> float:
        """The highest rate that samples may tell, by where the oldest of them begins."""
        fastest, since_then = 0.0, 0
        for at_ms, size in reversed([*copied]):
            if at_ms <= now_ms - self.window_ms:
                break
            since_then += size
            fastest = max(fastest, since_then * 1_000 / max(now_ms - at_ms, SAMPLE_MS))
        return fastest
