"""Watches that a replica's log belongs to its topic, and not to an earlier one of the same name (C13).

A broker that was away while its replica was moved and the topic deleted and made again still has the earlier log. If it
led or followed with that log, the new topic would have records that nobody sent to it.
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
