"""Rules about configurations, ACLs and delegation tokens: they are readable, and the things that they name exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from barnabas.zk.inspection.check.cluster import ClusterRecord, unreadable_finding
from barnabas.zk.inspection.check.finding import HOUR_MS, ZnodeFinding, counted, duration, listed
from barnabas.zk.inspection.image import ReadZNode, TreeImage
from barnabas.zk.kafka.config_znodes import (
    BROKERS,
    CLIENTS,
    CONFIG_TYPES,
    DEFAULT_ENTITY,
    IPS,
    TOPICS,
    USERS,
    ConfigEntityTypeZNode,
    ConfigZNode,
)
from barnabas.zk.kafka.security_znodes import DelegationTokensZNode, ResourceZNode
from barnabas.zk.kafka.znode_json import ZNodeError, desanitize, parsed_json, sanitize
from barnabas.zk.kafka.znodes import DeleteTopicsTopicZNode, TopicZNode

TOKEN_KEPT_MS: Final = 48 * HOUR_MS
"""How long an expired token may stay: a controller that uses tokens removes expired ones every hour."""

_RESOURCE_TYPES: Final = ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")
_PATTERN_TYPES: Final = ("prefixed",)


def configs(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    """Settings of entities that do not exist, under unknown names, or with invalid values."""
    image = cluster.image
    for entity_type in image.children(ConfigZNode.path):
        path = ConfigEntityTypeZNode.path(entity_type)
        if entity_type not in (*CONFIG_TYPES, "changes"):
            yield ZnodeFinding(
                "config-type",
                path,
                f"{path} is no kind of configuration that Kafka has ({', '.join(CONFIG_TYPES)}).",
                f"`barnabas zk delete -r {path}`, when you know that nobody else uses it.",
            )
    for znode in image.below(ConfigEntityTypeZNode.path(TOPICS)):
        name = znode.path.rpartition("/")[2]
        if TopicZNode.path(name) not in image and DeleteTopicsTopicZNode.path(name) not in image:
            yield ZnodeFinding(
                "config-without-topic",
                znode.path,
                f"{znode.path} configures topic {name}, which does not exist: its creation or its deletion stopped "
                "half way.",
                f"`barnabas zk delete {znode.path}`; otherwise a new topic of that name takes it over.",
            )
        yield from _config(znode)
    assigned = {
        replica
        for topic in cluster.topics.values()
        for assignment in topic.assignment.assignment.values()
        for replica in assignment.replicas
    }
    for znode in image.below(ConfigEntityTypeZNode.path(BROKERS)):
        name = znode.path.rpartition("/")[2]
        yield from _config(znode)
        if name == DEFAULT_ENTITY:
            continue
        if not (name.isascii() and name.isdigit()):
            yield ZnodeFinding(
                "config-of-unknown",
                znode.path,
                f"{znode.path} configures {name!r}, which is no broker's id.",
                f"`barnabas zk delete {znode.path}`.",
            )
        elif cluster.brokers and int(name) not in cluster.brokers and int(name) not in assigned:
            yield ZnodeFinding(
                "config-of-unknown",
                znode.path,
                f"{znode.path} configures broker {name}, which is not registered and holds no partition.",
                f"Start broker {name}; where it was taken away for good, `barnabas zk delete {znode.path}`.",
            )
    for znode in clients_znodes(image):
        yield from _named(znode)
        yield from _config(znode)


def clients_znodes(image: TreeImage) -> Iterator[ReadZNode]:
    """Settings of clients, users, addresses, and users' clients."""
    for entity_type in (CLIENTS, USERS, IPS):
        for znode in image.below(ConfigEntityTypeZNode.path(entity_type)):
            yield znode
            yield from image.below(f"{znode.path}/{CLIENTS}")


def _config(znode: ReadZNode) -> Iterator[ZnodeFinding]:
    """Kafka takes unreadable configuration for none."""
    if not znode.data:
        return
    try:
        config = parsed_json(znode.path, znode.data).get("config")
        if not isinstance(config, dict):
            raise ZNodeError(f'{znode.path} has no object under "config": {znode.data!r}')
    except ZNodeError as error:
        yield unreadable_finding(znode.path, error)


def _named(znode: ReadZNode) -> Iterator[ZnodeFinding]:
    name = znode.path.rpartition("/")[2]
    if name != DEFAULT_ENTITY and sanitize(desanitize(name)) != name:
        yield ZnodeFinding(
            "config-name",
            znode.path,
            f"{znode.path} is not written as Kafka writes names there ({sanitize(desanitize(name))}), so it is never "
            "looked at.",
            f"Set it anew by `kafka-configs`, and remove this one: `barnabas zk delete -r {znode.path}`.",
        )


def acls(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    image = cluster.image
    roots = [ResourceZNode.literal_root]
    for pattern in image.children(ResourceZNode.extended_root):
        path = f"{ResourceZNode.extended_root}/{pattern}"
        if pattern in _PATTERN_TYPES:
            roots.append(path)
        else:
            yield ZnodeFinding(
                "acl-pattern-type",
                path,
                f"{path} is no kind of pattern that an authorizer knows ({', '.join(_PATTERN_TYPES)}).",
                f"`barnabas zk delete -r {path}`, and add these ACLs by `kafka-acls --resource-pattern-type`.",
            )
    for root in roots:
        for type_znode in image.below(root):
            if type_znode.path.rpartition("/")[2] not in _RESOURCE_TYPES:
                yield ZnodeFinding(
                    "acl-resource-type",
                    type_znode.path,
                    f"{type_znode.path} is no kind of resource that an authorizer knows "
                    f"({', '.join(_RESOURCE_TYPES)}): with it there, a broker with an authorizer may not start.",
                    f"`barnabas zk delete -r {type_znode.path}`.",
                )
            for znode in image.below(type_znode.path):
                try:
                    ResourceZNode.decode(znode.path, znode.data)
                except ZNodeError as error:
                    yield unreadable_finding(znode.path, error)


def tokens(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    expired: list[str] = []
    oldest_ms = 0
    for znode in cluster.image.below(DelegationTokensZNode.path):
        try:
            expires_ms = int(parsed_json(znode.path, znode.data)["expiryTimestamp"])
        except (ZNodeError, KeyError, TypeError, ValueError) as error:
            told = error if isinstance(error, ZNodeError) else ZNodeError(f"{znode.path} has no expiryTimestamp")
            yield unreadable_finding(znode.path, told)
            continue
        if cluster.age_ms(expires_ms) > TOKEN_KEPT_MS:
            expired.append(znode.path.rpartition("/")[2])
            oldest_ms = max(oldest_ms, cluster.age_ms(expires_ms))
    if expired:
        yield ZnodeFinding(
            "expired-tokens",
            DelegationTokensZNode.path,
            f"{counted(len(expired), 'delegation token')} expired long ago (the first {duration(oldest_ms)} ago) and "
            f"nobody removes them: {listed(expired)}.",
            "The controller does so every hour where delegation.token.secret.key is set on it: set it on all brokers.",
        )
