"""Connects a command to the cluster that its `Reach` names, with the right client properties."""

from __future__ import annotations

import asyncio
import difflib
import os
import signal
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from barnabas.cli.client_jvm import with_kafka_opts
from barnabas.cli.options import Reach, pairs_of
from barnabas.cli.output import CommandError, Exit, UsageError, reason
from barnabas.client.cluster import ClusterClient
from barnabas.client.metadata import parse_bootstrap
from barnabas.model.errors import ConfigError
from barnabas.runtime import cause_of
from barnabas.runtime.real import real_runtime

if TYPE_CHECKING:
    from barnabas.client.admin import Admin
    from barnabas.security.sasl.login import Login

T = TypeVar("T")

RETRY_TIMEOUT_MS: Final = 15_000
REFUSED_FOR_MS: Final = 200
"""How long a command goes on connecting: a starting broker refuses connections for a moment. An attempt that timed out
took longer than this, so it is not repeated."""

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
"""The keys that ``-X`` takes, by librdkafka's and Kafka's names; `_security_names` has those that secure a
connection."""


BOOTSTRAP: Final = ("bootstrap.servers", "metadata.broker.list")
_SECURING: Final = ("security.", "sasl.", "ssl.", "org.apache.kafka.sasl.")
COMMAND_CONFIG: Final = "BARNABAS_COMMAND_CONFIG"


def settings_of(at: Reach) -> dict[str, str]:
    """Client properties from the file of ``--command-config`` or the environment, else from the cluster's own
    profile (``barnabas up --secure``). Those of ``-X`` override them; ``KAFKA_OPTS`` is applied at the end.

    A file may have properties for other programs too; an unknown one after ``-X`` is refused. Raises
    `UsageError`."""
    values: dict[str, str] = {}
    said = client_properties(at.properties or ())
    path: str | Path | None = at.command_config or os.environ.get(COMMAND_CONFIG)
    if not path and not any(said.get(name) for name in BOOTSTRAP):
        path = at.own_profile()
    if path:
        from barnabas.model.config import parse_properties

        try:
            values = parse_properties(Path(path).read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--command-config {path} cannot be read: {reason(error)}.") from None
    try:
        return with_kafka_opts({**values, **said})
    except ConfigError as error:
        raise UsageError(str(error)) from None


def security_of(settings: Mapping[str, str]) -> tuple[ssl.SSLContext | None, Login | None]:
    """How connections are secured, and which user the client logs in as. Raises `UsageError`."""
    if settings.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT":
        return None, None
    from barnabas.client.config import login, tls_context  # here, so that a plain command starts sooner

    try:
        return tls_context(settings), login(settings)
    except ConfigError as error:
        raise UsageError(str(error)) from None


def _security_names() -> Sequence[str]:
    from barnabas.client.config import SECURITY

    return SECURITY


def client_properties(pairs: Sequence[str]) -> dict[str, str]:
    """Parses ``-X key=value`` pairs. An unknown key raises a `UsageError` that suggests the nearest."""
    values = pairs_of(pairs, "-X")
    for key in values:
        known = _security_names() if key.startswith(_SECURING) else PROPERTIES
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            raise UsageError(f"-X {key} is not known" + (f": did you mean {near[0]}?" if near else "."))
    return values


def number(properties: Mapping[str, str], default: int, *names: str) -> int:
    """The value of the first of `names` that is set, as a whole number."""
    for name in names:
        if name in properties:
            try:
                return int(properties[name])
            except ValueError:
                raise UsageError(f"-X {name}={properties[name]}: expected a whole number.") from None
    return default


def with_cluster(
    at: Reach,
    story: Callable[[ClusterClient], Awaitable[T]],
    properties: Mapping[str, str] | None = None,
) -> T:
    """Runs `story` with a client, and closes the client in any case; a consumer leaves its group.

    `properties`: the result of `settings_of`, if the caller has it: a file that is a pipe can be read only once."""
    if properties is None:
        properties = settings_of(at)
    tls, login = security_of(properties)
    servers = at.servers(*(properties.get(name) for name in BOOTSTRAP))
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
            tls=tls,
            login=login,
        )
        try:
            # If no broker answers at all, the command fails soon; RETRY_TIMEOUT_MS is for failovers.
            give_up_ms = cluster.monotonic_ms() + REFUSED_FOR_MS
            while True:
                try:
                    await cluster.any()
                    break
                except OSError as error:
                    if cluster.monotonic_ms() >= give_up_ms:
                        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
                        raise CommandError(
                            f"No broker answers at {servers} ({cause_of(cause)}): "
                            f"start a cluster by `barnabas up` or name one by -b."
                        ) from None
                    await asyncio.sleep(0.1)
            return await story(cluster)
        finally:
            await cluster.close()

    return _run(run)


def _run(steps: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """``asyncio.run``. SIGTERM and SIGHUP cancel the coroutine, as Ctrl-C does, so that it cleans up; then `Exit` is
    raised."""
    came: list[int] = []

    async def run() -> T:
        task = asyncio.current_task()
        assert task is not None

        def end(signalled: int) -> None:
            came.append(signalled)
            task.cancel()

        for each in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(each) == signal.SIG_DFL:  # nohup ignores SIGHUP
                asyncio.get_running_loop().add_signal_handler(each, end, each)
        return await steps()

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        if not came:
            raise
        raise Exit(128 + came[0]) from None


def with_admin(at: Reach, story: Callable[[Admin], Awaitable[T]]) -> T:
    """`with_cluster`, for a story that needs the admin client."""
    from barnabas.client.admin import Admin  # here, so that a plain command starts sooner

    return with_cluster(at, lambda cluster: story(Admin(cluster)))
