"""Watches that settings take effect while brokers run (C18): of topics and brokers, quotas, and ACLs.

A change is written to ZooKeeper and announced there, and soon every broker goes by it, whatever other changes are on
their way. As in Kafka the writer may die before it announces; then no broker has to know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from barnabas.broker.quotas import CONNECTION_CREATION, KINDS, Quotas
from barnabas.log.settings import LogSettings
from barnabas.model.acl import PatternType, ResourceType
from barnabas.model.config import topic_config
from barnabas.security.acls import AclAuthorizer, Resource
from barnabas.sim.clients.history import History
from barnabas.sim.world.world import World
from barnabas.zk.kafka.config_znodes import BROKERS, DEFAULT_ENTITY, TOPICS
from barnabas.zk.protocol.ops import Create, Delete, Multi

CONFIG: Final = "/config/"
CHANGES: Final = "/config/changes/"
ACLS: Final = "/kafka-acl/"
ACL_CHANGES: Final = "/kafka-acl-changes/"
WITHIN_NS: Final = 8_000_000_000
"""An undisturbed broker has read an announcement by then; it repeats a failed read after a second."""
RULES: Final = frozenset({*KINDS, CONNECTION_CREATION})
_TYPES: Final = {known.words: known for known in ResourceType}


class SettingsWatch:
    def __init__(
        self,
        world: World,
        history: History,
        knows_config: Callable[[str, str], bool],
        calm_since_ns: Mapping[str, int],
        limits: Mapping[Quotas, Mapping[str, Mapping[str, str]]],
    ) -> None:
        """`limits` are the settings that each broker's quotas were given, by path."""
        self.world = world
        self.history = history
        self._knows_config = knows_config
        self._calm_since_ns = calm_since_ns
        self._due: dict[str, tuple[int, dict[str, None]]] = {}
        """By the path of the setting: when it was announced, and the brokers that may not know it yet."""
        self._limits = limits

    def committed(self, operation: Any, *_: Any) -> None:
        for part in operation.operations if type(operation) is Multi else (operation,):
            path = getattr(part, "path", "")
            if path.startswith((CHANGES, ACL_CHANGES)):
                self._announced(part, path)
            elif path.startswith((CONFIG, ACLS)):
                self._due.pop(path.removeprefix(CONFIG), None)

    def _announced(self, part: Any, path: str) -> None:
        """An announcement is deleted when it is old by a clock that may be wrong; a paused broker may not have read
        it."""
        if type(part) is Delete:
            self._due.clear()
        elif type(part) is Create and part.data:
            if path.startswith(CHANGES):
                what = str(json.loads(part.data).get("entity_path", ""))
            else:
                kind, _, name = part.data.decode().partition(":")
                what = f"{ACLS}{ResourceType[kind].words}/{name}"
            self._due[what] = self.world.loop.now_ns, dict.fromkeys(self.world.broker_names)

    def look(self) -> None:
        """At least twice a second."""
        now_ns = self.world.loop.now_ns
        for what, (announced_ns, left) in list(self._due.items()):
            for name in list(left):
                if now_ns - max(announced_ns, self._calm_since_ns.get(name, now_ns)) > WITHIN_NS:
                    del left[name]
                    self._judge(name, what)
            if not left:
                del self._due[what]

    async def judge(self) -> None:
        """At the end every announced setting is known, and every acknowledged ACL is there."""
        with suppress(TimeoutError):
            await self.world.until(lambda: not any(self._unlike(*each) for each in self._left()), "what is set", 30)
        for name, what in self._left():
            self._judge(name, what)
        self._due.clear()
        self._look_at_grants()

    def _left(self) -> list[tuple[str, str]]:
        return [(name, what) for what, (_, left) in self._due.items() for name in left]

    def _judge(self, name: str, what: str) -> None:
        self.world.check("C18")
        if sentence := self._unlike(name, what):
            self.world.violated("C18", f"{name} goes by another {what} than is set: {sentence}", node=name)

    def _unlike(self, name: str, what: str) -> str:
        """The broker's setting and ZooKeeper's; empty where they are the same."""
        broker = self.world.brokers.get(name)
        if broker is None:
            return ""
        kind, _, entity = what.partition("/")
        if what.startswith(ACLS):
            known: object = _known_acls(broker.authorizer, what)
            there: object = self._acls(what)
        elif kind == TOPICS:
            return self._unlike_configured(name, entity)
        elif kind == BROKERS:
            layers = broker.config_layers
            if entity not in (DEFAULT_ENTITY, str(broker.broker_id)):
                return ""
            known = layers.dynamic_default if entity == DEFAULT_ENTITY else layers.dynamic_broker
            there = self._values(what)
        else:
            known = _rules(self._limits.get(broker.quotas, {}).get(what, {}))
            there = _rules(self._values(what))
        return "" if known == there else f"{known}, not {there}"

    def _unlike_configured(self, name: str, topic: str) -> str:
        broker = self.world.brokers[name]
        values = self._values(f"{TOPICS}/{topic}")
        for partition in broker.replicas.partitions:
            place = partition.topic_partition
            if place.topic == topic and partition.log is not None and self._knows_config(name, str(place)):
                right = LogSettings.of(topic_config(broker.config, values))
                return "" if partition.log.settings == right else f"{partition.log.settings}, not {right}"
        return ""

    def _values(self, what: str) -> dict[str, str]:
        stored = self.world.znode(f"{CONFIG}{what}")
        return json.loads(stored)["config"] if stored else {}

    def _acls(self, path: str) -> set[tuple[str, ...]]:
        stored = self.world.znode(path)
        entries = json.loads(stored)["acls"] if stored else []
        return {(each["principal"], each["permissionType"], each["host"], each["operation"]) for each in entries}

    def _look_at_grants(self) -> None:
        for topic, user in self.history.granted:
            self.world.check("C18")
            if user not in {principal for principal, *_ in self._acls(f"{ACLS}{ResourceType.TOPIC.words}/{topic}")}:
                self.world.violated("C18", f"{topic} was granted to {user}, who may not read it any more")


def _rules(values: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if key in RULES}


def _known_acls(authorizer: Any, path: str) -> object:
    if not isinstance(authorizer, AclAuthorizer):
        return set()
    kind, _, name = path.removeprefix(ACLS).partition("/")
    resource = Resource(_TYPES[kind], name, PatternType.LITERAL)
    return {
        (acl.principal, acl.permission.words, acl.host, acl.operation.words)
        for acl in authorizer.acls.get(resource, frozenset())
    }
