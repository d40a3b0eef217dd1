"""Connects a command to a ZooKeeper: ``--zookeeper``'s, else that of the cluster under ``--dir``. Explains its
errors."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from barnabas.cli import secured
from barnabas.cli.command import Argument, Option
from barnabas.cli.local_state import state_in
from barnabas.cli.options import Directory, directory_of
from barnabas.cli.output import CommandError, UsageError, reason
from barnabas.cli.plain import KAFKA_OPTS, kafka_opts
from barnabas.model.errors import ConfigError
from barnabas.runtime import Runtime
from barnabas.runtime.real import real_runtime
from barnabas.zk.client.client import ClientSecurity, ZooKeeperAuthFailed, ZooKeeperClient, ZooKeeperTimeout
from barnabas.zk.client.login import DigestMd5Login
from barnabas.zk.kafka.znodes import ClusterIdZNode
from barnabas.zk.protocol.acl import Identity, digest_of
from barnabas.zk.protocol.data import Stat
from barnabas.zk.protocol.errors import NoNode, ZkErrorCode, ZooKeeperError
from barnabas.zk.protocol.paths import is_valid_path
from barnabas.zk.server.server import CoordinatorServer

T = TypeVar("T")

SESSION_TIMEOUT_MS: Final = 30_000
CONNECTION_TIMEOUT_MS: Final = 5_000
UNBOUNDED: Final = 2**31 - 1
"""The client sets no limit to a request's size: the server has its own, and only this command uses the connection."""
IN_FLIGHT_MAX: Final = 200

Servers = Annotated[
    str | None,
    Option(
        "-z",
        "--zookeeper",
        metavar="H:P[,..][/CHROOT]",
        help="The ZooKeeper servers; by default those of --dir's cluster.",
    ),
]
Auth = Annotated[
    list[str] | None,
    Option(
        "--auth",
        metavar="SCHEME:AUTH",
        help="An identity of yours: digest:user:password or sasl:user:password; may be repeated.",
    ),
]
TLS_CONFIG: Final = "BARNABAS_ZK_TLS_CONFIG_FILE"
TlsConfig = Annotated[
    str | None,
    Option(
        "--zk-tls-config-file",
        metavar="FILE",
        help=f"The file with TLS and SASL settings for -z, in a broker's keys (zookeeper.ssl. ..); or {TLS_CONFIG}.",
    ),
]
ZNodePath = Annotated[str, Argument(metavar="PATH")]


@dataclass(frozen=True)
class Where:
    """The ZooKeeper that a command works on, and the command's identity there."""

    connect: str
    auth: tuple[tuple[str, bytes], ...] = ()
    stopped: str | None = None
    """The znodes' directory if the cluster's coordinator does not run: this command then serves them itself."""
    reached_by: ClientSecurity = field(default_factory=ClientSecurity)
    """TLS and identities, from a file or from a secured cluster's keys."""

    @property
    def identities(self) -> tuple[Identity, ...]:
        """The identities that this client has at the server, as far as this command knows them."""
        sasl, auth = self.security.sasl, (*self.reached_by.auth, *self.auth)
        return (
            *((("sasl", sasl.user),) if sasl is not None and sasl.user else ()),
            *(("digest", digest_of(identity)) for scheme, identity in auth if scheme == "digest"),
        )

    @property
    def security(self) -> ClientSecurity:
        """The client's settings with the SASL identity of `auth`. Its other identities are added after the
        connection."""
        sasl = next((auth.decode() for scheme, auth in self.auth if scheme == "sasl"), None)
        if sasl is None:
            return self.reached_by
        user, _, password = sasl.partition(":")
        return replace(self.reached_by, sasl=DigestMd5Login(user, password))


@dataclass(frozen=True, slots=True)
class ZooKeeperReach:
    """The options for the ZooKeeper that a command works on, and for its identity there."""

    zookeeper: Servers = None
    directory: Directory = None
    auth: Auth = None
    tls_config: TlsConfig = None

    def where(self) -> Where:
        """Raises `CommandError` if neither an option nor a cluster names a ZooKeeper."""
        identities: list[tuple[str, bytes]] = []
        for text in self.auth or ():
            scheme, colon, rest = text.partition(":")
            if not scheme or not colon or (scheme in ("digest", "sasl") and ":" not in rest):
                raise UsageError(f"--auth takes scheme:auth such as digest:user:password, not {text!r}.")
            identities.append((scheme, rest.encode()))
        file = self.tls_config or os.environ.get(TLS_CONFIG)
        if self.zookeeper:
            return Where(self.zookeeper, tuple(identities), reached_by=_said_in(file))
        place = Path(directory_of(self.directory)).absolute()
        state = state_in(place)
        if state is None:
            raise CommandError(
                f"There is no cluster in {place}: name a ZooKeeper by --zookeeper host:port[/chroot], "
                "or a cluster's directory by --dir."
            ) from None
        if state.coordinator is None:
            return Where(state.zookeeper, tuple(identities), reached_by=_said_in(file))
        if not state.coordinator.alive:
            return Where(state.zookeeper, tuple(identities), str(place / "coordinator"))
        tls = secured.brokers_tls(state.security) if state.security else None
        return Where(state.zookeeper, tuple(identities), reached_by=ClientSecurity(tls=tls))


def _said_in(file: str | None) -> ClientSecurity:
    """The settings by which a broker with this file and these ``KAFKA_OPTS`` connects to ZooKeeper. Raises
    `UsageError`."""
    try:
        options = kafka_opts()
        if not file and not options:
            return ClientSecurity()
        from barnabas.broker.jvm_properties import with_jvm_properties  # here, so that a plain command starts sooner
        from barnabas.model.config import JAAS_FILE, broker_config, parse_properties
        from barnabas.zk.client.config import security_of

        own = ("zookeeper.", "barnabas.zookeeper.", JAAS_FILE)
        said = parse_properties(Path(file).read_text()) if file else {}
        values = {name: text for name, text in said.items() if name.startswith(own)}
        return security_of(broker_config(with_jvm_properties(values, options, lambda path: Path(path).read_text())))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--zk-tls-config-file {file} cannot be read: {reason(error)}.") from None
    except ConfigError as error:
        raise UsageError(f"{f'--zk-tls-config-file {file}' if file else KAFKA_OPTS}: {error}") from None


HERE: Final = ZooKeeperReach()


def checked_path(path: str) -> str:
    """The path, without a slash at its end. Raises `UsageError`."""
    short = path.rstrip("/") or "/"
    if not path.startswith("/") or not is_valid_path(short):
        raise UsageError(
            f"{path!r} is not a znode's path: it must begin with a slash, and none of its names may be empty or a dot."
        )
    return short


def with_zookeeper(place: Where, story: Callable[[ZooKeeperClient], Awaitable[T]]) -> T:
    """Runs `story` with a session, and ends the session in any case. Errors become sentences."""

    async def run() -> T:
        runtime = real_runtime()
        if place.stopped is None:
            return await connected(runtime, place.connect)
        server = await _served(runtime, place.stopped)
        try:
            return await connected(runtime, f"{server.host}:{server.port}")
        finally:
            await server.close()

    async def connected(runtime: Runtime, connect: str) -> T:
        client = ZooKeeperClient(
            runtime,
            connect,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            connection_timeout_ms=CONNECTION_TIMEOUT_MS,
            max_in_flight=IN_FLIGHT_MAX,
            request_bytes_max=UNBOUNDED,
            name="barnabas zk",
            security=place.security,
        )
        await client.start()
        try:
            for scheme, auth in place.auth:
                if scheme != "sasl":
                    await client.add_auth(scheme, auth)
            return await story(client)
        finally:
            await client.close()

    try:
        return asyncio.run(run())
    except ZooKeeperAuthFailed as error:
        raise CommandError(f"ZooKeeper at {place.connect} refused the login: {error.cause}.") from None
    except ZooKeeperTimeout as error:
        cause = error.cause.removeprefix(f"{place.connect}: ")
        raise CommandError(
            f"No ZooKeeper answers at {place.connect} ({cause}): start one (`barnabas up`, "
            "`barnabas coordinator`) or name another by --zookeeper."
        ) from None
    except ZooKeeperError as error:
        raise CommandError(sentence(error)) from None


def cluster_id(place: Where) -> str | None:
    """The id of the cluster in this ZooKeeper; None if there is none."""

    async def story(client: ZooKeeperClient) -> str | None:
        try:
            data, _ = await client.get(ClusterIdZNode.path)
        except NoNode:
            return None
        return ClusterIdZNode.decode(data)

    return with_zookeeper(place, story)


async def _served(runtime: Runtime, directory: str) -> CoordinatorServer:
    """Starts a coordinator that only this process uses. Raises `CommandError`."""
    server = CoordinatorServer(runtime, host="127.0.0.1", port=0, data_dir=directory)
    try:
        await server.start()
    except OSError as error:
        raise CommandError(
            f"The znodes in {directory} cannot be read ({error.strerror or error}): start the cluster by `barnabas up`."
        ) from None
    return server


def sentence(error: ZooKeeperError) -> str:
    """Explains an error of the server to the command's user."""
    path = error.path or "The znode"
    match error.code:
        case ZkErrorCode.NO_NODE if path == "/":
            return "The chroot that --zookeeper names does not exist: `barnabas zk ls` without it shows the znodes."
        case ZkErrorCode.NO_NODE:
            return f"{path} does not exist: `barnabas zk ls` shows the children of its parent."
        case ZkErrorCode.NODE_EXISTS:
            return f"{path} exists already: `barnabas zk set` changes it."
        case ZkErrorCode.NOT_EMPTY:
            return f"{path} has children: `barnabas zk delete -r` deletes them as well."
        case ZkErrorCode.BAD_VERSION:
            return f"{path} has another version by now: read it again (`barnabas zk stat {path}`)."
        case ZkErrorCode.NO_AUTH:
            return f"{path} does not permit that: log in by --auth digest:user:password."
        case ZkErrorCode.AUTH_FAILED:
            return "The server does not accept this --auth: it takes digest:user:password, and sasl if that is set up."
        case ZkErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH:
            return (
                "The server requires a login by SASL: give --auth sasl:user:password, or log in as a broker "
                "does, by --zk-tls-config-file or KAFKA_OPTS."
            )
        case ZkErrorCode.NO_CHILDREN_FOR_EPHEMERALS:
            return f"{path} cannot be made: its parent is ephemeral, and ephemeral znodes cannot have children."
        case ZkErrorCode.INVALID_ACL:
            return f"{path} cannot have these ACLs: the server does not know their scheme, or their id is malformed."
        case ZkErrorCode.BAD_ARGUMENTS:
            return f"{path} is not a valid path for this server, or a znode that cannot be deleted."
        case ZkErrorCode.QUOTA_EXCEEDED:
            return f"{path} would exceed a quota of the server: `zookeeper-shell` lists quotas."
        case ZkErrorCode.UNIMPLEMENTED:
            return f"{path}: the server cannot do that (a time to live needs its extendedTypesEnabled=true)."
        case ZkErrorCode.CONNECTION_LOSS:
            return "The connection broke before the answer, so the change may or may not have been made: read it again."
        case ZkErrorCode.SESSION_EXPIRED:
            return "The server ended the session, so the change may or may not have been made: read it again."
    return f"The server refused: {error}."


def text_of(data: bytes | None) -> str | None:
    """Data as text; None if it is not UTF-8."""
    try:
        return (data or b"").decode()
    except UnicodeDecodeError:
        return None


def data_fields(data: bytes | None) -> dict[str, Any]:
    """Data in JSON: ``data``, or ``base64`` if it is not UTF-8."""
    text = text_of(data)
    if data is None:
        return {"data": None}
    return {"data": text} if text is not None else {"base64": base64.b64encode(data).decode()}


def stat_fields(stat: Stat) -> dict[str, Any]:
    """A Stat in JSON; the owner as ZooKeeper's tools print it, null if there is none."""
    fields: dict[str, Any] = stat._asdict()
    owner = fields["ephemeral_owner"]
    fields["ephemeral_owner"] = f"0x{owner & (1 << 64) - 1:x}" if owner else None
    return fields
