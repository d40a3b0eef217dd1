"""The client's public face: a cluster, and the producers and consumers that share its connections.

::

    async with barnabas.client.connect("localhost:9092") as cluster:
        async with cluster.producer() as producer:
            await producer.send("topic", b"value", key=b"key")
        async with cluster.consumer("topic", group="readers") as consumer:
            async for record in consumer:
                print(record.value)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict, TypeVar, Unpack, cast

from barnabas.client.admin import Admin
from barnabas.client.assignor import Assignor
from barnabas.client.closing import AsyncClosing
from barnabas.client.cluster import ClusterClient
from barnabas.client.config import (
    ADDRESSES,
    ASSIGNORS,
    CLUSTER,
    CONSUMER,
    PRODUCER,
    RESETS,
    check_names,
    login,
    options,
    tls_context,
)
from barnabas.client.consumer import Consumer, RebalanceCallback
from barnabas.client.metadata import parse_bootstrap
from barnabas.client.offsets import ISOLATION_LEVELS
from barnabas.client.producer import Producer
from barnabas.client.transactions import TransactionalProducer
from barnabas.model.errors import ConfigError
from barnabas.runtime import Runtime
from barnabas.runtime.real import real_runtime

AUTO_COMMIT_INTERVAL_MS: Final = 5_000
DEFAULT_BOOTSTRAP: Final = "localhost:9092"

Made = TypeVar("Made", bound=Producer | Consumer)


class ProducerOptions(TypedDict, total=False):
    """See `Producer`. Kafka's names for them are in `client.config.PRODUCER`."""

    acks: int | str
    linger_ms: int
    batch_bytes: int
    buffer_bytes: int
    compression: str
    idempotent: bool
    delivery_timeout_ms: int
    request_timeout_ms: int
    max_request_bytes: int
    metadata_max_age_ms: int


class TransactionOptions(TypedDict, total=False):
    """See `TransactionalProducer`."""

    transaction_timeout_ms: int
    linger_ms: int
    batch_bytes: int
    buffer_bytes: int
    compression: str
    delivery_timeout_ms: int
    request_timeout_ms: int
    max_request_bytes: int
    metadata_max_age_ms: int


class ConsumerOptions(TypedDict, total=False):
    """See `Consumer`. `auto_offset_reset` is earliest, latest or none; `isolation_level` read_uncommitted or
    read_committed. Kafka's names for them are in `client.config.CONSUMER`."""

    isolation_level: str | int
    auto_offset_reset: str | int | None
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    check_crcs: bool
    session_timeout_ms: int
    max_poll_interval_ms: int
    heartbeat_interval_ms: int
    assignors: Sequence[str | Assignor]
    group_instance_id: str | None
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    metadata_max_age_ms: int


class Cluster(ClusterClient, AsyncClosing):
    """A cluster; its connections are open within ``async with``. Arguments win over `config` (Kafka's names)."""

    def __init__(
        self,
        runtime: Runtime,
        bootstrap: str | Sequence[tuple[str, int]] | None = None,
        *,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Raises `ConfigError` for an unknown setting or an invalid value."""
        self.config = {name: str(value) for name, value in (config or {}).items()}
        check_names(self.config)
        servers = bootstrap or next((self.config[name] for name in ADDRESSES if name in self.config), DEFAULT_BOOTSTRAP)
        try:
            addresses = parse_bootstrap(servers) if isinstance(servers, str) else servers
        except ValueError as error:
            raise ConfigError(f"bootstrap.servers: {error}") from None
        super().__init__(
            runtime,
            addresses,
            tls=tls_context(self.config),
            login=login(self.config),
            **options(self.config, CLUSTER),
        )
        self._made: list[Producer | Consumer] = []

    @property
    def admin(self) -> Admin:
        """Topics, configurations, partitions, groups and transactions."""
        return Admin(self)

    def producer(self, **given: Unpack[ProducerOptions]) -> Producer:
        """A producer, idempotent and with acks=all by default."""
        found = {**options(self.config, PRODUCER), **given}
        for name in ("transactional_id", "transaction_timeout_ms"):
            found.pop(name, None)
        return self._remembered(Producer(self, **cast(Any, found)))

    def transactional_producer(
        self, transactional_id: str | None = None, **given: Unpack[TransactionOptions]
    ) -> TransactionalProducer:
        """A producer that takes its transactional id over in ``async with``. Raises `ConfigError` without an id."""
        found = {**options(self.config, PRODUCER), **given}
        name = transactional_id or found.get("transactional_id")
        if not name:
            raise ConfigError("a transactional producer needs a transactional.id")
        if found.pop("acks", "all") not in ("all", "-1") or found.pop("idempotent", True) is not True:
            raise ConfigError("a transactional producer needs acks=all and enable.idempotence=true")
        found.pop("transactional_id", None)
        return self._remembered(TransactionalProducer(self, str(name), **cast(Any, found)))

    def consumer(
        self,
        *topics: str | re.Pattern[str],
        group: str | None = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
        **given: Unpack[ConsumerOptions],
    ) -> Consumer:
        """A consumer that shares `topics` (names, or one pattern) with `group`; without a group it reads them all.

        Without `topics` call `subscribe` or `assign`. A member of a group commits its positions by itself every five
        seconds unless `enable_auto_commit` is False. Without a committed offset it begins at the end, as Kafka's do,
        unless `auto_offset_reset` is ``"earliest"``.
        """
        found: dict[str, Any] = {"auto_offset_reset": "latest", "assignors": ASSIGNORS}
        found |= options(self.config, CONSUMER)
        found |= given
        group = group or found.get("group")
        found.pop("group", None)
        every_ms = found.pop("auto_commit_interval_ms", AUTO_COMMIT_INTERVAL_MS)
        commits = found.pop("enable_auto_commit", True) and group is not None
        found["auto_commit_interval_ms"] = every_ms if commits else None
        for name, words in (("auto_offset_reset", RESETS), ("isolation_level", ISOLATION_LEVELS)):
            if isinstance(found.get(name), str):
                if found[name] not in words:
                    raise ConfigError(f"{name} is {found[name]!r}: it takes {', '.join(words)}")
                found[name] = words[found[name]]
        consumer = Consumer(
            self,
            topics=topics,
            group=group,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
            on_lost=on_lost,
            **found,
        )
        return self._remembered(consumer)

    def _remembered(self, made: Made) -> Made:
        self._made = [other for other in self._made if not other.closed]
        self._made.append(made)
        return made

    async def close(self) -> None:
        """Closes its producers, consumers and connections."""
        made, self._made = self._made, []
        trouble: Exception | None = None
        for client in reversed(made):
            try:
                await client.close()
            except Exception as error:  # also a callback's: the others have records to send, and offsets to commit
                trouble = trouble or error
        await super().close()
        if trouble is not None:
            raise trouble


def connect(bootstrap: str | None = None, *, config: Mapping[str, str] | None = None) -> Cluster:
    """A cluster at ``host:port,...``, for ``async with``. It connects at the first request.

    `config` takes Kafka's names (``{"security.protocol": "SASL_SSL", "linger.ms": "5"}``), also those of its producers
    and consumers. Raises `ConfigError` for an unknown setting or an invalid value.
    """
    return Cluster(real_runtime(), bootstrap, config=config)
