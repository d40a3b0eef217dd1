"""C22: in the end every broker leads its preferred partitions, where leaders are balanced automatically."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from barnabas.model.config import broker_config
from barnabas.sim.world.world import World, broker_name

FIRST_LOOK_S: Final = 10
"""For a new controller to look for the first time, and for its elections."""


async def leaders_are_balanced(world: World, topics: Mapping[str, Mapping[int, list[int]]]) -> None:
    """Judged only where the controller looks often enough for the run to wait for it."""
    config = broker_config(world.config_of(0, broker_name(0)))
    interval_s = config.number("leader.imbalance.check.interval.seconds")
    if interval_s > FIRST_LOOK_S or not config.flag("auto.leader.rebalance.enable"):
        return
    world.check("C22")
    allowed = config.number("leader.imbalance.per.broker.percentage")
    try:
        await world.until(
            lambda: next(_unbalanced(world, topics, allowed), None) is None, "leaders", FIRST_LOOK_S + 2 * interval_s
        )
    except TimeoutError:
        for broker_id, led_by_others, count in list(_unbalanced(world, topics, allowed)):
            world.violated(
                "C22", f"broker {broker_id} should lead {count} partitions, and others lead {led_by_others} of them; "
                f"the controller looks every {interval_s} s", node=broker_name(broker_id),
            )  # fmt: skip


def _unbalanced(
    world: World, topics: Mapping[str, Mapping[int, list[int]]], allowed: int
) -> Iterator[tuple[int, list[str], int]]:
    """The brokers that lead too few of their preferred partitions: the broker, the partitions that others lead, and how
    many preferred partitions it has."""
    preferred: dict[int, list[str]] = {}
    for topic, partitions in topics.items():
        for number, replicas in partitions.items():
            preferred.setdefault(replicas[0], []).append(f"{topic}-{number}")
    for broker_id, led in sorted(preferred.items()):
        states = {partition: world.state(partition) for partition in led}
        others = [partition for partition, state in states.items() if state is None or state["leader"] != broker_id]
        if len(others) * 100 > allowed * len(led):
            yield broker_id, others, len(led)
