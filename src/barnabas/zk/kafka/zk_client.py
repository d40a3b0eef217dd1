"""Kafka's reads and writes of ZooKeeper, under the names of Kafka's ``KafkaZkClient``.

Every method repeats requests that a lost connection left unanswered (`requests`). A write by the controller is a multi
of two operations: a check that ``/controller_epoch`` still has this controller's version, and the write. So a
controller that was replaced without noticing cannot write any more: it gets `ControllerMoved`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from barnabas.model.cluster import BrokerInfo
from barnabas.model.ids import TopicPartition
from barnabas.runtime.story import to_its_end, within
from barnabas.zk.client.client import StateChangeHandler, ZNodeChangeHandler, ZNodeChildChangeHandler
from barnabas.zk.kafka.config_znodes import (
    ConfigEntityChangeNotificationSequenceZNode,
    ConfigEntityChangeNotificationZNode,
    ConfigEntityTypeZNode,
    ConfigEntityZNode,
)
from barnabas.zk.kafka.requests import ControllerMoved, result_of
from barnabas.zk.kafka.zk_topics import KafkaZkTopics
from barnabas.zk.kafka.znode_json import ZNodeError
from barnabas.zk.kafka.znodes import (
    INITIAL_CONTROLLER_EPOCH,
    INITIAL_CONTROLLER_EPOCH_ZK_VERSION,
    MATCH_ANY_VERSION,
    PERSISTENT_ZK_PATHS,
    UNKNOWN_VERSION,
    BrokerIdsZNode,
    BrokerIdZNode,
    BrokerSequenceIdZNode,
    ClusterIdZNode,
    ConsumerOffsetZNode,
    ControllerEpochZNode,
    ControllerRegistration,
    ControllerZNode,
    Features,
    FeatureZNode,
    IsrChangeNotificationSequenceZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationSequenceZNode,
    LogDirEventNotificationZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)
from barnabas.zk.protocol.data import Stat
from barnabas.zk.protocol.errors import BadVersion, NodeExists, NoNode, NotEmpty, ZooKeeperError
from barnabas.zk.protocol.ops import Create, Delete, Exists, Multi, SetData

__all__ = ["BrokerIdInUse", "ControllerMoved", "KafkaZkClient", "RegistrationWait"]

logger = logging.getLogger(__name__)

REGISTRATION_TOLD_MS: Final = 1_000
"""How often a broker that waits for an earlier registration's end logs it, and checks whether it missed the event."""


class BrokerIdInUse(Exception):
    """``/brokers/ids/N`` belongs to another session that is still alive."""


@dataclass(frozen=True, slots=True)
class RegistrationWait:
    """A broker's id is taken, most often by the registration of a killed process of the same broker.

    `session_id` owns the registration, which names `endpoints`; it is waited for at most `remaining_ms` more.
    """

    session_id: int
    endpoints: tuple[str, ...]
    waited_ms: int
    remaining_ms: int

    @property
    def owner(self) -> str:
        """The owner of that registration, in words for people."""
        where = f" of a broker at {', '.join(self.endpoints)}" if self.endpoints else ""
        return f"session 0x{self.session_id & (1 << 64) - 1:x}{where}"


def _endpoints(broker_id: int, data: bytes | None) -> tuple[str, ...]:
    """The listeners in a registration; empty for an unreadable one."""
    try:
        return tuple(f"{endpoint.host}:{endpoint.port}" for endpoint in BrokerIdZNode.decode(broker_id, data).endpoints)
    except ZNodeError:
        return ()


class KafkaZkClient(KafkaZkTopics):
    """Kafka's operations on top of a `ZooKeeperClient`."""

    async def close(self) -> None:
        await self.client.close()

    @property
    def session_id(self) -> int:
        return self.client.session_id

    # --- handlers ---------------------------------------------------------------------------------------------

    def register_state_change_handler(self, handler: StateChangeHandler) -> None:
        self.client.register_state_change_handler(handler)

    def unregister_state_change_handler(self, name: str) -> None:
        self.client.unregister_state_change_handler(name)

    def register_znode_change_handler(self, handler: ZNodeChangeHandler) -> None:
        self.client.register_node_change_handler(handler)

    async def register_znode_change_handler_and_check_existence(self, handler: ZNodeChangeHandler) -> bool:
        self.client.register_node_change_handler(handler)
        return await self.path_exists(handler.path)

    def unregister_znode_change_handler(self, path: str) -> None:
        self.client.unregister_node_change_handler(path)

    def register_znode_child_change_handler(self, handler: ZNodeChildChangeHandler) -> None:
        self.client.register_node_child_change_handler(handler)

    def unregister_znode_child_change_handler(self, path: str) -> None:
        self.client.unregister_node_child_change_handler(path)

    # --- the tree's trunk -------------------------------------------------------------------------------------

    async def create_top_level_paths(self) -> None:
        """Creates the znodes that every Kafka cluster has, in Kafka's order. One pipeline finds those that exist."""
        answers = await self._requests([Exists(path) for path in PERSISTENT_ZK_PATHS])
        for path, answer in zip(PERSISTENT_ZK_PATHS, answers, strict=True):
            if result_of(answer) is None:
                await self.make_sure_persistent_path_exists(path)

    async def create_chroot_path_if_not_set(self) -> None:
        """Creates the chroot of ``zookeeper.connect`` itself; no path below the chroot can name it."""
        await self.client.make_chroot(self.acl_of(self.client.chroot))

    async def make_sure_persistent_path_exists(self, path: str) -> None:
        await self.create_recursive(path, None, False)

    async def get_cluster_id(self) -> str | None:
        data, stat = await self.get_data_and_stat(ClusterIdZNode.path)
        return None if stat is None else ClusterIdZNode.decode(data)

    async def create_or_get_cluster_id(self, proposed_cluster_id: str) -> str:
        """The cluster's id: the proposed one if this broker is the first."""
        known = await self.get_cluster_id()
        if known is not None:
            return known
        await self.create_recursive(ClusterIdZNode.path, ClusterIdZNode.encode(proposed_cluster_id), False)
        known = await self.get_cluster_id()
        assert known is not None, f"{ClusterIdZNode.path} is never deleted"
        return known

    async def get_or_create_cluster_id(self) -> str:
        return await self.create_or_get_cluster_id(str(self._runtime.entropy.uuid()))

    async def generate_broker_sequence_id(self) -> int:
        """The next unused broker id, for ``broker.id=-1``; the version of a znode that is rewritten each time."""
        write = SetData(BrokerSequenceIdZNode.path, b"")
        try:
            stat = await self._request(write)
        except NoNode:
            await self.make_sure_persistent_path_exists(BrokerSequenceIdZNode.path)
            stat = await self._request(write)
        return int(stat.version)

    # --- brokers ----------------------------------------------------------------------------------------------

    async def register_broker(
        self,
        broker: BrokerInfo,
        *,
        wait_ms: int = 0,
        on_waiting: Callable[[RegistrationWait], None] | None = None,
    ) -> int:
        """Registers the broker and returns its epoch, the czxid of its znode.

        A znode of another session is most often left behind by a killed process of this same broker. So this waits up
        to `wait_ms` for that session to expire, and calls `on_waiting` about once a second. Then it raises
        `BrokerIdInUse`.
        """
        path = BrokerIdZNode.path(broker.broker_id)
        began_ms = self._runtime.clock.monotonic_ms()
        told_ms = began_ms - REGISTRATION_TOLD_MS
        while True:
            data = BrokerIdZNode.encode(broker, timestamp_ms=self._runtime.clock.now_ms())
            # Created empty and then set within one multi, because only a set answers with a stat, and so the czxid.
            create = Create(path, None, ephemeral=True, acl=self.acl_of(path))
            (answer,) = await self._requests([Multi([create, SetData(path, data, 0)])])
            stat: Stat | None = None
            if not isinstance(answer, ZooKeeperError):
                _, stat = answer
            elif not isinstance(answer, NodeExists):
                raise answer
            else:
                registered, found = await self.get_data_and_stat(path)
                if found is None:
                    continue
                if found.ephemeral_owner == self.client.session_id:
                    stat = found  # made by our own multi whose answer was lost
                elif found.ephemeral_owner in self.client.own_sessions:
                    # Left over from an expired session of our own (ZOOKEEPER-2985, KAFKA-7165).
                    await self._delete(path, MATCH_ANY_VERSION)
                    continue
                else:
                    now_ms = self._runtime.clock.monotonic_ms()
                    waited_ms = now_ms - began_ms
                    wait = RegistrationWait(
                        found.ephemeral_owner, _endpoints(broker.broker_id, registered), waited_ms, wait_ms - waited_ms
                    )
                    if wait.remaining_ms <= 0:
                        raise BrokerIdInUse(
                            f"Broker id {broker.broker_id} is registered at {path} by {wait.owner}, which is still "
                            f"alive after {waited_ms} ms. Stop the broker that has this broker.id, or choose another."
                        )
                    if on_waiting is not None and now_ms - told_ms >= REGISTRATION_TOLD_MS:
                        told_ms = now_ms
                        on_waiting(wait)
                    await self._deleted_within(path, min(wait.remaining_ms, REGISTRATION_TOLD_MS))
                    continue
            logger.info("registered broker %d at %s, broker epoch %d", broker.broker_id, path, stat.czxid)
            return stat.czxid

    async def _deleted_within(self, path: str, timeout_ms: int) -> None:
        """Waits until the znode is deleted, at most `timeout_ms`."""
        deleted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell() -> None:
            if not deleted.done():
                deleted.set_result(None)

        self.client.register_node_change_handler(ZNodeChangeHandler(path, handle_deletion=tell))
        try:
            if await self.path_exists(path):  # this read sets the watch
                await within(deleted, timeout_ms)
        finally:
            self.client.unregister_node_change_handler(path)

    async def update_broker_info(self, broker: BrokerInfo) -> None:
        """Rewrites the registration, for instance after listeners changed. The broker epoch stays."""
        data = BrokerIdZNode.encode(broker, timestamp_ms=self._runtime.clock.now_ms())
        await self._request(SetData(BrokerIdZNode.path(broker.broker_id), data))

    async def get_sorted_broker_list(self) -> list[int]:
        names = await self.get_children(BrokerIdsZNode.path)
        # A name may be of any length, and the largest id has ten digits.
        ids = (int(name) for name in names if name.isascii() and name.isdigit() and len(name) <= 10)
        return sorted(broker_id for broker_id in ids if broker_id < 1 << 31)

    async def get_all_brokers_in_cluster(self, known: Iterable[BrokerInfo] = ()) -> list[BrokerInfo]:
        """Every live broker with its epoch, in the order of ids; a `known` broker stays even if it is unreadable now.

        Any other broker with an unreadable registration is left out: no client could connect to it.
        """
        epochs = {(broker.broker_id, broker.epoch): broker for broker in known}

        def decode(broker_id: int, data: bytes | None, stat: Stat) -> BrokerInfo:
            try:
                return BrokerIdZNode.decode(broker_id, data, stat.czxid)
            except ZNodeError:
                if (broker_id, stat.czxid) not in epochs:
                    raise
                return epochs[broker_id, stat.czxid]

        brokers = await self.get_sorted_broker_list()
        found = await self._read_all({broker_id: BrokerIdZNode.path(broker_id) for broker_id in brokers})
        return list(self._decoded(found, decode).values())

    async def get_broker(self, broker_id: int) -> BrokerInfo | None:
        """The broker; None if it is not registered, or its registration is unreadable."""
        found = await self._read_all({broker_id: BrokerIdZNode.path(broker_id)})
        brokers = self._decoded(found, lambda _, data, stat: BrokerIdZNode.decode(broker_id, data, stat.czxid))
        return brokers.get(broker_id)

    # --- the controller ---------------------------------------------------------------------------------------

    async def register_controller_and_increment_controller_epoch(
        self, controller_id: int, timestamp_ms: int | None = None
    ) -> tuple[int, int]:
        """Becomes controller; returns the new epoch and its znode's version. Raises `ControllerMoved`."""
        known = await self.get_controller_epoch()
        if known is None:
            epoch, epoch_zk_version = await self._create_controller_epoch()
        else:
            epoch, stat = known
            epoch_zk_version = stat.version
        new_epoch = epoch + 1
        timestamp = self._runtime.clock.now_ms() if timestamp_ms is None else timestamp_ms
        both = Multi(
            [
                Create(
                    ControllerZNode.path,
                    ControllerZNode.encode(controller_id, timestamp),
                    ephemeral=True,
                    acl=self.acl_of(ControllerZNode.path),
                ),
                SetData(ControllerEpochZNode.path, ControllerEpochZNode.encode(new_epoch), epoch_zk_version),
            ]
        )
        try:
            _, epoch_stat = await self._request(both)
        except (NodeExists, BadVersion):
            return await self._check_controller_and_epoch(controller_id, new_epoch)
        return new_epoch, epoch_stat.version

    async def _check_controller_and_epoch(self, controller_id: int, new_epoch: int) -> tuple[int, int]:
        """Checks that our own multi, its answer lost, made ``/controller``. Raises `ControllerMoved` otherwise."""
        data, stat = await self.get_data_and_stat(ControllerZNode.path)
        if stat is None:
            raise ControllerMoved(f"{ControllerZNode.path} went away during the election.")
        try:
            elected = ControllerZNode.decode(data).broker_id
        except ZNodeError as error:
            raise ControllerMoved(str(error)) from None
        if elected == controller_id and stat.ephemeral_owner == self.client.session_id:
            known = await self.get_controller_epoch()
            assert known is not None, f"{ControllerEpochZNode.path} is never deleted"
            # A later election would have raised the epoch: with this epoch, the version is ours, too.
            epoch, epoch_stat = known
            if epoch == new_epoch:
                return new_epoch, epoch_stat.version
        raise ControllerMoved("Another broker was elected controller.")

    async def _create_controller_epoch(self) -> tuple[int, int]:
        try:
            await self._request(
                self._create(ControllerEpochZNode.path, ControllerEpochZNode.encode(INITIAL_CONTROLLER_EPOCH))
            )
        except NodeExists:
            known = await self.get_controller_epoch()
            assert known is not None, f"{ControllerEpochZNode.path} is never deleted"
            epoch, stat = known
            return epoch, stat.version
        return INITIAL_CONTROLLER_EPOCH, INITIAL_CONTROLLER_EPOCH_ZK_VERSION

    async def get_controller_registration(self) -> ControllerRegistration | None:
        """The controller's broker id; None if there is no controller, or its znode is unreadable."""
        found = await self._read_all({ControllerZNode.path: ControllerZNode.path})
        known = self._decoded(found, lambda _, data, stat: ControllerZNode.decode(data, stat.version))
        return known.get(ControllerZNode.path)

    async def get_controller_id(self) -> int | None:
        registration = await self.get_controller_registration()
        return None if registration is None else registration.broker_id

    async def get_controller_epoch(self) -> tuple[int, Stat] | None:
        data, stat = await self.get_data_and_stat(ControllerEpochZNode.path)
        return None if stat is None else (ControllerEpochZNode.decode(data), stat)

    async def delete_controller(self, expected_controller_epoch_zk_version: int) -> None:
        """Gives up ``/controller``, so that another broker is elected."""
        await self._delete(ControllerZNode.path, expected_controller_epoch_zk_version)

    # --- requests of old tools to the controller -----------------------------------------------------------------

    async def get_partition_reassignment(self) -> dict[TopicPartition, tuple[int, ...]]:
        data, stat = await self.get_data_and_stat(ReassignPartitionsZNode.path)
        if stat is None:
            return {}
        try:
            return ReassignPartitionsZNode.decode(data)
        except ZNodeError as error:
            logger.warning("ignoring a reassignment: %s", error)
            return {}

    async def set_or_create_partition_reassignment(
        self, reassignment: Mapping[TopicPartition, tuple[int, ...]], expected_controller_epoch_zk_version: int
    ) -> None:
        data = ReassignPartitionsZNode.encode(reassignment)
        path, version = ReassignPartitionsZNode.path, expected_controller_epoch_zk_version
        try:
            await self._checked_request(SetData(path, data), version)
        except NoNode:
            await self._checked_request(self._create(path, data), version)

    async def delete_partition_reassignment(self, expected_controller_epoch_zk_version: int) -> None:
        await self.delete_path(ReassignPartitionsZNode.path, expected_controller_epoch_zk_version)

    async def get_preferred_replica_election(self) -> list[TopicPartition]:
        data, stat = await self.get_data_and_stat(PreferredReplicaElectionZNode.path)
        if stat is None:
            return []
        try:
            return PreferredReplicaElectionZNode.decode(data)
        except ZNodeError as error:
            logger.warning("ignoring a preferred replica election: %s", error)
            return []

    async def delete_preferred_replica_election(self, expected_controller_epoch_zk_version: int) -> None:
        await self._delete(PreferredReplicaElectionZNode.path, expected_controller_epoch_zk_version)

    # --- notifications to the controller ----------------------------------------------------------------------

    async def propagate_log_dir_event(self, broker_id: int) -> None:
        """Tells the controller that a log directory of this broker failed."""
        await self._request(
            self._create(
                LogDirEventNotificationSequenceZNode.path(),
                LogDirEventNotificationSequenceZNode.encode(broker_id),
                sequential=True,
            )
        )

    async def get_all_log_dir_event_notifications(self) -> list[str]:
        """Sequence numbers, as texts of ten digits."""
        prefix = LogDirEventNotificationSequenceZNode.sequence_number_prefix
        return [name.removeprefix(prefix) for name in await self.get_children(LogDirEventNotificationZNode.path)]

    async def get_broker_ids_from_log_dir_events(self, sequence_numbers: Iterable[str]) -> list[int]:
        found = await self._read_all({n: LogDirEventNotificationSequenceZNode.path(n) for n in sequence_numbers})
        return list(
            self._decoded(found, lambda _, data, __: LogDirEventNotificationSequenceZNode.decode(data)).values()
        )

    async def delete_log_dir_event_notifications(
        self, expected_controller_epoch_zk_version: int, sequence_numbers: Iterable[str] | None = None
    ) -> None:
        """All of them if none is named."""
        if sequence_numbers is None:
            sequence_numbers = await self.get_all_log_dir_event_notifications()
        await self._delete_all(
            [LogDirEventNotificationSequenceZNode.path(number) for number in sequence_numbers],
            expected_controller_epoch_zk_version,
        )

    async def propagate_isr_changes(self, partitions: Iterable[TopicPartition]) -> None:
        await self._request(
            self._create(
                IsrChangeNotificationSequenceZNode.path(),
                IsrChangeNotificationSequenceZNode.encode(partitions),
                sequential=True,
            )
        )

    async def get_all_isr_change_notifications(self) -> list[str]:
        prefix = IsrChangeNotificationSequenceZNode.sequence_number_prefix
        return [name.removeprefix(prefix) for name in await self.get_children(IsrChangeNotificationZNode.path)]

    async def get_partitions_from_isr_change_notifications(
        self, sequence_numbers: Iterable[str]
    ) -> list[TopicPartition]:
        found = await self._read_all({n: IsrChangeNotificationSequenceZNode.path(n) for n in sequence_numbers})
        named = self._decoded(found, lambda _, data, __: IsrChangeNotificationSequenceZNode.decode(data))
        return [partition for partitions in named.values() for partition in partitions]

    async def delete_isr_change_notifications(
        self, expected_controller_epoch_zk_version: int, sequence_numbers: Iterable[str] | None = None
    ) -> None:
        """All of them if none is named."""
        if sequence_numbers is None:
            sequence_numbers = await self.get_all_isr_change_notifications()
        await self._delete_all(
            [IsrChangeNotificationSequenceZNode.path(number) for number in sequence_numbers],
            expected_controller_epoch_zk_version,
        )

    # --- configuration ----------------------------------------------------------------------------------------

    async def get_entity_configs(self, entity_type: str, sanitized_entity_name: str) -> dict[str, str]:
        """One entity's configuration; empty if none was set."""
        return (await self.get_entity_configs_and_version(entity_type, sanitized_entity_name))[0]

    async def get_entity_configs_and_version(
        self, entity_type: str, sanitized_entity_name: str
    ) -> tuple[dict[str, str], int]:
        data, stat = await self.get_data_and_stat(ConfigEntityZNode.path(entity_type, sanitized_entity_name))
        return ConfigEntityZNode.decode(data), UNKNOWN_VERSION if stat is None else stat.version

    async def get_entities_configs(
        self, entity_type: str, sanitized_entity_names: Iterable[str]
    ) -> dict[str, dict[str, str]]:
        paths = {name: ConfigEntityZNode.path(entity_type, name) for name in sanitized_entity_names}
        found = await self._read_all(paths)
        return {name: ConfigEntityZNode.decode(found[name][0]) if name in found else {} for name in paths}

    async def get_all_entities_with_config(self, entity_type: str) -> list[str]:
        return await self.get_children(ConfigEntityTypeZNode.path(entity_type))

    async def set_or_create_entity_configs(
        self,
        entity_type: str,
        sanitized_entity_name: str,
        config: Mapping[str, str],
        version: int = MATCH_ANY_VERSION,
    ) -> None:
        """Writes an entity's configuration. Raises `ControllerMoved`, and `BadVersion` if it is newer than `version`.

        The controller epoch, read before the controller, guards it: it fails once a KRaft controller rules.
        (Apache's guard is ``/controller``'s version, always 0.)
        """
        known = await self.get_controller_epoch()
        registration = await self.get_controller_registration()
        if known is None or registration is None:
            raise ControllerMoved(f"There is no controller; {entity_type} {sanitized_entity_name} was not changed.")
        if registration.is_kraft:
            raise ControllerMoved(f"A KRaft controller has taken over; {entity_type} are not changed in ZooKeeper.")
        epoch_zk_version = known[1].version
        path = ConfigEntityZNode.path(entity_type, sanitized_entity_name)
        data = ConfigEntityZNode.encode(config)
        try:
            for _ in range(10):
                try:
                    await self._checked_request(SetData(path, data, version), epoch_zk_version)
                    return
                except NoNode:
                    if version >= 0:
                        raise BadVersion(path) from None
                await self.create_recursive(path.rpartition("/")[0], None, False)
                with suppress(NodeExists, NoNode):  # others create the znode, and delete it when it is empty
                    await self._checked_request(self._create(path, data), epoch_zk_version)
                    return
            raise NoNode(path)
        except BadVersion:
            if (await self.get_data_and_stat(path))[0] != data:
                raise
            # The first attempt succeeded, and its answer was lost.

    @to_its_end
    async def change_client_entity_configs(
        self, entity_type: str, sanitized_entity_name: str, config: Mapping[str, str], version: int
    ) -> None:
        """Writes the configuration of a user, client id or address, and notifies every broker. Raises
        `ControllerMoved`, and `BadVersion` if it was written after `version`.

        An entity's empty znode is deleted, as is a user's that was there only for one of its client ids
        (``tryCleanQuotaNodes``): clients choose names freely, and the znodes would only become more.
        """
        await self.set_or_create_entity_configs(entity_type, sanitized_entity_name, config, version)
        if not config:
            path = ConfigEntityZNode.path(entity_type, sanitized_entity_name)
            while path != ConfigEntityTypeZNode.path(entity_type) and await self._deleted_if_empty(path):
                path = path.rpartition("/")[0]
        await self.create_config_change_notification(f"{entity_type}/{sanitized_entity_name}")

    async def _deleted_if_empty(self, path: str) -> bool:
        """Deletes the entity's znode if it is empty, childless, and not written meanwhile; returns whether it is
        gone."""
        data, stat = await self.get_data_and_stat(path)
        if stat is None:
            return True
        if stat.num_children or ConfigEntityZNode.decode(data):
            return False
        try:
            await self._request(Delete(path, stat.version))
        except (BadVersion, NotEmpty):
            return False
        except NoNode:
            return True
        return True

    async def create_config_change_notification(self, sanitized_entity_path: str) -> None:
        """Notifies every broker; the path is the entity's below ``/config``, such as ``topics/t1``."""
        op = self._create(
            ConfigEntityChangeNotificationSequenceZNode.create_path,
            ConfigEntityChangeNotificationSequenceZNode.encode(sanitized_entity_path),
            sequential=True,
        )
        try:
            await self._request(op)
        except NoNode:
            await self.make_sure_persistent_path_exists(ConfigEntityChangeNotificationZNode.path)
            await self._request(op)

    # --- offsets of old consumers -----------------------------------------------------------------------------

    async def get_consumer_offset(self, group: str, topic_partition: TopicPartition) -> int | None:
        data, _ = await self.get_data_and_stat(ConsumerOffsetZNode.path(group, topic_partition))
        return ConsumerOffsetZNode.decode(data)

    async def set_or_create_consumer_offset(self, group: str, topic_partition: TopicPartition, offset: int) -> None:
        path, data = ConsumerOffsetZNode.path(group, topic_partition), ConsumerOffsetZNode.encode(offset)
        try:
            await self._request(SetData(path, data))
        except NoNode:
            await self.create_recursive(path, data)

    # --- features ---------------------------------------------------------------------------------------------

    async def get_features(self) -> tuple[Features, int] | None:
        """The finalized features and their epoch (the znode's version).

        None before the first controller, and if they are unreadable.
        """
        found = await self._read_all({FeatureZNode.path: FeatureZNode.path})
        return self._decoded(found, lambda _, data, stat: (FeatureZNode.decode(data), stat.version)).get(
            FeatureZNode.path
        )

    async def create_feature_znode(self, features: Features) -> None:
        await self._request(self._create(FeatureZNode.path, FeatureZNode.encode(features)))

    async def update_feature_znode(self, features: Features) -> int:
        stat = await self._request(SetData(FeatureZNode.path, FeatureZNode.encode(features)))
        return int(stat.version)
