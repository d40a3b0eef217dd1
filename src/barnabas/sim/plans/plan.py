"""A plan: the list of timed actions of one run, drawn from the seed before anything happens.

A plan is a value and all there is to a run. Faults, clients and administrators alike are `Action`s, so a plan can be
printed, written to a file, made smaller, and run again without the draw that made it. What an action leaves to chance
while it is carried out (which page of a file survives, how long one piece of a stream takes) comes from streams named
after the plan's seed and the action's `number`. Numbers stay when other actions are dropped, so a smaller plan keeps as
much of the larger run as it can.

`actions` begin `at_ns` after the cluster is up and its topics are in sync. An action with a `duration_ns` is undone
that much later (a link is healed, a killed broker is started); one without has no end of its own. After `length_ns`
everything that is still in force is undone, every broker is started, and the cluster has to recover.
`barnabas.sim.plans.actions` has the names of actions and their arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from barnabas.coordinator.group_answers import partition_for
from barnabas.model.config import broker_config
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.model.metadata_version import metadata_version_of

Argument: TypeAlias = str | int | float | bool | list[str] | list[int] | None
Step: TypeAlias = tuple[int, str, dict[str, Any], int]
"""An action without a number: when, name, arguments, how long."""
MS: Final = 1_000_000
SECOND: Final = 1_000_000_000
RESULTS: Final = "results"
"""The topic that workers write to."""
WORKERS: Final = "workers"
_COUNTED_BY: Final = {
    GROUP_METADATA_TOPIC: "offsets.topic.num.partitions",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.num.partitions",
}
SELECTOR: Final = "replica.selector.class"
"""Where a plan's brokers have a replica selector, each broker is in a rack of its own."""


@dataclass(frozen=True, slots=True)
class Action:
    """`name` is done with `arguments` at `at_ns`, and undone `duration_ns` later (0: it has no end)."""

    number: int
    at_ns: int
    name: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    duration_ns: int = 0

    @property
    def until_ns(self) -> int:
        return self.at_ns + self.duration_ns

    def whole(self, argument: str, default: int) -> int:
        """An argument that is a number."""
        value = self.arguments.get(argument, default)
        assert isinstance(value, int | float)
        return int(value)

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "at_ns": self.at_ns,
            "name": self.name,
            "arguments": dict(self.arguments),
            "duration_ns": self.duration_ns,
        }

    @staticmethod
    def from_json(read: Mapping[str, Any]) -> Action:
        return Action(
            int(read["number"]),
            int(read["at_ns"]),
            str(read["name"]),
            dict(read.get("arguments", {})),
            int(read.get("duration_ns", 0)),
        )

    def __str__(self) -> str:
        said = " ".join(f"{key}={_short(value)}" for key, value in self.arguments.items())
        lasts = f" for {self.duration_ns / MS:.0f} ms" if self.duration_ns else ""
        return f"{self.at_ns / MS:>9.1f} ms  {self.name} {said}".rstrip() + lasts


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic that exists before the first action."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.configs.get("cleanup.policy", "")


@dataclass(frozen=True, slots=True)
class Plan:
    """`config` are the brokers' settings over the simulator's defaults, `coordinator` those of ZooKeeper. After
    `slices` elements a broker's long work yields; 0 means as outside of the simulator."""

    seed: int
    profile: str
    brokers: int
    length_ns: int
    topics: tuple[TopicPlan, ...]
    actions: tuple[Action, ...]
    config: Mapping[str, str] = field(default_factory=dict)
    slices: int = 0
    coordinator: Mapping[str, str] = field(default_factory=dict)

    @property
    def session_ns(self) -> int:
        """How long a broker's ZooKeeper session lasts after its last sign of life."""
        return int(self.config.get("zookeeper.session.timeout.ms", "6000")) * MS

    @property
    def broker_names(self) -> list[str]:
        return [f"broker-{number}" for number in range(self.brokers)]

    @property
    def partition_names(self) -> list[str]:
        """The partitions of its topics, and then some of the coordinators' topics."""
        led = [f"{topic.name}-{number}" for topic in self.topics for number in range(topic.partitions)]
        kept = (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
        return led + [f"{topic}-{number}" for topic in kept for number in range(3)]

    def kept_in(self, topic: str, name: str) -> str:
        """The partition of the coordinators' `topic` that keeps the group or transactional id `name`."""
        return f"{topic}-{partition_for(name, int(self.config.get(_COUNTED_BY[topic], '3')))}"

    @property
    def ordinary_topics(self) -> list[TopicPlan]:
        """The topics that any client writes to."""
        return [topic for topic in self.topics if topic.name != RESULTS]

    @property
    def tells_topics_apart(self) -> bool:
        """Whether topic ids tell a topic from the next one of its name (KIP-516)."""
        return metadata_version_of(broker_config(self.config)).is_topic_ids_supported

    def with_actions(self, actions: tuple[Action, ...]) -> Plan:
        return replace(self, actions=actions)

    def changed(self, is_meant: Callable[[Action], bool], more: Callable[[], Mapping[str, Argument]]) -> Plan:
        """Gives arguments to each action that is meant, whatever it had."""
        actions = (
            replace(action, arguments={**action.arguments, **more()}) if is_meant(action) else action
            for action in self.actions
        )
        return replace(self, actions=tuple(actions))

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "profile": self.profile,
            "brokers": self.brokers,
            "length_ns": self.length_ns,
            "config": dict(self.config),
            **({"slices": self.slices} if self.slices else {}),
            **({"coordinator": dict(self.coordinator)} if self.coordinator else {}),
            "topics": [
                {
                    "name": topic.name,
                    "partitions": topic.partitions,
                    "replication_factor": topic.replication_factor,
                    "configs": dict(topic.configs),
                }
                for topic in self.topics
            ],
            "actions": [action.as_json() for action in self.actions],
        }

    @staticmethod
    def from_json(read: Mapping[str, Any]) -> Plan:
        return Plan(
            int(read["seed"]),
            str(read.get("profile", "file")),
            int(read["brokers"]),
            int(read["length_ns"]),
            tuple(
                TopicPlan(
                    str(topic["name"]),
                    int(topic["partitions"]),
                    int(topic["replication_factor"]),
                    dict(topic.get("configs", {})),
                )
                for topic in read["topics"]
            ),
            tuple(Action.from_json(action) for action in read["actions"]),
            dict(read.get("config", {})),
            int(read.get("slices", 0)),
            dict(read.get("coordinator", {})),
        )

    def dumps(self) -> str:
        return json.dumps(self.as_json(), indent=1)

    @staticmethod
    def loads(text: str) -> Plan:
        return Plan.from_json(json.loads(text))

    def __str__(self) -> str:
        topics = ", ".join(
            f"{topic.name} ({topic.partitions} partitions, {topic.replication_factor} replicas"
            + "".join(f", {key}={value}" for key, value in topic.configs.items())
            + ")"
            for topic in self.topics
        )
        head = f"seed {self.seed}, profile {self.profile}: {self.brokers} brokers, {self.length_ns / SECOND:.1f} s"
        return "\n".join([head, f"topics: {topics}", *map(str, self.actions)])


def _short(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def with_actions(plan: Plan, more: list[Step]) -> Plan:
    """The plan with further actions after its own."""
    first = max((action.number for action in plan.actions), default=-1) + 1
    made = (
        Action(first + number, at_ns, name, arguments, duration_ns)
        for number, (at_ns, name, arguments, duration_ns) in enumerate(more)
    )
    return replace(plan, actions=(*plan.actions, *made))


def in_time(plan: Plan, more: list[Step]) -> list[Step]:
    """The actions that begin before the plan ends."""
    return [step for step in more if step[0] < plan.length_ns - SECOND]


def within(plan: Plan, more: list[Step]) -> list[Step]:
    """The actions that begin before the plan ends, none of which lasts beyond it."""
    return cut(plan, in_time(plan, more))


def cut(plan: Plan, more: list[Step]) -> list[Step]:
    """None of the actions lasts beyond the plan."""
    return [(at, name, said, min(lasts, plan.length_ns - at)) for at, name, said, lasts in more]


def with_arguments(plan: Plan, name: str, more: Callable[[], Mapping[str, Argument]]) -> Plan:
    """Adds arguments to each action of the name; arguments that it has stay."""
    actions = (
        replace(action, arguments={**more(), **action.arguments}) if action.name == name else action
        for action in plan.actions
    )
    return replace(plan, actions=tuple(actions))
