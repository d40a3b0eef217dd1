"""``kafka-configs --zookeeper``: SCRAM users, and configurations of brokers that do not run.

It works before any broker runs, and only the znodes' ACLs limit what it may do.

Source: ``kafka.admin.ConfigCommand.processCommandWithZk``.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.broker.configs import is_each_brokers_own
from barnabas.cli.kafka_tools.config_entities import MECHANISMS, scram_credential
from barnabas.cli.kafka_tools.config_words import BROKERS, CLIENTS, USERS, ConfigWords
from barnabas.cli.kafka_tools.errors import KAFKA_EXCEPTION, JavaError, illegal_argument
from barnabas.cli.kafka_tools.java import in_hash_order
from barnabas.cli.kafka_tools.session import CONFIG_EXCEPTION, load_properties
from barnabas.cli.kafka_tools.topic_rules import INVALID_CONFIGURATION
from barnabas.cli.plain import kafka_opts
from barnabas.model.config import broker_config, broker_definitions
from barnabas.model.errors import ConfigError
from barnabas.runtime.real import real_runtime
from barnabas.security.sasl.scram_credential import ScramCredential, ScramMechanism
from barnabas.zk.client.client import ZooKeeperAuthFailed, ZooKeeperTimeout
from barnabas.zk.client.config import client_of
from barnabas.zk.kafka.config_znodes import DEFAULT_ENTITY, ConfigEntityZNode
from barnabas.zk.kafka.requests import over_where_another_writes, result_of
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znode_json import desanitize, sanitize
from barnabas.zk.kafka.znodes import UNKNOWN_VERSION
from barnabas.zk.protocol.errors import BadVersion, NodeExists, NoNode, ZooKeeperError
from barnabas.zk.protocol.ops import SetData

_TIMEOUT_MS: Final = 30_000
_SALT_BYTES: Final = 20
_ENCODER: Final = "password.encoder."
_NOT_RUNNING: Final = (
    "Broker configuration operations using ZooKeeper are only supported if the affected broker(s) are not running."
)
_SCRAM_ONLY: Final = "User configuration updates using ZooKeeper are only supported for SCRAM credential updates."
_KINDS: Final = {USERS: "user-principal", CLIENTS: "client-id"}
_LISTENERS_OWN: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")


class _Part(NamedTuple):
    """A type of entity, with the sanitized name of one entity or without a name."""

    kind: str
    name: str | None

    def __str__(self) -> str:
        kind = _KINDS.get(self.kind, self.kind)
        if self.name is None:
            return self.kind
        if self.name == DEFAULT_ENTITY:
            return f"default {kind}"
        return f"{kind} '{desanitize(self.name) if self.kind in _KINDS else self.name}'"


class _Entity(NamedTuple):
    """A user, a broker, or a user with a client id."""

    root: _Part
    child: _Part | None

    @property
    def path(self) -> str:
        """The entity's path in ZooKeeper, below its type."""
        root = self.root.name or ""
        if self.child is None:
            return root
        return f"{root}/{self.child.kind}" + (f"/{self.child.name}" if self.child.name else "")

    def __str__(self) -> str:
        return str(self.root) if self.child is None else f"{self.root}, {self.child}"


def run(words: ConfigWords) -> None:
    """Raises `JavaError` for every failure."""
    entity = _entity(words, words.entity_types, words.entity_names)
    if words.has(words.alter):
        # Parsed before the connection to ZooKeeper: errors in the words show without it.
        added, deleted = words.to_add(), words.to_delete()
        _in_zookeeper(words, lambda zk: _alter(zk, entity, added, deleted))
    else:
        _in_zookeeper(words, lambda zk: _describe(zk, entity))


def _entity(words: ConfigWords, types: Sequence[str], names: Sequence[str]) -> _Entity:
    if types[0] not in (USERS, CLIENTS):
        return _Entity(_Part(types[0], (names[0] or DEFAULT_ENTITY) if names else None), None)
    if words.has(words.alter) and len(names) != len(types):
        raise illegal_argument(
            "--entity-name or --entity-default must be specified with each --entity-type for --alter"
        )
    if len(types) == 2 and types[0] == CLIENTS:
        types = [types[1], types[0]]
        names = [names[1], names[0]] if len(names) == 2 else names
    sanitized = [sanitize(name) if name else DEFAULT_ENTITY for name in names]
    parts = [_Part(kind, sanitized[at] if at < len(sanitized) else None) for at, kind in enumerate(types)]
    return _Entity(parts[0], parts[1] if len(parts) > 1 else None)


def _in_zookeeper(words: ConfigWords, story: Callable[[KafkaZkClient], Awaitable[None]]) -> None:
    from barnabas.broker.jvm_properties import with_jvm_properties

    connect = words.value(words.zookeeper)
    tls = load_properties(words.value(words.zk_tls_config_file))
    values = {name: text for name, text in tls.items() if name.startswith("zookeeper.")}
    values["zookeeper.connect"] = connect
    values["zookeeper.session.timeout.ms"] = str(_TIMEOUT_MS)
    try:
        config = broker_config(with_jvm_properties(values, kafka_opts(), lambda path: Path(path).read_text()))
        client = client_of(real_runtime(), config, name="ConfigCommand")
    except ConfigError as error:
        raise JavaError(CONFIG_EXCEPTION, str(error)) from None
    # A client that logs in creates znodes that it alone may change, as Kafka's tool does.
    secure = client.security.sasl is not None or bool(config.text("zookeeper.ssl.keystore.location"))

    async def connected() -> None:
        await client.start()
        try:
            await story(KafkaZkClient(client.runtime, client, secure=secure))
        finally:
            await client.close()

    try:
        asyncio.run(connected())
    except ZooKeeperTimeout:
        raise JavaError(
            "kafka.zookeeper.ZooKeeperClientTimeoutException",
            "Timed out waiting for connection while in state: CONNECTING",
        ) from None
    except ZooKeeperAuthFailed as error:
        raise JavaError("kafka.zookeeper.ZooKeeperClientAuthFailedException", str(error)) from None
    except ZooKeeperError as error:
        raise JavaError(KAFKA_EXCEPTION, f"ZooKeeper at {connect} refused: {error}") from error


# describe


async def _describe(zk: KafkaZkClient, entity: _Entity) -> None:
    if entity.root.kind == BROKERS:
        await _require_not_running(zk, entity, f"--bootstrap-server option must be specified to describe {BROKERS}")
    all_users = entity == _Entity(_Part(USERS, None), None)
    for found in await _all(zk, entity):
        values = await zk.get_entity_configs(found.root.kind, found.path)
        # A user with client ids has a znode, but may have no configuration of its own.
        if values or not all_users:
            told = ",".join(f"{name}={values[name]}" for name in in_hash_order(values))
            print(f"Configs for {found} are {told}")


async def _all(zk: KafkaZkClient, entity: _Entity) -> list[_Entity]:
    """The entities that `entity` stands for."""
    root, child = entity
    if root.name is None:
        names = await zk.get_all_entities_with_config(root.kind)
        roots = [_Entity(_Part(root.kind, name), child and _Part(child.kind, None)) for name in names]
        return roots if child is None else [found for user in roots for found in await _all(zk, user)]
    if child is None or child.name is not None:
        return [entity]
    names = await zk.get_all_entities_with_config(f"{root.kind}/{root.name}/{child.kind}")
    return [_Entity(root, _Part(child.kind, name)) for name in names]


# alter


async def _alter(zk: KafkaZkClient, entity: _Entity, added: dict[str, str], deleted: Sequence[str]) -> None:
    kind, path = entity.root.kind, entity.path
    changes = ", ".join(f"{name}={added[name]}" for name in in_hash_order(added))
    whole = (
        f"--bootstrap-server option must be specified to update {kind} configs: "
        f"{{add: {{{changes}}}, delete: {'ArrayBuffer' if deleted else 'List'}({', '.join(deleted)})}}"
    )
    if kind == USERS:
        if any(name not in MECHANISMS for name in (*added, *deleted)):
            raise illegal_argument(f"requirement failed: {whole}. {_SCRAM_ONLY}")
        added = {name: _stored_credential(name, text) for name, text in added.items()}
    else:
        await _require_not_running(zk, entity, whole)
        added = _stored_broker_values(added, per_broker=path != DEFAULT_ENTITY)
    await change(zk, kind, path, added, deleted)
    await zk.create_config_change_notification(f"{kind}/{path}")
    print(f"Completed updating config for entity: {entity}.")


@over_where_another_writes
async def change(zk: KafkaZkClient, kind: str, path: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    """Adds to an entity's configuration and deletes from it; another writer's change meanwhile is kept.

    The write is not guarded by the controller's epoch: a cluster that was never started has no controller.
    """
    values, version = await zk.get_entity_configs_and_version(kind, path)
    invalid = [key for key in deleted if key not in values]
    if invalid:
        raise JavaError(INVALID_CONFIGURATION, f"Invalid config(s): {','.join(invalid)}")
    values = {name: text for name, text in {**values, **added}.items() if name not in deleted}
    znode, data = ConfigEntityZNode.path(kind, path), ConfigEntityZNode.encode(values)
    try:
        if version == UNKNOWN_VERSION:
            await zk.create_recursive(znode, data)
        else:
            # Sent once: if the answer is lost, a later version in ZooKeeper may be this write or another's.
            result_of(*await zk.client.handle_requests([SetData(znode, data, version)]))
    except (NodeExists, NoNode):
        raise BadVersion(znode) from None


async def _require_not_running(zk: KafkaZkClient, entity: _Entity, whole: str) -> None:
    name = entity.root.name
    if name is None:
        raise illegal_argument("Error parsing broker . The broker's Entity Name must be a single integer value")
    if name == DEFAULT_ENTITY:
        if running := await zk.get_sorted_broker_list():
            raise illegal_argument(f"requirement failed: {whole} - {len(running)} brokers are running. {_NOT_RUNNING}")
    elif await zk.get_broker(int(name)) is not None:
        raise illegal_argument(f"requirement failed: {whole} - broker {name} is running. {_NOT_RUNNING}")


def _stored_credential(mechanism: str, text: str) -> str:
    iterations, password = scram_credential(mechanism, text, told_as=mechanism.replace("-", "_"))
    salt = secrets.token_bytes(_SALT_BYTES)
    return ScramCredential.of_password(ScramMechanism(MECHANISMS[mechanism]), password, salt, iterations).encode()


def _stored_broker_values(added: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
    """The values as ZooKeeper stores them: passwords are encrypted by the ``password.encoder.`` keys, which are left
    out."""
    from barnabas.broker.protection import is_password
    from barnabas.security.password_encoder import password_encoder

    encoding = {name: text for name, text in added.items() if name.startswith(_ENCODER)}
    values = {name: text for name, text in added.items() if name not in encoding}
    _check_broker_values(values, per_broker=per_broker)
    passwords = [name for name in in_hash_order(values) if is_password(name)]
    if not passwords:
        return values
    try:
        encoder = password_encoder(broker_config(encoding))
    except ConfigError as error:
        raise JavaError(CONFIG_EXCEPTION, error.in_kafkas_words) from None
    if encoder is None:
        raise illegal_argument(
            f"requirement failed: password.encoder.secret must be specified to update Set({', '.join(passwords)}). "
            "Other password encoder configs like cipher algorithm and iterations may also be specified to override the "
            "default encoding parameters. Password encoder configs will not be persisted in ZooKeeper."
        )
    return values | {name: encoder.encode(values[name], secrets.token_bytes) for name in passwords}


def _check_broker_values(values: Mapping[str, str], *, per_broker: bool) -> None:
    """``DynamicBrokerConfig.validateConfigs``."""
    modes = {name: broker_definitions()[name].update_mode for name in values if name in broker_definitions()}
    _refuse("Cannot update these configs dynamically", (name for name, mode in modes.items() if mode == "read-only"))
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        (name for name in modes if name.startswith(("ssl.", "sasl."))),
        collection="HashSet",
    )
    for name, text in values.items():
        match = _LISTENERS_OWN.fullmatch(name)
        base = match[1] if match else name
        if base in broker_definitions():
            try:
                broker_definitions()[base].parse(text)
            except ConfigError as error:
                raise JavaError(CONFIG_EXCEPTION, error.in_kafkas_words) from None
    if not per_broker:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            (name for name in values if is_each_brokers_own(name)),
        )


def _refuse(why: str, names: Iterable[str], *, collection: str = "Set") -> None:
    found = ", ".join(names)
    if found:
        raise JavaError(CONFIG_EXCEPTION, f"{why}: {collection}({found})")
