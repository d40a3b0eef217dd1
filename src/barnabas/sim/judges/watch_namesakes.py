"""Watches which log a replica has: C13, that it is one of its topic, and not of an earlier one of the same name.

A broker that was away when its replica was moved to others, and when the topic was deleted and made anew, still has
the log of the earlier one. Led or followed with that, the new topic would have records that nobody has sent to it.
"""

from __future__ import annotations

from typing import Any

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.replica.partition import Partition
from barnabas.sim.judges.watch_logs import LogWatch
from barnabas.sim.world.probes import Probes, node


class NamesakeWatch:
    def __init__(self, logs: LogWatch, probes: Probes) -> None:
        self.world = logs.world
        self.logs = logs
        for name in ("make_leader", "make_follower"):
            probes.after(Partition, name, self._has_its_own)

    def _has_its_own(self, _: bool, partition: Partition, state: Any, topic_id: Uuid, *__: object) -> None:
        log = partition.log
        chain = None if log is None else self.logs.chain_of(log)
        if chain is None or not chain.topic_id or topic_id == ZERO_UUID:
            return
        self.world.check("C13")
        if chain.topic_id != str(topic_id):
            self.world.violated(
                "C13", f"{node()} has {partition.topic_partition} of topic id {topic_id} in a log of {chain.topic_id}",
                str(partition.topic_partition), node(),
            )  # fmt: skip
