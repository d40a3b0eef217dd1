"""A client that asks for settings and for work under way, again and again, as operators' tools do.

C18: a described configuration is what ZooKeeper has. C14: so are moves and log directories. What changes during the
request is not judged.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.configs import ConfigSource
from barnabas.client.admin import Admin, ConfigEntry, ResourceType
from barnabas.model.errors import KafkaError
from barnabas.sim.clients.inquirer import Inquirer, Question
from barnabas.sim.plans.plan import Action
from barnabas.sim.world.world import World, broker_number

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

PAUSE_NS: Final = 600_000_000
KNOWN_S: Final = 1.0
"""By then a controller knows what it has written."""


class Surveyor(Inquirer):
    def __init__(self, workload: Workload, action: Action) -> None:
        super().__init__(workload, action, PAUSE_NS)

    def questions(self) -> Sequence[Question]:
        return [self._topic, self._topic, self._broker, self._moves, self._moves, self._directories]

    def is_told(self, invariant: str, what: str, told: object, before: object, after: object) -> None:
        """The answer is judged where the same was true before the request and after the answer."""
        world = self.workload.world
        if before != after:
            return
        world.check(invariant)
        if told != after:
            world.violated(invariant, f"{self.client} is told {told} of {what}, and {after} is right")

    async def _topic(self, admin: Admin) -> None:
        world = self.workload.world
        known = [name for name in world.children("/brokers/topics") if not name.startswith("__")]
        if not known or _is_behind(world):
            return
        topic = self.chance.one_of(known)
        before = _set_of_topic(world, topic)
        told = _told(await admin.describe_configs(ResourceType.TOPIC, topic), ConfigSource.TOPIC_CONFIG)
        if not _is_behind(world):
            self.is_told("C18", f"the topic {topic}", told, before, _set_of_topic(world, topic))

    async def _broker(self, admin: Admin) -> None:
        world, name = self.workload.world, self.chance.one_of(self.workload.world.broker_names)
        before, life = _set_of_broker(world, name), world.nodes[name].process
        entries = await admin.describe_configs(ResourceType.BROKER, str(broker_number(name)))
        told = _told(entries, ConfigSource.DYNAMIC_BROKER_CONFIG)
        if before is not None and life is world.nodes[name].process:
            self.is_told("C18", name, told, before, _set_of_broker(world, name))

    async def _moves(self, admin: Admin) -> None:
        """Judged where nothing disturbs the controller."""
        world = self.workload.world
        first, ruler = _moving(world), world.controller()
        await asyncio.sleep(KNOWN_S)
        before, rules = _moving(world), ruler is not None and not world.disturbed(ruler) and world.controller() == ruler
        told = {str(partition) for partition in await admin.list_reassignments()}
        if rules and first == before and ruler is not None and not world.disturbed(ruler):
            after = _moving(world) if world.controller() == ruler else None
            self.is_told("C14", "moves", told, before, after)

    async def _directories(self, admin: Admin) -> None:
        world = self.workload.world
        before, asked_s = {name: _in_directories(world, name) for name in world.broker_names}, world.loop.time()
        answers = await admin.describe_log_dirs()
        if world.loop.time() - asked_s > KNOWN_S:
            return  # a topic may have come and gone on the way
        for number, found in answers.items():
            name = f"broker-{number}"
            if not isinstance(found, KafkaError) and before.get(name) is not None:
                told = {(each.path, str(partition)) for each in found for partition in each.replicas}
                self.is_told("C14", f"directories of {name}", told, before[name], _in_directories(world, name))


def _is_behind(world: World) -> bool:
    """Whether some broker may read an old state of ZooKeeper."""
    return world.coordinator is None or bool(world.coordinator.committed.front_ends)


def _told(entries: list[ConfigEntry], source: ConfigSource) -> dict[str, str | None]:
    return {each.name: each.value for each in entries if each.source == source}


def _set_of_topic(world: World, topic: str) -> dict[str, Any]:
    stored = world.znode(f"/config/topics/{topic}")
    return json.loads(stored)["config"] if stored else {}


def _set_of_broker(world: World, name: str) -> dict[str, str] | None:
    broker = world.brokers.get(name)
    return None if broker is None else dict(broker.config_layers.dynamic_broker)


def _moving(world: World) -> set[str]:
    found: set[str] = set()
    for topic in world.children("/brokers/topics"):
        data = json.loads(world.znode(f"/brokers/topics/{topic}") or b"{}")
        for kind in ("adding_replicas", "removing_replicas"):
            found |= {f"{topic}-{number}" for number, members in (data.get(kind) or {}).items() if members}
    return found


def _in_directories(world: World, name: str) -> set[tuple[str, str]] | None:
    broker = world.brokers.get(name)
    if broker is None:
        return None
    paths = [path for path in broker.log_dirs.paths if broker.log_dirs.is_online(path)]
    return {(path, str(partition)) for path in paths for partition in broker.log_dirs.logs_in(path)}
