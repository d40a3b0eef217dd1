"""``barnabas bench controller``: a controller's work with many partitions, beside Apache Kafka 3.9.2.

Each cluster has three brokers, and `topics` with `partitions` each and three replicas. The clusters run one after the
other: at the same time they would disturb each other. Everything is observed from outside, in the same way for both:

- creating all topics, until every broker's Metadata has a leader for each partition;
- a controller's failover: ``/controller`` is deleted, and a topic is created at once; the new controller makes it after
  the failover, and its queue and channels keep that order, so that every broker knows the topic only after the last
  UpdateMetadata of the failover;
- a broker's death: from the end of its registration until no other broker's Metadata has it as a leader;
- controlled shutdown of each broker in turn, from SIGTERM to the process's end; in between the ISRs become whole.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from barnabas.bench.clusters import PATIENCE_S, Subject, running_apache, running_barnabas, seen_by, until
from barnabas.bench.side_by_side import Figure, console
from barnabas.client.blocking import BlockingConnection
from barnabas.client.metadata import ClusterMetadata
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.create_topics import CreateTopicsRequest

BROKERS: Final = 3
_LOT: Final = 50
_AFTER: Final = "bench-after"
CONFIG: Final = {"auto.leader.rebalance.enable": "false", "zookeeper.session.timeout.ms": "6000"}


def measure(directory: Path, topics: int, partitions: int) -> list[Figure]:
    figures = {
        "create": Figure(f"creating {topics} topics of {partitions} partitions", "s", "<= 1.0"),
        "failover": Figure(f"controller failover with {topics * partitions} partitions", "s", "<= 0.5"),
        "death": Figure(f"a broker's death, {topics * partitions // BROKERS} partitions led", "s", "<= 0.5"),
        "shutdown": Figure("controlled shutdown of each broker in turn", "s", "<= 1.0"),
    }
    for running, is_ours in ((running_apache, False), (running_barnabas, True)):
        with running(directory / running.__name__, BROKERS, CONFIG) as subject:
            for name, seconds in _Play(subject, topics, partitions).run():
                figures[name].add(seconds, ours=is_ours)
                console.print(f"  {subject.name}: {figures[name].name}: {seconds:.2f} s", style="dim")
    return list(figures.values())


@dataclass
class _Play:
    """One cluster's turn."""

    subject: Subject
    topics: int
    partitions: int

    def run(self) -> Iterator[tuple[str, float]]:
        from kazoo.client import KazooClient

        zookeeper = KazooClient(self.subject.zookeeper)
        zookeeper.start()
        try:
            yield "create", self._create()
            yield "failover", self._fail_over(zookeeper)
            yield "death", self._die(zookeeper)
            yield "shutdown", self._shut_down_in_turn()
        finally:
            zookeeper.stop()
            zookeeper.close()

    def _create(self) -> float:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.subject.bootstrap, "socket.timeout.ms": 300_000, "log_level": 0})
        wanted = [
            NewTopic(
                f"bench-{number:05}",
                num_partitions=self.partitions,
                replica_assignment=[
                    [(number + partition + turn) % BROKERS for turn in range(BROKERS)]
                    for partition in range(self.partitions)
                ],
            )
            for number in range(self.topics)
        ]
        begun = time.monotonic()
        for first in range(0, self.topics, _LOT):
            lot = wanted[first : first + _LOT]
            for future in admin.create_topics(lot, operation_timeout=PATIENCE_S, request_timeout=PATIENCE_S).values():
                future.result()
        self._everywhere(self._has_all, "all partitions")
        return time.monotonic() - begun

    def _fail_over(self, zookeeper: Any) -> float:
        begun = time.monotonic()
        zookeeper.delete("/controller")
        until(lambda: self._asked_the_controller(zookeeper), "a controller that makes a topic")
        self._everywhere(lambda seen: _AFTER in seen.topics, "a topic made after the failover")
        return time.monotonic() - begun

    def _asked_the_controller(self, zookeeper: Any) -> bool:
        """Asks the controller to create a topic; returns False while there is no controller, or it does not know yet
        that it is one."""
        stat = zookeeper.exists("/controller")
        if stat is None:
            return False
        controller = json.loads(zookeeper.get("/controller")[0])["brokerid"]
        assignment = [CreateTopicsRequest.CreatableReplicaAssignment(0, list(self.subject.ports))]
        topic = CreateTopicsRequest.CreatableTopic(_AFTER, -1, -1, assignment)
        request = CreateTopicsRequest([topic], timeout_ms=int(PATIENCE_S * 1000))
        with BlockingConnection("127.0.0.1", self.subject.ports[controller], "barnabas-bench") as connection:
            answer = connection.send(request, 7, int(PATIENCE_S * 1000))
        return answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

    def _die(self, zookeeper: Any) -> float:
        controller = json.loads(zookeeper.get("/controller")[0])["brokerid"]
        victim = next(broker for broker in self.subject.ports if broker != controller)
        self.subject.kill(victim)
        until(lambda: zookeeper.exists(f"/brokers/ids/{victim}") is None, "the end of a registration")
        begun = time.monotonic()

        def leads_nothing(seen: ClusterMetadata) -> bool:
            return all(
                partition.leader != victim for topic in seen.topics.values() for partition in topic.partitions.values()
            )

        self._everywhere(leads_nothing, "other leaders", but=victim)
        took = time.monotonic() - begun
        self.subject.start(victim)
        self._everywhere(self._is_whole, "whole ISRs")
        return took

    def _shut_down_in_turn(self) -> float:
        took = 0.0
        for broker in self.subject.ports:
            begun = time.monotonic()
            self.subject.stop(broker)
            took += time.monotonic() - begun
            self.subject.start(broker)
            self._everywhere(self._is_whole, "whole ISRs")
        return took

    def _has_all(self, seen: ClusterMetadata) -> bool:
        known = sum(
            partition.leader >= 0
            for name, topic in seen.topics.items()
            if name.startswith("bench-")
            for partition in topic.partitions.values()
        )
        return known >= self.topics * self.partitions

    def _is_whole(self, seen: ClusterMetadata) -> bool:
        return self._has_all(seen) and all(
            len(partition.isr) == len(partition.replicas)
            for topic in seen.topics.values()
            for partition in topic.partitions.values()
        )

    def _everywhere(self, fact: Callable[[ClusterMetadata], bool], what: str, but: int | None = None) -> None:
        for broker, port in self.subject.ports.items():
            if broker != but:
                until(lambda port=port: fact(seen_by(port)), f"{what} on broker {broker} of {self.subject.name}")  # type: ignore[misc]
