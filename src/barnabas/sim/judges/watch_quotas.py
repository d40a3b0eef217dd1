"""Watches client quotas (C18): a client above its quota is throttled, and one below is not.

A rate is measured over windows, of which the first and the last count in part. Above some rate a client is throttled
however the windows lie, and below some other rate it never is; between the two nothing is judged.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.broker.context import RequestContext
from barnabas.broker.quotas import FETCH, PRODUCE, REQUEST, UNLIMITED_BYTES, Quotas
from barnabas.broker.rates import SampledRate
from barnabas.model.config import Config, broker_config
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World, broker_name
from barnabas.wire.api import ApiKey
from barnabas.zk.kafka.config_znodes import CLIENTS, DEFAULT_ENTITY, USERS
from barnabas.zk.kafka.znode_json import sanitize

NOBODY: Final = ""


@dataclass(slots=True)
class Use:
    """The bytes that a client used, and when."""

    used: deque[tuple[int, int]] = field(default_factory=deque)

    def since(self, ms: int) -> int:
        return sum(size for at_ms, size in self.used if at_ms > ms)


class QuotaWatch:
    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        config: Config = broker_config(world.config_of(0, broker_name(0)))
        self.number, self.size_ms = config.number("quota.window.num"), config.number("quota.window.size.seconds") * 1000
        self.limits: dict[Quotas, dict[str, dict[str, str]]] = {}
        """By a broker's quotas, and by entity path: the settings."""
        self._set_ms: dict[Quotas, int] = {}
        """When any of them was last set, since that may begin a new measurement."""
        self._uses: dict[tuple[Quotas, str, tuple[str, str]], Use] = {}
        probes.after(Quotas, "set", self._set)
        probes.after(Quotas, "settle", self._settled)
        self._net: dict[SampledRate, float] = {}
        """By rate: what the fetch that is being counted has added."""
        probes.around(Quotas, "fetched", self._around_fetched)
        probes.after(SampledRate, "record", self._recorded)
        probes.after(Quotas, "fetch_max_bytes", self.may_fetch)

    def _set(self, _: None, quotas: Quotas, entity_path: str, config: dict[str, str]) -> None:
        self.limits.setdefault(quotas, {})[entity_path] = dict(config)
        self._set_ms[quotas] = self.world.loop.now_ns // 1_000_000

    def _limit(self, quotas: Quotas, kind: str, context: RequestContext) -> tuple[tuple[str, str], float] | None:
        """The entity whose quota applies, and the rate that it allows (``DefaultQuotaCallback``)."""
        known, user, client = (
            self.limits.get(quotas, {}),
            sanitize(context.principal.name),
            sanitize(context.client_id),
        )
        for path, counted in (
            (f"{USERS}/{user}/{CLIENTS}/{client}", (user, client)),
            (f"{USERS}/{user}/{CLIENTS}/{DEFAULT_ENTITY}", (user, client)),
            (f"{USERS}/{user}", (user, NOBODY)),
            (f"{USERS}/{DEFAULT_ENTITY}/{CLIENTS}/{client}", (user, client)),
            (f"{USERS}/{DEFAULT_ENTITY}/{CLIENTS}/{DEFAULT_ENTITY}", (user, client)),
            (f"{USERS}/{DEFAULT_ENTITY}", (user, NOBODY)),
            (f"{CLIENTS}/{client}", (NOBODY, client)),
            (f"{CLIENTS}/{DEFAULT_ENTITY}", (NOBODY, client)),
        ):
            if (allowed := known.get(path, {}).get(kind)) is not None:
                return counted, float(allowed)
        return None

    def _settled(self, _: None, quotas: Quotas, context: RequestContext, response: Any) -> None:
        if context.header.api_key == ApiKey.PRODUCE and context.cost is not None:
            throttle_ms = None if response is None else response.throttle_time_ms
            self.used(quotas, PRODUCE, context, context.cost.size, throttle_ms)

    def _recorded(self, _: None, rate: SampledRate, value: float, *__: object) -> None:
        self._net[rate] = self._net.get(rate, 0.0) + value

    def _around_fetched(self, original: Any, quotas: Quotas, context: RequestContext, size: int) -> int:
        self._net.clear()
        throttle_ms: int = original(quotas, context, size)
        if context.cost is not None:
            self._fetched(throttle_ms, quotas, context, size)
        return throttle_ms

    def _fetched(self, throttle_ms: int, quotas: Quotas, context: RequestContext, size: int) -> None:
        """A throttled fetch sends no records, so they do not count."""
        use = self.used(quotas, FETCH, context, size, throttle_ms)
        if use is not None and throttle_ms:
            use.used.pop()
            self.pays_for_nothing(f"{context.client_id} at {node()}", size)

    def pays_for_nothing(self, who: str, size: int) -> None:
        self.world.check("C18")
        if size and size in self._net.values():
            self.world.violated(
                "C18", f"{who} is throttled, and pays for {size} bytes that it is not sent", node=node()
            )

    def may_fetch(self, told: int, quotas: Quotas, context: RequestContext) -> None:
        """Whoever reads goes by the quota that is set now, not by one that was when it was first heard of."""
        found = self._limit(quotas, FETCH, context)
        limit = UNLIMITED_BYTES if found is None else found[1]
        right = int(min(limit * (self.number - 1) * self.size_ms / 1000, UNLIMITED_BYTES))
        self.world.check("C18")
        if told != right:
            self.world.violated(
                "C18", f"{context.client_id} at {node()} may read {told} bytes in all windows, and {right} is set",
                node=node(),
            )  # fmt: skip

    def used(
        self, quotas: Quotas, kind: str, context: RequestContext, size: int, throttle_ms: int | None
    ) -> Use | None:
        """A client used `size` more bytes and is throttled for so long; None where nobody is told."""
        found = self._limit(quotas, kind, context)
        if found is None:
            return None
        counted, limit = found
        use = self._uses.setdefault((quotas, kind, counted), Use())
        now_ms, whole_ms = self.world.loop.now_ns // 1_000_000, (self.number + 1) * self.size_ms
        use.used.append((now_ms, size))
        while use.used[0][0] <= now_ms - whole_ms:
            use.used.popleft()
        if throttle_ms is not None and now_ms - self._set_ms[quotas] > whole_ms:
            by_time = self._limit(quotas, REQUEST, context) is not None
            self._judge(use, limit, f"{context.client_id} at {node()}", now_ms, throttle_ms, by_time)
        return use

    def _judge(self, use: Use, limit: float, who: str, now_ms: int, throttle_ms: int, by_time: bool) -> None:
        """With `by_time`, the client may also be throttled for the time that its requests take."""
        self.world.check("C18")
        least_ms, whole_ms = (self.number - 1) * self.size_ms, (self.number + 1) * self.size_ms
        much, all_of_it = use.since(now_ms - least_ms), use.since(now_ms - whole_ms)
        if not throttle_ms and much * 1000 > limit * whole_ms:
            told = f"used {much} in {least_ms} ms, and is not throttled"
        elif throttle_ms > all_of_it * 1000 / limit + 1 and not by_time:
            told = f"used {all_of_it} in {whole_ms} ms, and is throttled for {throttle_ms} ms"
        else:
            return
        self.world.violated("C18", f"{who} may use {limit:.0f} a second, {told}", node=node())
