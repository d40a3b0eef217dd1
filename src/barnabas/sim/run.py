"""One run: draw the plan, let the clients work while it is carried out, heal everything, and judge."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from barnabas.model.errors import KafkaError
from barnabas.sim import checkers, workload
from barnabas.sim.chance import Chance
from barnabas.sim.draw import TOPIC, draw
from barnabas.sim.loop import NS
from barnabas.sim.plan import Action, Plan
from barnabas.sim.trace import Event, Happening, Violation
from barnabas.sim.workload import History
from barnabas.sim.world import World


@dataclass(frozen=True)
class Outcome:
    """`violations` is empty for a good run. `event_hash` is the same for the same plan and code, everywhere.

    `excused` are losses that ZooKeeper mode allows (invariant R7's premise did not hold); they are told and counted,
    and are no failure. `checked` says how often each invariant was evaluated, `faults` how often each kind of fault
    struck.
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

    @property
    def good(self) -> bool:
        return not self.violations


def run_seed(seed: int, profile: str = "all") -> Outcome:
    return run_plan(draw(seed, profile))


def run_plan(plan: Plan, *, until_ns: int | None = None) -> Outcome:
    """Carries `plan` out. With `until_ns` the run ends there, at that virtual time since its start, unjudged."""
    # A collection in the middle of a run would end coroutines of dead processes at a moment that no seed draws.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _run(plan, until_ns)
    finally:
        if collecting:
            gc.enable()


def _run(plan: Plan, until_ns: int | None) -> Outcome:
    world = World(plan.seed, plan.brokers)
    history = History()
    story = _story(world, plan, history)
    try:
        world.loop.run_until_complete(story, until_ns=until_ns)
    except (AssertionError, KafkaError, OSError, RuntimeError) as error:
        world.violated("L1", f"{type(error).__name__}: {error}")
    for each in world.loop.unhandled:
        world.violated("S4", f"nobody handled: {each}")
    return Outcome(
        plan,
        tuple(world.violations),
        (),
        tuple(world.trace.events),
        world.hash.hexdigest(),
        {},
        {},
        len(history.acknowledged),
        world.loop.now_ns / NS,
        world.loop.callbacks,
    )


async def _story(world: World, plan: Plan, history: History) -> None:
    world.start_coordinator()
    await world.until(lambda: world.coordinator is not None, "the coordinator's start")
    names = [name for name in world.nodes if name.startswith("broker-")]
    for name in names:
        world.start_broker(name)
    await world.until(lambda: _all_know_all(world, plan), "the brokers' start")
    await world.client(
        lambda _, cluster: workload.create_topic(cluster, plan.topics[0].partitions, plan.brokers), "admin"
    )
    await world.until(_all_in_sync(world, plan), "every replica in sync at first")

    chance = Chance(plan.seed, "workload")
    stop: list[bool] = []
    begun_ns = world.loop.now_ns
    records = plan.actions[0].arguments["records"]
    assert isinstance(records, int)
    produced = world.client(
        lambda runtime, cluster: workload.produce(runtime, cluster, history, records, plan.length_ns, chance),
        "producer",
    )
    tailed = world.client(
        lambda runtime, cluster: workload.tail(runtime, cluster, history, plan.topics[0].partitions, stop), "consumer"
    )
    steps = [(each.at_ns, 1, each) for each in plan.actions] + [(each.until_ns, 0, each) for each in plan.actions]
    for at_ns, begins, action in sorted(steps, key=lambda step: (step[0], step[1], step[2].number)):
        await asyncio.sleep(max(0, begun_ns + at_ns - world.loop.now_ns) / NS)
        if begins:
            await _carry_out(world, action)
        else:
            _undo(world, action)
    await asyncio.sleep(max(0, begun_ns + plan.length_ns - world.loop.now_ns) / NS)
    world.network.heal()
    for name in names:
        world.start_broker(name)
    await world.until(lambda: len(world.brokers) == plan.brokers, "every broker up at the end")
    await world.until(_all_in_sync(world, plan), "every replica in sync at the end")
    await world.until(produced.done, "the producer's end", timeout_s=240)
    produced.result()
    stop.append(True)
    await world.until(tailed.done, "the consumer's end")
    tailed.result()
    found = await world.client(lambda _, cluster: workload.read_all(cluster, plan.topics[0].partitions), "auditor")
    await world.until(_all_in_sync(world, plan), "every replica in sync for the audit")
    await asyncio.sleep(2)  # followers may be a fetch behind
    for invariant, sentence in (
        *checkers.acknowledged_survive(history, found),
        *checkers.reads_stay(history, found),
        *checkers.replicas_agree(world, plan.topics[0].partitions),
    ):
        world.violated(invariant, sentence)


def _all_know_all(world: World, plan: Plan) -> bool:
    """Every broker has heard of every other from a controller."""
    return len(world.brokers) == plan.brokers and all(
        len(broker.metadata.image.brokers) == plan.brokers for broker in world.brokers.values()
    )


def _all_in_sync(world: World, plan: Plan) -> Callable[[], bool]:
    def fact() -> bool:
        for number in range(plan.topics[0].partitions):
            state = world.znode(f"/brokers/topics/{TOPIC}/partitions/{number}/state")
            if state is None:
                return False
            read = json.loads(state)
            if len(read["isr"]) < plan.brokers or read["leader"] < 0:
                return False
        return True

    return fact


async def _carry_out(world: World, action: Action) -> None:
    node = str(action.arguments.get("node", ""))
    if node == "controller":
        node = world.controller() or ""
    world.trace.tell(
        node, Happening.ACTION, str(action.name), **{**action.as_json(), "arguments": dict(action.arguments)}
    )
    if action.name == "kill" and node:
        world.kill(node)
    elif action.name == "power-loss":
        world.lose_power(node)
    elif action.name == "shutdown":
        await world.shut_down(node)
    elif action.name == "partition":
        others = action.arguments["others"]
        assert isinstance(others, list)
        world.network.partition([node], map(str, others))


def _undo(world: World, action: Action) -> None:
    world.trace.tell("", Happening.UNDONE, f"{action.name} is over", number=action.number, name=action.name)
    if action.name == "partition":
        world.network.heal()
    elif action.name != "produce":
        for name in world.nodes:
            if name.startswith("broker-"):
                world.start_broker(name)
