"""Quotas of users, clients and addresses in ZooKeeper (KIP-546, ``ZkAdminManager``).

This module stores and describes them; `Quotas` enforces them, and so do the Kafka brokers of a mixed cluster.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from barnabas.broker.passing import telling
from barnabas.model.config import java_double
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime import Network
from barnabas.zk.kafka.config_znodes import CLIENTS, DEFAULT_ENTITY, IPS, USERS
from barnabas.zk.kafka.requests import over_where_another_writes
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znode_json import desanitize, is_entity_name, sanitize

if TYPE_CHECKING:
    from barnabas.broker.quotas import Quotas

logger = logging.getLogger(__name__)

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

_LONG, _INT = (-(1 << 63), (1 << 63) - 1), (-(1 << 31), (1 << 31) - 1)
_BOUNDS: Final[dict[str, tuple[int, int] | None]] = {
    "producer_byte_rate": _LONG,
    "consumer_byte_rate": _LONG,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
"""Limits of the quotas that are whole numbers; None for those that may have a fraction."""
_IP_BOUNDS: Final[dict[str, tuple[int, int] | None]] = {"connection_creation_rate": _INT}
_EPSILON: Final = 1e-6
_ADDRESS: Final = re.compile(r"[0-9A-Fa-f:.]+|[0-9A-Za-z]([0-9A-Za-z.-]*[0-9A-Za-z])?").fullmatch
"""An address, or a name that a host could have."""

Entity = dict[str, str | None]
"""Name by entity type; None is the default entity, for all users or clients without a quota of their own."""


@dataclass(frozen=True, slots=True)
class Component:
    """One part of a filter. `name` is the wanted name, or None for the default entity; `any` matches every name."""

    entity_type: str
    name: str | None
    any: bool


def components_of(parts: Iterable[tuple[str, int, str | None]]) -> dict[str, Component]:
    """A filter's components by entity type, from (type, kind of match, name). Raises INVALID_REQUEST."""
    found: dict[str, Component] = {}
    for entity_type, match_type, name in parts:
        if match_type not in (0, 1, 2):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected match type: {match_type}")
        if not entity_type:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type")
        if entity_type not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{entity_type}' not supported")
        if entity_type in found:
            word = "client" if entity_type == CLIENT_ID else entity_type
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate {word} filter component entity type")
        found[entity_type] = Component(entity_type, name if match_type == 0 else None, match_type == 2)
    if IP in found and len(found) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with user or "
            "clientId filter component.",
        )
    return found


def matches(entity: Entity, components: Mapping[str, Component], *, strict: bool) -> bool:
    """Whether `entity` has every requested component and, if `strict`, no others."""
    for component in components.values():
        if component.entity_type not in entity:
            return False
        if not component.any and entity[component.entity_type] != component.name:
            return False
    return not strict or entity.keys() <= components.keys()


async def describe(
    zk: KafkaZkClient, components: Mapping[str, Component], *, strict: bool
) -> list[tuple[Entity, dict[str, float]]]:
    """Every entity that the filter matches, with its quotas."""
    found = []
    for entity, config in await _entities(zk):
        keys = _IP_BOUNDS if IP in entity else _BOUNDS
        quotas: dict[str, float] = {}
        for key, value in config.items():
            if key in keys:
                try:
                    quotas[key] = float(value)
                except ValueError as error:
                    zk.unreadable.skip("quota", f"{key} of {entity}", error)
        if quotas and matches(entity, components, strict=strict):
            found.append((entity, quotas))
    return found


async def load(zk: KafkaZkClient, network: Network, quotas: Quotas) -> None:
    """Loads all quotas from ZooKeeper into `quotas`."""
    for kind, name, config in await _stored(zk):
        await take_up(network, quotas, f"{kind}/{name}", config)


async def take_up(network: Network, quotas: Quotas, entity_path: str, config: Mapping[str, str]) -> None:
    """Applies the quotas in ``/config/<entity_path>`` to `quotas`. A host's name stands for the address that it has now
    (``IpConfigHandler``)."""
    kind, _, name = entity_path.partition("/")
    if kind == IPS and name != DEFAULT_ENTITY:
        host = desanitize(name)
        try:
            entity_path = f"{IPS}/{sanitize(await network.address_of(host))}"
        except OSError as error:
            logger.error("the quota of %s limits nobody, since its address is not known: %s", host, error)
            return
    quotas.set(entity_path, config)


async def _entities(zk: KafkaZkClient) -> list[tuple[Entity, dict[str, str]]]:
    found: list[tuple[Entity, dict[str, str]]] = []
    for kind, name, config in await _stored(zk):
        if kind == USERS:
            user, _, client = name.partition(f"/{CLIENTS}/")
            entity: Entity = {USER: _named(user)}
            if client:
                entity[CLIENT_ID] = _named(client)
        else:
            entity = {CLIENT_ID if kind == CLIENTS else IP: _named(name)}
        found.append((entity, config))
    return found


async def _stored(zk: KafkaZkClient) -> list[tuple[str, str, dict[str, str]]]:
    """Every user, client id and address that has a configuration: its kind, its name as in the path, its values."""
    users = sorted(await zk.get_all_entities_with_config(USERS))
    names = {USERS: list(users), CLIENTS: sorted(await zk.get_all_entities_with_config(CLIENTS))}
    for user in users:
        clients = sorted(await zk.get_all_entities_with_config(f"{USERS}/{user}/{CLIENTS}"))
        names[USERS] += [f"{user}/{CLIENTS}/{client}" for client in clients]
    names[IPS] = sorted(await zk.get_all_entities_with_config(IPS))
    found = []
    for kind, of_kind in names.items():
        configs = await zk.get_entities_configs(kind, of_kind)
        found += [(kind, name, configs[name]) for name in of_kind]
    return found


def _named(sanitized: str) -> str | None:
    return None if sanitized == DEFAULT_ENTITY else desanitize(sanitized)


@telling(ErrorCode.REQUEST_TIMED_OUT)
@over_where_another_writes
async def alter(
    zk: KafkaZkClient,
    network: Network,
    entity: Entity,
    changes: Sequence[tuple[str, float | None]],
    *,
    validate_only: bool,
) -> None:
    """Sets quotas of one entity; None removes one. Raises INVALID_REQUEST, and then nothing is changed."""
    entity_type, name, bounds = _place(entity)
    host = entity.get(IP)
    if host is not None:
        try:
            await network.address_of(host)
        except OSError:
            raise _no_host(name) from None
    config, version = await zk.get_entity_configs_and_version(entity_type, name)
    for key, value in changes:
        if value is None:
            config.pop(key, None)
        elif key not in bounds:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {key}")
        else:
            config[key] = _text(key, value, bounds[key])
    if not validate_only:
        await zk.change_client_entity_configs(entity_type, name, config, version)


def _place(entity: Entity) -> tuple[str, str, Mapping[str, tuple[int, int] | None]]:
    for entity_type, name in entity.items():
        if entity_type not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Empty {entity_type} not supported")
        if name is not None and not is_entity_name(name):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Quotas of a {entity_type} named '{name}' cannot be kept")
    sanitized = {
        entity_type: DEFAULT_ENTITY if name is None else sanitize(name) for entity_type, name in entity.items()
    }
    if IP in sanitized:
        if len(sanitized) > 1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Invalid quota entity combination, IP entity should not be used with user/client ID entity.",
            )
        if entity[IP] is not None and not _ADDRESS(str(entity[IP])):
            raise _no_host(sanitized[IP])
        return IPS, sanitized[IP], _IP_BOUNDS
    if USER in sanitized and CLIENT_ID in sanitized:
        return USERS, f"{sanitized[USER]}/{CLIENTS}/{sanitized[CLIENT_ID]}", _BOUNDS
    if USER in sanitized:
        return USERS, sanitized[USER], _BOUNDS
    if CLIENT_ID in sanitized:
        return CLIENTS, sanitized[CLIENT_ID], _BOUNDS
    raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")


def _no_host(name: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is not a valid IP or resolvable host.")


def _text(key: str, value: float, bounds: tuple[int, int] | None) -> str:
    if bounds is None:
        return java_double(value)
    whole = min(max(int(value + _EPSILON), bounds[0]), bounds[1]) if math.isfinite(value) else bounds[1]
    if not abs(whole - value) <= _EPSILON:
        kind = "INT" if bounds is _INT else "LONG"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Configuration {key} must be a {kind} value")
    return str(whole)
