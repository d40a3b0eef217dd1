"""A second process with the id of a running broker, as when an operator starts one twice."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.server import Broker
from barnabas.model.config import broker_config
from barnabas.runtime.doors import Runtime
from barnabas.sim.plans.chance import Chance
from barnabas.sim.world.node import Node
from barnabas.sim.world.world import World, broker_number


def start_twin(world: World, original: str, action: int, chance: Chance) -> Callable[[], None]:
    """Starts it on a machine of its own; returns what kills it."""
    name = f"{original}-twin-{action}"
    node = world.nodes[name] = Node(world.loop, world.network, chance.stream("twin"), name)
    config = broker_config(world.config_of(broker_number(original), name))

    async def main(runtime: Runtime) -> None:
        broker = Broker(runtime, config)
        process.remains.append(broker)
        try:
            await broker.startup()
        except Exception as error:
            world.note(f"the twin of {original} could not start: {error}", name)
        else:
            # Lawful only where the original has lost its session; then the id is the twin's, which is not wanted.
            world.note(f"the twin of {original} is up", name)
            assert world.coordinator is not None
            number = broker_number(original)
            owner = world.tree_node(f"/brokers/ids/{number}").ephemeral_owner
            if world.coordinator.session_nodes.get(owner) != name:
                world.violated("C4", f"a twin of {original} serves beside it", node=name)
            world.loop.call_later(0, node.kill, context=world.context)

    process = node.begin(main)
    return node.kill
