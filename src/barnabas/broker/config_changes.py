"""Configuration that changes while the broker runs (KIP-226): written into ZooKeeper, announced, and applied.

A broker that changes ``/config/<type>/<entity>`` also creates a sequential znode below ``/config/changes``. Every
broker watches these (`ChangeNotifications`) and reads the entity again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol

from barnabas.broker import client_quotas
from barnabas.broker.change_notifications import CHANGE_EXPIRATION_MS, ChangeNotifications
from barnabas.broker.configs import (
    ConfigResourceType,
    apply_incremental,
    check_change,
    check_dynamic,
    check_usable,
    validate_dynamic_broker_values,
    validate_topic_values,
)
from barnabas.broker.loggers import require_this_broker
from barnabas.broker.passing import telling
from barnabas.broker.protection import is_password, unchangeable
from barnabas.broker.quotas import Quotas
from barnabas.broker.scram_users import BrokerScramUsers
from barnabas.broker.this_node import ThisNode
from barnabas.model.config import AlterOperation, Config, broker_definitions, topic_definitions
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.runtime import to_its_end
from barnabas.security.password_encoder import PasswordEncoder, password_encoder
from barnabas.zk.kafka.config_znodes import (
    BROKERS,
    CLIENTS,
    DEFAULT_ENTITY,
    IPS,
    TOPICS,
    USERS,
    ConfigEntityChangeNotificationSequenceZNode,
    ConfigEntityChangeNotificationZNode,
)
from barnabas.zk.kafka.requests import over_where_another_writes
from barnabas.zk.kafka.zk_client import ControllerMoved
from barnabas.zk.kafka.znode_json import desanitize
from barnabas.zk.kafka.znodes import MATCH_ANY_VERSION
from barnabas.zk.protocol.errors import ZooKeeperError

logger = logging.getLogger(__name__)

VALUES_MAX: Final = 5_000
VALUES_BYTES_MAX: Final = 1024 * 1024
"""For one resource in one request: a broker's keys may have any name, and one znode holds them all."""


class ConfigTakers(Protocol):
    """The parts of a broker that a change of configuration concerns."""

    async def broker_config_changed(self) -> None:
        """The dynamic configuration changed: every reader of the configuration gets the new one from now on."""
        ...

    def topic_config_changed(self, topic: str, values: Mapping[str, str]) -> None:
        """A topic's own values changed to these."""
        ...

    def check_listeners(self, config: Config) -> None:
        """Raises `ConfigError` when the open listeners cannot change to those of `config`."""
        ...


class ConfigChanges:
    """This broker's side of the configuration in ZooKeeper: it writes requested changes and follows those of others."""

    def __init__(self, node: ThisNode, quotas: Quotas, scram_users: BrokerScramUsers, takers: ConfigTakers) -> None:
        """Raises `ConfigError` for a ``password.encoder`` setting that cannot be used."""
        self._node = node
        self._quotas = quotas
        self._scram_users = scram_users
        self._takers = takers
        self._encoder = password_encoder(node.config)
        self._made_ms = node.runtime.clock.monotonic_ms()

    # Following

    async def startup(self) -> None:
        node = self._node
        followed = ChangeNotifications(
            node,
            ConfigEntityChangeNotificationZNode.path,
            ConfigEntityChangeNotificationSequenceZNode.sequence_number_prefix,
            self._take_up,
            kind="configuration change",
        )
        await client_quotas.load(node.zk, node.runtime.network, self._quotas)
        await followed.startup()
        if node.runtime.clock.monotonic_ms() - self._made_ms > CHANGE_EXPIRATION_MS // 2:
            await self._read_again()
        await self._renew_passwords()

    async def _read_again(self) -> None:
        """Reads the configuration again after loading the logs: that took long, and notifications may be gone."""
        zk = self._node.zk
        for entity in (DEFAULT_ENTITY, str(self._node.broker_id)):
            await self.reload_broker(entity)
        topics = await zk.get_all_entities_with_config(TOPICS)
        for topic, values in (await zk.get_entities_configs(TOPICS, topics)).items():
            self._takers.topic_config_changed(topic, values)

    async def _renew_passwords(self) -> None:
        """Encodes by the present secret passwords that have the old one: the next start may not know that any more
        (``DynamicBrokerConfig.maybeReEncodePasswords``, which ends the broker while there is no controller)."""
        node, encoder, entity = self._node, self._encoder, str(self._node.broker_id)
        while encoder is not None and encoder.old_secrets:
            try:
                controller = await node.zk.get_controller_registration()
                if controller is not None and controller.is_kraft:
                    return
                stored, version = await node.zk.get_entity_configs_and_version(BROKERS, entity)
                token = node.runtime.entropy.token
                renewed = {
                    name: encoder.renewed(text, token) if is_password(name) else text for name, text in stored.items()
                }
                if renewed != stored:
                    await node.zk.set_or_create_entity_configs(BROKERS, entity, renewed, version)
                return
            except (ZooKeeperError, ControllerMoved) as error:
                logger.warning("[broker %d] passwords are not encoded anew yet: %s", node.broker_id, error)
                await node.pause_for_zookeeper()

    async def _take_up(self, data: bytes | None) -> None:
        await self._entity_changed(ConfigEntityChangeNotificationSequenceZNode.decode(data))

    async def _entity_changed(self, entity_path: str) -> None:
        entity_type, _, entity = entity_path.partition("/")
        if entity_type == TOPICS:
            name = desanitize(entity)
            values = await self._node.zk.get_entity_configs(TOPICS, entity)
            logger.info("[broker %d] configuration of topic %s is now %s", self._node.broker_id, name, values)
            self._takers.topic_config_changed(name, values)
        elif entity_type == BROKERS:
            await self.reload_broker(entity)
        elif entity_type in (USERS, CLIENTS, IPS):
            values = await self._node.zk.get_entity_configs(entity_type, entity)
            await client_quotas.take_up(self._node.runtime.network, self._quotas, entity_path, values)
            if entity_type == USERS and entity != DEFAULT_ENTITY and "/" not in entity:
                await self._scram_users.user_changed(entity)
        else:
            logger.debug("[broker %d] %s changed", self._node.broker_id, entity_path)

    async def reload_broker(self, entity: str) -> None:
        """Applies ``/config/brokers/<entity>``. A value that cannot be used is logged; the others count."""
        layers = self._node.config_layers
        if entity not in (DEFAULT_ENTITY, str(self._node.broker_id)):
            return
        values = await self._node.zk.get_entity_configs(BROKERS, entity)
        usable: dict[str, str] = {}
        for name, stored in values.items():
            try:
                if unchangeable([name]):
                    raise ConfigError(f"{name} cannot be changed while this broker runs.")
                text = self._value(entity, name, stored)
                check_usable(layers.static.with_overrides({name: text}), name)
            except ConfigError as error:
                logger.error("[broker %d] dynamic configuration %s is not used: %s", self._node.broker_id, name, error)
            else:
                usable[name] = text
        if entity == DEFAULT_ENTITY:
            layers.dynamic_default = usable
        else:
            layers.dynamic_broker = usable
        await self._takers.broker_config_changed()

    # Writing

    @telling(ErrorCode.REQUEST_TIMED_OUT)
    @over_where_another_writes
    async def change(
        self,
        resource_type: int,
        name: str,
        operations: list[tuple[str, int, str | None]],
        *,
        validate_only: bool,
    ) -> None:
        """Applies single changes to the present values."""
        require_few((key, text) for key, _, text in operations)
        if resource_type == ConfigResourceType.TOPIC and name:
            apply_incremental({}, operations, topic_definitions())  # a wrong operation is told also of an absent topic
        entity_type, entity = self._entity(resource_type, name)
        if entity_type == BROKERS:
            _refuse_promises(key for key, operation, _ in operations if operation != AlterOperation.DELETE)
        definitions = topic_definitions() if entity_type == TOPICS else broker_definitions()
        current, version = await self._node.zk.get_entity_configs_and_version(entity_type, entity)
        if entity_type == BROKERS:
            current = self._usable(entity, current)
        values = apply_incremental(current, operations, definitions)
        await self._write(entity_type, entity, values, version, validate_only=validate_only)

    @telling(ErrorCode.REQUEST_TIMED_OUT)
    async def replace(self, resource_type: int, name: str, values: dict[str, str], *, validate_only: bool) -> None:
        require_few(values.items())
        entity_type, entity = self._entity(resource_type, name)
        if entity_type == BROKERS:
            _refuse_promises(values)
        await self._write(entity_type, entity, values, MATCH_ANY_VERSION, validate_only=validate_only)

    def _entity(self, resource_type: int, name: str) -> tuple[str, str]:
        if resource_type == ConfigResourceType.TOPIC:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
            if name not in self._node.metadata.image.topics:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
            return TOPICS, name
        if resource_type == ConfigResourceType.CLIENT_METRICS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS",
            )
        if resource_type != ConfigResourceType.BROKER:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
        if not name:
            return BROKERS, DEFAULT_ENTITY
        require_this_broker(name, self._node.broker_id)
        return BROKERS, str(self._node.broker_id)

    @property
    def _password_encoder(self) -> PasswordEncoder:
        """Raises `ConfigError` when there is no secret."""
        if self._encoder is None:
            raise ConfigError("Password encoder secret not configured")
        return self._encoder

    def _encoded(self, values: Mapping[str, str]) -> dict[str, str]:
        token = self._node.runtime.entropy.token
        return {
            name: self._password_encoder.encode(text, token) if is_password(name) else text
            for name, text in values.items()
        }

    def _usable(self, entity: str, stored: Mapping[str, str]) -> dict[str, str]:
        """Drops values that no broker accepts, and passwords that can no longer be read: otherwise they would block
        every other change (``DynamicBrokerConfig.fromPersistentProps``)."""
        found: dict[str, str] = {}
        for name, text in stored.items():
            with suppress(ConfigError):
                found[name] = self._value(entity, name, text)
        return found

    def _value(self, entity: str, name: str, stored: str) -> str:
        """The stored value in clear text. Raises `ConfigError` if it cannot be read, or no broker accepts it."""
        text = self._password_encoder.decode(stored) if is_password(name) else stored
        check_dynamic(name, text, per_broker=entity != DEFAULT_ENTITY)
        return text

    def _validate_broker_values(self, entity: str, values: dict[str, str]) -> None:
        """Raises INVALID_REQUEST, also for a value that is not allowed (``ConfigAdminManager``)."""
        layers = self._node.config_layers
        per_broker = entity != DEFAULT_ENTITY
        try:
            validate_dynamic_broker_values(layers.static, values, per_broker=per_broker)
            new = replace(layers, dynamic_broker=values) if per_broker else replace(layers, dynamic_default=values)
            wanted = new.current()
            check_change(self._node.config, wanted)
            if per_broker:
                self._takers.check_listeners(wanted)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, error.in_kafkas_words) from None

    async def _write(
        self, entity_type: str, entity: str, values: dict[str, str], version: int, *, validate_only: bool
    ) -> None:
        try:
            if entity_type == TOPICS:
                validate_topic_values(self._node.config, values)
            else:
                self._validate_broker_values(entity, values)
                values = self._encoded(values)
        except ConfigError as error:
            kind, name = ("TOPIC", entity) if entity_type == TOPICS else ("BROKER", entity.replace(DEFAULT_ENTITY, ""))
            resource = f"ConfigResource(type={kind}, name='{name}')"
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Invalid config value for resource {resource}: {error.in_kafkas_words}"
            ) from None
        if not validate_only:
            await self._store(entity_type, entity, values, version)

    @to_its_end
    async def _store(self, entity_type: str, entity: str, values: dict[str, str], version: int) -> None:
        zk = self._node.zk
        await zk.set_or_create_entity_configs(entity_type, entity, values, version)
        await zk.create_config_change_notification(f"{entity_type}/{entity}")


def _refuse_promises(names: Iterable[str]) -> None:
    """Raises INVALID_REQUEST for keys that a running Kafka broker can change, but that have no effect here."""
    promised = unchangeable(names)
    if promised:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "This broker changes neither what holds for all listeners nor how principals are made while it runs: "
            f"{', '.join(sorted(promised))}",
        )


def require_few(values: Iterable[tuple[str, str | None]]) -> None:
    """Raises INVALID_REQUEST when the values are more than one resource can have."""
    size = 0
    for number, (name, text) in enumerate(values, 1):
        size += len(name) + len(text or "")
        if number > VALUES_MAX or size > VALUES_BYTES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"One resource has more than {VALUES_MAX} values, or {VALUES_BYTES_MAX} bytes of them.",
            )
