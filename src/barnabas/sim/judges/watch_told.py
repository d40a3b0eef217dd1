"""Watches what administrators are told (C26). An order that is answered with success was carried out at some moment
since it was given; for an error, its reason was true at some moment.

An order may be undone again when its answer arrives, or the reason be gone, by znode tools or other administrators. So
the facts are looked at after each transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from barnabas.client.admin import Admin, NewTopic
from barnabas.controller.context import ControllerContext
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.model.leadership import ElectionType
from barnabas.sim.judges.watch_zookeeper import ZooKeeperWatch
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World

Facts: TypeAlias = Mapping[ErrorCode, Callable[[], bool]]
"""By answer: what has to be true where that answer is right. Other answers are not judged."""
MARKED: Final = "/admin/delete_topics"


class Asked:
    """A request that waits, and the answers that would have been right at some time since."""

    def __init__(self, facts: Mapping[Any, Facts]) -> None:
        self._open = {(key, code): fact for key, known in facts.items() for code, fact in known.items()}
        self.look()

    def look(self) -> None:
        for each in [each for each, fact in self._open.items() if fact()]:
            del self._open[each]

    def was_never_right(self, key: Any, code: ErrorCode) -> bool:
        return (key, code) in self._open


class ToldWatch:
    def __init__(self, world: World, ensemble: ZooKeeperWatch, probes: Probes) -> None:
        self.world = world
        self.ensemble = ensemble
        self._waiting: list[Asked] = []
        probes.around(Admin, "alter_reassignments", partial(self._around, self.of_moves, True))
        probes.around(Admin, "elect_leaders", partial(self._around, self.of_elections, True))
        probes.around(Admin, "create_topics", partial(self._around, self.of_new_topics, False))
        probes.around(Admin, "delete_topics", partial(self._around, self.of_deletions, False))
        probes.around(Admin, "create_partitions", partial(self._around, self.of_more_partitions, False))

    def look(self) -> None:
        """Runs after each transaction."""
        for asked in self._waiting:
            asked.look()

    async def _around(
        self, facts: Callable[..., Mapping[Any, Facts]], by_ruler: bool, original: Any, admin: Admin, *said: Any,
        **named: Any,
    ) -> Any:  # fmt: skip
        asked, ruler = Asked(facts(*said)), self._ruler()
        self._waiting.append(asked)
        try:
            outcomes = await original(admin, *said, **named)
        finally:
            self._waiting.remove(asked)
        asked.look()
        if not by_ruler or (ruler is not None and ruler is self._ruler()):
            self.is_told(asked, outcomes)
        return outcomes

    def is_told(self, asked: Asked, outcomes: Mapping[Any, KafkaError | None]) -> None:
        for key, error in outcomes.items():
            code = ErrorCode.NONE if error is None else error.code
            self.world.check("C26")
            if asked.was_never_right(key, code):
                self.world.violated("C26", f"{node()} is told {code.name} of {key}, and that was never true", str(key))

    def _ruler(self) -> ControllerContext | None:
        """What the controller knows, where no other broker takes itself for the controller: one that was deposed and
        has not heard of it answers by what was."""
        active = [name for name, broker in self.world.brokers.items() if broker.controller.is_active]
        return self.ensemble.known_to_controller() if active == [self.world.controller()] else None

    def _is_there(self, number: int) -> bool:
        context = self.ensemble.known_to_controller()
        return context is not None and context.is_live_broker(number) and self.ensemble.is_registered(number)

    # What would be right

    def of_moves(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> Mapping[Any, Facts]:
        return {each: self._of_move(each, target) for each, target in targets.items()}

    def _of_move(self, each: TopicPartition, target: Sequence[int] | None) -> Facts:
        def members() -> tuple[list[int], list[int], list[int]]:
            """The partition's replicas, those that are added, and those that are removed."""
            seen, number = self.ensemble.topics.get(each.topic), each.partition
            if seen is None:
                return [], [], []
            return seen.replicas.get(number, []), seen.adding.get(number, []), seen.removing.get(number, [])

        def rests() -> bool:
            _, adding, removing = members()
            return not adding and not removing

        def is_on_its_way() -> bool:
            replicas, _, removing = members()
            return [replica for replica in replicas if replica not in removing] == [*(target or [])]

        def cannot() -> bool:
            replicas, adding, _ = members()
            original = [replica for replica in replicas if replica not in adding]
            wanted = original if target is None else [*target]
            state = self.ensemble.states.get(str(each))
            return (
                not wanted
                or len({*wanted}) < len(wanted)
                or not all(self._is_there(new) for new in wanted if new not in original)
                or (state is not None and not any(each in {*wanted, *original} for each in state["isr"]))
            )

        return {
            ErrorCode.NONE: rests if target is None else is_on_its_way,
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: rests,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT: cannot,
        }

    def of_elections(
        self, partitions: Iterable[TopicPartition] | None, kind: ElectionType = ElectionType.PREFERRED
    ) -> Mapping[Any, Facts]:
        known = [] if partitions is None or kind is not ElectionType.PREFERRED else partitions
        return {each: self._of_election(each) for each in known}

    def _of_election(self, each: TopicPartition) -> Facts:
        def preferred() -> int:
            seen = self.ensemble.topics.get(each.topic)
            return next(iter(() if seen is None else seen.replicas.get(each.partition, ())), NO_BROKER)

        def leads() -> bool:
            state = self.ensemble.states.get(str(each))
            return state is None or state["leader"] == preferred()

        def cannot() -> bool:
            context, first = self.ensemble.known_to_controller(), preferred()
            state = self.ensemble.states.get(str(each))
            return (
                context is None
                or state is None
                or first not in state["isr"]
                or not self.ensemble.is_registered(first)
                or not context.is_replica_online(first, each)
            )

        return {
            ErrorCode.NONE: leads,
            ErrorCode.ELECTION_NOT_NEEDED: leads,
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: cannot,
        }

    def of_new_topics(self, topics: Sequence[NewTopic]) -> Mapping[Any, Facts]:
        return {topic.name: {ErrorCode.NONE: partial(self._has, topic.name, topic.partitions)} for topic in topics}

    def _has(self, name: str, partitions: int) -> bool:
        seen = self.ensemble.topics.get(name)
        return seen is not None and len(seen.replicas) >= partitions

    def of_deletions(self, names: Sequence[str]) -> Mapping[Any, Facts]:
        return {name: {ErrorCode.NONE: self._goes(name)} for name in names}

    def _goes(self, name: str) -> Callable[[], bool]:
        """Brokers no longer know a topic when its deletion has begun."""
        before = self.ensemble.topics.get(name)
        topic_id = None if before is None else before.topic_id

        def goes() -> bool:
            seen = self.ensemble.topics.get(name)
            return seen is None or seen.topic_id != topic_id or name in self.world.children(MARKED)

        return goes

    def of_more_partitions(self, counts: Mapping[str, int]) -> Mapping[Any, Facts]:
        enough = (ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS)
        return {name: dict.fromkeys(enough, partial(self._has, name, count)) for name, count in counts.items()}
