"""Watches who is taken for alive: C21. Who comes and goes in ZooKeeper comes and goes with the controller, and then
with every broker, by which clients know where to go. Nobody is late who was not hindered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.sim.watch_zookeeper import ZooKeeperWatch
from barnabas.sim.world import World, broker_name, broker_number

HEARD_NS: Final = 5_000_000_000
"""For the controller to hear of it."""
TOLD_NS: Final = 10_000_000_000
"""For the controller to tell a broker, whom it may not have reached at first."""


class AliveWatch:
    def __init__(self, world: World, ensemble: ZooKeeperWatch, calm_since: Callable[[str, str], int]) -> None:
        """`calm_since` asks of two nodes since when nothing has happened to either, nor to what one tells the other."""
        self.world = world
        self.ensemble = ensemble
        self._calm_since = calm_since
        self._wrong_ns: dict[tuple[str, int, int], int] = {}
        """By who takes a broker for what it is not, that broker, and the controller's epoch: since when."""

    def look(self) -> None:
        world, ensemble, before = self.world, self.ensemble, self._wrong_ns
        self._wrong_ns = {}
        alive = ensemble.alive_to_controller()
        if alive is None:
            return
        ruler = broker_name(ensemble.controller)
        world.check("C21")
        known = {name: [*broker.metadata.image.brokers] for name, broker in world.brokers.items() if name != ruler}
        known[ruler] = alive
        for name, believed in known.items():
            for number in map(broker_number, world.broker_names):
                if (number in believed) != ensemble.is_registered(number):
                    key = name, number, ensemble.controller_epoch
                    self._wrong_ns[key] = before.get(key, world.loop.now_ns)
                    self._look_at(name, ruler, number, self._wrong_ns[key])

    def _look_at(self, name: str, ruler: str, number: int, since_ns: int) -> None:
        world, within_ns = self.world, HEARD_NS
        if name != ruler:
            within_ns, since_ns = TOLD_NS, max(since_ns, self._calm_since(ruler, name))
        if world.loop.now_ns - since_ns <= within_ns or not self.ensemble.is_known_since(since_ns, within_ns):
            return
        there = "is registered" if self.ensemble.is_registered(number) else "is not registered"
        world.violated(
            "C21",
            f"broker {number} {there}, and {name} takes it for the contrary, for {within_ns / 1e9:.0f} s",
            node=name,
        )
