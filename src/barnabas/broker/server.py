"""One broker: its parts, and the order in which they start and stop (Kafka's ``KafkaServer``).

Start: ZooKeeper, cluster id, the ``meta.properties`` of the log directories, logs, sockets (bound, so that ports are
known, but not read from), replicas, registration, controller, and only then requests. Shutdown: the broker asks the
controller to move its leaderships; then requests, controller, replicas and logs stop. ZooKeeper is last, so that the
registration disappears only when nothing can be appended any more.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from barnabas.broker.acl_store import AclStore, authorizer_of
from barnabas.broker.config_changes import ConfigChanges
from barnabas.broker.connections import Connections
from barnabas.broker.controlled_shutdown import hand_over_leadership
from barnabas.broker.controller_channel import ControllerChannel
from barnabas.broker.coordinators import Coordinators
from barnabas.broker.delegation_tokens import DelegationTokens
from barnabas.broker.dynamic_listeners import DynamicListeners
from barnabas.broker.feature_changes import FeatureChanges
from barnabas.broker.inter_broker import InterBrokerAccess
from barnabas.broker.log_dir_events import LogDirEvents
from barnabas.broker.migration import Migration, migration_settings
from barnabas.broker.offsets_log import ReplicatedLog
from barnabas.broker.parts import BrokerParts
from barnabas.broker.producer_ids import ProducerIds, ids_from_controller, ids_from_zookeeper
from barnabas.broker.quotas import Quotas
from barnabas.broker.registration import register
from barnabas.broker.request_channel import RequestChannel
from barnabas.broker.request_memory import request_memory
from barnabas.broker.request_metrics import RequestMetrics
from barnabas.broker.scram_users import BrokerScramUsers
from barnabas.broker.socket_server import SocketServer
from barnabas.broker.start_check import check_start
from barnabas.broker.start_error import BrokerStartError
from barnabas.broker.this_node import ThisNode
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
from barnabas.model.ids import Uuid
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.replica.alter_partition import AlterPartitionManager, AlterPartitionSender, form_of
from barnabas.replica.partition import Partition
from barnabas.replica.replicas import Replicas
from barnabas.replica.zk_alter_partition import ZkAlterPartitionManager
from barnabas.runtime import Runtime
from barnabas.runtime.compiled import is_taken
from barnabas.security.acls import AclAuthorizer
from barnabas.security.authorizer import Authorizer
from barnabas.wire import scan
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.client.config import client_of
from barnabas.zk.kafka.config_znodes import DEFAULT_ENTITY
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znode_json import ZNodeError
from barnabas.zk.protocol.data import Stat
from barnabas.zk.protocol.errors import ZooKeeperError

logger = logging.getLogger(__name__)


class Broker(ThisNode):
    """A running broker. `startup` once, then `shutdown`; `failed` is set when it cannot go on."""

    def __init__(self, runtime: Runtime, config: Config, *, host_name: str = "localhost") -> None:
        if not config.text("zookeeper.connect"):
            raise ConfigError("zookeeper.connect is not set: it takes host:port[,host:port..][/chroot].")
        check_start(config)
        super().__init__(runtime, config)
        self.quotas = Quotas(runtime.clock, config)
        self.connections = Connections(runtime.clock, lambda: self.config, self.quotas)
        self.dynamic_listeners = DynamicListeners(self, self.connections, host_name)
        self.listeners = self.dynamic_listeners.wanted
        self.authorizer: Authorizer = authorizer_of(config)
        self.acls: AclStore | None = None
        """None if the authorizer has no ACLs."""
        if isinstance(self.authorizer, AclAuthorizer):
            self.acls = AclStore(self, self.authorizer)
        self.delegation_tokens = DelegationTokens(self, token_secret(config))
        self.scram_users = BrokerScramUsers(self, self.delegation_tokens)
        self.request_channel = RequestChannel(
            self,
            self.connections,
            authorizer=self.authorizer,
            quotas=self.quotas,
            memory=request_memory(config),
            requests=RequestMetrics(lambda: self.broker_id, runtime.clock),
            unsent_answers=UnsentAnswers(runtime.clock),
        )
        self._controller_channel = self._channel_to_controller()
        self._forwarding_channel = self._channel_to_controller()
        settings = migration_settings(config)
        self.migration: Migration | None = None
        """None unless a migration to KRaft is enabled (``zookeeper.metadata.migration.enable``)."""
        if settings is not None:
            self.migration = Migration(
                self,
                settings,
                connect=self.connect_to,
                controller_may_have_moved=self._controller_may_have_moved,
                directory_ids=lambda: self.log_dirs.directory_ids(),
            )
        self.topics = Topics(self, self._forwarding_channel)
        self.config_changes = ConfigChanges(self, self.quotas, self.scram_users, self)
        self._access: InterBrokerAccess | None = None
        self._socket_server: SocketServer | None = None
        self._stopping = False
        self._client: ZooKeeperClient | None = None
        self._registered_epoch = -1
        self.admin_url: str | None = None
        """The admin endpoint's URL."""
        self._log_dirs: LogDirs | None = None
        self._topic_configs: TopicConfigs | None = None
        self._replicas: Replicas | None = None
        self._alter_partition: AlterPartitionSender | None = None
        self._groups: GroupCoordinator | None = None
        self._transactions: Transactions | None = None
        self._coordinators: Coordinators | None = None
        self._controller: KafkaController | None = None

    # Parts, which exist once `startup` made them

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
    def topic_configs(self) -> TopicConfigs:
        assert self._topic_configs is not None
        return self._topic_configs

    @property
    def coordinators(self) -> Coordinators:
        assert self._coordinators is not None
        return self._coordinators

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration with ZooKeeper or a KRaft controller (``ZkBrokerEpochManager``)."""
        if self.migration is not None and self.metadata.image.is_kraft_controller:
            return self.migration.broker_epoch
        # The registration's czxid; the controller registers this broker anew after a lost session.
        return self._registered_epoch if self._controller is None else self._controller.broker_epoch

    def status(self) -> dict[str, Any]:
        """The present state of this broker, as plain values."""
        wait = self.registration_wait
        return {
            "broker_id": self.broker_id,
            "state": self.state,
            "registration_wait": None
            if wait is None
            else {"owner": wait.owner, "waited_ms": wait.waited_ms, "remaining_ms": wait.remaining_ms},
            "zookeeper": None if self._client is None else self._client.status(),
            "admin": self.admin_url and self.admin_url.partition("://")[2],
            "admin_url": self.admin_url,
            "records_checked_by": scan.RUNNING,
            "unreadable": self.unreadable(),
        }

    def zookeeper_status(self) -> dict[str, Any]:
        """The state of the ZooKeeper session, and its history."""
        assert self._client is not None, "a broker that has started has one"
        return self._client.status()

    async def znode(self, path: str) -> tuple[bytes | None, Stat, list[str]]:
        """A znode's data, its state, and the names of its children. Raises `ZooKeeperError`."""
        assert self._client is not None, "a broker that has started has one"
        data, stat = await self._client.get(path)
        return data, stat, await self._client.children(path) if stat.num_children else []

    def unreadable(self) -> dict[str, int]:
        """How many stored entries could not be read and were skipped, by kind."""
        coordinator = None if self._transactions is None else self._transactions.coordinator
        counts: dict[str, int] = {}
        for part in (self._zk, self._log_dirs, self._groups, coordinator):
            if part is not None:
                for kind, count in part.unreadable.counts.items():
                    counts[kind] = counts.get(kind, 0) + count
        return counts

    @property
    def state(self) -> str:
        """The state in the words of Kafka's ``BrokerState``, with one of our own."""
        if self.registration_wait is not None:
            return "WAITING_FOR_REGISTRATION"
        if self._stopping:
            return "SHUTTING_DOWN"
        return "RUNNING" if self._controller is not None else "STARTING"

    # Starting

    async def startup(self) -> None:
        """Returns when the broker serves requests. Raises `BrokerStartError` or `ConfigError`, with the reason."""
        try:
            await self._startup()
        except BaseException:
            self._stopping = True
            # An orderly stop: otherwise the next start would recover all logs because a port or a broker.id was taken.
            await self._stop(clean=not self.failed.done())
            raise

    async def _startup(self) -> None:
        config = self.config
        await self._connect_zookeeper()
        try:
            self.cluster_id = await self.zk.get_or_create_cluster_id()
        except ZNodeError as error:
            raise BrokerStartError(f"{error}. Put the cluster's id back; it stands in every meta.properties.") from None
        self._log_dirs = LogDirs(self.runtime, config, tasks=self.tasks)
        self._topic_configs = TopicConfigs(self, self._log_dirs)
        await self._identify()
        await self._load_dynamic_config()
        self.listeners = self.dynamic_listeners.begin(self.config)
        await self._load_security()
        self._socket_server = SocketServer(self, self.request_channel, self.scram_users)
        self._make_access()
        await self._log_dirs.load(await self.topic_configs.of_all())
        self.listeners = await self._socket_server.listen()
        self.producer_ids = self._producer_ids(self._controller_channel)
        self._alter_partition = self._alter_partition_sender(self._controller_channel)
        log_dir_events = LogDirEvents(self, self._log_dirs, migrating=self.migration is not None)
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
            on_log_dir_failure=log_dir_events.log_dir_failed,
            on_put_off=log_dir_events.replica_put_off,
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
        if any(endpoint.security_protocol.startswith("SASL") for endpoint in self.listeners.bound):
            await self.scram_users.startup()
        if self.metadata_version.is_feature_versioning_supported:
            await FeatureChanges(self).startup()
        self.tasks.begin(self.connections.close_idle(), "idle-connections")
        self.request_channel.parts = self._parts(self._controller)
        self.connections.serve()
        logger.info(
            "[broker %d] started in cluster %s, epoch %d, at %s; records are checked by %s, the hot path is %s",
            self.broker_id,
            self.cluster_id,
            self.broker_epoch,
            ", ".join(str(endpoint) for endpoint in self.listeners.advertised),
            scan.RUNNING,
            "compiled" if is_taken() else "interpreted",
        )

    def _leadership_changed(self, leaders: list[Partition], followers: list[Partition]) -> None:
        self.coordinators.leadership_changed(leaders, followers)
        if followers:
            self.connections.led_no_more({partition.topic_partition for partition in followers})

    async def _start_coordinators(self, replicas: Replicas) -> None:
        self._groups = GroupCoordinator(self.runtime, self.config, ReplicatedLog(replicas), tasks=self.tasks)
        self._transactions = Transactions(self, replicas, self._groups, self.producer_ids, self.connect_to)
        self._coordinators = Coordinators(self._groups, self._transactions.coordinator, self.tasks)
        offsets, transactions = await self._partition_counts(GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
        if offsets:
            self.groups.partition_count = offsets
        if transactions:
            self.transactions.coordinator.partition_count = transactions
        self.groups.startup()
        self.transactions.coordinator.startup()

    def _parts(self, controller: KafkaController) -> BrokerParts:
        return BrokerParts(
            node=self,
            runtime=self.runtime,
            zk=self.zk,
            broker_id=self.broker_id,
            metadata=self.metadata,
            log_dirs=self.log_dirs,
            replicas=self.replicas,
            groups=self.groups,
            transactions=self.transactions,
            coordinators=self.coordinators,
            controller=controller,
            forwarding_channel=self._forwarding_channel,
            migration=self.migration,
            topics=self.topics,
            topic_configs=self.topic_configs,
            config_changes=self.config_changes,
            producer_ids=self.producer_ids,
            quotas=self.quotas,
            unsent_answers=self.request_channel.unsent_answers,
            acls=self.acls,
            delegation_tokens=self.delegation_tokens,
            api_versions=self.request_channel.router.api_versions,
        )

    def info(self) -> BrokerInfo:
        """What this broker publishes about itself in ZooKeeper."""
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

    def _controller_may_have_moved(self) -> None:
        """Sends requests that wait for a former KRaft controller to the present one."""
        for channel in (self._controller_channel, self._forwarding_channel):
            channel.look_again()

    def _alter_partition_sender(self, channel: ControllerChannel) -> AlterPartitionSender:
        """How a leader changes its ISR: it asks the controller, or writes the partition's state itself."""
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
        """Finds out this broker's id, and checks that the log directories belong to it and to this cluster."""
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
        """How many partitions the topics have. Recovering the logs may have taken so long that the session expired, on
        which nothing depends yet: this retries until there is a new one."""
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
        """Loads ACLs and delegation tokens from ZooKeeper; their changes are followed from here on."""
        if self.acls is not None:
            await self._load_acls(self.acls)
        await self.delegation_tokens.startup()

    async def _load_acls(self, acls: AclStore) -> None:
        try:
            await acls.startup()
        except ZNodeError as error:
            raise BrokerStartError(f"ACLs cannot be read, and whoever they deny would be let in: {error}") from None

    # Running

    def connect_to(self, endpoint: Endpoint, client_id: str, timeout_ms: int | None = None) -> Connection:
        """A connection to another broker, not yet connected: the only way in which brokers are reached."""
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

    def topic_ids(self) -> dict[str, Uuid]:
        """The topics that this broker knows, with their ids."""
        return self.metadata.topic_ids()

    def forget_topics(self, topics: Mapping[str, Uuid]) -> None:
        """Forgets topics that were deleted while this broker was not registered: no controller will tell it."""
        deleted = self.metadata.forget_topics(topics)
        self.topics.changed.notify()
        self.coordinators.partitions_deleted(deleted)

    def topic_config_changed(self, topic: str, values: Mapping[str, str]) -> None:
        """The controller also has to know when unclean election is turned on."""
        self.topic_configs.changed(topic, values)
        if self.controller.is_active and values.get("unclean.leader.election.enable", "").lower() == "true":
            self.controller.enable_topic_unclean_leader_election(topic)

    def check_listeners(self, config: Config) -> None:
        self.dynamic_listeners.check(config, self.socket_server)

    async def broker_config_changed(self) -> None:
        before, self.config = self.config, self.config_layers.current()
        self.connections.become_fewer()
        if self._socket_server is not None:
            await self._take_up_listeners(self._socket_server)
        if self._log_dirs is not None:
            self._log_dirs.take_config(self.config)
        if self._replicas is not None:
            self._replicas.take_config(self.config)
        key = "unclean.leader.election.enable"
        if self._controller is not None:
            self._controller.config = self.config
            if self.config.flag(key) and not before.flag(key):
                self._controller.enable_default_unclean_leader_election()

    async def _take_up_listeners(self, socket_server: SocketServer) -> None:
        socket_server.take_stores(self.config, self._make_access)
        try:
            await self.dynamic_listeners.take_up(self.config, socket_server, self._tell_where)
        except ConfigError as error:
            logger.error("[broker %d] the listeners stay as they are: %s", self.broker_id, error.in_kafkas_words)

    async def _tell_where(self) -> None:
        await self.controller.update_broker_info(self.info())

    # Stopping

    async def shutdown(self) -> None:
        """Hands over leadership, then stops. All appended records are on disk afterwards."""
        if self._stopping:
            return
        self._stopping = True
        if self._replicas is not None:
            # Otherwise the next leaders would wait, before they commit, for this caught-up follower until it is gone.
            self._replicas.is_shutting_down = True
        if self._controller is not None and self.config.flag("controlled.shutdown.enable"):
            if self.migration is not None and self.metadata.image.is_kraft_controller:
                await self.migration.hand_over()
            else:
                await hand_over_leadership(self, lambda: self.broker_epoch, self.connect_to)
        await self._stop(clean=True)
        logger.info("[broker %d] stopped", self.broker_id)

    async def abort(self) -> None:
        """Stops without handing over, after a failure; the files stay as they are."""
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
        self._controller_channel.close()
        self._forwarding_channel.close()
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
