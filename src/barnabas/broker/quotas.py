"""Enforces quotas: how much a client may produce, fetch, compute and change, and how often an address may connect.

A quota is set for a user, a client id, both together, or as a default for all without one; the most specific one counts
(``ClientQuotaManager``). A request's cost is recorded when its answer is about to be sent. A client above its quota
gets the answer at once, with the time for which it is throttled, and the broker does not read from it for that long.
Clients since KIP-219 wait by themselves. A fetch above its quota is answered without records, which do not count then.
Brokers among themselves are exempt.

As long as no quota is set, `active` is false, and a request only reads this flag.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any, Final

from barnabas.broker.context import RequestContext
from barnabas.broker.rates import SampledRate, Windows
from barnabas.broker.request_cost import Meter, Mutations, RequestCost
from barnabas.model.cluster import host_address
from barnabas.model.config import Config
from barnabas.model.errors import ErrorCode
from barnabas.runtime import Clock
from barnabas.wire.api import ApiKey
from barnabas.zk.kafka.config_znodes import CLIENTS, DEFAULT_ENTITY, IPS, USERS
from barnabas.zk.kafka.znode_json import desanitize, sanitize

logger = logging.getLogger(__name__)

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
CONTROLLER_MUTATION: Final = "controller_mutation_rate"
CONNECTION_CREATION: Final = "connection_creation_rate"
KINDS: Final = (PRODUCE, FETCH, REQUEST, CONTROLLER_MUTATION)

METERS_MAX: Final = 65_536
"""Beyond this, meters idle for all windows are forgotten, so that invented client ids take no more memory."""
LOOKS_EVERY_MS: Final = 1_000
UNLIMITED_BYTES: Final = (1 << 31) - 1

_EXEMPT: Final = frozenset(
    {
        ApiKey.FETCH,  # it records the read bytes before the session is updated
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ALTER_PARTITION,
    }
)
_PERCENT_OF_NS: Final = 100 / 1_000_000_000

Entity = tuple[str, str]
"""User and client id, sanitized, as in ZooKeeper's paths; empty where the quota does not name one."""


class Quotas:
    """The quotas of one broker, and the use of each."""

    def __init__(self, clock: Clock, config: Config) -> None:
        self.active = False
        """Whether any client has a quota."""
        self.limits_addresses = False
        self._clock = clock
        windows = Windows(config.number("quota.window.num"), config.number("quota.window.size.seconds") * 1000)
        self._windows = dict.fromkeys((PRODUCE, FETCH, REQUEST, CONNECTION_CREATION), windows)
        self._windows[CONTROLLER_MUTATION] = Windows(
            config.number("controller.quota.window.num"), config.number("controller.quota.window.size.seconds") * 1000
        )
        self._limits: dict[str, dict[Entity, float]] = {kind: {} for kind in KINDS}
        self._addresses: dict[str, float] = {}
        self._meters: dict[tuple[str, Entity], Meter] = {}
        self._found: dict[tuple[str, str], dict[str, Meter | None]] = {}
        self._connections = {"": SampledRate(windows)}
        """The connection rates of each listener with its own limit, and of all listeners."""
        self._looked_ms: int | None = None

    # Setting quotas

    def set(self, entity_path: str, config: Mapping[str, str]) -> None:
        """Applies ``/config/<entity_path>``: ``users/u``, ``users/u/clients/c``, ``clients/c``, ``ips/a``,
        sanitized."""
        kind, _, name = entity_path.partition("/")
        if kind == IPS:
            address = name if name == DEFAULT_ENTITY else host_address(desanitize(name))
            _put(self._addresses, address, config.get(CONNECTION_CREATION))
            self.limits_addresses = bool(self._addresses)
        else:
            user, _, client = name.partition(f"/{CLIENTS}/") if kind == USERS else ("", "", name)
            for quota, limits in self._limits.items():
                _put(limits, (user, client), config.get(quota))
            self.active = any(self._limits.values())
        self._found.clear()
        for (quota, entity), meter in list(self._meters.items()):
            by_address = quota == CONNECTION_CREATION
            limit = self._limit_of_address(entity[0]) if by_address else self._limit(quota, *entity)[1]
            if limit is None:
                del self._meters[quota, entity]
            else:
                meter.limit = meter.tokens.limit = limit
        logger.info(
            "quotas of %s are now %s", entity_path, {quota: config[quota] for quota in KINDS if quota in config}
        )

    def _limit(self, kind: str, user: str, client: str) -> tuple[Entity, float | None]:
        """The entity that the effective quota counts for (a user, a client id, or both together), and its limit."""
        limits, default = self._limits[kind], DEFAULT_ENTITY
        for entity, counted in (
            ((user, client), (user, client)),
            ((user, default), (user, client)),
            ((user, ""), (user, "")),
            ((default, client), (user, client)),
            ((default, default), (user, client)),
            ((default, ""), (user, "")),
            (("", client), ("", client)),
            (("", default), ("", client)),
        ):
            limit = limits.get(entity)
            if limit is not None:
                return counted, limit
        return ("", ""), None

    def _limit_of_address(self, address: str) -> float | None:
        return self._addresses.get(address, self._addresses.get(DEFAULT_ENTITY))

    def _meter(self, kind: str, context: RequestContext) -> Meter | None:
        name = (context.principal.name, context.client_id)
        found = self._found.get(name)
        if found is None:
            if len(self._found) >= METERS_MAX:
                self._found.clear()
            found = self._found[name] = {}
        if kind not in found:
            counted, limit = self._limit(kind, sanitize(name[0]), sanitize(name[1]))
            found[kind] = None if limit is None else self._counting(kind, counted, limit)
        return found[kind]

    def _counting(self, kind: str, entity: Entity, limit: float) -> Meter:
        meter = self._meters.get((kind, entity))
        if meter is None:
            if len(self._meters) >= METERS_MAX:
                self._forget_idle()
            meter = self._meters[kind, entity] = Meter(self._windows[kind], limit)
            meter.used_ms = self._clock.monotonic_ms()
        return meter

    def _forget_idle(self) -> None:
        """Forgets idle meters, once a second at most: invented names must not make every request expensive."""
        now_ms = self._clock.monotonic_ms()
        if self._looked_ms is not None and now_ms - self._looked_ms < LOOKS_EVERY_MS:
            return
        self._looked_ms = now_ms
        for (kind, entity), meter in list(self._meters.items()):
            windows = self._windows[kind]
            if now_ms - meter.used_ms >= windows.number * windows.size_ms:
                del self._meters[kind, entity]
        self._found.clear()

    # Using quotas

    def _record(self, kind: str, context: RequestContext, value: float, now_ms: int) -> int:
        """Records the use; returns how long the client is throttled for it, in ms."""
        meter = self._meter(kind, context)
        if meter is None:
            return 0
        meter.used_ms = now_ms
        meter.rate.record(value, now_ms)
        return meter.rate.throttle_ms(meter.limit, now_ms)

    def _record_time(self, context: RequestContext, cost: RequestCost, now_ms: int) -> int:
        """Records the share of a second that the request took; its throttle lasts one window at most."""
        busy_ns = cost.busy_ns
        if busy_ns is None:
            busy_ns = self._clock.monotonic_ns() - cost.started_ns
        throttle_ms = self._record(REQUEST, context, busy_ns * _PERCENT_OF_NS, now_ms)
        return min(throttle_ms, self._windows[REQUEST].size_ms)

    def settle(self, context: RequestContext, response: Any) -> None:
        """Called when a request is about to be answered, by `response` or by none: records its cost, and throttles its
        client if that exceeds the quota."""
        api_key, cost = context.header.api_key, context.cost
        if cost is None:  # the request began before there were quotas
            return
        if api_key in _EXEMPT and getattr(response, "error_code", 0) != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return
        now_ms = self._clock.monotonic_ms()
        throttle_ms = 0
        if api_key == ApiKey.PRODUCE:
            throttle_ms = self._record(PRODUCE, context, cost.size, now_ms)
        if response is not None:
            throttle_ms = max(throttle_ms, self._record_time(context, cost, now_ms))
        if cost.mutations is not None:
            throttle_ms = max(throttle_ms, cost.mutations.throttle_ms(now_ms))
        if throttle_ms:
            if hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = throttle_ms
            context.connection.throttle(throttle_ms)

    def fetched(self, context: RequestContext, size: int) -> int:
        """Records a consumer's fetch of `size` bytes. If the fetch is throttled, for its bytes or its time, the bytes
        do not count and must not be sent. Returns milliseconds."""
        cost = context.cost
        if cost is None:
            return 0
        now_ms = self._clock.monotonic_ms()
        throttle_ms = self._record(FETCH, context, size, now_ms)
        throttle_ms = max(throttle_ms, self._record_time(context, cost, now_ms))
        if throttle_ms:
            meter = self._meter(FETCH, context)
            if meter is not None:
                meter.rate.record(-size, now_ms)
            context.connection.throttle(throttle_ms)
        return throttle_ms

    def fetch_max_bytes(self, context: RequestContext) -> int:
        """The size above which any fetch would be throttled (``getMaxValueInQuotaWindow``)."""
        meter = self._meter(FETCH, context)
        if meter is None:
            return UNLIMITED_BYTES
        windows = self._windows[FETCH]
        return int(min(meter.limit * (windows.number - 1) * windows.size_ms / 1000, UNLIMITED_BYTES))

    def mutations(self, context: RequestContext, *, strict_since: int | None) -> Mutations:
        """The mutations of one request; versions from `strict_since` on know THROTTLING_QUOTA_EXCEEDED. None is for a
        request that creates topics only as a side effect: it is neither refused nor throttled."""
        meter = None if context.cost is None else self._meter(CONTROLLER_MUTATION, context)
        made = Mutations(self._clock, meter, strict=strict_since is not None and context.version >= strict_since)
        if context.cost is not None and strict_since is not None:
            context.cost.mutations = made
        return made

    # Connections

    def refuse_address(self, address: str) -> int:
        """Records a connection; returns how long it waits before it is closed, 0 if it may stay (KIP-612)."""
        limit = self._limit_of_address(address)
        if limit is None:
            return 0
        now_ms = self._clock.monotonic_ms()
        meter = self._counting(CONNECTION_CREATION, (address, ""), limit)
        meter.used_ms = now_ms
        return self._connection(meter.rate, limit, now_ms, counts_if_throttled=False)

    def delay_connection(self, limit: float, listener: str = "") -> int:
        """Records a connection against ``max.connection.creation.rate``, of the named listener or of all; returns how
        long the connection is not read."""
        rate = self._connections.get(listener)
        if rate is None:
            rate = self._connections[listener] = SampledRate(self._windows[CONNECTION_CREATION])
        return self._connection(rate, limit, self._clock.monotonic_ms(), counts_if_throttled=True)

    def _connection(self, rate: SampledRate, limit: float, now_ms: int, *, counts_if_throttled: bool) -> int:
        rate.record(1, now_ms)
        throttle_ms = min(rate.throttle_ms(limit, now_ms), self._windows[CONNECTION_CREATION].size_ms)
        if throttle_ms and not counts_if_throttled:
            rate.record(-1, now_ms)
        return throttle_ms


def _put(limits: dict[Any, float], entity: Any, text: str | None) -> None:
    limits.pop(entity, None)
    if text is not None:
        try:
            limit = float(text)
        except ValueError:
            limit = math.nan
        if math.isnan(limit):
            logger.error("the quota of %s is no number, and limits nobody: %s", entity, text)
        else:
            limits[entity] = limit
