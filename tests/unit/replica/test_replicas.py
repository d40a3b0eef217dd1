"""A leader's and a follower's `Replicas` in one process: real logs, and calls in the place of connections."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from replica_worlds import TOPIC_ID, TOPIC_PARTITION, batch, fetch_one, state
from turns import until

from barnabas.client.connection import Frame
from barnabas.log.loading import at_once
from barnabas.log.log_dir import LogDirFailure
from barnabas.log.log_dirs import LogDirs
from barnabas.model.cluster import Endpoint
from barnabas.model.config import broker_config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import ZERO_UUID, TopicPartition, Uuid
from barnabas.model.leadership import CommittedIsr, LeaderAndIsr
from barnabas.replica import replicas
from barnabas.replica.delayed_fetch import DelayedFetch, FetchParams, TopicIdPartition
from barnabas.replica.delayed_produce import Appended
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.replica.partition import Partition
from barnabas.replica.readable_partition import FetchIsolation
from barnabas.replica.replicas import Replicas
from barnabas.runtime import Bytes, Tasks
from barnabas.runtime.real import real_runtime
from barnabas.wire.frames import decode_request_header, encode_response
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from barnabas.wire.records import Record, build_batch

KEY = TopicIdPartition(TOPIC_ID, TOPIC_PARTITION.topic, TOPIC_PARTITION.partition)


class Call:
    """A connection to a broker in the same process: a request is a call."""

    def __init__(self, peers: dict[int, Peer], endpoint: Endpoint) -> None:
        self.peer = peers[endpoint.port]
        self.closed = False

    async def connect(self) -> None:
        if self.peer.unreachable:
            raise ConnectionRefusedError(self.peer.broker_id)

    def abort(self) -> None:
        self.closed = True

    async def send(self, request: Any, version: int, timeout_ms: int) -> Any:
        if self.closed or self.peer.unreachable:
            raise ConnectionResetError(self.peer.broker_id)
        return await self.peer.answer(request, version)

    async def converse(self, first: Frame, then: Callable[[Bytes], Frame | None], timeout_ms: int) -> Bytes:
        frame: Frame | None = first
        answered = b""
        while frame is not None:
            sent = b"".join(frame(7))[4:]
            header, offset = decode_request_header(sent)
            request, _ = FetchRequest.decode(sent, header.api_version, offset)
            answer = await self.send(request, header.api_version, timeout_ms)
            answered = b"".join(encode_response(answer, header.api_version, header.correlation_id))[4:]
            frame = then(answered)
        return answered


class Controller:
    """Grants every change of an ISR, while it is `there`, or `refuses` it."""

    def __init__(self) -> None:
        self.there = True
        self.refuses: ErrorCode | None = None
        self.sent: list[LeaderAndIsr] = []

    def submit(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        sent: LeaderAndIsr,
        controller_epoch: int,
        answered: Callable[[LeaderAndIsr | ErrorCode], None],
    ) -> None:
        self.sent.append(sent)
        if self.refuses is not None:
            asyncio.get_running_loop().call_soon(answered, self.refuses)
        elif self.there:
            granted = LeaderAndIsr(sent.leader, sent.leader_epoch, sent.isr, partition_epoch=sent.partition_epoch + 1)
            asyncio.get_running_loop().call_soon(answered, granted)


class Peer:
    """One broker without its sockets."""

    fetch_wait_max_ms = 60_000
    fetch_max_bytes = 1 << 20

    def __init__(self, broker_id: int, directory: Path, peers: dict[int, Peer], **topic_values: str) -> None:
        self.broker_id = broker_id
        self.unreachable = False
        self.requests: list[Any] = []
        config = broker_config(
            {
                "log.dirs": str(directory / str(broker_id)),
                "replica.fetch.backoff.ms": "20",
                "replica.fetch.wait.max.ms": str(self.fetch_wait_max_ms),
                "replica.fetch.max.bytes": str(self.fetch_max_bytes),
                "replica.lag.time.max.ms": "60000",
            }
        )
        self.failures: list[BaseException] = []
        self.tasks = Tasks(lambda name, error: self.failures.append(error))
        runtime = real_runtime()
        self.log_dirs = LogDirs(runtime, config)
        self.log_dirs.update_topic_config(TOPIC_PARTITION.topic, topic_values)
        self.metadata = MetadataCache()
        self.metadata.update(
            UpdateMetadataRequest(
                live_brokers=[
                    UpdateMetadataRequest.UpdateMetadataBroker(
                        each, endpoints=[UpdateMetadataRequest.UpdateMetadataEndpoint(each, "here", "PLAINTEXT")]
                    )
                    for each in (1, 2, 3)
                ]
            )
        )
        self.controller = Controller()
        self.broker_epoch = 100 + broker_id
        self.replicas = Replicas(
            runtime,
            broker_id,
            config,
            self.log_dirs,
            tasks=self.tasks,
            metadata=self.metadata,
            alter_partition=self.controller,
            connect=lambda endpoint, client_id: Call(peers, endpoint),  # type: ignore[arg-type,return-value]
            inter_broker_listener="PLAINTEXT",
            broker_epoch=lambda: self.broker_epoch,
        )
        peers[broker_id] = self

    async def answer(self, request: Any, version: int) -> Any:
        self.requests.append(request)
        if isinstance(request, FetchRequest):
            context = self.replicas.fetch_sessions.context(
                request,
                version,
                {TOPIC_ID: TOPIC_PARTITION.topic},
                replica_id=request.replica_state.replica_id,
                replica_epoch=request.replica_state.replica_epoch,
            )
            if context.error:
                return context.response(())
            params = FetchParams(
                request.replica_state.replica_id,
                request.replica_state.replica_epoch,
                request.max_wait_ms,
                request.min_bytes,
                request.max_bytes,
                FetchIsolation.LOG_END,
            )
            fetch = await self.replicas.fetching.fetch(params, context.fetches, context.follower_session)
            await self.read(fetch)
            return context.response(self.replicas.fetching.fetch_answers(fetch))
        assert isinstance(request, ListOffsetsRequest)
        asked = request.topics[0].partitions[0]
        _, offset, epoch = self.partition.offset_for_timestamp(
            asked.timestamp, FetchIsolation.LOG_END, asked.current_leader_epoch, only_leader=True
        )
        answered = ListOffsetsResponse.ListOffsetsPartitionResponse(0, offset=offset, leader_epoch=epoch)
        return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse("flights", [answered])])

    async def read(self, fetch: DelayedFetch) -> None:
        await fetch.over()

    @property
    def partition(self) -> Partition:
        found = self.replicas.partition(TOPIC_PARTITION)
        assert found is not None
        return found

    @property
    def end(self) -> int:
        return self.partition.local_log().log_end_offset

    def leads(self, leader: int, epoch: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2)) -> ErrorCode:
        """The controller says who leads."""
        return leader_and_isr(self, leader, epoch, isr, replicas)

    async def append(self, *values: bytes, acks: int = -1, timeout_ms: int = 5_000) -> list[Appended]:
        """As a producer's request does; waits for the acknowledgements asked for."""
        results = [self.replicas.appending.append(TOPIC_PARTITION, batch(*values), acks)]
        if acks == -1:
            await self.replicas.appending.replicated(results, timeout_ms)
        return results

    async def close(self) -> None:
        await self.replicas.shutdown(checkpoint=False)
        await self.tasks.end()
        self.log_dirs.close()
        assert not self.failures


def leader_and_isr(
    peer: Peer,
    leader: int,
    epoch: int,
    isr: tuple[int, ...],
    replicas: tuple[int, ...] = (1, 2),
    *,
    topic_id: Uuid = TOPIC_ID,
    controller_epoch: int = 1,
    number: int = TOPIC_PARTITION.partition,
) -> ErrorCode:
    partition = state(leader, epoch, isr, replicas, epoch)
    partition.partition_index = number
    request = LeaderAndIsrRequest(
        1,
        controller_epoch=controller_epoch,
        topic_states=[LeaderAndIsrRequest.LeaderAndIsrTopicState(TOPIC_PARTITION.topic, topic_id, [partition])],
    )
    response: LeaderAndIsrResponse = peer.replicas.become_leader_or_follower(request)
    if response.error_code:
        return ErrorCode(response.error_code)
    return ErrorCode(response.topics[0].partition_errors[0].error_code)


class ImpatientPeer(Peer):
    """Its fetches wait for so little that a test sees many which find nothing."""

    fetch_wait_max_ms = 20


class Hesitant(Peer):
    """Keeps the answers before which it `hesitates` to itself until it is told to give them."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()

    def hesitates(self, answer: Any) -> bool:
        raise NotImplementedError

    async def answer(self, request: Any, version: int) -> Any:
        answer = await super().answer(request, version)
        if self.hesitates(answer):
            self.asked.set()
            await self.answers.wait()
        return answer


class SippingPeer(Peer):
    """Its fetches bring one batch each."""

    fetch_max_bytes = 1


def play(
    tmp_path: Path,
    story: Callable[[Peer, Peer], Coroutine[Any, Any, None]],
    kind: type[Peer] = Peer,
    **topic_values: str,
) -> None:
    async def whole() -> None:
        peers: dict[int, Peer] = {}
        one, two = (kind(each, tmp_path, peers, **topic_values) for each in (1, 2))
        for peer in (one, two):
            await peer.log_dirs.load()
        try:
            await story(one, two)
        finally:
            await one.close()
            await two.close()

    asyncio.run(whole())


def test_acks_all_is_answered_when_the_follower_has_the_records(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        assert one.leads(1, 0, (1, 2)) is ErrorCode.NONE
        assert two.leads(1, 0, (1, 2)) is ErrorCode.NONE
        await until(lambda: one.replicas.purgatories.follower_fetch.delayed == 1)
        (result,) = await one.append(b"x", b"y")
        assert result.error is ErrorCode.NONE
        assert result.base_offset == 0
        assert one.partition.local_log().high_watermark == 2
        assert two.end == 2
        await until(lambda: one.replicas.purgatories.follower_fetch.delayed == 1)
        assert len(one.requests) == 2, "one long poll that the append answered, one that commits and waits"

    play(tmp_path, story)


def test_a_leader_that_hears_of_a_later_epoch_leads_no_more(tmp_path: Path) -> None:
    """Its replica was moved away, and StopReplica was lost with the controller: nobody tells it but by a refusal."""

    async def story(one: Peer, two: Peer) -> None:
        changes: list[tuple[list[Partition], list[Partition]]] = []
        one.replicas.on_leadership_change = lambda leaders, followers: changes.append((leaders, followers))
        one.leads(1, 3, (1, 2))
        partition = one.partition
        one.controller.refuses = ErrorCode.FENCED_LEADER_EPOCH
        waits = asyncio.ensure_future(one.append(b"x"))
        await asyncio.sleep(0)
        assert partition.maybe_shrink_isr(1 << 60)
        (result,) = await waits
        assert result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not partition.is_leader
        assert changes[-1] == ([], [partition]), "coordinators resign"
        with pytest.raises(KafkaError) as refused:  # nor is it a follower, from which a consumer would read for ever
            partition.log_with_epoch(3, only_leader=False)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(KafkaError):
            partition.read(
                *(0, 1 << 20),
                current_leader_epoch=3,
                last_fetched_epoch=-1,
                isolation=FetchIsolation.HIGH_WATERMARK,
                only_leader=False,
                min_one_batch=True,
            )
        assert one.leads(1, 5, (1, 2)) is ErrorCode.NONE
        assert partition.is_leader

    play(tmp_path, story)


@pytest.mark.parametrize("leader", [1, 2], ids=["a leader", "a follower"])
def test_a_replica_that_moved_away_unseen_is_let_go_when_the_metadata_tell_of_it(tmp_path: Path, leader: int) -> None:
    """Its broker had no session, or StopReplica was lost with the controller. A leader alone in the ISR asks for no
    change that could be refused."""

    def tell(one: Peer, leader_epoch: int, replicas: list[int]) -> None:
        data = UpdateMetadataRequest
        state = data.UpdateMetadataPartitionState(leader=2, leader_epoch=leader_epoch, isr=[2], replicas=replicas)
        topic = data.UpdateMetadataTopicState(TOPIC_PARTITION.topic, TOPIC_ID, [state])
        one.metadata.update(data(topic_states=[topic], live_brokers=[data.UpdateMetadataBroker(id) for id in (1, 2)]))

    async def story(one: Peer, two: Peer) -> None:
        changes: list[tuple[list[Partition], list[Partition]]] = []
        one.replicas.on_leadership_change = lambda leaders, followers: changes.append((leaders, followers))
        one.leads(leader, 3, (leader,))
        changes.clear()
        partition, log = one.partition, one.log_dirs.get(TOPIC_PARTITION)
        for leader_epoch, assigned in ((2, [2, 3]), (3, [2, 3]), (4, [2, 1])):
            tell(one, leader_epoch, assigned)
            one.replicas.look_at_partitions()
            assert one.replicas.partition(TOPIC_PARTITION) is partition
        tell(one, 4, [2, 3])
        one.replicas.look_at_partitions()
        assert one.replicas.partition_or_error(TOPIC_PARTITION) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert changes == [([], [partition])], "coordinators resign"
        assert one.replicas.fetchers.state(TOPIC_PARTITION) is None
        assert one.log_dirs.get(TOPIC_PARTITION) is log, "its records stay, as after a restart"
        one.replicas.checkpoint_high_watermarks()
        written = one.log_dirs.read_high_watermarks(log.log_dir.path)
        assert written == {TOPIC_PARTITION: log.high_watermark}, "and so does the line of what is committed (KAFKA-769)"
        assert one.leads(2, 5, (2,)) is ErrorCode.NONE
        assert one.partition.leader_epoch == 5, "it may be moved back"

    play(tmp_path, story)


def test_a_leader_goes_on_in_the_next_epoch_that_a_refusal_has_overtaken(tmp_path: Path) -> None:
    """The controller tells of an epoch by one connection and refuses by another."""

    async def story(one: Peer, two: Peer) -> None:
        changes: list[tuple[list[Partition], list[Partition]]] = []
        one.replicas.on_leadership_change = lambda leaders, followers: changes.append((leaders, followers))
        one.leads(1, 3, (1, 2))
        one.controller.refuses = ErrorCode.FENCED_LEADER_EPOCH
        waits = asyncio.ensure_future(one.append(b"x"))
        await asyncio.sleep(0)
        assert one.partition.maybe_shrink_isr(1 << 60)
        await until(lambda: one.replicas.failed_isr_updates == 1)
        assert one.leads(1, 4, (1,)) is ErrorCode.NONE
        (result,) = await waits
        assert result.error is ErrorCode.NONE
        assert changes == [([one.partition], [])], "coordinators stay"

    play(tmp_path, story)


def test_an_isr_that_a_controller_refuses_which_knows_no_better_is_asked_for_until_it_is_granted(
    tmp_path: Path,
) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 3, (1, 2))
        one.controller.refuses = ErrorCode.NOT_CONTROLLER
        assert one.partition.maybe_shrink_isr(1 << 60)
        await until(lambda: len(one.controller.sent) >= 3)
        one.controller.refuses = None
        await until(lambda: one.partition.isr_state == CommittedIsr(frozenset({1}), 4))
        assert {each.isr for each in one.controller.sent} == {(1,)}

    play(tmp_path, story)


@pytest.mark.parametrize("is_told_first", [False, True], ids=["a refusal comes first", "the next epoch comes first"])
def test_a_refusal_of_a_former_epochs_isr_deposes_nobody_when_its_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_told_first: bool
) -> None:
    monkeypatch.setattr(replicas, "DEPOSED_AFTER_MS", 1)

    async def story(one: Peer, two: Peer) -> None:
        changes: list[tuple[list[Partition], list[Partition]]] = []
        one.replicas.on_leadership_change = lambda leaders, followers: changes.append((leaders, followers))
        one.leads(1, 3, (1, 2))
        one.controller.refuses = ErrorCode.FENCED_LEADER_EPOCH
        assert one.partition.maybe_shrink_isr(1 << 60)
        if is_told_first:
            one.leads(1, 4, (1, 2))
        await until(lambda: one.replicas.failed_isr_updates == 1)
        if not is_told_first:
            one.leads(1, 4, (1, 2))
        time_is_up = asyncio.Event()  # set by a timer that goes off behind the one that the refusal began
        asyncio.get_running_loop().call_later(replicas.DEPOSED_AFTER_MS / 1000, time_is_up.set)
        await time_is_up.wait()
        assert one.partition.is_leader
        assert one.partition.isr_state == CommittedIsr(frozenset({1, 2}), 4)
        assert changes == [([one.partition], [])], "coordinators stay"

    play(tmp_path, story)


def test_a_partition_rests_while_its_followers_fetch_waits_and_what_it_has_to_tell_is_told_when_the_time_is_up(
    tmp_path: Path,
) -> None:
    async def story(one: Peer, two: Peer) -> None:
        for peer in (one, two):
            peer.leads(1, 0, (1, 2))
        await one.append(b"x", acks=1)
        await until(lambda: one.partition.local_log().high_watermark == 1)
        assert 2 in one.partition.resting, "the fetch that committed the record has nothing to read, and waits"
        await until(lambda: two.partition.local_log().high_watermark == 1)
        assert two.end == 1, "no other record was needed to tell it"

    play(tmp_path, story, ImpatientPeer)


def test_a_partition_that_a_follower_has_all_of_rests_until_it_moves(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1, 2))
        two.leads(1, 0, (1, 2))
        await one.append(b"x")
        # The next two fetches find nothing and tell nothing: one of them takes up the high watermark, then it rests.
        await until(lambda: 2 in one.partition.resting)
        last = one.requests[-1]
        await until(lambda: one.requests[-1] is not last and one.replicas.purgatories.follower_fetch.delayed == 1)
        assert one.requests[-1].topics == [], "a fetch of nothing new names nothing"
        rested_ms = one.partition.progress[2].last_caught_up_ms
        (result,) = await one.append(b"y")
        assert result.error is ErrorCode.NONE
        assert two.end == 2
        assert one.partition.progress[2].last_caught_up_ms > rested_ms, "it was caught up all the while"

    play(tmp_path, story, ImpatientPeer)


class Deleter(ImpatientPeer):
    """Deletes records between a follower's read that found nothing and its answer, once."""

    deletes_before = 0

    async def read(self, fetch: DelayedFetch) -> None:
        await super().read(fetch)
        if self.deletes_before and all(fetched.has_nothing for fetched in fetch.fetched):
            self.partition.delete_records(self.deletes_before)
            self.deletes_before = 0


def test_a_log_start_that_moves_between_a_read_and_its_answer_is_told_with_the_next_fetch(tmp_path: Path) -> None:
    """The partition was let rest, and the follower kept the records until something else moved."""

    async def story(one: Peer, two: Peer) -> None:
        assert isinstance(one, Deleter)
        one.leads(1, 0, (1, 2))
        two.leads(1, 0, (1, 2))
        await one.append(b"x")
        await until(lambda: 2 in one.partition.resting)
        await one.append(b"y")
        one.deletes_before = 1
        await until(lambda: two.partition.local_log().log_start_offset == 1)
        await until(lambda: one.partition.low_watermark == 1)

    play(tmp_path, story, Deleter)


def test_what_was_told_with_a_divergence_is_told_again(tmp_path: Path) -> None:
    """Apache Kafka's followers cut their log and take nothing else, and go on in the same session: records that were
    deleted just before stayed with them, and the DeleteRecords waited until its time was up."""

    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1, 2))

        async def fetch(session: tuple[int, int], fetch_offset: int, last_fetched_epoch: int) -> FetchResponse:
            epoch = one.partition.leader_epoch
            asked = FetchRequest.FetchPartition(0, epoch, fetch_offset, last_fetched_epoch, 0, 1 << 20)
            topics = [FetchRequest.FetchTopic(topic_id=TOPIC_ID, partitions=[asked])]
            request = FetchRequest(
                max_wait_ms=20, min_bytes=1, session_id=session[0], session_epoch=session[1], topics=topics
            )
            request.replica_state = FetchRequest.ReplicaState(2, two.broker_epoch)
            response: FetchResponse = await one.answer(request, 15)
            assert response.error_code == 0
            return response

        await one.append(b"x", b"y", acks=1)
        session_id = (await fetch((0, 0), 0, 0)).session_id
        await fetch((session_id, 1), 2, 0)
        one.leads(1, 2, (1, 2))
        one.partition.delete_records(1)
        told = await fetch((0, 0), 2, 1)  # of an epoch in which the follower led, and nobody wrote
        assert told.responses[0].partitions[0].diverging_epoch.end_offset == 2
        told = await fetch((told.session_id, 1), 2, 0)
        (partition,) = told.responses[0].partitions
        assert (partition.high_watermark, partition.log_start_offset) == (2, 1)

    play(tmp_path, story)


class SlowTeller(Hesitant, ImpatientPeer):
    """Hesitates to tell a high watermark without records."""

    def hesitates(self, answer: Any) -> bool:
        return isinstance(answer, FetchResponse) and any(
            each.high_watermark > 0 and not each.records for topic in answer.responses for each in topic.partitions
        )


def a_new_epoch(one: Peer, two: Peer) -> None:
    for peer in (one, two):
        peer.leads(1, 1, (1, 2))


def another_log_start(one: Peer, two: Peer) -> None:
    two.replicas.fetchers.log_start_moved(TOPIC_PARTITION)


@pytest.mark.parametrize("comes", [a_new_epoch, another_log_start])
def test_a_high_watermark_that_is_told_while_something_else_is_wanted_is_told_again(
    tmp_path: Path, comes: Callable[[Peer, Peer], None]
) -> None:
    """A session tells it once: a follower that did not take the answer stayed behind until the next record."""

    async def story(one: Peer, two: Peer) -> None:
        assert isinstance(one, SlowTeller)
        one.leads(1, 0, (1, 2))
        two.leads(1, 0, (1, 2))
        await one.append(b"x")
        await one.asked.wait()
        comes(one, two)
        one.answers.set()
        await until(lambda: two.partition.local_log().high_watermark == 1)

    play(tmp_path, story, SlowTeller)


class SlowSender(Hesitant, SippingPeer):
    """Hesitates to send records with a high watermark."""

    fetch_wait_max_ms = 20

    def hesitates(self, answer: Any) -> bool:
        return isinstance(answer, FetchResponse) and any(
            each.high_watermark > 0 and each.records for topic in answer.responses for each in topic.partitions
        )


def test_a_high_watermark_that_came_with_records_which_are_cut_meanwhile_is_told_again(tmp_path: Path) -> None:
    """Its leader led no more for a moment, and cut them. What the follower did not take does not come again with it."""

    async def story(one: Peer, two: Peer) -> None:
        assert isinstance(one, SlowSender)
        one.leads(1, 0, (1, 2))
        await one.append(b"x", acks=1)
        await one.append(b"y", acks=1)
        two.leads(1, 0, (1, 2))
        await one.asked.wait()
        log = two.partition.local_log()
        assert (log.log_end_offset, log.high_watermark) == (1, 0)
        one.leads(3, 1, (3,), (1, 2, 3))
        one.partition.local_log().truncate_to(1, now_ms=0)
        for peer in (one, two):
            peer.leads(1, 2, (1, 2))
        one.answers.set()
        await until(lambda: log.high_watermark == 1)
        assert log.log_end_offset == 1

    play(tmp_path, story, SlowSender)


class ImpatientSipper(ImpatientPeer, SippingPeer):
    pass


def test_a_high_watermark_that_came_with_what_shows_where_to_cut_is_told_again(tmp_path: Path) -> None:
    """After the cut its leader may have to hold the records back, and then has nothing else to tell."""

    async def story(one: Peer, two: Peer) -> None:
        two.leads(2, 0, (1, 2))
        await two.append(b"both", acks=1)
        two.leads(2, 3, (1, 2))
        await two.append(b"of 3, too early", acks=1)
        one.leads(1, 0, (1,))
        await one.append(b"both")
        for epoch, values in ((2, (b"of 2", b"of 2 too")), (3, (b"of 3",)), (4, (b"of 4",))):
            one.leads(1, epoch, (1,))
            for value in values:
                await one.append(value)
        one.replicas.quotas.leader.bytes_per_second = 0
        two.leads(1, 4, (1,))
        log = two.partition.local_log()
        await until(lambda: (log.log_end_offset, log.high_watermark) == (1, 1))

    play(tmp_path, story, ImpatientSipper, **{"leader.replication.throttled.replicas": "*"})


class SpoilingPeer(SippingPeer):
    """What it sends behind offset 0 is bad when it arrives."""

    fetch_wait_max_ms = 20

    async def answer(self, request: Any, version: int) -> Any:
        answer = await super().answer(request, version)
        if isinstance(answer, FetchResponse):
            for each in (each for topic in answer.responses for each in topic.partitions if each.records):
                if each.records[7]:
                    each.records = bytes(each.records[:-1]) + b"?"
        return answer


def test_a_high_watermark_that_came_with_bad_records_which_are_cut_meanwhile_is_told_again(tmp_path: Path) -> None:
    """With nothing else to follow, no request tells the leader that the partition pauses."""

    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1, 2))
        await one.append(b"x", acks=1)
        await one.append(b"y", acks=1)
        two.leads(1, 0, (1, 2))
        fetcher = two.replicas.fetchers._fetcher_of[TOPIC_PARTITION]
        await until(lambda: fetcher.states[TOPIC_PARTITION].wanted is None)
        log = two.partition.local_log()
        assert (log.log_end_offset, log.high_watermark, one.partition.local_log().high_watermark) == (1, 0, 1)
        one.leads(3, 1, (3,), (1, 2, 3))
        one.partition.local_log().truncate_to(1, now_ms=0)
        for peer in (one, two):
            peer.leads(1, 2, (1, 2))
        await until(lambda: log.high_watermark == 1)
        assert log.log_end_offset == 1

    play(tmp_path, story, SpoilingPeer)


def test_a_high_watermark_that_is_told_while_nothing_is_wanted_is_told_again(tmp_path: Path) -> None:
    """With nothing else to follow, no request tells the leader to forget the partition before it is wanted again."""

    async def story(one: Peer, two: Peer) -> None:
        assert isinstance(one, SlowTeller)
        for peer in (one, two):
            peer.leads(1, 0, (1, 2, 3), (1, 2, 3))
        await one.append(b"x", acks=1)
        await until(lambda: two.end == 1 and one.requests[-1].topics == [])
        third = FetchParams(3, -1, 0, 0, 1 << 20, FetchIsolation.LOG_END)
        await fetch_one(one.replicas, third, FetchRequest.FetchPartition(0, 0, 1, 0, 0, 1 << 20))
        await one.asked.wait()
        two.replicas.fetchers.remove(TOPIC_PARTITION)
        one.answers.set()
        for _ in range(100):  # the answer is looked at, and the fetcher has nothing to do
            await asyncio.sleep(0)
        two.replicas.fetchers.add(two.partition)
        await until(lambda: two.partition.local_log().high_watermark == 1)

    play(tmp_path, story, SlowTeller)


def test_a_partition_changes_its_fetcher_when_their_number_does(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        for peer in (one, two):
            peer.leads(1, 0, (1, 2))
        await one.append(b"before")
        fetcher = two.replicas.fetchers._fetcher_of[TOPIC_PARTITION]
        config = broker_config({"log.dirs": str(tmp_path), "num.replica.fetchers": "64"})
        two.replicas.take_config(config)
        other = two.replicas.fetchers._fetcher_of[TOPIC_PARTITION]
        assert (other is fetcher, fetcher.states) == (False, {})
        two.replicas.take_config(config)
        assert two.replicas.fetchers._fetcher_of[TOPIC_PARTITION] is other
        await one.append(b"after")
        assert two.end == 2

    play(tmp_path, story)


async def is_told_all_behind_its_cut(one: Peer, two: Peer) -> None:
    one.leads(1, 0, (1,))
    await one.append(b"both")
    two.leads(2, 0, (1, 2))
    await two.append(b"both", acks=1)
    two.leads(2, 1, (1, 2))
    await two.append(b"only", acks=1)
    one.leads(1, 2, (1,))
    two.leads(1, 2, (1,))
    await until(lambda: two.end == 1)
    await until(lambda: two.partition.local_log().high_watermark == 1)


def test_a_high_watermark_that_is_told_with_the_diverging_epoch_is_told_again(tmp_path: Path) -> None:
    """Before the follower has cut its log it cannot take it, and afterwards there may be nothing left to fetch."""

    play(tmp_path, is_told_all_behind_its_cut, ImpatientPeer)


class AsApacheTells(ImpatientPeer):
    """Its sessions tell no high watermark again that came with a diverging epoch."""

    async def answer(self, request: Any, version: int) -> Any:
        answer = await super().answer(request, version)
        if isinstance(answer, FetchResponse) and request.session_epoch > 0:
            for topic in answer.responses:
                topic.partitions = [
                    each for each in topic.partitions if each.records or each.diverging_epoch.epoch >= 0
                ]
        return answer


def test_who_has_cut_its_log_begins_a_new_session_in_which_all_is_told(tmp_path: Path) -> None:
    play(tmp_path, is_told_all_behind_its_cut, AsApacheTells)


def test_what_a_follower_has_yet_to_cut_commits_nothing(tmp_path: Path) -> None:
    """It led in epoch 1, and has other records at these offsets than the leader that it is in the ISR of now."""

    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1, 2))
        await one.append(b"x", b"y", acks=1)
        one.leads(1, 2, (1, 2))
        params = FetchParams(2, two.broker_epoch, 0, 1, 1 << 20, FetchIsolation.LOG_END)
        diverged = FetchRequest.FetchPartition(0, 2, 2, 1, 0, 1 << 20)
        told = await fetch_one(one.replicas, params, diverged)
        assert (told.diverging_epoch.epoch, told.diverging_epoch.end_offset) == (0, 2)
        assert (told.high_watermark, one.partition.local_log().high_watermark) == (0, 0)
        cut_and_fetched_again = FetchRequest.FetchPartition(0, 2, 2, 0, 0, 1 << 20)
        told = await fetch_one(one.replicas, params, cut_and_fetched_again)
        assert (told.high_watermark, one.partition.local_log().high_watermark) == (2, 2)

    play(tmp_path, story)


def test_a_leader_that_lets_a_follower_rest_hears_of_its_new_registration(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1, 2))
        two.leads(1, 0, (1, 2))
        await until(lambda: 2 in one.partition.resting)
        two.broker_epoch = 500
        await until(lambda: one.partition.progress[2].broker_epoch == 500)

    play(tmp_path, story, ImpatientPeer)


def test_acks_all_times_out_while_the_follower_is_away(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1, 2))
        (result,) = await one.append(b"x", timeout_ms=20)
        assert result.error is ErrorCode.REQUEST_TIMED_OUT
        assert one.end == 1, "it may still be committed"

    play(tmp_path, story)


def test_a_leader_that_is_deposed_answers_what_waits(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1, 2))
        waiting = asyncio.get_running_loop().create_task(one.append(b"x"))
        await until(lambda: one.replicas.purgatories.produce.delayed == 1)
        one.leads(2, 1, (2,))
        (result,) = await waiting
        assert result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(tmp_path, story)


def test_a_produce_whose_partition_was_lost_while_it_went_on_with_others_is_urgent(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1, 2))
        appending = one.replicas.appending
        records = build_batch([Record(0, 0, None, b"x", ())], producer_id=7, producer_epoch=0, base_sequence=0)
        result = appending.append(TOPIC_PARTITION, bytearray(records), -1)
        one.leads(2, 1, (2,))
        operation = appending.replicating([result], 60_000)
        assert operation is not None
        assert (operation.completed, operation.urgent) == (True, True)
        assert result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(tmp_path, story)


def test_what_is_to_be_followed_while_a_lost_connection_is_made_anew_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader remembers the session, and whoever is not named in it is not fetched."""
    connecting = asyncio.Event()
    goes_on = asyncio.Event()
    send = Call.send

    async def send_once(call: Call, request: Any, version: int, timeout_ms: int) -> Any:
        answer = await send(call, request, version, timeout_ms)
        if not connecting.is_set():
            call.closed = True  # behind the answer
        return answer

    async def connect(call: Call) -> None:
        if call.peer.requests:
            connecting.set()
            await goes_on.wait()

    monkeypatch.setattr(Call, "send", send_once)
    monkeypatch.setattr(Call, "connect", connect)

    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1, 2))
        await one.append(b"x", acks=1)
        two.leads(1, 0, (1, 2))
        await connecting.wait()
        leader_and_isr(two, 1, 0, (1, 2), number=1)
        goes_on.set()
        await until(
            lambda: any(
                each.partition == 1 for request in one.requests for topic in request.topics for each in topic.partitions
            )
        )

    play(tmp_path, story)


def test_a_follower_that_returns_is_taken_into_the_isr(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,))
        for _ in range(5):
            await one.append(b"x" * 1000, acks=1)
        two.leads(1, 0, (1,))
        await until(lambda: one.partition.isr_state.isr == {1, 2})
        assert two.end == 5
        await until(lambda: two.partition.local_log().high_watermark == 5)

    play(tmp_path, story)


def test_the_controller_that_is_away_leaves_the_isr_as_it_is(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.controller.there = False
        one.leads(1, 0, (1,))
        two.leads(1, 0, (1,))
        await until(lambda: len(one.controller.sent) == 1)
        assert one.partition.isr_state.isr == {1}
        assert one.partition.isr_state.maximal_isr == {1, 2}

    play(tmp_path, story)


def test_not_enough_replicas_is_told_before_the_append(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,))
        (result,) = await one.append(b"x")
        assert result.error is ErrorCode.NOT_ENOUGH_REPLICAS
        assert one.end == 0
        (result,) = await one.append(b"x", acks=1)
        assert result.error is ErrorCode.NONE
        assert one.partition.local_log().high_watermark == 0

    play(tmp_path, story, **{"min.insync.replicas": "2"})


def test_a_leader_says_once_a_minute_why_it_refuses_for_want_of_in_sync_replicas(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,))
        for _ in range(5):
            await one.append(b"x")

    play(tmp_path, story, **{"min.insync.replicas": "2"})
    said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING" and "acks=all" in each.msg]
    assert said == [
        "[flights-0] a produce with acks=all is answered NOT_ENOUGH_REPLICAS: isr [1], min.insync.replicas 2"
    ]


def test_a_follower_that_is_short_of_file_descriptors_fetches_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,))
        two.leads(1, 0, (1,))
        await until(lambda: one.partition.isr_state.isr == {1, 2})
        log = two.partition.local_log()
        refusals: list[LogDirFailure] = []
        append = log.append_as_follower

        def refused_once(records: bytes, *, now_ms: int) -> bool:
            if not refusals:
                refusals.append(log.log_dir.failed(OSError(errno.EMFILE, "Too many open files"), "appending"))
                raise refusals[0]
            return append(records, now_ms=now_ms)

        monkeypatch.setattr(type(log), "append_as_follower", lambda self, records, **at: refused_once(records, **at))
        await one.append(b"x", acks=1)
        await until(lambda: two.end == 1)
        assert refusals
        assert log.log_dir.online

    play(tmp_path, story)


def test_who_coordinates_by_a_partition_is_told_when_its_disk_fails(tmp_path: Path) -> None:
    """No LeaderAndIsr is taken for it any more, and groups had two coordinators until the broker was started anew."""

    async def story(one: Peer, two: Peer) -> None:
        told: list[tuple[list[Partition], list[Partition]]] = []
        one.leads(1, 0, (1, 2))
        two.leads(1, 0, (1, 2))
        one.replicas.on_leadership_change = lambda leaders, followers: told.append((leaders, followers))
        partition = one.partition
        partition.local_log().log_dir.failed(OSError(errno.EIO, "input/output error"), "flushing")
        await until(lambda: told != [])
        assert told == [([], [partition])]

    play(tmp_path, story)


def test_a_follower_cuts_what_its_new_leader_does_not_have(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1, 2))
        two.leads(1, 0, (1, 2))
        await until(lambda: one.replicas.purgatories.follower_fetch.delayed == 1)
        await one.append(b"both")
        one.unreachable = True
        await one.append(b"only", b"one", acks=1)
        two.leads(2, 1, (2,))
        await two.append(b"two", acks=1)
        one.unreachable = False
        one.leads(2, 1, (2,))
        await until(lambda: two.partition.isr_state.isr == {1, 2})
        contents = [bytes(each.partition.local_log().read(0, 1 << 20)) for each in (one, two)]
        assert contents[0] == contents[1]
        assert one.end == 2

    play(tmp_path, story)


def test_a_new_follower_copies_a_log_along_which_epochs_fall(tmp_path: Path) -> None:
    """The znodes were restored, and no record was written since in the number of the epoch before: who asks about it
    is told no other place to cut than the begin."""

    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,))
        log = one.partition.local_log()
        for epoch in (1, 5, 5, 2, 2):
            log.append_as_leader(batch(b"x"), epoch, now_ms=0)
        one.leads(1, 7, (1,))
        await one.append(b"y")
        two.leads(1, 7, (1,))
        await until(lambda: one.partition.isr_state.isr == {1, 2})
        contents = [bytes(each.partition.local_log().read(0, 1 << 20)) for each in (one, two)]
        assert contents[0] == contents[1]
        assert two.partition.local_log().leader_epochs.entries == log.leader_epochs.entries

    play(tmp_path, story, SippingPeer)


@pytest.mark.parametrize("kind", [Peer, SippingPeer])
def test_a_follower_cuts_what_it_wrote_in_a_later_epoch_than_its_leader_goes_on_with(
    tmp_path: Path, kind: type[Peer]
) -> None:
    """It led, lost the beginning of its epoch with the power, and went on in it: both have that epoch."""

    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,))
        two.leads(1, 0, (1,))
        await one.append(b"both")
        await until(lambda: two.end == 1)
        two.leads(2, 3, (2,))
        await two.append(b"of 3, too early")
        for epoch, values in ((2, (b"of 2", b"of 2 too")), (3, (b"of 3",)), (4, (b"of 4",))):
            one.leads(1, epoch, (1,))
            for value in values:
                await one.append(value)
        two.leads(1, 4, (1,))
        await until(lambda: one.partition.isr_state.isr == {1, 2})
        logs = [each.partition.local_log() for each in (one, two)]
        assert logs[0].read(0, 1 << 20) == logs[1].read(0, 1 << 20)
        assert [each.start_offset for each in logs[1].leader_epochs.entries] == [0, 1, 3, 4]

    play(tmp_path, story, kind)


def test_a_follower_that_is_behind_the_leaders_first_record_begins_there(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,))
        for _ in range(4):
            await one.append(b"x", acks=1)
        (deleted,) = await one.replicas.delete_records([(TOPIC_PARTITION, 3)], 1)
        assert deleted.error is ErrorCode.REQUEST_TIMED_OUT, "the live follower has not deleted yet"
        two.leads(1, 0, (1,))
        await until(lambda: one.partition.isr_state.isr == {1, 2})
        assert two.partition.local_log().log_start_offset == 3
        assert two.end == 4

    play(tmp_path, story)


def test_a_follower_that_begins_before_its_leader_cuts_no_more_than_what_differs(tmp_path: Path) -> None:
    """All of the rest would be gone with a leader that dies before it is copied once more."""

    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,))
        for _ in range(4):
            await one.append(b"x", acks=1)
        two.leads(1, 0, (1,))
        await until(lambda: two.end == 4)
        two.leads(2, 1, (2,))
        await two.append(b"own", acks=1)
        one.leads(1, 2, (1,))
        await one.append(b"another", acks=1)
        await one.replicas.delete_records([(TOPIC_PARTITION, 2)], 1)
        asked = len(one.requests)
        two.leads(1, 2, (1,))
        await until(lambda: one.partition.isr_state.isr == {1, 2})
        fetches = [request for request in one.requests[asked:] if isinstance(request, FetchRequest)]
        offsets = {part.fetch_offset for fetch in fetches for topic in fetch.topics for part in topic.partitions}
        assert offsets == {4, 5}, "where its own record stood, and behind it"
        assert one.partition.local_log().read(2, 1 << 20) == two.partition.local_log().read(2, 1 << 20)

    play(tmp_path, story)


def test_records_are_deleted_when_the_follower_has_told_so_though_nothing_is_written(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1, 2))
        two.leads(1, 0, (1, 2))
        for _ in range(4):
            await one.append(b"x")
        (deleted,) = await one.replicas.delete_records([(TOPIC_PARTITION, 3)], 4_000)
        assert deleted.error is ErrorCode.NONE
        assert two.partition.local_log().log_start_offset == 3

    play(tmp_path, story, ImpatientPeer)


def test_who_waits_for_records_to_be_deleted_hears_so_when_the_follower_that_has_not_is_dead(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,))
        await one.append(b"x", acks=1)
        waiting = asyncio.get_running_loop().create_task(one.replicas.delete_records([(TOPIC_PARTITION, 1)], 60_000))
        await until(lambda: one.replicas.purgatories.delete_records.delayed == 1)
        told = UpdateMetadataRequest(controller_epoch=1, live_brokers=[UpdateMetadataRequest.UpdateMetadataBroker(1)])
        one.replicas.maybe_update_metadata_cache(told, at_once(one.metadata.updating(told)))
        (deleted,) = await waiting
        assert (deleted.error, deleted.low_watermark) == (ErrorCode.NONE, 1)

    play(tmp_path, story)


def test_a_leader_that_comes_back_is_found_again(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.unreachable = True
        one.leads(1, 0, (1, 2))
        two.leads(1, 0, (1, 2))
        waiting = asyncio.get_running_loop().create_task(one.append(b"x"))
        await asyncio.sleep(0)
        one.unreachable = False
        (result,) = await waiting
        assert result.error is ErrorCode.NONE

    play(tmp_path, story)


def test_the_controllers_requests_are_fenced(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        assert leader_and_isr(one, 1, 3, (1,), controller_epoch=5) is ErrorCode.NONE
        assert leader_and_isr(one, 2, 4, (2,), controller_epoch=4) is ErrorCode.STALE_CONTROLLER_EPOCH
        assert leader_and_isr(one, 2, 3, (2,), controller_epoch=5) is ErrorCode.STALE_CONTROLLER_EPOCH
        assert leader_and_isr(one, 2, 2, (2,), controller_epoch=5) is ErrorCode.STALE_CONTROLLER_EPOCH
        other = Uuid(b"another topic id")
        known = UpdateMetadataRequest.UpdateMetadataPartitionState(leader=1, leader_epoch=3, isr=[1], replicas=[1, 2])
        one.metadata.update(
            UpdateMetadataRequest(
                topic_states=[UpdateMetadataRequest.UpdateMetadataTopicState(TOPIC_PARTITION.topic, TOPIC_ID, [known])]
            )
        )
        assert leader_and_isr(one, 2, 9, (2,), topic_id=other, controller_epoch=5) is ErrorCode.INCONSISTENT_TOPIC_ID
        assert leader_and_isr(one, 2, 9, (2,), (2, 3), controller_epoch=5) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert one.partition.is_leader
        assert one.partition.leader_epoch == 3

    play(tmp_path, story)


def stop(peer: Peer, leader_epoch: int, delete: bool) -> ErrorCode:
    data = StopReplicaRequest
    states = [
        data.StopReplicaTopicState(TOPIC_PARTITION.topic, [data.StopReplicaPartitionState(0, leader_epoch, delete)])
    ]
    response = peer.replicas.stop_replicas(data(1, controller_epoch=1, topic_states=states))
    return ErrorCode(response.partition_errors[0].error_code)


def test_a_leader_whose_replica_is_moved_away_is_known_to_lead_no_more(tmp_path: Path) -> None:
    """It is not told of the next leader: StopReplica is all that it gets."""

    async def story(one: Peer, two: Peer) -> None:
        changes: list[tuple[list[Partition], list[Partition]]] = []
        for peer in (one, two):
            peer.leads(1, 3, (1, 2))
            peer.replicas.on_leadership_change = lambda leaders, followers: changes.append((leaders, followers))
        led = one.partition
        assert [stop(one, 3, False), stop(two, 3, True), stop(one, 3, True)] == [ErrorCode.NONE] * 3
        assert changes == [([], [led])]

    play(tmp_path, story)


def test_stop_replica_is_fenced_by_leader_epoch_and_deletes_the_log(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 3, (1,))
        one.replicas.checkpoint_high_watermarks()
        (directory,) = one.log_dirs.online_paths
        assert TOPIC_PARTITION in one.log_dirs.read_high_watermarks(directory)
        assert stop(one, 2, True) is ErrorCode.FENCED_LEADER_EPOCH
        assert stop(one, 3, False) is ErrorCode.NONE
        assert one.log_dirs.get(TOPIC_PARTITION) is not None
        waiting = asyncio.get_running_loop().create_task(fetch(one, 0, max_wait_ms=60_000))
        await until(lambda: one.replicas.purgatories.consumer_fetch.delayed == 1)
        assert stop(one, -2, True) is ErrorCode.NONE
        assert one.log_dirs.get(TOPIC_PARTITION) is None
        assert TOPIC_PARTITION not in one.log_dirs.read_high_watermarks(directory), "the next of that name has its own"
        assert one.replicas.partition(TOPIC_PARTITION) is None
        assert (await waiting).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert stop(one, -2, True) is ErrorCode.NONE, "deleting what is not there is done"

    play(tmp_path, story)


async def fetch(
    peer: Peer, offset: int, *, max_wait_ms: int = 0, min_bytes: int = 1, key: TopicIdPartition = KEY
) -> Any:
    params = FetchParams(-1, -1, max_wait_ms, min_bytes, 1 << 20, FetchIsolation.HIGH_WATERMARK)
    asked = FetchRequest.FetchPartition(0, -1, offset, partition_max_bytes=1 << 20)
    return await fetch_one(peer.replicas, params, asked, key)


def test_a_consumers_long_poll_is_answered_when_the_high_watermark_moves(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1, 2))
        waiting = asyncio.get_running_loop().create_task(fetch(one, 0, max_wait_ms=60_000))
        await until(lambda: one.replicas.purgatories.consumer_fetch.delayed == 1)
        await one.append(b"x", acks=1)
        assert one.replicas.purgatories.consumer_fetch.delayed == 1, "the end has moved, the high watermark has not"
        two.leads(1, 0, (1, 2))
        data = await waiting
        assert data.high_watermark == 1
        assert len(data.records) > 0

    play(tmp_path, story)


def test_a_long_poll_waits_for_as_many_bytes_as_it_asked_for(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,), (1,))
        waiting = asyncio.get_running_loop().create_task(fetch(one, 0, max_wait_ms=60_000, min_bytes=250))
        for appended in range(3):
            await until(lambda: one.replicas.purgatories.consumer_fetch.delayed == 1)
            assert not waiting.done(), appended
            await one.append(b"x" * 20, acks=1)
        data = await waiting
        assert len(data.records) >= 250

    play(tmp_path, story)


def test_a_long_poll_does_not_wait_for_bytes_that_are_in_the_next_segment(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,), (1,))
        await one.append(b"old", acks=1)
        log = one.partition.local_log()
        log.roll(now_ms=0)
        await one.append(b"new", acks=1)
        data = await fetch(one, 0, max_wait_ms=60_000, min_bytes=100_000)
        assert b"old" in data.records, "a read ends where its segment does"
        assert b"new" not in data.records
        waiting = asyncio.get_running_loop().create_task(fetch(one, 1, max_wait_ms=60_000, min_bytes=100_000))
        await until(lambda: one.replicas.purgatories.consumer_fetch.delayed == 1)
        waiting.cancel()

    play(tmp_path, story)


def test_a_long_poll_ends_empty_when_its_time_is_up(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,), (1,))
        data = await fetch(one, 0, max_wait_ms=10)
        assert data.error_code == 0
        assert data.records == b""

    play(tmp_path, story)


def test_a_fetch_of_another_topics_id_gets_no_bytes(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,), (1,))
        await one.append(b"x", acks=1)
        other = KEY._replace(topic_id=Uuid(b"another topic id"))
        assert (await fetch(one, 0, key=other)).error_code == ErrorCode.INCONSISTENT_TOPIC_ID
        assert (await fetch(one, 0, key=KEY._replace(topic_id=ZERO_UUID))).error_code == 0

    play(tmp_path, story)


def test_high_watermarks_of_partitions_not_yet_spoken_of_stay_in_the_checkpoint(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        path = one.log_dirs.paths[0]
        other = TopicPartition("other", 7)
        one.log_dirs.get_or_create(other, topic_id=Uuid(b"fedcba9876543210"), is_new=True)
        one.log_dirs.checkpoint_high_watermarks({other: 0, TOPIC_PARTITION: 5})
        one.replicas.checkpoint_high_watermarks()
        assert other in one.log_dirs.read_high_watermarks(path), "before the first LeaderAndIsr nothing is written"
        one.leads(1, 0, (1,), (1,))
        await one.append(b"x", acks=1)
        one.replicas.checkpoint_high_watermarks()
        assert one.log_dirs.read_high_watermarks(path) == {other: 0, TOPIC_PARTITION: 1}

    play(tmp_path, story)


def test_an_old_consumer_gets_the_head_of_a_batch_that_is_larger_than_its_fetch(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,))
        await one.append(b"x" * 1000, acks=1)
        one.partition.local_log().update_high_watermark(1)

        async def fetched(*, hard: bool, size: int = 100) -> bytes:
            params = FetchParams(
                -1, -1, 0, 1, 1 << 20, FetchIsolation.HIGH_WATERMARK, hard_max_bytes_limit=hard, fetch_only_leader=False
            )
            asked = FetchRequest.FetchPartition(0, 0, 0, -1, 0, partition_max_bytes=size)
            data = await fetch_one(one.replicas, params, asked)
            return bytes(data.records or b"")

        whole = await fetched(hard=False)
        assert len(whole) > 1000
        assert await fetched(hard=True) == whole[:100], "enough to see that the message is larger"
        assert await fetched(hard=True, size=1 << 20) == whole

    play(tmp_path, story, **{"min.insync.replicas": "1"})
