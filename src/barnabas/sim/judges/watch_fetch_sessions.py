"""Watches fetch sessions between followers and leaders (R30), and where consumers are sent to read (R31).

A session's request names only what has changed, and the leader remembers the rest. A partition that is missing in the
leader's memory is not fetched until something else changes of it; a partition too many is fetched in vain, while its
follower seems to be alive. So the requests of each session are added up here, and have to give what the follower wants.

An answer names only changes as well: a high watermark that was told once is not told again. When both sides agree on
the number of requests, a follower that has all records of a partition has the high watermark that the leader noted as
told, and where the partition rests at the leader that is the present one.

A follower goes on fetching a partition even when another partition of that leader arrives damaged.

R31: a consumer is sent only to a replica in the ISR; at one that lags it would wait as long as that does (KIP-392).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from barnabas.log.log import Log
from barnabas.model.ids import NO_BROKER, ZERO_UUID, Uuid
from barnabas.replica.fetch_session import CachedPartition, FetchSession
from barnabas.replica.fetch_session_handler import FetchSessionHandler
from barnabas.replica.partition import Partition
from barnabas.replica.readable_partition import ReadablePartition, ReadResult
from barnabas.replica.replica_selector import ReplicaView
from barnabas.replica.replicas import Replicas
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World, broker_number
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse

NOW_MS: Final = 0
FIRST_EPOCH: Final = (0, -1)
"""Session epochs of requests that name every partition (KIP-227)."""
Key: TypeAlias = tuple[Uuid | str, int]


class FetchSessionWatch:
    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        self._asked: dict[FetchSessionHandler, dict[Key, None]] = {}
        self._given_up: dict[tuple[str, str], None] = {}
        """By broker and partition: partitions that were not followed at the last look."""
        self._asked_to_rest: dict[tuple[str, str, int], None] = {}
        """By leader, partition and follower: who was asked whether the partition would rest."""
        probes.after(FetchSessionHandler, "build", self._built)
        probes.after(FetchSessionHandler, "build_one", self._built_one)
        probes.after(FetchSessionHandler, "handle", self._handled)
        probes.after(ReadablePartition, "preferred_read_replica", self._sent)
        probes.after(CachedPartition, "rest", self.is_told_all)
        probes.after(CachedPartition, "lie_down_for_now", self._lies_down)
        probes.after(Partition, "isr_altered", self.ask_where_to_read)

    def look(self) -> None:
        """A partition is followed as long as it has a leader and the disk works, whatever happens to other
        partitions."""
        before, self._given_up = self._given_up, {}
        for name, broker in self.world.brokers.items():
            machine = self.world.nodes[name]
            if machine.disk.errors or machine.volume.refused_writes or self.world.faults.get("bit-rot"):
                continue
            self.world.check("R30")
            for place in map(str, broker.replicas.fetchers.failed_partitions):
                self._given_up[name, place] = None
                if (name, place) not in before:
                    self.world.violated("R30", f"{name} follows {place} no more, and its disk is well", place, name)

    def ask_where_to_read(self, _: bool, partition: Partition, *__: object) -> None:
        """When an ISR has changed, looks at every replica that a consumer may now be sent to."""
        broker = self.world.brokers.get(node())
        if broker is None or partition.log is None:
            return

        def choose(_: str, leader: ReplicaView, followers: Sequence[ReplicaView]) -> ReplicaView:
            for follower in followers:
                self._sent(follower.broker_id, partition)
            return leader

        partition.preferred_read_replica(
            choose, "", partition.log.log_start_offset, broker.metadata.image.brokers, NOW_MS
        )

    def _sent(self, replica: int, partition: ReadablePartition, *_: Any) -> None:
        if replica == NO_BROKER:
            return
        self.world.check("R31")
        place = str(partition.topic_partition)
        there = self.world.state(place)
        if replica not in partition.isr_state.isr and (there is None or replica not in there["isr"]):
            sentence = f"{node()} sends a consumer of {place} to {replica}, which is not in its ISR"
            self.world.violated("R31", f"{sentence} {sorted(partition.isr_state.isr)}", place, node())

    def is_told_all(self, rests: bool, cached: CachedPartition, partition: Partition | None, told: ReadResult) -> None:
        """When no fetch looks at a resting partition any more, its follower has been told its present state."""
        log = None if partition is None else partition.log
        if not rests or partition is None or log is None:
            return
        self.world.check("R30")
        now = log.high_watermark, log.log_start_offset
        if now != (told.high_watermark, told.log_start_offset):
            place = str(partition.topic_partition)
            last = f"the high watermark {told.high_watermark} and the log start {told.log_start_offset}"
            sentence = f"{node()} has told of {place} {last}, and tells no more; they are {now[0]} and {now[1]}"
            self.world.violated("R30", sentence, place, node())
            return
        key = node(), str(partition.topic_partition), cached.session.replica_id
        if key not in self._asked_to_rest:
            self._asked_to_rest[key] = None
            self.ask_to_rest_untold(cached, partition, log)

    def ask_to_rest_untold(self, cached: CachedPartition, partition: Partition, log: Log) -> None:
        """A partition whose high watermark or log start moves while it is told does not rest; `is_told_all` judges what
        comes of the questions. A session in which nothing is stirred remembers none of them."""
        session = FetchSession(
            0, replica_id=cached.session.replica_id, replica_epoch=0, uses_topic_ids=True, now_ms=NOW_MS
        )
        for offset in ("high_watermark", "log_start_offset"):
            told = ReadResult(log)
            setattr(told, offset, getattr(told, offset) - 1)
            CachedPartition(session, cached.key, cached.request).rest(partition, told)

    def _lies_down(self, _: None, cached: CachedPartition, partition: Partition, log: Log) -> None:
        """A fetch that waits tells what it has not told yet."""
        self.world.check("R30")
        told, now = (cached.high_watermark, cached.local_log_start_offset), (log.high_watermark, log.log_start_offset)
        if cached.cache_key not in cached.session.stirred and told != now:
            place = str(partition.topic_partition)
            sentence = f"{node()} has told {told} of {place}, which are high watermark and log start, and tells no more"
            self.world.violated("R30", f"{sentence}; they are {now}", place, node())

    def _built(self, request: tuple[list[Any], list[Any], int, int], session: FetchSessionHandler) -> None:
        topics, forgotten, _, epoch = request
        asked = {} if epoch in FIRST_EPOCH else self._asked.get(session, {})
        for topic in topics:
            asked.update(((_name(topic), each.partition), None) for each in topic.partitions)
        for topic in forgotten:
            for number in topic.partitions:
                asked.pop((_name(topic), number), None)
        self._asked[session] = asked
        self._is_what_is_wanted(session, asked)
        self._is_told(session, epoch)

    def _built_one(self, _: int, session: FetchSessionHandler, key: Key) -> None:
        asked = self._asked.setdefault(session, {})
        asked[key] = None
        self._is_what_is_wanted(session, asked)

    def _handled(self, is_taken: bool, session: FetchSessionHandler, response: FetchResponse) -> None:
        """A session's first answer has all partitions that were asked for, and a later one none that was not."""
        self.world.check("R30")
        if not is_taken and not response.error_code:
            told = [f"{topic.topic or topic.topic_id}" for topic in response.responses]
            self.world.violated("R30", f"{node()} is answered {told}, which is not what it has asked for", node=node())

    def _is_what_is_wanted(self, session: FetchSessionHandler, asked: dict[Key, None]) -> None:
        self.world.check("R30")
        if asked.keys() != session.wanted.keys():
            wrong = sorted(f"{name}-{number}" for name, number in asked.keys() ^ session.wanted.keys())
            self.world.violated(
                "R30", f"{node()} has asked for {len(asked)} partitions in a session and wants {len(session.wanted)}; "
                f"only one of the two has {wrong}", node=node(),
            )  # fmt: skip

    def _is_told(self, session: FetchSessionHandler, epoch: int) -> None:
        """Looks at the leader's side when it has answered all earlier requests and is about to be asked again."""
        name, brokers = node(), self.world.brokers
        follower = brokers.get(name)
        if follower is None:
            return  # it has not come up yet
        following = follower.replicas
        for leader_name, leader in brokers.items():
            leading = leader.replicas
            kept = leading.fetch_sessions.find(session.session_id)
            if kept is None or kept.epoch != epoch or kept.replica_id != broker_number(name):
                continue
            self.world.check("R30")
            for key, cached in kept.partitions.items():
                if key in session.wanted and (wrong := _untold(kept, cached, leading, following)):
                    self.world.violated(
                        "R30", f"{leader_name} has told {name} of {cached.topic_partition} the high watermark "
                        f"{cached.high_watermark}, and tells it no more: {wrong}", str(cached.topic_partition), name,
                    )  # fmt: skip


def _untold(kept: FetchSession, cached: CachedPartition, leading: Replicas, following: Replicas) -> str:
    """What is wrong with a partition that both sides have in the same leader epoch and whose follower has every record;
    a follower that lacks records is told the high watermark again with these."""
    place = cached.topic_partition
    led, copy = (None, None) if place is None else (leading.partition(place), following.partition(place))
    if led is None or copy is None or led.log is None or copy.log is None or not led.is_leader or copy.is_leader:
        return ""
    if led.leader_epoch != copy.leader_epoch or copy.log.log_end_offset != led.log.log_end_offset:
        return ""
    if copy.log.high_watermark < min(cached.high_watermark, copy.log.log_end_offset):
        return f"the follower has all to {copy.log.log_end_offset}, and the high watermark {copy.log.high_watermark}"
    rests = led.resting.get(kept.replica_id) is cached and cached.cache_key not in kept.stirred
    told = cached.high_watermark, cached.local_log_start_offset
    there = led.log.high_watermark, led.log.log_start_offset
    if rests and told != there:
        return f"it rests, was told {told}, and its high watermark and log start are {there}"
    return ""


def _name(topic: FetchRequest.FetchTopic | FetchRequest.ForgottenTopic) -> Uuid | str:
    return topic.topic_id if topic.topic_id != ZERO_UUID else topic.topic or ""
