"""B24: a write is done, and its answer is lost. Whoever wrote learns all the same that it was its own."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from zk_plays import Run, connected, cut

from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.model.leadership import LeaderAndIsr
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.client.connection import ClientConnection, Request
from barnabas.zk.kafka.zk_client import ControllerMoved, KafkaZkClient
from barnabas.zk.kafka.znodes import LeaderIsrAndControllerEpoch
from barnabas.zk.protocol.errors import NodeExists
from barnabas.zk.protocol.ops import SetData

PARTITION = TopicPartition("t", 0)


class Losing:
    """Loses the answers to the next requests: they are done, and the connection is cut before anybody hears of it."""

    def __init__(self, client: ZooKeeperClient) -> None:
        self.client = client
        self.losing = 0
        self._answered = client.answered
        client.answered = self._lose  # type: ignore[method-assign]

    def _lose(self, connection: Any, request: Request, code: int, packet: bytes) -> None:
        if self.losing:
            self.losing -= 1
            connection.drop("the test lost an answer")
        else:
            self._answered(connection, request, code, packet)


@contextlib.asynccontextmanager
async def losing(connect: str) -> AsyncIterator[tuple[KafkaZkClient, Losing]]:
    async with connected(connect) as client:
        zk = KafkaZkClient(client.runtime, client)
        await zk.create_top_level_paths()
        yield zk, Losing(client)


def test_an_election_that_was_won_counts_as_won(run: Run) -> None:
    async def play(connect: str) -> None:
        async with losing(connect) as (zk, lost), connected(connect) as client:
            other = KafkaZkClient(client.runtime, client)
            assert await zk.get_controller_epoch() is None
            epoch, version = await zk.register_controller_and_increment_controller_epoch(1)
            assert (epoch, version) == (1, 1)
            await zk.delete_controller(version)
            lost.losing = 0
            known = await zk.get_controller_epoch()
            assert known is not None

            async def only_the_multi_is_lost() -> tuple[int, int]:
                submit = zk.client.handle_requests

                async def handle(ops: Any) -> Any:
                    lost.losing = int(type(ops[0]).__name__ == "Multi" and zk.client.disconnects == 0)
                    return await submit(ops)

                zk.client.handle_requests = handle  # type: ignore[method-assign]
                return await zk.register_controller_and_increment_controller_epoch(1)

            assert await only_the_multi_is_lost() == (2, 2)
            assert zk.client.disconnects == 1
            with pytest.raises(ControllerMoved):
                await other.register_controller_and_increment_controller_epoch(2)

    run(play)


def test_a_registration_that_was_made_is_ones_own(run: Run) -> None:
    async def play(connect: str) -> None:
        broker = BrokerInfo(1, (Endpoint("PLAINTEXT", "127.0.0.1", 9092),))
        async with losing(connect) as (zk, lost):
            lost.losing = 1
            epoch = await zk.register_broker(broker)
            assert zk.client.disconnects == 1
            stat = await zk.client.exists("/brokers/ids/1")
            assert stat is not None
            assert (stat.czxid, stat.ephemeral_owner) == (epoch, zk.session_id)

    run(play)


def test_a_partition_state_that_was_written_keeps_its_writer_going(run: Run) -> None:
    """B06 (KAFKA-2729): or the writer would have a stale partition epoch, and every later write would be refused."""

    async def play(connect: str) -> None:
        async with losing(connect) as (zk, lost):
            epoch, version = await zk.register_controller_and_increment_controller_epoch(1)
            await zk.create_topic_assignment("t", Uuid(bytes(15) + b"1"), {PARTITION: (1, 2)})
            state = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 0, (1, 2)), epoch)
            lost.losing = 1
            assert await zk.create_topic_partition_states_raw({PARTITION: state}, version) == {
                PARTITION: "/brokers/topics/t/partitions/0/state"
            }
            leadership = state.leader_and_isr
            for isr in ((1,), (1, 2), (2, 1)):
                leadership = leadership.with_leader(isr[0], isr)
                lost.losing = 1
                result = await zk.update_leader_and_isr({PARTITION: leadership}, epoch, version)
                leadership = leadership.with_partition_epoch(leadership.partition_epoch + 1)
                assert result.finished == {PARTITION: leadership}
                assert result.updates_to_retry == []
            assert zk.client.disconnects == 4
            # Another one's write is not taken for one's own, lost answer or not.
            lost.losing = 1
            stale = leadership.with_partition_epoch(0).with_leader(1, (1,))
            assert (await zk.update_leader_and_isr({PARTITION: stale}, epoch, version)).updates_to_retry == [PARTITION]

    run(play)


def test_creates_and_deletes_are_recognized_and_others_are_not(run: Run) -> None:
    async def play(connect: str) -> None:
        async with losing(connect) as (zk, lost), connected(connect) as other:
            lost.losing = 1
            await zk.create_recursive("/admin/delete_topics/t", b"mine")
            lost.losing = 1
            await zk.delete_path("/admin/delete_topics/t", recursive_delete=False)
            await other.create("/admin/delete_topics/u", b"another one's")
            lost.losing = 1
            with pytest.raises(NodeExists):
                await zk.create_recursive("/admin/delete_topics/u", b"mine")
            lost.losing = 1
            assert await zk.conditional_update_path("/admin/delete_topics/u", b"1", 0) == (True, 1)
            lost.losing = 1
            assert await zk.conditional_update_path("/admin/delete_topics/u", b"1", 0) == (True, 1)  # as it was meant
            lost.losing = 1
            assert await zk.conditional_update_path("/admin/delete_topics/u", b"2", 0) == (False, -2)

    run(play)


def test_a_pipeline_that_is_cut_anywhere_is_done_in_its_order(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parents before children and children before parents, also where the connection goes in the middle."""
    chance = random.Random(1)
    kind = ""
    send, packet = ClientConnection.send, ClientConnection._packet

    def send_or_lose(connection: ClientConnection, requests: list[Request]) -> None:
        if kind == "requests" and chance.random() < 0.03:
            connection.in_flight.extend((0, request) for request in requests)
            connection.drop("the test lost requests on their way")
        else:
            send(connection, requests)

    def take_or_lose(connection: ClientConnection, data: bytes) -> None:
        if kind == "answers" and connection.in_flight and chance.random() < 0.01:
            connection.drop("the test lost an answer")
        else:
            packet(connection, data)

    monkeypatch.setattr(ClientConnection, "send", send_or_lose)
    monkeypatch.setattr(ClientConnection, "_packet", take_or_lose)

    async def play(connect: str) -> None:
        nonlocal kind
        async with connected(connect) as client:
            zk = KafkaZkClient(client.runtime, client)
            await zk.create_top_level_paths()
            epoch, version = await zk.register_controller_and_increment_controller_epoch(1)
            for turn, lossy in enumerate(("requests", "answers", "requests", "answers")):
                kind = lossy
                partitions = [TopicPartition(f"t{turn}", number) for number in range(40)]
                await zk.create_topic_assignment(f"t{turn}", Uuid(bytes(15) + b"1"), dict.fromkeys(partitions, (1, 2)))
                states = {
                    partition: LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 0, (1, 2)), epoch)
                    for partition in partitions
                }
                async with asyncio.timeout(60):
                    made = await zk.create_topic_partition_states_raw(states, version)
                    assert all(isinstance(each, str) for each in made.values()), made
                    assert len(await zk.get_topic_partition_states(partitions)) == 40
                    await zk.delete_topic_znode(f"t{turn}", version)
                assert not await zk.topic_exists(f"t{turn}")
            assert client.disconnects > 4
            kind = ""

    run(play)


def test_what_was_not_sent_yet_is_sent_by_the_next_connection(run: Run) -> None:
    async def play(connect: str) -> None:
        async with connected(connect, max_in_flight=1) as client:
            await client.create("/a", b"0")
            asked = [client.submit(SetData("/a", b"%d" % number)) for number in range(20)]
            cut(client)
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
            assert sum(isinstance(outcome, Exception) for outcome in outcomes) == 1
            assert (await client.get("/a"))[0] == b"19"

    run(play)
