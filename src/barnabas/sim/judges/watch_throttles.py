"""Watches what bounds copying, between brokers and between log directories: C18, who copies more than is allowed is
held back, and is let go when less is copied or more is allowed (KIP-73).

The rate is that of samples of a second over a window. So there is one above which it holds however the samples lie, and
one below which it does not; between these this one does not judge.
"""

from __future__ import annotations

from collections import deque
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
        in_all = sum(size for at_ms, size in copied if at_ms > now_ms - self.window_ms - SAMPLE_MS)
        surely = sum(size for at_ms, size in copied if at_ms > now_ms - self.window_ms + SAMPLE_MS)
        told = f"{in_all} bytes in {self.window_ms + SAMPLE_MS} ms, {surely} of them of late, where {allowed} a second"
        if exceeded and (allowed == UNLIMITED_RATE or in_all * 1_000 <= allowed * SAMPLE_MS):
            self.world.violated("C18", f"{node()} holds back who copied {told} may be copied", node=node())
        elif not exceeded and allowed != UNLIMITED_RATE and surely * 1_000 > allowed * self.window_ms:
            self.world.violated("C18", f"{node()} lets go on who copied {told} may be copied", node=node())
