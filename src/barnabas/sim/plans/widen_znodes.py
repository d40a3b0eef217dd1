"""Widens a plan by ZooKeeper's other work: it restarts from a snapshot and the transactions after it; an application's
znodes are deleted by ZooKeeper and copied by others, whose connections are lost amid the events of a transaction; and
the cluster has a chroot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import MS, SECOND, Plan, Step, with_actions, within

ZOOKEEPER: Final = "zookeeper"
CONNECTED: Final = (
    "zookeeper:2181/kafka", "zookeeper:2181/clusters/one", "zookeeper:2182,zookeeper:2181/kafka",
    "zookeeper:2182,zookeeper:2181",
)  # fmt: skip
"""Nobody listens at 2182."""
OF_COORDINATORS: Final = ("bounce", "bounce", "kill", "power-loss", "pause")


def snapped(plan: Plan, chance: Chance) -> Plan:
    """ZooKeeper takes a snapshot every few transactions, and dies now and then."""
    if not chance.happens(0.2):
        return plan
    kept = {"snapCount": str(chance.whole(10, 200)), "autopurge.snapRetainCount": str(chance.whole(1, 3))}
    more: list[Step] = []
    for _ in range(chance.whole(1, 3)):
        at_ns, lasts_ns = chance.whole(3 * SECOND, plan.length_ns - 2 * SECOND), chance.whole(50, 3_000) * MS
        more.append((at_ns, chance.one_of(OF_COORDINATORS), {"node": ZOOKEEPER}, lasts_ns))
    return with_actions(replace(plan, coordinator={**plan.coordinator, **kept}), within(plan, more))


def mirrored(plan: Plan, chance: Chance) -> Plan:
    """An application writes znodes, some of which ZooKeeper deletes, and others copy them event by event."""
    if any(each.name == "keep" for each in plan.actions) or not chance.happens(0.2):
        return plan
    passing = {"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": str(chance.whole(300, 2_000))}
    ends_ns = chance.whole(plan.length_ns // 2, plan.length_ns)
    names = ["mirror-1", "mirror-2"]
    more: list[Step] = [(0, "keep", {"client": "keeper", "passing": True}, ends_ns)]
    more += [(0, "mirror", {"client": name, "recursive": name == names[1]}, plan.length_ns) for name in names]
    for _ in range(chance.whole(2, 5)):
        name, at_ns = chance.one_of([names[0], names[0], names[1], "keeper"]), chance.whole(SECOND, ends_ns)
        late: dict[str, Any] = {"links": [f"{ZOOKEEPER}>{name}"], "jitter_ns": chance.whole(20, 200) * MS}
        lost: dict[str, Any] = {"links": [f"{ZOOKEEPER}>{name}", f"{name}>{ZOOKEEPER}"]}
        more += [(at_ns, "jitter", late, 2 * SECOND), (at_ns, "fragment", {"links": late["links"]}, 2 * SECOND)]
        more += [(at_ns + chance.whole(0, 2_000) * MS, "reset", lost, 0) for _ in range(chance.whole(2, 5))]
        if chance.happens(0.2):
            more.append((at_ns, "zk-expire", {"node": name}, 0))
    return with_actions(replace(plan, coordinator={**plan.coordinator, **passing}), within(plan, more))


def elsewhere(plan: Plan, chance: Chance) -> Plan:
    """The cluster has a chroot, or a second server in its connect string that never answers."""
    if not chance.happens(0.2):
        return plan
    connect = chance.one_of(CONNECTED)
    return replace(plan, config={**plan.config, "zookeeper.connect": connect})


ZNODES: Final = (snapped, mirrored, elsewhere)
