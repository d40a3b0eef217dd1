"""Trouble that passes is told as such, and a cluster that was healed is whole: ``make heals`` does it 200 times."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator

import pytest
from cluster import until
from confluent_kafka import Producer

from barnabas.client.admin import Admin, ResourceType
from barnabas.model.errors import ErrorCode
from barnabas.testing import ClusterError, KafkaCluster
from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.wire.messages.alter_configs import AlterConfigsRequest
from barnabas.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from barnabas.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.zk.client.handlers import StateChangeHandler

ROUNDS = int(os.environ.get("BARNABAS_HEALS", "5"))
TOPIC = int(ResourceType.TOPIC)

REQUESTS = {
    "DescribeConfigs": DescribeConfigsRequest([DescribeConfigsRequest.DescribeConfigsResource(TOPIC, "t", None)]),
    "AlterConfigs": AlterConfigsRequest([AlterConfigsRequest.AlterConfigsResource(TOPIC, "t")]),
    "IncrementalAlterConfigs": IncrementalAlterConfigsRequest(
        [IncrementalAlterConfigsRequest.AlterConfigsResource(TOPIC, "t")]
    ),
    "DescribeClientQuotas": DescribeClientQuotasRequest(),
    "AlterClientQuotas": AlterClientQuotasRequest(
        [AlterClientQuotasRequest.EntryData([AlterClientQuotasRequest.EntityData("user", "u")])]
    ),
    "DescribeUserScramCredentials": DescribeUserScramCredentialsRequest(),
}


@pytest.fixture(scope="module")
def without_a_session() -> Iterator[tuple[KafkaCluster, threading.Event]]:
    """A cluster whose broker 0 has lost its session, and makes no new one until the event is set."""
    go_on = threading.Event()  # an asyncio.Event would belong to the cluster's loop, and the tests run beside it
    with KafkaCluster(1, session_timeout=0.3) as cluster:
        cluster.create_topic("t")
        client = cluster.host._brokers[0].zk.client
        expired = threading.Event()

        async def wait() -> None:
            expired.set()
            while not go_on.is_set():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

        client.register_state_change_handler(StateChangeHandler("test", before_initializing_session=wait))
        cluster.broker(0).partition(to=["zookeeper"])
        until(lambda: cluster.host._znode("/brokers/ids/0") is None, "the session is over")
        cluster._heal_all_links()
        assert expired.wait(20)
        yield cluster, go_on
        go_on.set()


def sent(cluster: KafkaCluster, request, version=None):
    async def send():
        return await (await cluster.client.any()).send(request, version)

    return cluster.run(send())


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_without_a_session_is_answered_by_an_error_that_clients_try_again(without_a_session, name) -> None:
    answer = sent(without_a_session[0], REQUESTS[name])
    results = [getattr(answer, each)[0] for each in ("results", "responses", "entries") if getattr(answer, each, None)]
    (code,) = [each.error_code for each in results] or [answer.error_code]
    assert ErrorCode(code) is ErrorCode.REQUEST_TIMED_OUT


def test_an_offset_for_zookeeper_is_refused_as_by_a_coordinator_that_is_not_there(without_a_session) -> None:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic("t", [OffsetCommitRequest.OffsetCommitRequestPartition(0, 1)])
    answer = sent(without_a_session[0], OffsetCommitRequest(group_id="g", topics=[topic]), 0)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_verify_asks_again_until_there_is_a_session(without_a_session) -> None:
    cluster, go_on = without_a_session
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    producer.produce("t", "x")
    assert producer.flush(20) == 0
    asked = []

    async def describe(*arguments):
        asked.append(arguments)
        if len(asked) == 3:
            go_on.set()
        return await original(*arguments)

    original = Admin.describe_configs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Admin, "describe_configs", lambda admin, *arguments: describe(admin, *arguments))
        assert cluster.verify().acknowledged == 1
    assert len(asked) >= 3


def test_a_cluster_that_was_healed_is_whole() -> None:
    with KafkaCluster(session_timeout=0.3) as cluster:
        topic = cluster.create_topic("t", partitions=3)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
        for number in range(ROUNDS):
            broker = cluster.broker(cluster.random.randrange(3))
            broker.partition(**({} if number % 2 else {"to": ["zookeeper"]}))
            producer.produce("t", str(number))
            until(lambda gone=broker: cluster.host._znode(f"/brokers/ids/{gone.id}") is None, "its session is over")
            (cluster if number % 3 else broker).heal()
            for partition in topic.partitions:
                assert partition.isr == {0, 1, 2}
            cluster.verify()
        assert producer.flush(20) == 0
        assert sorted(int(record.value) for record in cluster.records("t")) == list(range(ROUNDS))
        cluster.verify()


def test_a_heal_that_another_fault_keeps_from_ending_says_what_is_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    with KafkaCluster(2, session_timeout=0.3) as cluster:
        cluster.create_topic("t")
        partition = cluster.partition("t", 0)
        follower = partition.followers[0]
        cluster.fail("FETCH", "UNKNOWN_SERVER_ERROR", times=None, from_=follower)
        follower.partition()
        producer = Producer({"bootstrap.servers": partition.leader.address, "acks": 1, "log_level": 0})
        for value in ("answers the fetch that waits", "is fetched by nobody"):
            producer.produce("t", value, partition=0)
            assert producer.flush(20) == 0
        partition.wait(isr={partition.leader})
        monkeypatch.setattr("barnabas.testing.host.START_TIMEOUT_S", 1)
        with pytest.raises(ClusterError, match=rf"broker {follower.id} is not in the ISR of t-0"):
            cluster.heal()
