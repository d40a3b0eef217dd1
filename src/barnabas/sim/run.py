"""One run: draw the plan, let the clients work while it is carried out, heal everything, and judge."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable
from dataclasses import dataclass

from barnabas.model.errors import KafkaError
from barnabas.sim import checkers, workload
from barnabas.sim.chance import Chance
from barnabas.sim.loop import NS
from barnabas.sim.plan import Action, Kind, Plan, draw
from barnabas.sim.workload import TOPIC, History
from barnabas.sim.world import World


@dataclass(frozen=True)
class Outcome:
    """`wrong` is empty for a good run. `event_hash` is the same for the same plan and code, everywhere."""

    plan: Plan
    wrong: tuple[str, ...]
    event_hash: str
    acknowledged: int
    virtual_s: float
    callbacks: int
    timeline: tuple[str, ...]

    @property
    def good(self) -> bool:
        return not self.wrong


def run_seed(seed: int) -> Outcome:
    return run_plan(draw(seed))


def run_plan(plan: Plan) -> Outcome:
    # A collection in the middle of a run would end coroutines of dead processes at a moment that no seed draws.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _run(plan)
    finally:
        if collecting:
            gc.enable()


def _run(plan: Plan) -> Outcome:
    world = World(plan.seed, plan.brokers)
    history = History()
    wrong: list[str] = []
    try:
        wrong += world.loop.run_until_complete(_story(world, plan, history))
    except (AssertionError, KafkaError, OSError, RuntimeError) as error:
        wrong.append(f"{type(error).__name__}: {error}")
    wrong += world.broken
    wrong += [f"nobody handled: {each}" for each in world.loop.unhandled]
    return Outcome(
        plan,
        tuple(wrong),
        world.hash.hexdigest(),
        len(history.acknowledged),
        world.loop.now_ns / NS,
        world.loop.callbacks,
        tuple(world.timeline),
    )


async def _story(world: World, plan: Plan, history: History) -> list[str]:
    world.start_coordinator()
    await world.until(lambda: world.coordinator is not None, "the coordinator's start")
    names = [name for name in world.nodes if name.startswith("broker-")]
    for name in names:
        world.start_broker(name)
    await world.until(lambda: _all_know_all(world, plan), "the brokers' start")
    world.note(f"{world.controller()} is controller, epoch {(world.znode('/controller_epoch') or b'').decode()}")
    await world.client(lambda _, cluster: workload.create_topic(cluster, plan.partitions, plan.brokers), "admin")
    await world.until(_all_in_sync(world, plan), "every replica in sync at first")

    chance = Chance(plan.seed, "workload")
    stop: list[bool] = []
    begun_ns = world.loop.now_ns
    produced = world.client(
        lambda runtime, cluster: workload.produce(runtime, cluster, history, plan.records, plan.length_ms, chance),
        "producer",
    )
    tailed = world.client(
        lambda runtime, cluster: workload.tail(runtime, cluster, history, plan.partitions, stop), "consumer"
    )
    for action in plan.actions:
        await asyncio.sleep(max(0, begun_ns / NS + action.at_ms / 1000 - world.loop.now_ns / NS))
        await _carry_out(world, action)
    await asyncio.sleep(max(0, begun_ns / NS + plan.length_ms / 1000 - world.loop.now_ns / NS))
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
    found = await world.client(lambda _, cluster: workload.read_all(cluster, plan.partitions), "auditor")
    await world.until(_all_in_sync(world, plan), "every replica in sync for the audit")
    await asyncio.sleep(2)  # followers may be a fetch behind
    return [
        *checkers.acknowledged_survive(history, found),
        *checkers.reads_stay(history, found),
        *checkers.replicas_agree(world, plan.partitions),
    ]


def _all_know_all(world: World, plan: Plan) -> bool:
    """Every broker has heard of every other from a controller."""
    return len(world.brokers) == plan.brokers and all(
        len(broker.metadata.image.brokers) == plan.brokers for broker in world.brokers.values()
    )


def _all_in_sync(world: World, plan: Plan) -> Callable[[], bool]:
    def fact() -> bool:
        for number in range(plan.partitions):
            state = world.znode(f"/brokers/topics/{TOPIC}/partitions/{number}/state")
            if state is None:
                return False
            read = json.loads(state)
            if len(read["isr"]) < plan.brokers or read["leader"] < 0:
                return False
        return True

    return fact


async def _carry_out(world: World, action: Action) -> None:
    if action.kind is Kind.KILL_CONTROLLER:
        controller = world.controller()
        if controller is not None and world.nodes[controller].alive:
            world.note(f"{controller} is controller, epoch {(world.znode('/controller_epoch') or b'').decode()}")
            world.kill(controller)
    elif action.kind is Kind.KILL:
        world.kill(action.node)
    elif action.kind is Kind.LOSE_POWER:
        world.lose_power(action.node)
    elif action.kind is Kind.SHUT_DOWN:
        await world.shut_down(action.node)
    elif action.kind is Kind.PARTITION:
        world.note(f"{action.node} is cut off from {', '.join(action.others)}")
        world.network.partition([action.node], action.others)
    elif action.kind is Kind.HEAL:
        world.note("all links are healed")
        world.network.heal()
    else:
        for name in world.nodes:
            if name.startswith("broker-"):
                world.start_broker(name)
