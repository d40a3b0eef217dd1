"""Role × kind × fault: who holds a role is of the kind that is wanted, and is struck.

The controller is deposed until one of the kind wins; a leader, and so a coordinator, is moved by a reassignment and a
preferred election, which are sent to whatever kind reigns.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from mixed_brokers import APACHES, OURS, BothKinds

from barnabas.client import Cluster, KafkaError, TopicPartition, connect
from barnabas.coordinator.group_answers import partition_for
from barnabas.judge.clusters import JudgedClusterError
from barnabas.judge.nemesis import PROCESS_FAULTS
from barnabas.model.errors import ErrorCode
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

T = TypeVar("T")

ROLES = ("controller", "leader", "follower", "group coordinator", "transaction coordinator")
KINDS = (APACHES, OURS)
WHOLE_WITHIN_S = 90.0
PATIENCE_S = 60.0
TRIES = 40


def all_cells() -> list[tuple[str, str, str]]:
    return [(role, kind, fault) for role in ROLES for kind in KINDS for fault in PROCESS_FAULTS]


@dataclass
class Cells:
    """What a nemesis strikes next: `aim` of each fault comes to every role of every kind before any comes again."""

    brokers: BothKinds
    chance: random.Random
    struck: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    whole_after_s: list[float] = field(default_factory=list)
    struck_at_s: list[float] = field(default_factory=list)
    due: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    told: Callable[[str], None] = print
    transactions: list[str] = field(default_factory=list)
    """The transactional ids that were listed last."""

    def aim(self, fault: str) -> int:
        """The broker that the fault strikes. Raises `JudgedClusterError` while an earlier victim is down."""
        began = time.monotonic()
        self.wait_until_whole()
        whole = time.monotonic()
        self.whole_after_s.append(whole - began)
        if not self.due.get(fault):
            kinds = dict.fromkeys(map(self.brokers.kind, self.brokers.ids))
            cells = [(role, kind) for role in ROLES for kind in kinds]
            self.due[fault] = self.chance.sample(cells, len(cells))
        role, kind = self.due[fault].pop()
        broker = self._holder(role, kind)
        self.struck[role, kind, fault] += 1
        self.struck_at_s.append(time.monotonic())
        since_s = self.struck_at_s[-1] - self.struck_at_s[0]
        took = f"whole after {whole - began:.1f} s, the role {self.struck_at_s[-1] - whole:.1f} s later"
        self.told(f"{since_s:6.1f} s  {fault}: broker {broker} of {kind}, {role} ({took})")
        return broker

    def each_s(self) -> float:
        """From one fault to the next, by the mean; 0 where there were fewer than two."""
        between = len(self.struck_at_s) - 1
        return (self.struck_at_s[-1] - self.struck_at_s[0]) / between if between > 0 else 0.0

    def missing(self) -> list[tuple[str, str, str]]:
        return [cell for cell in all_cells() if not self.struck[cell]]

    def wait_until_whole(self) -> None:
        """Every replica of every partition is in sync, and no partition is without a leader."""

        async def whole(cluster: Cluster) -> bool:
            topics = (await cluster.refresh(None)).topics
            self._behind = [
                f"{name}-{number} has {list(state.isr)} of {list(state.replicas)} in sync"
                for name, topic in topics.items()
                for number, state in topic.partitions.items()
                if state.leader < 0 or set(state.isr) != set(state.replicas)
            ]
            return not self._behind

        self._until(whole, lambda: f"partitions are not whole again: {self._behind[:5]}")

    def _holder(self, role: str, kind: str) -> int:
        match role:
            case "controller":
                for _ in range(TRIES):
                    stays = not self._one_kind() or self.chance.random() < 0.5
                    if self.brokers.kind(found := self._controller()) == kind and stays:
                        return found
                    if self._one_kind():
                        # Apache's brokers alone elect nobody where a controller goes before they have looked at it.
                        self._until(self._is_known, lambda: "nobody was told of the controller")
                    self.brokers.depose()
                raise JudgedClusterError(f"no broker of {kind} became the controller in {TRIES} elections")
            case "leader":
                return self._leads(self.chance.choice(self._judged()), kind)
            case "follower":
                return self._follows(kind)
            case "group coordinator":
                return self._leads(self._coordinated(GROUP_METADATA_TOPIC, self._groups()), kind)
            case _:
                return self._leads(self._coordinated(TRANSACTION_STATE_TOPIC, self._transactional_ids()), kind)

    def _one_kind(self) -> bool:
        """Then roles are moved just the same: what is written of that is recorded."""
        return len(set(map(self.brokers.kind, self.brokers.ids))) == 1

    def _controller(self) -> int:
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.brokers.controller()) < 0:
            if time.monotonic() > deadline:
                raise JudgedClusterError(f"nobody reigns for {PATIENCE_S:.0f} s")
            time.sleep(0.05)
        return found

    async def _is_known(self, cluster: Cluster) -> bool:
        """A broker says of the controller that it is that."""
        return (await cluster.refresh(None)).controller_id == self.brokers.controller()

    def _judged(self) -> list[TopicPartition]:
        """The partitions of the run's own topics."""
        topics = self._ask(lambda cluster: cluster.refresh(None)).topics
        return [TopicPartition(n, number) for n in topics if n.startswith("judge-") for number in topics[n].partitions]

    def _groups(self) -> list[str]:
        async def groups(cluster: Cluster) -> list[str]:
            return [each.group for each in await cluster.admin.list_groups()]

        return self._until(groups, lambda: "there is no group")

    def _transactional_ids(self) -> list[str]:
        async def transactional_ids(cluster: Cluster) -> list[str]:
            try:
                self.transactions = [each.transactional_id for each in await cluster.admin.list_transactions()]
            except KafkaError as error:
                # Apache's coordinator says so until its next start, where its session ended while it loaded a partition
                # ("Uncaught exception in scheduled task 'load-txns-for-partition-…'"). Who was there, is there.
                if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    raise
            return self.transactions

        return self._until(transactional_ids, lambda: "there is no transaction")

    def _coordinated(self, topic: str, names: Iterable[str]) -> TopicPartition:
        """Where one of the groups or transactions is kept."""
        count = len(self._ask(lambda cluster: cluster.refresh([topic])).topics[topic].partitions)
        return TopicPartition(topic, partition_for(self.chance.choice(sorted(names)), count))

    def _leads(self, at: TopicPartition, kind: str) -> int:
        """A broker of the kind, made the partition's leader."""
        state = self._ask(lambda cluster: cluster.refresh([at.topic])).topics[at.topic].partitions[at.partition]
        of_kind = [each for each in self.brokers.ids if self.brokers.kind(each) == kind]
        if state.leader in of_kind and not self._one_kind():
            return state.leader
        heir = self.chance.choice(of_kind)
        others = [each for each in state.replicas if each != heir]
        replicas = [heir, *others[: len(state.replicas) - 1]]

        # Apache's controller answers nobody where its session turns out to be over while it handles the request ("Error
        # processing event ApiPartitionReassignment"): the client asks the next one 35 s later.
        async def move(cluster: Cluster) -> None:
            (error,) = (await cluster.admin.alter_reassignments({at: replicas})).values()
            if error is not None:
                raise error

        async def moved(cluster: Cluster) -> bool:
            if at in await cluster.admin.list_reassignments():
                return False
            (error,) = (await cluster.admin.elect_leaders([at])).values()
            if error is not None and error.code not in (
                ErrorCode.ELECTION_NOT_NEEDED,
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            ):
                raise error
            return (await cluster.refresh([at.topic])).topics[at.topic].partitions[at.partition].leader == heir

        self._ask(move)
        self._until(moved, lambda: f"{at} does not come to broker {heir}")
        return heir

    def _follows(self, kind: str) -> int:
        """A broker of the kind that has replicas of the run's topics and leads not all of them; one that is alone of
        its kind may have to be made that."""
        topics = self._ask(lambda cluster: cluster.refresh(None)).topics
        followers = {
            broker
            for name, topic in topics.items()
            if name.startswith("judge-")
            for state in topic.partitions.values()
            for broker in state.replicas
            if broker != state.leader and self.brokers.kind(broker) == kind
        }
        if not followers:
            self._leads(self.chance.choice(self._judged()), next(other for other in KINDS if other != kind))
            return self._follows(kind)
        return self.chance.choice(sorted(followers))

    def _ask(self, question: Callable[[Cluster], Awaitable[T]]) -> T:
        """Raises `JudgedClusterError` where the cluster does not answer, or says no."""

        async def asked() -> T:
            async with connect(self.brokers.bootstrap) as cluster:
                return await question(cluster)

        try:
            return asyncio.run(asked())
        except (KafkaError, OSError) as error:
            raise JudgedClusterError(f"the cluster of both kinds says {error}") from None

    def _until(
        self, question: Callable[[Cluster], Awaitable[T]], what: Callable[[], str], within: float = WHOLE_WITHIN_S
    ) -> T:
        """The first answer that is true, or not empty; who says no, such as one that is loading, is asked again."""
        deadline = time.monotonic() + within
        while True:
            try:
                if answer := self._ask(question):
                    return answer
                refused = ""
            except JudgedClusterError as error:
                refused = f" ({error})"
            if time.monotonic() > deadline:
                raise JudgedClusterError(f"{what()}: not within {within:.0f} s{refused}")
            time.sleep(0.2)
