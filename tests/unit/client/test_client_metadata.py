"""What a client knows of the cluster does not go back, whoever answers."""

from __future__ import annotations

import asyncio
from typing import Any

from barnabas.client import connect
from barnabas.client.admin import NewTopic
from barnabas.client.cluster import ClusterClient
from barnabas.client.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_EPOCH, TopicPartition, Uuid
from barnabas.runtime.real import real_runtime
from barnabas.testing import KafkaCluster
from barnabas.wire.messages.metadata import MetadataResponse

FIRST, SECOND = Uuid(bytes(15) + b"\x01"), Uuid(bytes(15) + b"\x02")
ORDERS = TopicPartition("orders", 0)


def told(leader: int, leader_epoch: int, topic_id: Uuid = FIRST) -> ClusterMetadata:
    partition = PartitionMetadata(0, leader, leader_epoch, (0, 1, 2), (leader,))
    return ClusterMetadata("a", 0, {}, {"orders": TopicMetadata("orders", topic_id, False, {0: partition})})


def test_a_broker_that_is_cut_off_does_not_bring_an_older_leader_back() -> None:
    for asked in (["orders"], None):
        known = told(1, 5).merged(told(2, 4), asked)
        assert (known.leader(ORDERS), known.leader_epoch(ORDERS)) == (1, 5)


def test_a_later_epoch_and_news_of_the_same_one_are_taken() -> None:
    assert told(1, 5).merged(told(2, 6), ["orders"]).leader(ORDERS) == 2
    assert told(1, 5).merged(told(-1, 5), ["orders"]).leader(ORDERS) == -1


def test_a_topic_of_the_same_name_begins_anew() -> None:
    assert told(1, 5).merged(told(2, 0, SECOND), ["orders"]).leader_epoch(ORDERS) == 0


def test_a_broker_that_tells_no_epochs_is_believed() -> None:
    assert told(1, 5).merged(told(2, NO_EPOCH), ["orders"]).leader(ORDERS) == 2


def test_topics_that_were_not_asked_for_stay_and_those_that_are_gone_go() -> None:
    nothing = ClusterMetadata("a", 0, {}, {})
    assert told(1, 5).merged(nothing, ["payments"]).leader(ORDERS) == 1
    assert told(1, 5).merged(nothing, ["orders"]).leader(ORDERS) == -1
    assert told(1, 5).merged(nothing, None).leader(ORDERS) == -1


class AnswersInTurn(ClusterClient):
    """A broker that answers each request when the test says so."""

    def __init__(self) -> None:
        super().__init__(real_runtime(), "127.0.0.1:1")
        self.asked: dict[str, asyncio.Future[MetadataResponse]] = {}

    async def any(self) -> Any:
        return None

    async def ask(
        self, connection: Any, message: Any, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        answer = self.asked[message.topics[0].name] = asyncio.get_running_loop().create_future()
        return await answer


def led(name: str) -> MetadataResponse:
    node = MetadataResponse.MetadataResponseBroker(node_id=1, host="a", port=9092)
    partition = MetadataResponse.MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=3)
    topic = MetadataResponse.MetadataResponseTopic(name=name, partitions=[partition])
    return MetadataResponse(brokers=[node], topics=[topic])


def test_an_answer_takes_nothing_away_that_was_told_while_it_was_waited_for() -> None:
    async def story() -> ClusterMetadata:
        client = AnswersInTurn()
        first, second = (asyncio.ensure_future(client.refresh([name])) for name in ("orders", "payments"))
        await asyncio.sleep(0)
        client.asked["payments"].set_result(led("payments"))
        await second
        client.asked["orders"].set_result(led("orders"))
        return await first

    assert sorted(asyncio.run(story()).topics) == ["orders", "payments"]


class Answered(ClusterClient):
    """One broker gives these answers, one after the other."""

    def __init__(self, *answers: MetadataResponse) -> None:
        super().__init__(real_runtime(), "127.0.0.1:1")
        self._answers = list(answers)

    async def any(self) -> Any:
        return None

    async def ask(
        self, connection: Any, message: Any, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        return self._answers.pop(0)


def test_a_broker_that_starts_and_has_been_told_nothing_is_asked_again() -> None:
    node = MetadataResponse.MetadataResponseBroker(node_id=1, host="a", port=9092)
    topic = MetadataResponse.MetadataResponseTopic(name="orders")
    client = Answered(MetadataResponse(), MetadataResponse(brokers=[node], topics=[topic]))
    assert list(asyncio.run(client.refresh()).topics) == ["orders"]


class Connected(Answered):
    """As far as to the address that it would connect to."""

    async def connection(self, host: str, port: int, owner: object = None) -> Any:
        return host


def test_a_leader_that_has_died_is_asked_for_until_there_is_another() -> None:
    def told(leader: int, *alive: int) -> MetadataResponse:
        answer = led("orders")
        answer.brokers = [MetadataResponse.MetadataResponseBroker(node_id=node, host=f"b{node}") for node in alive]
        answer.topics[0].partitions[0].leader_id = leader
        return answer

    async def story() -> Any:
        client = Connected(told(2, 1, 2), told(2, 1), told(2, 1), told(1, 1))
        await client.refresh(["orders"])
        await client.refresh(["orders"])
        return await client.leader(TopicPartition("orders", 0))

    assert asyncio.run(story()) == "b1"


def test_a_topic_of_which_the_asked_broker_has_not_heard_is_looked_up_at_the_controller(
    kafka_cluster: KafkaCluster,
) -> None:
    controller = kafka_cluster.controller
    deaf = next(broker for broker in kafka_cluster.brokers if broker != controller)

    async def play() -> tuple[ErrorCode, list[TopicPartition], ErrorCode]:
        async with connect(deaf.address) as cluster:
            await cluster.refresh()  # it knows the controller
            deaf.partition(from_=controller)
            assert await cluster.admin.create_topics([NewTopic("new", 1, 1)]) == {"new": None}
            unheard_of = (await cluster.refresh(["new"])).error_of("new")
            found = (await cluster.look_up(["new"])).partitions("new")
            return unheard_of, found, (await cluster.look_up(["new", "nowhere"])).error_of("nowhere")

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert asyncio.run(play()) == (unknown, [TopicPartition("new", 0)], unknown)
