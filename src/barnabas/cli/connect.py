"""How a command speaks to the cluster that its `Reach` names, and by what client properties."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from barnabas.cli.options import Reach
from barnabas.cli.output import CommandError, UsageError
from barnabas.client.cluster import ClusterClient, cause_of
from barnabas.client.metadata import parse_bootstrap
from barnabas.runtime.real import real_runtime

T = TypeVar("T")

RETRY_TIMEOUT_MS: Final = 15_000

PROPERTIES: Final = (
    "acks",
    "auto.offset.reset",
    "batch.size",
    "bootstrap.servers",
    "check.crcs",
    "client.id",
    "compression.codec",
    "compression.type",
    "delivery.timeout.ms",
    "enable.idempotence",
    "fetch.max.bytes",
    "fetch.min.bytes",
    "fetch.wait.max.ms",
    "isolation.level",
    "linger.ms",
    "max.partition.fetch.bytes",
    "message.timeout.ms",
    "metadata.broker.list",
    "queue.buffering.max.ms",
    "request.timeout.ms",
    "session.timeout.ms",
)
"""What ``-X`` takes, by librdkafka's and Kafka's names."""


def parse_properties(pairs: Sequence[str]) -> dict[str, str]:
    """``-X key=value`` pairs. A key we do not have is a `UsageError` that names the nearest."""
    values: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"-X takes key=value, not {pair!r}.")
        if key not in PROPERTIES:
            near = difflib.get_close_matches(key, PROPERTIES, n=1)
            raise UsageError(f"-X {key} is not known" + (f": did you mean {near[0]}?" if near else "."))
        values[key] = value
    return values


def number(properties: Mapping[str, str], default: int, *names: str) -> int:
    """The value of the first of `names` that is set, as a whole number."""
    for name in names:
        if name in properties:
            try:
                return int(properties[name])
            except ValueError:
                raise UsageError(f"-X {name}={properties[name]}: it takes a whole number.") from None
    return default


def with_cluster(
    at: Reach,
    properties: Mapping[str, str],
    story: Callable[[ClusterClient], Awaitable[T]],
) -> T:
    """Runs `story` with a client, which is closed whatever happens."""
    servers = at.servers(properties.get("bootstrap.servers"), properties.get("metadata.broker.list"))
    try:
        addresses = parse_bootstrap(servers)
    except ValueError as error:
        raise UsageError(f"-b {servers}: {error}.") from None

    async def run() -> T:
        cluster = ClusterClient(
            real_runtime(),
            addresses,
            properties.get("client.id", "barnabas"),
            request_timeout_ms=number(properties, 30_000, "request.timeout.ms"),
            retry_timeout_ms=RETRY_TIMEOUT_MS,
        )
        try:
            # Whether anything is there at all shows at once, without the patience that a failover deserves.
            for attempt in range(3):
                try:
                    await cluster.any()
                    break
                except OSError as error:
                    if attempt == 2:
                        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
                        raise CommandError(
                            f"No broker answers at {servers} ({cause_of(cause)}): "
                            f"start a cluster by `barnabas up` or name one by -b."
                        ) from None
                    await asyncio.sleep(0.1)
            return await story(cluster)
        finally:
            await cluster.close()

    return asyncio.run(run())
