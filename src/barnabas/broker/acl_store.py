"""ACLs in ZooKeeper, from which every broker of a cluster learns of their changes: Kafka's ``AclAuthorizer``.

Literal names stand below ``/kafka-acl``, prefixed ones below ``/kafka-acl-extended``. All ACLs of a resource are one
znode, and a write is conditional on the version that was read: the second of two writers reads again and adds its ACL.
A notification below ``/kafka-acl-changes`` or ``/kafka-acl-extended-changes`` names the changed resource, so that
brokers of both kinds read it again. The broker that gets the request applies the change at once, the others within
moments.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from barnabas.broker.change_notifications import ChangeNotifications
from barnabas.broker.passing import telling
from barnabas.broker.this_node import ThisNode
from barnabas.model.acl import Operation, PatternType, Permission, ResourceType
from barnabas.model.config import Config
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.runtime import to_its_end
from barnabas.runtime.turns import SLICE
from barnabas.security.acls import Acl, AclAuthorizer, AclFilter, Resource
from barnabas.security.authorizer import AllowAll, Authorizer
from barnabas.security.principal import Principal
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.client.config import client_of
from barnabas.zk.kafka.security_znodes import AclChangeZNode, AclEntry, ResourcePattern
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.zk_security import ACL_PATTERN_TYPES
from barnabas.zk.protocol.paths import is_valid_path

logger = logging.getLogger(__name__)

ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
UPDATE_RETRIES_MAX: Final = 10
RETRY_BACKOFF_MS: Final = 100

_OWN_ZOOKEEPER: Final = "authorizer.zookeeper."
"""ACLs may be kept in an ensemble of their own: ``authorizer.zookeeper.url``, and other ``zookeeper.`` keys."""
_OPERATIONS: Final = {operation.words.upper(): operation for operation in Operation}
_PERMISSIONS: Final = {permission.words.upper(): permission for permission in Permission}
_RESOURCE_TYPES: Final = {
    resource_type.words.upper(): resource_type for resource_type in ResourceType if resource_type > ResourceType.ANY
}

Change = Callable[[frozenset[Acl]], frozenset[Acl]]


def authorizer_of(config: Config) -> Authorizer:
    """The authorizer that ``authorizer.class.name`` names. Raises `ConfigError`."""
    if config.text("authorizer.class.name") != ACL_AUTHORIZER:
        return AllowAll()
    flag = config.overrides.get("allow.everyone.if.no.acl.found", "false").strip().lower()
    if flag not in ("true", "false"):
        raise ConfigError(f"allow.everyone.if.no.acl.found is {flag}: it takes true or false.")
    super_users = []
    for text in filter(None, (part.strip() for part in config.overrides.get("super.users", "").split(";"))):
        try:
            super_users.append(principal_of(text))
        except ValueError as error:
            raise ConfigError(f"super.users has {text!r}: {error}.") from None
    return AclAuthorizer(super_users, allow_everyone_if_no_acl_found=flag == "true")


def principal_of(text: str) -> Principal:
    """``User:name``. Raises ``ValueError``."""
    principal_type, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return Principal(principal_type, name)


class AclStore:
    """Keeps an `AclAuthorizer` in step with ZooKeeper, and changes the ACLs there."""

    def __init__(self, node: ThisNode, authorizer: AclAuthorizer) -> None:
        self._node = node
        self.authorizer = authorizer
        self._client: ZooKeeperClient | None = None
        self._zk: KafkaZkClient | None = None
        self._versions: dict[Resource, int] = {}

    @property
    def zk(self) -> KafkaZkClient:
        return self._node.zk if self._zk is None else self._zk

    async def startup(self) -> None:
        """Watches for changes before it reads, so that no change is missed. Raises ``ZNodeError`` for ACLs that cannot
        be read: without them the broker would admit users whom they deny."""
        await self._connect()
        await self.zk.create_acl_paths()
        for path, pattern_of in (
            (AclChangeZNode.literal_path, AclChangeZNode.decode_literal),
            (AclChangeZNode.extended_path, AclChangeZNode.decode_extended),
        ):
            await self._follow(path, pattern_of)
        for pattern_type in ACL_PATTERN_TYPES:
            for type_name in await self.zk.get_resource_types(pattern_type):
                resource_type = _RESOURCE_TYPES.get(type_name.upper())
                if resource_type is None:
                    logger.warning("ACLs of an unknown resource type are not used: %s", type_name)
                    continue
                for name in await self.zk.get_resource_names(pattern_type, resource_type.name):
                    await self._read(Resource(resource_type, name, PatternType[pattern_type]))

    async def _connect(self) -> None:
        config = self._node.config
        own = {
            name.removeprefix("authorizer."): text
            for name, text in config.overrides.items()
            if name.startswith(_OWN_ZOOKEEPER)
        }
        if own:
            if "zookeeper.url" in own:
                own["zookeeper.connect"] = own.pop("zookeeper.url")
            name = f"broker {self._node.broker_id} authorizer"
            config = config.with_overrides(own)
            self._client = client_of(self._node.runtime, config, name=name)
            await self._client.start()
            self._zk = KafkaZkClient(self._node.runtime, self._client, secure=config.flag("zookeeper.set.acl"))
            await self._zk.create_chroot_path_if_not_set()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _follow(self, path: str, pattern_of: Callable[[bytes | None], ResourcePattern]) -> None:
        async def take_up(data: bytes | None) -> None:
            pattern = pattern_of(data)
            resource_type = _RESOURCE_TYPES[pattern.resource_type.replace("_", "")]
            resource = Resource(resource_type, pattern.name, PatternType[pattern.pattern_type])
            await self._read(resource)
            logger.info("[broker %d] ACLs of %s changed", self._node.broker_id, resource)

        notifications = ChangeNotifications(
            self._node, path, AclChangeZNode.sequence_number_prefix, take_up, kind="ACL change", zk=self.zk
        )
        await notifications.startup()

    async def _read(self, resource: Resource) -> frozenset[Acl]:
        found = await self.zk.get_versioned_acls_for_resource(_pattern(resource))
        acls = frozenset(map(_acl, found.acls))
        self._take(resource, acls, found.zk_version)
        return acls

    def _take(self, resource: Resource, acls: frozenset[Acl], zk_version: int) -> None:
        self.authorizer.update(resource, acls)
        if acls:
            self._versions[resource] = zk_version
        else:
            self._versions.pop(resource, None)

    @to_its_end
    async def create(self, bindings: Sequence[tuple[Resource, Acl]]) -> list[KafkaError | None]:
        """Adds ACLs; returns for each, in order, why it was not added, or None."""
        outcomes: list[KafkaError | None] = [None] * len(bindings)
        by_resource: dict[Resource, list[int]] = {}
        for index, (resource, acl) in enumerate(bindings):
            if not (index + 1) % SLICE:
                await asyncio.sleep(0)
            if "/" in resource.name or not (resource.is_known and acl.is_known):
                outcomes[index] = KafkaError(ErrorCode.INVALID_REQUEST, "Failed to create ACL")
            else:
                by_resource.setdefault(resource, []).append(index)
        for resource, indexes in by_resource.items():
            added = frozenset(bindings[index][1] for index in indexes)
            try:
                for acl in added:
                    principal_of(acl.principal)
                await self._update(resource, added.__or__)
            except (KafkaError, ValueError) as error:
                for index in indexes:
                    outcomes[index] = (
                        error.with_traceback(None)
                        if isinstance(error, KafkaError)
                        else KafkaError(ErrorCode.INVALID_REQUEST, str(error))
                    )
        return outcomes

    @to_its_end
    async def delete(self, filters: Sequence[AclFilter]) -> list[dict[tuple[Resource, Acl], KafkaError | None]]:
        """Removes ACLs; returns for each filter the ACLs that it matched first, with why one is still there or None."""
        deleted: list[dict[tuple[Resource, Acl], KafkaError | None]] = [{} for _ in filters]
        named: dict[Resource, list[tuple[int, AclFilter]]] = {}
        others: list[tuple[int, AclFilter]] = []
        for index, wanted in enumerate(filters):
            if not (index + 1) % SLICE:
                await asyncio.sleep(0)
            resources = wanted.named_resources()
            for resource in resources:
                named.setdefault(resource, []).append((index, wanted))
            if not resources:
                others.append((index, wanted))
        for resource in sorted({*self.authorizer.acls, *named}):
            await asyncio.sleep(0)
            taking = [(index, wanted) for index, wanted in others if wanted.takes_resource(resource)]
            taking = sorted(taking + named.get(resource, []))
            if not taking:
                continue
            of_resource: dict[Acl, int] = {}

            def without(
                acls: frozenset[Acl],
                taking: Iterable[tuple[int, AclFilter]] = taking,
                of_resource: dict[Acl, int] = of_resource,
            ) -> frozenset[Acl]:
                of_resource.clear()
                for acl in sorted(acls):
                    first = next((index for index, wanted in taking if wanted.takes_acl(acl)), None)
                    if first is not None:
                        of_resource[acl] = first
                return acls.difference(of_resource)

            refusal = None
            try:
                await self._update(resource, without)
            except KafkaError as error:
                refusal = error.with_traceback(None)
            for acl, index in of_resource.items():
                deleted[index][resource, acl] = refusal
        return deleted

    @telling(ErrorCode.REQUEST_TIMED_OUT)
    async def _update(self, resource: Resource, change: Change) -> None:
        """Applies `change` to a resource's ACLs and writes them; tells the other brokers if they differ."""
        if not is_valid_path(f"/{resource.name}"):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Failed to create ACL")  # and there are none to delete
        zk, pattern = self.zk, _pattern(resource)
        if resource not in self._versions:
            await self._read(resource)
        for _ in range(1 + UPDATE_RETRIES_MAX):
            acls, version = self.authorizer.acls.get(resource, frozenset()), self._versions.get(resource)
            changed = change(acls)
            if version is None and not changed:
                return
            new_version = 0
            if not changed:
                assert version is not None
                done = await zk.conditional_delete(pattern, version)
            elif version is None:
                done, new_version = await zk.create_acls_for_resource_if_not_exists(pattern, map(_entry, changed))
            else:
                done, new_version = await zk.conditional_set_acls_for_resource(pattern, map(_entry, changed), version)
            if done:
                self._take(resource, changed, new_version)
                if changed != acls:
                    logger.info("[broker %d] updated ACLs of %s", self._node.broker_id, resource)
                    await zk.create_acl_change_notification(pattern)
                return
            await self._node.pause(RETRY_BACKOFF_MS)
            await self._read(resource)
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Failed to update ACLs for {resource} after trying a maximum of {UPDATE_RETRIES_MAX} times",
        )


def _pattern(resource: Resource) -> ResourcePattern:
    return ResourcePattern(resource.resource_type.name, resource.name, resource.pattern_type.name)


def _entry(acl: Acl) -> AclEntry:
    return AclEntry(acl.principal, acl.permission.words, acl.host, acl.operation.words)


def _acl(entry: AclEntry) -> Acl:
    """Reads an entry; an entry that only a newer version can read permits and denies nothing."""
    return Acl(
        entry.principal,
        entry.host,
        _OPERATIONS.get(entry.operation.upper(), Operation.UNKNOWN),
        _PERMISSIONS.get(entry.permission_type.upper(), Permission.UNKNOWN),
    )
