"""Sends brokers requests that they have to refuse: of another leader epoch (R14, C23), of an earlier controller (C3),
and of a follower that lacks something (R24). It also watches that nothing is written with acks=all where the ISR is too
small (R8), and that no LeaderAndIsr is obeyed that was meant for an earlier registration (C4).

Hardly any client sends such a request in a moment when it would be accepted. A refused request changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from barnabas.log.log import Log
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_EPOCH, ZERO_UUID, TopicPartition, Uuid
from barnabas.model.sentinels import ACKS_ALL, LATEST_TIMESTAMP
from barnabas.replica.partition import Partition
from barnabas.replica.readable_partition import FetchIsolation
from barnabas.replica.replicas import Replicas
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

UNTOLD: Final = -1
"""For the epoch of a broker."""
ANOTHER_TOPIC: Final = Uuid(b"of nobody's uuid")
SOMEBODY: Final = 1 << 30
"""A broker that no cluster has."""


class RefusalWatch:
    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        probes.across(Partition, "make_leader", lambda partition: partition.leader_epoch, self._leads)
        probes.across(Partition, "make_follower", lambda partition: partition.leader_epoch, self._follows)
        probes.after(Partition, "propose_isr", self._proposed)
        probes.after(Partition, "append_as_leader", self._appended)
        probes.after(Replicas, "become_leader_or_follower", self._told)

    # Of another epoch

    def _leads(self, before: int, _: object, partition: Partition, *__: object) -> None:
        log = partition.log
        if log is None or not partition.is_leader or partition.leader_epoch == before:
            return
        self.ask_in_other_epochs(partition)
        for follower in sorted(partition.progress.keys() & partition.isr_state.isr)[:1]:
            self.ask_for_who_has_not_all(partition, log, follower)

    def _follows(self, before: int, _: object, partition: Partition, *__: object) -> None:
        if partition.log is None or partition.is_leader or partition.leader_epoch == before:
            return
        self.ask_in_other_epochs(partition)
        for what, ask in _reads(partition, NO_EPOCH, only_leader=True):
            self._is_refused(partition, what, ErrorCode.NOT_LEADER_OR_FOLLOWER, ask)

    def ask_in_other_epochs(self, partition: Partition) -> None:
        """R14: a request that names a leader epoch is served in that epoch alone (KIP-320)."""
        epoch = partition.leader_epoch
        if epoch > 0:
            for what, ask in _reads(partition, epoch - 1, only_leader=False):
                self._is_refused(partition, what, ErrorCode.FENCED_LEADER_EPOCH, ask)
        for what, ask in _reads(partition, epoch + 1, only_leader=False):
            self._is_refused(partition, what, ErrorCode.UNKNOWN_LEADER_EPOCH, ask)

    def _is_refused(self, partition: Partition, what: str, right: ErrorCode, ask: Callable[[], object]) -> None:
        self.world.check("R14")
        try:
            told = ask()
        except KafkaError as error:
            told = error.code
        if told is not right:
            place = str(partition.topic_partition)
            sentence = f"{node()} has {place} in epoch {partition.leader_epoch}, and answers {told!r} to {what}"
            self.world.violated("R14", f"{sentence}, not {right.name}", place, node())

    # Of a follower that lacks something

    def _proposed(self, _: object, partition: Partition, *__: object) -> None:
        log = partition.log
        for follower in sorted(partition.progress.keys() & partition.isr_state.isr)[:1]:
            if log is not None:
                self._has_not_all(partition, _asked(partition, log), follower, log.topic_id, "while its ISR changes")

    def ask_for_who_has_not_all(self, partition: Partition, log: Log, follower: int) -> None:
        """R24: a fetch does not prove that a follower has everything when it names another epoch, another topic or
        another offset, or comes from a broker that is not in the ISR."""
        epoch, end = partition.leader_epoch, log.log_end_offset
        for other in (epoch - 1, epoch + 1):
            asked = _asked(partition, log, epoch=other)
            self._has_not_all(partition, asked, follower, log.topic_id, f"in epoch {other}")
        for offset in (end - 1, end + 1):
            asked = _asked(partition, log, offset=offset)
            self._has_not_all(partition, asked, follower, log.topic_id, f"at {offset}, and it ends at {end}")
        asked = _asked(partition, log)
        if log.topic_id is not None:
            self._has_not_all(partition, asked, follower, ANOTHER_TOPIC, "for another topic")
        self._has_not_all(partition, asked, SOMEBODY, log.topic_id, "and is no replica")
        for behind in sorted(partition.progress.keys() - partition.isr_state.isr)[:1]:
            self._has_not_all(partition, asked, behind, log.topic_id, "and is not in sync")

    def _has_not_all(
        self, partition: Partition, asked: FetchRequest.FetchPartition, who: int, topic_id: Uuid | None, why: str
    ) -> None:
        self.world.check("R24")
        now_ms = self.world.loop.now_ns // 1_000_000
        if partition.record_fetch_of_all(who, UNTOLD, topic_id or ZERO_UUID, asked, now_ms):
            place = str(partition.topic_partition)
            self.world.violated(
                "R24", f"{node()} believes that {who} has all of {place}, which asks {why}", place, node()
            )

    # Of a controller, or a leader epoch, from before

    def _told(self, response: Any, replicas: Replicas, request: LeaderAndIsrRequest, **_: object) -> None:
        if request.is_k_raft_controller or response.error_code:
            return
        self.is_of_this_registration(request)
        self.ask_as_an_earlier_controller(replicas, request)
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = replicas.partition(TopicPartition(topic.topic_name, state.partition_index))
                if partition is not None and partition.leader_epoch == state.leader_epoch > 0:
                    self.ask_to_stop_as_before(replicas, partition)

    def is_of_this_registration(self, request: LeaderAndIsrRequest) -> None:
        """C4: a broker that has registered again obeys nothing that was meant for its earlier registration."""
        broker = self.world.brokers.get(node())
        if broker is None or request.broker_epoch < 0:
            return
        self.world.check("C4")
        if request.broker_epoch < broker.broker_epoch:
            sentence = f"{node()}, registered as {broker.broker_epoch}, obeys LeaderAndIsr for {request.broker_epoch}"
            self.world.violated("C4", sentence, node=node())

    def ask_as_an_earlier_controller(self, replicas: Replicas, request: LeaderAndIsrRequest) -> None:
        """C3: a broker that has heard of a controller obeys no earlier one."""
        before = replicas.controller_epoch - 1
        if before < 1:
            return
        self.world.check("C3")
        outdated = LeaderAndIsrRequest(request.controller_id, False, before, request.broker_epoch)
        answers: dict[str, LeaderAndIsrResponse | StopReplicaResponse] = {
            "LeaderAndIsr": replicas.become_leader_or_follower(outdated),
            "StopReplica": replicas.stop_replicas(StopReplicaRequest(request.controller_id, controller_epoch=before)),
        }
        for name, answer in answers.items():
            if answer.error_code != ErrorCode.STALE_CONTROLLER_EPOCH:
                sentence = f"{node()} accepts {name} of controller epoch {before}, and has heard of {before + 1}"
                self.world.violated("C3", sentence, node=node())

    def ask_to_stop_as_before(self, replicas: Replicas, partition: Partition) -> None:
        """C23: a broker stops no replica by a decision of an earlier leader epoch."""
        self.world.check("C23")
        before = partition.leader_epoch - 1
        told = replicas.stop_replica(partition.topic_partition, before, False)
        if told is not ErrorCode.FENCED_LEADER_EPOCH:
            place = str(partition.topic_partition)
            sentence = f"{node()} has {place} in epoch {before + 1}, and stops it for epoch {before}: {told.name}"
            self.world.violated("C23", sentence, place, node())

    # Where too few are in sync

    def _appended(self, _: object, partition: Partition, __: object, required_acks: int, **___: object) -> None:
        self.is_written_where_enough_are(partition, required_acks)

    def is_written_where_enough_are(self, partition: Partition, required_acks: int) -> None:
        """R8: with acks=all nothing is written where the ISR has fewer members than ``min.insync.replicas``."""
        if required_acks != ACKS_ALL or partition.log is None:
            return
        self.world.check("R8")
        isr, needed = partition.isr_state.isr, partition.effective_min_isr
        if len(isr) < needed:
            place = str(partition.topic_partition)
            sentence = f"{node()} appends with acks=all to {place}, whose ISR is {sorted(isr)}"
            self.world.violated("R8", f"{sentence}; {needed} members have to be there", place, node())


def _asked(
    partition: Partition, log: Log, *, epoch: int | None = None, offset: int | None = None
) -> FetchRequest.FetchPartition:
    """The fetch of a follower that has everything, except for what is given."""
    return FetchRequest.FetchPartition(
        partition.topic_partition.partition,
        partition.leader_epoch if epoch is None else epoch,
        log.log_end_offset if offset is None else offset,
        log.leader_epochs.latest_epoch,
        log.log_start_offset,
    )


def _reads(partition: Partition, epoch: int, *, only_leader: bool) -> Iterator[tuple[str, Callable[[], object]]]:
    log = partition.local_log()
    yield f"a fetch in {epoch}", lambda: partition.read(
        log.log_end_offset, 1, current_leader_epoch=epoch, last_fetched_epoch=NO_EPOCH,
        isolation=FetchIsolation.LOG_END, only_leader=only_leader, min_one_batch=False,
    )  # fmt: skip
    yield (
        f"OffsetForLeaderEpoch in {epoch}",
        lambda: partition.last_offset_for_leader_epoch(epoch, 0, only_leader=only_leader),
    )
    yield (
        f"ListOffsets in {epoch}",
        lambda: partition.offset_for_timestamp(
            LATEST_TIMESTAMP, FetchIsolation.LOG_END, epoch, only_leader=only_leader
        ),
    )
