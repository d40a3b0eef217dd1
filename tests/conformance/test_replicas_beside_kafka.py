"""What a leader tells while a follower is missing, and of what is elsewhere: as Apache Kafka 3.9.2 tells it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from answers.asking import Asked
from answers.beside import apaches, ours
from answers.requests import batch, produce_data
from answers.world import World
from apache import require

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.delete_records import DeleteRecordsRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest

pytestmark = pytest.mark.long(2)

RECORDS = 5
CONTROLLER_EPOCH = 1000
"""That of a controller which there is not: its word counts, and the real one's no more."""


@pytest.fixture(params=["ours", "apaches"])
def asked(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    kinds: dict[str, Callable[[Path], AbstractContextManager[Asked]]] = {"ours": ours, "apaches": apaches}
    if request.param == "apaches":
        require()
    with kinds[request.param](tmp_path) as made:
        yield made


def test_of_what_is_not_replicated_in_time_the_offsets_are_told_all_the_same(asked: Asked) -> None:
    world = asked.world
    topic = world.topic()
    assert produced(world, topic) == (ErrorCode.NONE, 0)
    led(world, topic, epoch=10, leader=world.home)
    fetched = fetch(world, topic, replica_id=world.other, current_leader_epoch=10, fetch_offset=RECORDS)
    assert fetched.error_code == ErrorCode.NONE
    assert produced(world, topic) == (ErrorCode.REQUEST_TIMED_OUT, RECORDS)
    offset = DeleteRecordsRequest.DeleteRecordsPartition(0, 3)
    deleting = DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(topic, [offset])], timeout_ms=200)
    (deleted,) = world.ask(deleting, 2).topics[0].partitions
    assert (deleted.error_code, deleted.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)


def test_a_replica_is_offline_where_the_controller_says_so(asked: Asked) -> None:
    """A broker without the listener by which somebody asks lives all the same."""
    world = asked.world
    topic = world.topic()
    state = UpdateMetadataRequest.UpdateMetadataPartitionState(
        leader=world.home, leader_epoch=20, isr=[world.home], replicas=[world.home, world.other, 99]
    )
    state.offline_replicas = [99]
    listeners = {world.home: "PLAINTEXT", world.other: "ELSEWHERE"}
    told = UpdateMetadataRequest(
        controller_id=world.home,
        controller_epoch=CONTROLLER_EPOCH,
        topic_states=[UpdateMetadataRequest.UpdateMetadataTopicState(topic, world.topic_id(topic), [state])],
        live_brokers=[
            UpdateMetadataRequest.UpdateMetadataBroker(
                broker_id, endpoints=[UpdateMetadataRequest.UpdateMetadataEndpoint(world.port, "127.0.0.1", name)]
            )
            for broker_id, name in listeners.items()
        ],
    )
    assert world.ask(told, 7).error_code == ErrorCode.NONE
    asking = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=topic)])
    (partition,) = world.ask(asking, 12).topics[0].partitions
    assert partition.replica_nodes == [world.home, world.other, 99]
    assert partition.offline_replicas == [99]


def produced(world: World, topic: str) -> tuple[ErrorCode, int]:
    """What became of records that all replicas in sync have to have within 200 ms, and where they begin."""
    request = ProduceRequest(acks=-1, timeout_ms=200, topic_data=produce_data(topic, batch()))
    (told,) = world.ask(request, 9).responses[0].partition_responses
    return ErrorCode(told.error_code), told.base_offset


def led(world: World, topic: str, *, epoch: int, leader: int) -> None:
    """The home broker hears that there are two replicas, and who leads; the other one hears nothing."""
    both = [world.home, world.other]
    state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=CONTROLLER_EPOCH,
        leader=leader,
        leader_epoch=epoch,
        isr=both,
        partition_epoch=epoch,
        replicas=both,
    )
    topics = [LeaderAndIsrRequest.LeaderAndIsrTopicState(topic, world.topic_id(topic), [state])]
    request = LeaderAndIsrRequest(world.home, controller_epoch=CONTROLLER_EPOCH, topic_states=topics)
    answer = world.ask(request, 6)
    assert answer.error_code == answer.topics[0].partition_errors[0].error_code == ErrorCode.NONE


def fetch(
    world: World,
    topic: str,
    *,
    replica_id: int,
    version: int = 11,
    current_leader_epoch: int = -1,
    fetch_offset: int = 0,
) -> FetchRequest:
    asked = FetchRequest.FetchPartition(
        0, current_leader_epoch, fetch_offset, log_start_offset=0, partition_max_bytes=1 << 20
    )
    request = FetchRequest(replica_id=replica_id, topics=[FetchRequest.FetchTopic(topic, partitions=[asked])])
    (told,) = world.ask(request, version).responses[0].partitions
    return told
