"""Watches what is set while brokers run: C18, that it counts.

Of topics, of brokers, quotas, and ACLs: whoever changes one writes it into ZooKeeper and announces it there, and every
broker goes by it soon, be other changes on their way or not. As in Kafka whoever writes may die before it announces;
then nobody has to know.
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
"""Who was told, and is disturbed by nothing, has read it by then: a second passes before what failed is done again."""
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
        """`limits`: what each broker's quotas are told, by their paths."""
        self.world = world
        self.history = history
        self._knows_config = knows_config
        self._calm_since_ns = calm_since_ns
        self._due: dict[str, tuple[int, dict[str, None]]] = {}
        """By what was set, as its path has it: when it was announced, and the brokers that may not know it yet."""
        self._limits = limits

    def committed(self, operation: Any, *_: Any) -> None:
        for part in operation.operations if type(operation) is Multi else (operation,):
            path = getattr(part, "path", "")
            if path.startswith((CHANGES, ACL_CHANGES)):
                self._announced(part, path)
            elif path.startswith((CONFIG, ACLS)):
                self._due.pop(path.removeprefix(CONFIG), None)

    def _announced(self, part: Any, path: str) -> None:
        """An announcement that goes was old, by a clock that may be wrong: who stood still has not read it."""
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
        """At the end all that was announced is known, and of ACLs all is there that was acknowledged."""
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
        """What the broker goes by, and what ZooKeeper has; empty where they are the same."""
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
