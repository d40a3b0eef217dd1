"""One run: carries the plan out while clients work, undoes every fault, lets the cluster recover, and judges."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import ClusterClient
from barnabas.model.errors import KafkaError
from barnabas.model.internal_topics import INTERNAL_TOPICS
from barnabas.sim.clients.history import History
from barnabas.sim.clients.workload import Workload
from barnabas.sim.judges.checkers import Checkers
from barnabas.sim.judges.judgement import Judgement
from barnabas.sim.nemesis import Nemesis
from barnabas.sim.plans.draw import draw
from barnabas.sim.plans.plan import Action, Plan
from barnabas.sim.recorder import Recorder
from barnabas.sim.unforeseen import Unforeseen
from barnabas.sim.world.loop import NS
from barnabas.sim.world.slices import small_slices
from barnabas.sim.world.trace import Event, Violation
from barnabas.sim.world.world import World

RECOVERY_S = 120.0
"""L1: after the last fault everything works again within so much virtual time."""


@dataclass(frozen=True)
class Outcome:
    """`violations` is empty for a good run. `event_hash` is the same for the same plan and code, everywhere.

    `excused` are losses that Kafka with ZooKeeper allows (the premise of R7 did not hold): they are told and counted,
    and are no failure. `checked` says how often each invariant was evaluated, `waived` how often it could not have
    failed then. `faults` says how often each kind of fault struck, `events` at which events, and `operations` how often
    each kind of client or administrator began.
    """

    plan: Plan
    violations: tuple[Violation, ...]
    excused: tuple[Violation, ...]
    trace: tuple[Event, ...]
    event_hash: str
    checked: Mapping[str, int]
    faults: Mapping[str, int]
    acknowledged: int
    virtual_s: float
    callbacks: int
    operations: Mapping[str, int] = field(default_factory=dict)
    events: Mapping[str, int] = field(default_factory=dict)
    waived: Mapping[str, int] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        return not self.violations


def run_seed(seed: int, profile: str = "all") -> Outcome:
    return run_plan(draw(seed, profile))


def run_plan(plan: Plan, *, until_ns: int | None = None) -> Outcome:
    """Carries `plan` out. With `until_ns` the run ends at that virtual time since its start, and is not judged."""
    # A collection in the middle of a run would end coroutines of dead processes at a moment that no seed draws.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _run(plan, until_ns)
    finally:
        if collecting:
            gc.enable()


def _run(plan: Plan, until_ns: int | None) -> Outcome:
    world = World(plan.seed, plan.brokers, plan.config, plan.coordinator)
    history = History()
    workload = Workload(world, history)
    checkers = Checkers(world, history, plan)
    workload.on_read = checkers.given
    workload.on_asked_offsets, workload.on_looked_up = checkers.answers.offsets_asked, checkers.answers.looked_up
    workload.on_asked_groups = checkers.answers.groups_asked
    workload.coordinators_lost_something = lambda: checkers.logs.losses.is_any(INTERNAL_TOPICS)
    with checkers, Unforeseen(world), small_slices(plan.slices):
        members = checkers.members
        workload.on_goes_on, workload.on_goes_back = members.goes_on, members.goes_no_further_back
        workload.on_begins, workload.calm_since_ns = checkers.answers.begins, checkers.leftovers.calm_since_ns
        Recorder(world).attach()
        try:
            world.loop.run_until_complete(_story(world, plan, workload, checkers), until_ns=until_ns)
        except (AssertionError, KafkaError, OSError, RuntimeError) as error:
            world.violated("L1", f"{type(error).__name__}: {error}")
        for unhandled in world.loop.unhandled:
            world.violated("S4", f"nobody handled: {unhandled}")
    return Outcome(
        plan,
        tuple(world.violations),
        tuple(world.excused),
        tuple(world.trace.events),
        world.hash.hexdigest(),
        dict(sorted(world.checked.items())),
        dict(sorted(world.faults.items())),
        history.acknowledged(),
        world.loop.now_ns / NS,
        world.loop.callbacks,
        dict(sorted(workload.operations.items())),
        dict(sorted(world.events_struck.items())),
        dict(sorted(world.waived.items())),
    )


async def _story(world: World, plan: Plan, workload: Workload, checkers: Checkers) -> None:
    await world.start_all()
    await world.until(lambda: _all_know_all(world), "the brokers' start")
    await world.client(lambda _, cluster: _create_topics(cluster, plan), "admin")
    await world.until(lambda: checkers.replicas_in_sync(), "every replica in sync at first")

    nemesis = Nemesis(world)
    begun_ns = world.loop.now_ns
    steps: list[tuple[int, int, Action]] = []
    for action in plan.actions:
        steps.append((action.at_ns, 1, action))
        if action.duration_ns and nemesis.knows(action.name):
            steps.append((action.until_ns, 0, action))
    for at_ns, begins, action in sorted(steps, key=lambda step: (step[0], step[1], step[2].number)):
        await asyncio.sleep(max(0, begun_ns + at_ns - world.loop.now_ns) / NS)
        if not begins:
            nemesis.time_is_over(action)
        elif nemesis.knows(action.name):
            nemesis.begin(action)
        else:
            workload.begin(action)
    await asyncio.sleep(max(0, begun_ns + plan.length_ns - world.loop.now_ns) / NS)

    nemesis.undo_all()
    workload.wait_no_more()
    world.network.heal()
    world.note("all is undone; the cluster has to recover")
    await world.until(lambda: not nemesis.busy, "the last shutdown", RECOVERY_S)
    for name in world.nodes:
        world.held_down.pop(name, None)
        if name in world.broker_names or name == "zookeeper":
            world.start(name)
    await world.until(lambda: len(world.brokers) == plan.brokers, "every broker up at the end", RECOVERY_S)
    for name in world.broker_names:
        nemesis.start_again_if_offline(name)
    await world.until(lambda: len(world.brokers) == plan.brokers, "every broker up again", RECOVERY_S)
    for administrator in [*workload.administrators]:
        await world.until(administrator.done, "an administrator's end", 2 * RECOVERY_S)
    await world.until(lambda: checkers.replicas_in_sync(), "every replica in sync at the end", RECOVERY_S)
    workload.heal()
    for producer in workload.producers:
        await world.until(producer.done, "a producer's end", 2 * RECOVERY_S)
        producer.result()
    await Judgement(checkers).judge(workload)


async def _create_topics(cluster: ClusterClient, plan: Plan) -> None:
    topics = [
        NewTopic(topic.name, topic.partitions, topic.replication_factor, configs=dict(topic.configs))
        for topic in plan.topics
    ]
    for name, error in (await Admin(cluster).create_topics(topics)).items():
        if error is not None:
            raise RuntimeError(f"topic {name} could not be created: {error}")


def _all_know_all(world: World) -> bool:
    """Every broker has heard of every other from a controller."""
    return len(world.brokers) == len(world.broker_names) and all(
        len(broker.metadata.image.brokers) == len(world.broker_names) for broker in world.brokers.values()
    )
