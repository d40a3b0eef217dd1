"""Widens a plan by a throttle on replicas that move."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.model.config import FOLLOWER_THROTTLED_RATE, LEADER_THROTTLED_RATE
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import SECOND, Plan, Step, with_actions
from barnabas.sim.plans.widen_amid import FAST

THROTTLED: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def throttled(plan: Plan, chance: Chance) -> Plan:
    """Administrators throttle a move, as their tools do, while clients write to the topic; then they lift the
    throttle."""
    if not chance.happens(0.5 if plan.profile in ("REAS", "MOVE") else 0.1):
        return plan
    topic = chance.one_of(plan.ordinary_topics)
    bound = replace(topic, configs={**topic.configs, **dict.fromkeys(THROTTLED, "*")})
    ends_ns = plan.length_ns - 2 * SECOND
    rate = str(chance.whole(50, 1_000))
    more: list[Step] = []
    for key in (LEADER_THROTTLED_RATE, FOLLOWER_THROTTLED_RATE):
        more += [(SECOND // 2, "config", {"key": key, "value": rate}, 0)]
        more += [(ends_ns, "config", {"key": key, "value": FAST}, 0)]
    for _ in range(chance.whole(1, 3)):
        numbers = chance.shuffled(range(plan.brokers))
        where: dict[str, Any] = {"topic": topic.name, "partition": chance.whole(0, topic.partitions - 1)}
        moved = {**where, "replicas": numbers[: chance.whole(2, 3)]}
        more.append((chance.whole(2 * SECOND, ends_ns - 2 * SECOND), "reassign", moved, 0))
    topics = tuple(bound if each is topic else each for each in plan.topics)
    return with_actions(replace(plan, topics=topics), more)


APART: Final = (throttled,)
