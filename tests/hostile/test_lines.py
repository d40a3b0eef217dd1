"""What a stranger can do as often as it likes is told of once, and not with each time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster, barnabas, running
from hostile_frame import Caller

from barnabas.model.errors import ErrorCode
from barnabas.wire.compression import Codec
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch

TIMES = 200


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("lines") / "cluster", 1) as started:
        yield started


@pytest.fixture
def caller(cluster: Cluster) -> Iterator[Caller]:
    caller = Caller(cluster.broker(0)["port"], lambda count: None)
    yield caller
    caller.close()


def told(cluster: Cluster, words: str) -> list[str]:
    logs = [Path(file).read_text() for file in cluster.directory.rglob("*.log") if file.stem.isalpha()]
    return [line for log in logs for line in log.splitlines() if words in line]


def test_topics_that_cannot_be(cluster: Cluster, caller: Caller) -> None:
    topics = [CreateTopicsRequest.CreatableTopic(f"no/{number}", 1, 1) for number in range(TIMES)]
    answer = caller.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 4)
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert 0 < len(told(cluster, "no/")) <= 2


def test_records_that_an_old_client_cannot_be_given(cluster: Cluster, caller: Caller) -> None:
    made = barnabas("topic", "create", "bomb", "-p", "1", "-r", "1", "--dir", str(cluster.directory))
    assert made.returncode == 0, made.stderr
    bomb = build_batch([Record(0, 0, None, bytes(60_000_000))], compression=Codec.GZIP)
    data = [ProduceRequest.PartitionProduceData(0, records=bomb)]
    produce = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[ProduceRequest.TopicProduceData("bomb", data)])
    assert caller.ask(produce, 9).responses[0].partition_responses[0].error_code == ErrorCode.NONE
    partition = FetchRequest.FetchPartition(0, partition_max_bytes=1000)
    topics = [FetchRequest.FetchTopic("bomb", partitions=[partition])]
    for _ in range(10):
        fetch = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=1 << 30, topics=topics)
        answer = caller.ask(fetch, 3)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert 0 < len(told(cluster, "MESSAGE_TOO_LARGE") + told(cluster, "converted down")) <= 2
