"""One broker: what it consists of, and the order in which it begins and ends (Kafka's ``KafkaServer``).

Beginning: ZooKeeper, cluster id, the log directories' own idea of who they belong to, logs, sockets (bound, so that
ports are known, but not read from), replicas, registration, controller, and only then requests. Ending: the controller
is asked to move what this broker leads; then requests, controller, replicas, logs, and ZooKeeper last, so that the
registration is gone only when nothing can be appended any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from barnabas.broker.acl_store import AclStore, authorizer_of
from barnabas.broker.config_changes import ConfigChanges
from barnabas.broker.configs import BrokerConfigLayers
from barnabas.broker.connections import Connections
from barnabas.broker.controlled_shutdown import hand_over_leadership
from barnabas.broker.controller_channel import ControllerChannel
from barnabas.broker.delegation_tokens import DelegationTokens
from barnabas.broker.dynamic_listeners import DynamicListeners
from barnabas.broker.feature_changes import FeatureChanges
from barnabas.broker.inter_broker import InterBrokerAccess
from barnabas.broker.listeners import Listeners
from barnabas.broker.log_dir_events import LogDirEvents
from barnabas.broker.long_requests import LongRequests
from barnabas.broker.migration import Migration, migration_settings
from barnabas.broker.offsets_log import ReplicatedLog
from barnabas.broker.producer_ids import ProducerIds, ids_from_controller, ids_from_zookeeper
from barnabas.broker.quotas import Quotas
from barnabas.broker.registration import register
from barnabas.broker.request_memory import request_memory
from barnabas.broker.request_metrics import RequestMetrics
from barnabas.broker.router import Router
from barnabas.broker.scram_users import BrokerScramUsers
from barnabas.broker.socket_server import SocketServer
from barnabas.broker.start_error import BrokerStartError
from barnabas.broker.topic_configs import TopicConfigs
from barnabas.broker.topics import Topics
from barnabas.broker.transactions import Transactions
from barnabas.broker.unsent_answers import UnsentAnswers
from barnabas.client.connection import Connection
from barnabas.controller.controller import KafkaController
from barnabas.controller.token_expiry import token_secret
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.log.log_dirs import LogDirs
from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.model.config import Config
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model.ids import NO_EPOCH, TopicPartition, Uuid
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.model.metadata_version import metadata_version_of
from barnabas.replica.alter_partition import AlterPartitionManager, AlterPartitionSender, form_of
from barnabas.replica.metadata_cache import MetadataCache, MetadataUpdate
from barnabas.replica.partition import Partition
from barnabas.replica.replicas import Replicas
from barnabas.replica.zk_alter_partition import ZkAlterPartitionManager
from barnabas.runtime import Runtime, Tasks
from barnabas.security.acls import AclAuthorizer
from barnabas.security.authorizer import Authorizer
from barnabas.wire import scan
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.client.config import client_of
from barnabas.zk.kafka.config_znodes import DEFAULT_ENTITY
from barnabas.zk.kafka.zk_client import KafkaZkClient, RegistrationWait
from barnabas.zk.kafka.znode_json import ZNodeError
from barnabas.zk.protocol.data import Stat
from barnabas.zk.protocol.errors import ZooKeeperError

logger = logging.getLogger(__name__)

ZOOKEEPER_RETRY_MS: Final = 500


class Broker:
    """A running broker. `startup` once, then `shutdown`; `failed` is set when it cannot go on."""

    def __init__(self, runtime: Runtime, config: Config, *, host_name: str = "localhost") -> None:
        self.runtime = runtime
        self.config = config
        self.config_layers = BrokerConfigLayers(config)
        self.metadata_version = metadata_version_of(config)
        self.broker_id = config.number("broker.id")
        self.cluster_id = ""
        self.features_epoch = -1
        self.dynamic_listeners = DynamicListeners(self, host_name)
        self.listeners: Listeners = self.dynamic_listeners.wanted
        settings = migration_settings(config)
        self.migration = None if settings is None else Migration(self, settings)
        """None unless a migration to KRaft is enabled (``zookeeper.metadata.migration.enable``)."""
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.tasks = Tasks(self.task_failed)
        self.authorizer: Authorizer = authorizer_of(config)
        self.acls: AclStore | None = None
        """None where the authorizer has no ACLs."""
        if isinstance(self.authorizer, AclAuthorizer):
            self.acls = AclStore(self, self.authorizer)
        self.scram_users = BrokerScramUsers(self)
        self.delegation_tokens = DelegationTokens(self, token_secret(config))
        self.router = Router()
        self.long_requests = LongRequests()
        self.request_memory = request_memory(config)
        self.unsent_answers = UnsentAnswers(runtime.clock)
        self.requests = RequestMetrics(lambda: self.broker_id, runtime.clock)
        self.metadata = MetadataCache()
        self.topics = Topics(self)
        self.topic_configs = TopicConfigs(self)
        self.config_changes = ConfigChanges(self)
        self.log_dir_events = LogDirEvents(self)
        self.quotas = Quotas(runtime.clock, config)
        self.connections = Connections(
            runtime.clock,
            lambda: self.config,
            self.quotas,
            protected_listener=self.listeners.protected,
        )
        self._access: InterBrokerAccess | None = None
        self._socket_server: SocketServer | None = None
        self._stopping = False
        self._client: ZooKeeperClient | None = None
        self._zk: KafkaZkClient | None = None
        self._registered_epoch = -1
        self.registration_wait: RegistrationWait | None = None
        """The registration that a starting broker waits for; None when it does not wait."""
        self.admin_url: str | None = None
        """Where the admin endpoint listens, as a browser takes it."""
        self._controller_channel: ControllerChannel | None = None
        self._forwarding_channel: ControllerChannel | None = None
        self._log_dirs: LogDirs | None = None
        self._replicas: Replicas | None = None
        self._alter_partition: AlterPartitionSender | None = None
        self._groups: GroupCoordinator | None = None
        self._transactions: Transactions | None = None
        self._controller: KafkaController | None = None
        if not config.text("zookeeper.connect"):
            raise ConfigError("zookeeper.connect is not set: it takes host:port[,host:port..][/chroot].")

    # Parts, which are there once `startup` made them

    @property
    def zk(self) -> KafkaZkClient:
        assert self._zk is not None
        return self._zk

    @property
    def socket_server(self) -> SocketServer:
        assert self._socket_server is not None
        return self._socket_server

    @property
    def log_dirs(self) -> LogDirs:
        assert self._log_dirs is not None
        return self._log_dirs

    @property
    def replicas(self) -> Replicas:
        assert self._replicas is not None
        return self._replicas

    @property
    def groups(self) -> GroupCoordinator:
        assert self._groups is not None
        return self._groups

    @property
    def transactions(self) -> Transactions:
        assert self._transactions is not None
        return self._transactions

    @property
    def controller(self) -> KafkaController:
        if self._controller is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This broker has not started yet.")
        return self._controller

    @property
    def forwarding_channel(self) -> ControllerChannel:
        """The channel for clients' requests to a KRaft controller: nothing of the broker's own waits behind them."""
        assert self._forwarding_channel is not None
        return self._forwarding_channel

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration with ZooKeeper or a KRaft controller (``ZkBrokerEpochManager``)."""
        if self.migration is not None and self.metadata.image.is_kraft_controller:
            return self.migration.broker_epoch
        return self._zookeeper_epoch

    @property
    def _zookeeper_epoch(self) -> int:
        """The czxid of this broker's registration; the controller registers it anew after a lost session."""
        return self._controller.broker_epoch if self._controller is not None else self._registered_epoch

    def is_stale(self, broker_epoch: int, of_kraft: bool = False) -> bool:
        """Whether a controller's request was meant for an earlier registration of this broker (KIP-380).

        Raises UNKNOWN_SERVER_ERROR for a KRaft controller's where no migration is enabled.
        """
        if broker_epoch == NO_EPOCH:  # of a controller from before KIP-380
            return False
        if not of_kraft:
            return broker_epoch < self._zookeeper_epoch
        if self.migration is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "No migration to KRaft is enabled on this broker.")
        return broker_epoch < self.migration.broker_epoch

    def status(self) -> dict[str, Any]:
        """The state of this broker at any moment, as plain values."""
        wait = self.registration_wait
        return {
            "broker_id": self.broker_id,
            "state": self._state(),
            "registration_wait": None
            if wait is None
            else {"owner": wait.owner, "waited_ms": wait.waited_ms, "remaining_ms": wait.remaining_ms},
            "zookeeper": None if self._client is None else self._client.status(),
            "admin": self.admin_url and self.admin_url.partition("://")[2],
            "admin_url": self.admin_url,
            "records_checked_by": scan.RUNNING,
            "unreadable": self._unreadable(),
        }

    def zookeeper_status(self) -> dict[str, Any]:
        """The state of the session with ZooKeeper, and what it has been through."""
        assert self._client is not None, "a broker that has started has one"
        return self._client.status()

    async def znode(self, path: str) -> tuple[bytes | None, Stat, list[str]]:
        """A znode's data, its state, and the names of its children. Raises `ZooKeeperError`."""
        assert self._client is not None, "a broker that has started has one"
        data, stat = await self._client.get(path)
        return data, stat, await self._client.children(path) if stat.num_children else []

    def _unreadable(self) -> dict[str, int]:
        """How much of what was stored could not be read and was passed over, by kind."""
        coordinator = None if self._transactions is None else self._transactions.coordinator
        counts: dict[str, int] = {}
        for part in (self._zk, self._log_dirs, self._groups, coordinator):
            if part is not None:
                for kind, count in part.unreadable.counts.items():
                    counts[kind] = counts.get(kind, 0) + count
        return counts

    def _state(self) -> str:
        """In the words of Kafka's ``BrokerState``, with one of our own."""
        if self.registration_wait is not None:
            return "WAITING_FOR_REGISTRATION"
        if self._stopping:
            return "SHUTTING_DOWN"
        return "RUNNING" if self._controller is not None else "STARTING"

    # Beginning

    async def startup(self) -> None:
        """Returns when the broker serves requests. Raises `BrokerStartError` or `ConfigError`, saying why not."""
        try:
            await self._startup()
        except BaseException:
            await self.abort()
            raise

    async def _startup(self) -> None:
        config = self.config
        await self._connect_zookeeper()
        try:
            self.cluster_id = await self.zk.get_or_create_cluster_id()
        except ZNodeError as error:
            raise BrokerStartError(f"{error}. Put the cluster's id back; it stands in every meta.properties.") from None
        self._log_dirs = LogDirs(self.runtime, config, tasks=self.tasks)
        await self._identify()
        await self._load_dynamic_config()
        self.listeners = self.dynamic_listeners.begin(self.config)
        await self._load_security()
        self._socket_server = SocketServer(self)
        self._make_access()
        await self._log_dirs.load(await self.topic_configs.of_all())
        self.listeners = await self._socket_server.listen()
        self._controller_channel = self._channel_to_controller()
        self._forwarding_channel = self._channel_to_controller()
        self.producer_ids = self._producer_ids(self._controller_channel)
        self._alter_partition = self._alter_partition_sender(self._controller_channel)
        self._replicas = Replicas(
            self.runtime,
            self.broker_id,
            self.config,
            self.log_dirs,
            tasks=self.tasks,
            metadata=self.metadata,
            alter_partition=self._alter_partition,
            connect=self.connect_to,
            inter_broker_listener=self.listeners.inter_broker,
            broker_epoch=lambda: self.broker_epoch,
            on_leadership_change=self._leadership_changed,
            on_log_dir_failure=self.log_dir_events.log_dir_failed,
            on_put_off=self.log_dir_events.replica_put_off,
        )
        await self._start_coordinators(self._replicas)
        info = self.info()
        self._registered_epoch = await register(self, info)
        self._controller = KafkaController(
            self.runtime,
            self.broker_id,
            self._registered_epoch,
            info,
            self.config,
            self.zk,
            tasks=self.tasks,
            connect=self.connect_to,
            known=self,
        )
        self._replicas.startup()
        self._controller.startup()
        if self.migration is not None:
            self.migration.startup()
        await self.config_changes.startup()
        if self.metadata_version.is_feature_versioning_supported:
            await FeatureChanges(self).startup()
        self.tasks.begin(self.connections.close_idle(), "idle-connections")
        self.connections.serve()
        logger.info(
            "[broker %d] started in cluster %s, epoch %d, at %s; records are checked by %s",
            self.broker_id,
            self.cluster_id,
            self.broker_epoch,
            ", ".join(str(endpoint) for endpoint in self.listeners.advertised),
            scan.RUNNING,
        )

    async def _start_coordinators(self, replicas: Replicas) -> None:
        self._groups = GroupCoordinator(self.runtime, self.config, ReplicatedLog(replicas), tasks=self.tasks)
        self._transactions = Transactions(self)
        offsets, transactions = await self._partition_counts(GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
        if offsets:
            self.groups.partition_count = offsets
        if transactions:
            self.transactions.coordinator.partition_count = transactions
        self.groups.startup()
        self.transactions.coordinator.startup()

    def info(self) -> BrokerInfo:
        """What this broker tells of itself in ZooKeeper."""
        return BrokerInfo(
            self.broker_id,
            self.listeners.advertised,
            self.config.text("broker.rack") or None,
            registration_version=5 if self.metadata_version.is_feature_versioning_supported else 4,
        )

    def _channel_to_controller(self) -> ControllerChannel:
        return ControllerChannel(
            self.runtime.clock,
            self._controller_endpoint,
            lambda endpoint: self.connect_to(endpoint, str(self.broker_id)),
            request_timeout_ms=self.config.number("controller.socket.timeout.ms"),
        )

    def controller_may_have_moved(self) -> None:
        """Requests that wait for a former KRaft controller are sent to the present one."""
        for channel in (self._controller_channel, self._forwarding_channel):
            if channel is not None:
                channel.look_again()

    def _alter_partition_sender(self, channel: ControllerChannel) -> AlterPartitionSender:
        """How a leader gets its ISR changed: it asks the controller, or writes the partition's state itself."""
        if not self.metadata_version.is_alter_partition_supported:
            return ZkAlterPartitionManager(self.runtime.clock, self.zk, self.tasks)
        return AlterPartitionManager(
            self.broker_id,
            lambda: self.broker_epoch,
            lambda request, max_version: channel.send(request, max_version=max_version, form_of=form_of),
            self.tasks,
            uses_topic_ids=self.metadata_version.is_topic_ids_supported,
        )

    def _producer_ids(self, channel: ControllerChannel) -> ProducerIds:
        if self.metadata_version.is_allocate_producer_ids_supported:
            return ProducerIds(ids_from_controller(self.broker_id, lambda: self.broker_epoch, channel))
        return ProducerIds(ids_from_zookeeper(self.broker_id, self.zk))

    async def _connect_zookeeper(self) -> None:
        self._client = client_of(self.runtime, self.config, name=f"broker {self.broker_id}")
        await self._client.start()
        self._zk = KafkaZkClient(self.runtime, self._client, secure=self.config.flag("zookeeper.set.acl"))
        await self._zk.create_chroot_path_if_not_set()
        await self._zk.create_top_level_paths()

    async def _identify(self) -> None:
        """Finds out who this broker is, and that its log directories are its own and this cluster's."""
        stored = self.log_dirs.stored_broker_id()
        if self.broker_id < 0:
            if stored is not None:
                self.broker_id = stored
            elif not self.config.flag("broker.id.generation.enable"):
                raise ConfigError("broker.id is not set, and broker.id.generation.enable is false: set broker.id.")
            else:
                generated = await self.zk.generate_broker_sequence_id()
                self.broker_id = self.config.number("reserved.broker.max.id") + generated
        self.log_dirs.identify(self.cluster_id, self.broker_id, with_ids=self.migration is not None)

    async def _partition_counts(self, *topics: str) -> list[int]:
        """How many partitions the topics have. Logs that took long to recover may have cost the session, on which
        nothing depends yet: this is tried until the next session is there."""
        while True:
            try:
                return [len(await self.zk.get_full_replica_assignment_for_topics([topic])) for topic in topics]
            except ZooKeeperError as error:
                logger.warning("[broker %d] the internal topics are not read yet: %s", self.broker_id, error)
                await self.pause_for_zookeeper()

    async def _load_dynamic_config(self) -> None:
        for entity in (DEFAULT_ENTITY, str(self.broker_id)):
            await self.config_changes.reload_broker(entity)

    async def _load_security(self) -> None:
        """ACLs, SCRAM users and delegation tokens, as ZooKeeper has them."""
        if self.acls is not None:
            await self._load_acls(self.acls)
        if any(endpoint.security_protocol.startswith("SASL") for endpoint in self.listeners.bound):
            await self.scram_users.startup()
        await self.delegation_tokens.startup()

    async def _load_acls(self, acls: AclStore) -> None:
        try:
            await acls.startup()
        except ZNodeError as error:
            raise BrokerStartError(f"ACLs cannot be read, and whoever they deny would be let in: {error}") from None

    async def pause(self, milliseconds: float) -> None:
        await asyncio.sleep(milliseconds / 1000)

    async def pause_for_zookeeper(self) -> None:
        """Waits before ZooKeeper is asked again what it did not answer."""
        await self.pause(ZOOKEEPER_RETRY_MS)

    # Running

    def connect_to(self, endpoint: Endpoint, client_id: str, timeout_ms: int | None = None) -> Connection:
        """A connection to another broker, not yet connected: the one way in which brokers are reached."""
        assert self._access is not None
        return self._access.connection(endpoint, client_id, timeout_ms)

    def _make_access(self) -> None:
        controllers = None if self.migration is None else self.migration.listener
        self._access = InterBrokerAccess(self.runtime, self.config, self.listeners.for_brokers(), controllers)

    def _controller_endpoint(self) -> Endpoint | None:
        image = self.metadata.image
        if image.is_kraft_controller:
            return None if self.migration is None else self.migration.active_controller
        controller = image.brokers.get(image.controller_id)
        return None if controller is None else controller.endpoint(self.listeners.of_controller)

    def update_metadata(self, request: UpdateMetadataRequest, update: MetadataUpdate) -> ErrorCode:
        """Takes up what the controller says of the cluster; an older controller's words are refused."""
        if request.controller_epoch < self.replicas.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.replicas.controller_epoch = request.controller_epoch
        self.replicas.take_metadata(update)
        self._topics_changed(update.deleted)
        return ErrorCode.NONE

    def topic_ids(self) -> dict[str, Uuid]:
        """The topics that this broker was told of, with their ids."""
        return self.metadata.topic_ids()

    def forget_topics(self, topics: Mapping[str, Uuid]) -> None:
        """Forgets topics that were deleted while this broker was not registered: no controller will tell it."""
        self._topics_changed(self.metadata.forget_topics(topics))

    def _topics_changed(self, deleted: list[TopicPartition]) -> None:
        self.topics.changed.notify()
        if deleted:
            self.tasks.begin(self.groups.partitions_deleted(deleted), "offsets-of-deleted-topics")

    def _leadership_changed(self, leaders: list[Partition], followers: list[Partition]) -> None:
        """Groups and transactions go with the partitions of their topics."""
        for partition in followers:
            topic, number = partition.topic_partition
            if topic == GROUP_METADATA_TOPIC:
                self.groups.resigned(number, partition.leader_epoch)
            elif topic == TRANSACTION_STATE_TOPIC:
                self.transactions.coordinator.resigned(number, partition.leader_epoch)
        for partition in leaders:
            topic, number = partition.topic_partition
            if topic == GROUP_METADATA_TOPIC:
                self.groups.elected(number, partition.leader_epoch)
            elif topic == TRANSACTION_STATE_TOPIC:
                self.transactions.coordinator.elected(number, partition.leader_epoch)

    def replica_deleted(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        known_epoch = leader_epoch if leader_epoch >= 0 else None
        if topic_partition.topic == GROUP_METADATA_TOPIC:
            self.groups.resigned(topic_partition.partition, known_epoch)
        elif topic_partition.topic == TRANSACTION_STATE_TOPIC:
            self.transactions.coordinator.resigned(topic_partition.partition, known_epoch)

    async def broker_config_changed(self) -> None:
        """The dynamic layers changed: whoever reads configuration reads the new one from now on."""
        before, self.config = self.config, self.config_layers.current()
        if self._socket_server is not None:
            await self._take_up_listeners(self._socket_server)
        if self._replicas is not None:
            self._replicas.quotas.update(self.config)
        key = "unclean.leader.election.enable"
        if self._controller is not None:
            self._controller.config = self.config
            if self.config.flag(key) and not before.flag(key):
                self._controller.enable_default_unclean_leader_election()

    async def _take_up_listeners(self, socket_server: SocketServer) -> None:
        socket_server.take_stores(self.config, self._make_access)
        try:
            await self.dynamic_listeners.take_up(self.config)
        except ConfigError as error:
            logger.error("[broker %d] the listeners stay as they are: %s", self.broker_id, error.in_kafkas_words)

    def task_failed(self, name: str, error: BaseException) -> None:
        """A background story ended in a way nobody foresaw: better no broker than one that lacks a part."""
        if not self.failed.done():
            logger.critical("[broker %d] halting: %s failed: %r", self.broker_id, name, error)
            self.failed.set_result(error)

    # Ending

    async def shutdown(self) -> None:
        """Hands over what this broker leads, then stops. Whatever was appended is on disk afterwards."""
        if self._stopping:
            return
        self._stopping = True
        if self._controller is not None and self.config.flag("controlled.shutdown.enable"):
            await hand_over_leadership(self)
        await self._stop(clean=True)
        logger.info("[broker %d] stopped", self.broker_id)

    async def abort(self) -> None:
        """Stops without asking anybody, after a failure; what is on disk stays as it is."""
        self._stopping = True
        await self._stop(clean=False)

    async def _stop(self, *, clean: bool) -> None:
        if self._socket_server is not None:
            self._socket_server.close()
        self.connections.close()
        if self._alter_partition is not None:
            self._alter_partition.close()
        if self.migration is not None:
            self.migration.close()
        for channel in (self._controller_channel, self._forwarding_channel):
            if channel is not None:
                channel.close()
        if self._controller is not None:
            await self._controller.shutdown()
        if self._groups is not None:
            self._groups.shutdown()
        if self._transactions is not None:
            self._transactions.shutdown()
        if self._alter_partition is not None:
            self._alter_partition.close()
        if self._replicas is not None:
            await self._replicas.shutdown(checkpoint=clean)
        await self.tasks.end()
        if self._log_dirs is not None:
            self._log_dirs.close(clean=clean)
        if self.acls is not None:
            await self.acls.close()
        if self._client is not None:
            await self._client.close()
