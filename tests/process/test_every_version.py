"""Whatever ApiVersions offers is answered: every API in every version, by a message that the version can carry.

Each request is one that a client (or a controller) of that version would send. Those that the cluster is steered by
are sent with a stale controller epoch or a wrong broker epoch, so that they are answered and change nothing. Each API
is also asked for what does not exist, and on a broker that is neither leader nor coordinator nor controller, since a
refusal has to fit its version as well. What is expected is what Kafka 3.9.2 answers to the same requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache
import pytest
from answers.beside import apaches, ours
from answers.requests import OK, errors_in, fetch, leader_and_isr, list_offsets, offset_commit, offset_fetch, produce
from answers.tables import ELSEWHERE, NOT_CONTROLLER, REFUSED, SENSIBLE, Builder
from answers.world import World

from barnabas.broker.router import HANDLED
from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import ZERO_UUID
from barnabas.model.sentinels import LATEST_TIERED_TIMESTAMP
from barnabas.wire.api import SUPPORTED, ApiKey
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.records import batches, records_of


@pytest.fixture(scope="module", params=["barnabas", pytest.param("apache", marks=pytest.mark.apache)])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("versions")
    if request.param == "apache":
        apache.require()
    with (apaches if request.param == "apache" else ours)(directory) as asked:
        yield asked.world


def every_version(table: dict[ApiKey, Builder]) -> list[Any]:
    return [
        pytest.param(key, version, id=f"{key.name}-{version}")
        for key in table
        for version in range(SUPPORTED[key][0], SUPPORTED[key][1] + 1)
    ]


def test_every_offered_api_has_a_request_here(world: World) -> None:
    offered = {int(key): SUPPORTED[key] for key in HANDLED}
    assert {key: world.offered[key] for key in offered} == offered
    assert set(SENSIBLE) == set(HANDLED)


def answered(port: int, request: Any, version: int) -> Any:
    """The answer to `request`, on a connection that goes on to serve."""
    with BlockingConnection("127.0.0.1", port, "raw", negotiate=False) as connection:
        answer = connection.send(request, version, 20_000)
        assert connection.send(ApiVersionsRequest(), 0, 20_000).api_keys
        return answer


@pytest.mark.parametrize(("key", "version"), every_version(SENSIBLE))
def test_a_request_is_answered_in_its_version(world: World, key: ApiKey, version: int) -> None:
    request, allowed = SENSIBLE[key](world, version)
    answer = answered(world.port, request, version)
    assert errors_in(answer) == allowed, answer


@pytest.mark.parametrize(("key", "version"), every_version(REFUSED))
def test_a_refusal_fits_its_version(world: World, key: ApiKey, version: int) -> None:
    request, allowed = REFUSED[key](world, version)
    answer = answered(world.port, request, version)
    assert errors_in(answer) == allowed, answer


@pytest.mark.parametrize(("key", "version"), every_version(ELSEWHERE))
def test_the_wrong_broker_says_so_in_the_requests_version(world: World, key: ApiKey, version: int) -> None:
    request, allowed = ELSEWHERE[key](world, version)
    answer = answered(world.other_port, request, version)
    assert errors_in(answer) == allowed, answer


@pytest.mark.parametrize("version", [10, 11])
def test_the_wrong_broker_names_the_leader_to_a_producer(world: World, version: int) -> None:
    answer = answered(world.other_port, produce(world, version, world.scratch), version)
    assert answer.responses[0].partition_responses[0].current_leader.leader_id == world.home
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(world.home, world.port)]


@pytest.mark.parametrize("version", [16, 17])
def test_the_wrong_broker_names_the_leader_to_a_consumer(world: World, version: int) -> None:
    answer = answered(world.other_port, fetch(version, world.data, world.data_id), version)
    assert answer.responses[0].partitions[0].current_leader.leader_id == world.home
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(world.home, world.port)]


@pytest.mark.parametrize("version", range(3))
def test_an_election_of_all_partitions_is_answered_in_its_version(world: World, version: int) -> None:
    request = ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000)
    assert errors_in(answered(world.port, request, version)) == OK
    assert errors_in(answered(world.other_port, request, version)) == NOT_CONTROLLER


@pytest.mark.parametrize("version", [5, 6, 7])
def test_a_controller_without_topic_ids_is_answered_by_topic_id(world: World, version: int) -> None:
    answer = answered(world.port, leader_and_isr(world, version, ZERO_UUID, controller_epoch=1), version)
    assert [each.topic_id for each in answer.topics] == [ZERO_UUID]


@pytest.mark.parametrize("version", [10, 11])
def test_a_topic_without_a_name_is_refused_where_ids_cannot_be_asked_for(world: World, version: int) -> None:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=None, topic_id=world.data_id)])
    answer = answered(world.port, request, version)
    assert errors_in(answer) == {ErrorCode.INVALID_REQUEST}
    assert answer.topics[0].name == ""


@pytest.mark.parametrize("version", range(18))
def test_every_version_of_fetch_has_the_records_in_its_own_format(world: World, version: int) -> None:
    answer = answered(world.port, fetch(version, world.data, world.data_id), version)
    records = answer.responses[0].partitions[0].records
    found = [(header, record) for header, start, end in batches(records) for record in records_of(records, start, end)]
    assert {header.magic for header, _ in found} == {0 if version < 2 else 1 if version < 4 else 2}
    assert [(record.offset, record.key, record.value) for _, record in found] == [
        (number, b"key", b"value %d" % number) for number in range(5)
    ]
    assert {record.timestamp for _, record in found} == {-1 if version < 2 else 1_700_000_000_000}


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_offset_may_be_kept_for_as_long_as_a_number_can_say(world: World, version: int) -> None:
    group = world.group()
    forever = offset_commit(world.data, group)
    forever.retention_time_ms = (1 << 63) - 1
    assert errors_in(answered(world.port, forever, version)) == OK
    stable = offset_fetch(7, world.data, group)
    stable.require_stable = True
    fetched = answered(world.port, stable, 7).topics[0].partitions[0]
    assert (fetched.error_code, fetched.committed_offset) == (ErrorCode.NONE, 3)


@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize("timestamp", [-1, -2, 0, 2_000_000_000_000])
def test_every_version_of_list_offsets_finds_offsets(world: World, version: int, timestamp: int) -> None:
    answer = answered(world.port, list_offsets(world.data, timestamp), version)
    assert errors_in(answer) == OK, answer


def test_what_is_tiered_is_asked_of_the_leader_of_a_topic_that_is_there(world: World) -> None:
    tiered = answered(world.port, list_offsets(world.data, LATEST_TIERED_TIMESTAMP), 9)
    partition = tiered.topics[0].partitions[0]
    assert (partition.error_code, partition.offset, partition.leader_epoch) == (ErrorCode.NONE, -1, -1)
    absent = answered(world.port, list_offsets("absent", LATEST_TIERED_TIMESTAMP), 9)
    assert errors_in(absent) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    elsewhere = answered(world.other_port, list_offsets(world.data, LATEST_TIERED_TIMESTAMP), 9)
    assert errors_in(elsewhere) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
