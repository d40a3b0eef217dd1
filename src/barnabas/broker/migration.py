"""The migration from ZooKeeper to KRaft (KIP-866): this broker registers with the KRaft controllers.

With ``zookeeper.metadata.migration.enable`` a broker in ZooKeeper mode finds the active one of the controllers that
``controller.quorum.voters`` names, registers with it as a migrating broker, and sends heartbeats
(``BrokerLifecycleManager``). When all brokers have registered, the controller takes ``/controller``, copies the znodes,
and rules by the requests that ZooKeeper's controller sends, with its own epochs. Until then this changes nothing.

Apache's broker also replicates the controllers' log, from which it uses two facts: the active controller, and the end
of the log. This broker asks for both before each heartbeat (DescribeQuorum).
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from barnabas.broker.listeners import protocol_of_controllers
from barnabas.broker.this_node import ThisNode
from barnabas.client.connection import Connection
from barnabas.log.log_dir import directories
from barnabas.model.cluster import SECURITY_PROTOCOL_IDS, Endpoint
from barnabas.model.comma_list import comma_list
from barnabas.model.config import Config
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model.ids import Uuid
from barnabas.model.internal_topics import CLUSTER_METADATA_TOPIC
from barnabas.model.metadata_version import KEY as PROTOCOL
from barnabas.model.metadata_version import MetadataVersion, metadata_version_of
from barnabas.runtime import Condition
from barnabas.wire.errors import WireError
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.wire.messages.broker_registration import BrokerRegistrationRequest
from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest

logger = logging.getLogger(__name__)

ENABLED: Final = "zookeeper.metadata.migration.enable"
VOTERS: Final = "controller.quorum.voters"
BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"
LISTENERS: Final = "controller.listener.names"
HAND_OVER_MS: Final = 5 * 60 * 1000
"""How long a stopping broker waits until the controller releases it (``KafkaServer.controlledShutdown``)."""
FIRST_BACKOFF_MS: Final = 100
SOON_MS: Final = 10
"""Until the next heartbeat of a broker that has just caught up; five times as long while it is fenced or stopping."""
_METADATA_VERSION_FEATURE: Final = "metadata.version"
_KRAFT_VERSIONS: Final = ("kraft.version", 0, 1)
_ADDRESS: Final = re.compile(r"(?:\[([0-9a-fA-F:.%]+)\]|([^\[\]:@/\s]+)):(\d{1,5})").fullmatch
_FORGOTTEN: Final = (ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH)


@dataclass(frozen=True, slots=True)
class MigrationSettings:
    """Where the controllers are; `controllers` is not empty."""

    controllers: tuple[Endpoint, ...]


def migration_settings(config: Config) -> MigrationSettings | None:
    """None if no migration is enabled. Raises `ConfigError` for values that Kafka's ``KafkaConfig`` refuses."""
    names = comma_list(config.text(LISTENERS))
    if not config.flag(ENABLED):
        if names:
            raise ConfigError(f"{LISTENERS} is {','.join(names)}: it must be empty unless {ENABLED} is true.")
        return None
    if config.number("broker.id") < 0:
        raise ConfigError(f"{ENABLED} is true without broker.id: set it to the id that stands in meta.properties.")
    key = VOTERS if config.items(VOTERS) else BOOTSTRAP
    addresses = config.items(key)
    if not addresses:
        raise ConfigError(f"{ENABLED} is true, and neither {VOTERS} nor {BOOTSTRAP} names the controllers: set one.")
    if not names:
        raise ConfigError(f"{ENABLED} is true, and {LISTENERS} is empty: it takes the controllers' listener.")
    version = metadata_version_of(config)
    if version < MetadataVersion.IBP_3_4_IV0:
        raise ConfigError(f"{ENABLED} is true, and {PROTOCOL} is {version.text}: a migration takes 3.4 or higher.")
    if len(directories(config, str)) > 1 and version < MetadataVersion.IBP_3_7_IV2:
        raise ConfigError(
            f"{ENABLED} is true with several log.dirs, and {PROTOCOL} is {version.text}: it takes 3.7-IV2 or higher."
        )
    protocol = protocol_of_controllers(config, names[0])
    own_id = config.number("broker.id")
    return MigrationSettings(tuple(_endpoint(key, voter, names[0], protocol, own_id) for voter in addresses))


def _endpoint(key: str, voter: str, listener: str, protocol: str, own_id: int) -> Endpoint:
    node_id, at, address = voter.rpartition("@")
    match = _ADDRESS(address)
    if match is None or (key == VOTERS) != (bool(at) and node_id.isdecimal()) or int(match[3]) > 65535:
        form = "id@host:port" if key == VOTERS else "host:port"
        raise ConfigError(f"{key} has {voter!r}: a controller is written {form}.")
    if key == VOTERS and int(node_id) == own_id:
        raise ConfigError(f"{key} has {voter!r}, and this is broker {own_id}: controllers have ids that no broker has.")
    return Endpoint(listener, match[1] or match[2], int(match[3]), protocol)


def _code(number: int) -> ErrorCode:
    """The error of a controller that may be newer than this broker."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


class Migration:
    """This broker among the KRaft controllers' brokers. `startup` begins the heartbeats."""

    def __init__(
        self,
        node: ThisNode,
        settings: MigrationSettings,
        *,
        connect: Callable[[Endpoint, str, int | None], Connection],
        controller_may_have_moved: Callable[[], None],
        directory_ids: Callable[[], list[Uuid]],
    ) -> None:
        """`directory_ids`: those of the log directories."""
        self._node = node
        self._connect = connect
        self._controller_may_have_moved = controller_may_have_moved
        self._directory_ids = directory_ids
        self._controllers = settings.controllers
        self._incarnation_id = node.runtime.entropy.uuid()
        self._connection: Connection | None = None
        self._failures = 0
        self._told_why = ""
        self._metadata_offset = -1
        self._caught_up = False
        self._stopping = False
        self._may_stop = False
        self._given_up = False
        self._heard_ms = -math.inf
        self._changed = Condition()
        self.broker_epoch = -1
        """The offset of this broker's registration in the controllers' log; -1 before there is one."""
        self.active_controller: Endpoint | None = None
        """The active controller, as far as this broker knows."""

    @property
    def listener(self) -> Endpoint:
        """The controllers' listener, at the first controller's address."""
        return self._controllers[0]

    def startup(self) -> None:
        self._node.tasks.begin(self._run(), "kraft-heartbeats")

    async def hand_over(self) -> None:
        """Has the controller move this broker's leaders, and returns when the controller releases the broker.

        It waits no longer than `HAND_OVER_MS`, or a session if no controller answers: by then the broker is fenced.
        """
        self._stopping = True
        self._changed.notify()
        clock = self._node.runtime.clock
        deadline = clock.monotonic_ms() + HAND_OVER_MS
        timer = asyncio.get_running_loop().call_later(HAND_OVER_MS / 1000 + 0.001, self._changed.notify)
        try:
            while not (self._may_stop or self._given_up) and clock.monotonic_ms() < deadline:
                await self._changed
        finally:
            timer.cancel()
        if not self._may_stop:
            logger.warning("[broker %d] the KRaft controller has not let this broker go", self._node.broker_id)

    def close(self) -> None:
        self._drop()

    async def _run(self) -> None:
        """Does one thing at a time: finds the active controller, registers, sends a heartbeat."""
        clock = self._node.runtime.clock
        while not self._may_stop:
            try:
                pause_ms = await self._communicate()
                self._failures, self._told_why, self._heard_ms = 0, "", clock.monotonic_ms()
            except (OSError, WireError, KafkaError) as error:
                session_ms = self._node.config.number("broker.session.timeout.ms")
                pause_ms = min(FIRST_BACKOFF_MS << min(self._failures, 10), session_ms // 3)
                self._failures += 1
                self._tell_why(str(error))
                if self._stopping and clock.monotonic_ms() - self._heard_ms > session_ms:
                    self._given_up = True
                    self._changed.notify()
                    return
            await self._wait(pause_ms)

    def _tell_why(self, why: str) -> None:
        """Logs each reason once, and again if it lasts: it may change as controllers start."""
        level = logging.WARNING if self._failures == 10 or why != self._told_why else logging.DEBUG
        logger.log(level, "[broker %d] no word with the KRaft controllers: %s", self._node.broker_id, why)
        self._told_why = why

    async def _wait(self, milliseconds: int) -> None:
        """Waits, but no longer than until this broker begins to stop."""
        if self._stopping:
            await asyncio.sleep(milliseconds / 1000)
            return
        timer = asyncio.get_running_loop().call_later(milliseconds / 1000, self._changed.notify)
        try:
            await self._changed
        finally:
            timer.cancel()

    async def _communicate(self) -> int:
        """Returns the milliseconds until the next communication. Raises ``OSError``, `WireError`, `KafkaError`."""
        connection = await self._active()
        if self.broker_epoch < 0:
            await self._register(connection)
        answer = await self._heartbeat(connection)
        if answer.should_shut_down and self._stopping:
            self._may_stop = True
            self._changed.notify()
        if answer.is_caught_up and not self._caught_up:
            self._caught_up = True
            logger.info("[broker %d] known to the KRaft controllers, asking not to be fenced", self._node.broker_id)
            return SOON_MS
        if not self._caught_up or self._stopping:
            return 5 * SOON_MS
        return self._node.config.number("broker.heartbeat.interval.ms")

    @property
    def _timeout_ms(self) -> int:
        """Half a session: after a controller that does not answer, time is left to ask the next."""
        return self._node.config.number("broker.session.timeout.ms") // 2

    @property
    def _look_timeout_ms(self) -> int:
        """How long one controller has to tell whether it is active: all controllers share half a session."""
        return self._timeout_ms // len(self._controllers)

    async def _active(self) -> Connection:
        """A connection to the active controller, and how far its log has come."""
        if self._connection is not None:
            try:
                if await self._leads(self._connection):
                    return self._connection
            except (OSError, WireError, KafkaError):
                self._drop()
                raise
            self._drop()
        why: list[str] = []
        for endpoint in self._controllers:
            connection = self._connect(endpoint, str(self._node.broker_id), self._look_timeout_ms)
            try:
                await connection.connect()
                await connection.negotiate()
                if await self._leads(connection):
                    self._connection, self.active_controller = connection, endpoint
                    self._controller_may_have_moved()
                    return connection
                why.append(f"{endpoint} is not active")
            except (OSError, WireError, KafkaError) as error:
                why.append(f"{endpoint}: {error}")
            finally:
                if connection is not self._connection:
                    connection.abort()
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"none of the controllers is active ({'; '.join(why)})")

    def _drop(self) -> None:
        connection, self._connection, self.active_controller = self._connection, None, None
        if connection is not None:
            connection.abort()
            self._controller_may_have_moved()

    async def _leads(self, connection: Connection) -> bool:
        partition = DescribeQuorumRequest.PartitionData(0)
        request = DescribeQuorumRequest([DescribeQuorumRequest.TopicData(CLUSTER_METADATA_TOPIC, [partition])])
        answer = await connection.send(request, timeout_ms=self._look_timeout_ms)
        if answer.error_code:
            raise KafkaError(_code(answer.error_code), f"DescribeQuorum: {_code(answer.error_code).name}")
        states = [state for topic in answer.topics for state in topic.partitions]
        if len(states) != 1 or states[0].error_code:
            return False
        self._metadata_offset = states[0].high_watermark - 1
        return True

    async def _register(self, connection: Connection) -> None:
        node = self._node
        level = node.metadata_version.feature_level
        features = [(_METADATA_VERSION_FEATURE, level, level), _KRAFT_VERSIONS]
        request = BrokerRegistrationRequest(
            broker_id=node.broker_id,
            cluster_id=node.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                BrokerRegistrationRequest.Listener(
                    endpoint.listener, endpoint.host, endpoint.port, SECURITY_PROTOCOL_IDS[endpoint.security_protocol]
                )
                for endpoint in node.listeners.advertised
            ],
            features=[BrokerRegistrationRequest.Feature(*feature) for feature in features],
            rack=node.config.text("broker.rack") or None,
            is_migrating_zk_broker=True,
            log_dirs=self._directory_ids(),
            previous_broker_epoch=-1,
        )
        answer = await connection.send(request, timeout_ms=self._timeout_ms)
        if answer.error_code:
            code = _code(answer.error_code)
            raise KafkaError(code, f"{self.active_controller} refuses the registration: {code.name}")
        self.broker_epoch = answer.broker_epoch
        self._caught_up = False
        logger.info(
            "[broker %d] registered with the KRaft controller at %s, broker epoch %d",
            node.broker_id,
            self.active_controller,
            self.broker_epoch,
        )

    async def _heartbeat(self, connection: Connection) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self._node.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset,
            want_fence=not self._caught_up,
            want_shut_down=self._stopping,
        )
        answer: BrokerHeartbeatResponse = await connection.send(request, timeout_ms=self._timeout_ms)
        if answer.error_code:
            code = _code(answer.error_code)
            if code in _FORGOTTEN:  # by a recreated quorum
                self.broker_epoch = -1
            elif code is ErrorCode.NOT_CONTROLLER:
                self._drop()
            raise KafkaError(code, f"{self.active_controller} refuses the heartbeat: {code.name}")
        return answer
