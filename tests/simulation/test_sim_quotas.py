"""Quotas that are set while a broker runs: whom they throttle, for how long, and who is told of which."""

from __future__ import annotations

from typing import Any

import pytest
from test_sim_requests import TOPIC, pause, seen_in

from barnabas.client.connection import Connection
from barnabas.model.errors import ErrorCode
from barnabas.sim.world.world import World
from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch

EXACT, DEFAULT, ANY = range(3)
Entity = dict[str, str | None]


async def alter(connection: Connection, entity: Entity, *, validate: bool = False, **values: float | None) -> ErrorCode:
    data = AlterClientQuotasRequest
    named = [data.EntityData(kind, name) for kind, name in entity.items()]
    changes = [data.OpData(key, value or 0.0, value is None) for key, value in values.items()]
    answer = await connection.send(data([data.EntryData(named, changes)], validate))
    return ErrorCode(answer.entries[0].error_code)


async def take_effect(world: World, kind: str, *entities: tuple[str, str]) -> None:
    limits = world.brokers["broker-0"].quotas._limits[kind]
    await world.until(lambda: sorted(limits) == sorted(entities), f"{kind} {entities}")


async def produce(connection: Connection, size: int) -> int:
    """How long the client is throttled, in ms."""
    records = build_batch([Record(0, 1, None, b"x" * size, [])])
    data = ProduceRequest.TopicProduceData(TOPIC, [ProduceRequest.PartitionProduceData(0, records)])
    answer = await connection.send(ProduceRequest(None, -1, 30_000, [data]), 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return int(answer.throttle_time_ms)


async def fetch(connection: Connection) -> tuple[int, int]:
    """Bytes, and how long the client is throttled."""
    topic = FetchRequest.FetchTopic(TOPIC, partitions=[FetchRequest.FetchPartition(0, partition_max_bytes=1 << 20)])
    answer = await connection.send(FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic]), 11)
    found = sum(len(partition.records or b"") for each in answer.responses for partition in each.partitions)
    return found, int(answer.throttle_time_ms)


def test_who_produces_more_than_its_quota_waits_until_the_rate_is_right_again() -> None:
    async def story(world: World, connection: Connection) -> None:
        assert await produce(connection, 50_000) == 0
        assert await alter(connection, {"client-id": "client"}, producer_byte_rate=1_000.0) is ErrorCode.NONE
        await take_effect(world, "producer_byte_rate", ("", "client"))
        # Eleven windows of a second, of which the first ten count as over: 30,000 bytes in 10 s are 3,000 a second.
        throttled = await produce(connection, 30_000)
        assert 19_000 < throttled < 23_000
        began_ms = world.brokers["broker-0"].runtime.clock.monotonic_ms()
        await produce(connection, 1)
        assert world.brokers["broker-0"].runtime.clock.monotonic_ms() - began_ms >= throttled - 1_000
        assert await alter(connection, {"client-id": "client"}, producer_byte_rate=None) is ErrorCode.NONE
        await take_effect(world, "producer_byte_rate")
        assert await produce(connection, 50_000) == 0

    seen_in(story)


@pytest.mark.parametrize(
    ("entity", "throttles"),
    [
        ({"client-id": "client"}, True),
        ({"client-id": "other"}, False),
        ({"client-id": None}, True),
        ({"user": "ANONYMOUS"}, True),
        ({"user": "bob"}, False),
        ({"user": None}, True),
        ({"user": "ANONYMOUS", "client-id": "client"}, True),
        ({"user": "ANONYMOUS", "client-id": "other"}, False),
        ({"user": None, "client-id": None}, True),
    ],
)
def test_a_quota_is_for_whom_it_names(entity: Entity, throttles: bool) -> None:
    async def story(world: World, connection: Connection) -> bool:
        assert await alter(connection, entity, producer_byte_rate=100.0) is ErrorCode.NONE
        await world.until(lambda: world.brokers["broker-0"].quotas.active, "the quota")
        return await produce(connection, 10_000) > 0

    assert seen_in(story) is throttles


def test_who_fetches_more_than_its_quota_gets_nothing_for_a_while_and_then_all() -> None:
    async def story(world: World, connection: Connection) -> None:
        await produce(connection, 900)
        whole, throttled = await fetch(connection)
        assert (whole > 900, throttled) == (True, 0)
        assert await alter(connection, {"client-id": None}, consumer_byte_rate=100.0) is ErrorCode.NONE
        await take_effect(world, "consumer_byte_rate", ("", "<default>"))
        seen = [await fetch(connection) for _ in range(3)]
        given = [size for size, throttled in seen if not throttled]
        refused = [(size, throttled) for size, throttled in seen if throttled]
        assert refused, "it fetches three times what it may"
        assert all(size == 0 and throttled <= 11_000 for size, throttled in refused)
        assert all(given)
        await pause(world, 30_000)
        assert (await fetch(connection))[1] == 0

    seen_in(story)


QUOTAS: list[tuple[Entity, dict[str, float]]] = [
    ({"client-id": "app"}, {"producer_byte_rate": 1.0}),
    ({"client-id": None}, {"consumer_byte_rate": 2.0}),
    ({"user": "kate"}, {"request_percentage": 3.5}),
    ({"user": "kate", "client-id": "app"}, {"producer_byte_rate": 4.0}),
    ({"user": None, "client-id": None}, {"controller_mutation_rate": 5.5}),
    ({"ip": "10.0.0.1"}, {"connection_creation_rate": 6.0}),
]


@pytest.mark.parametrize(
    ("asked", "strict", "found"),
    [
        ([], False, [0, 1, 2, 3, 4, 5]),
        ([], True, []),
        ([("client-id", EXACT, "app")], False, [0, 3]),
        ([("client-id", EXACT, "app")], True, [0]),
        ([("client-id", DEFAULT, None)], False, [1, 4]),
        ([("client-id", DEFAULT, None)], True, [1]),
        ([("user", ANY, None)], False, [2, 3, 4]),
        ([("user", ANY, None)], True, [2]),
        ([("user", EXACT, "kate"), ("client-id", ANY, None)], True, [3]),
        ([("user", EXACT, "nobody")], False, []),
        ([("ip", ANY, None)], True, [5]),
    ],
)
def test_whoever_asks_is_told_the_quotas_that_its_filter_takes(asked: Any, strict: bool, found: list[int]) -> None:
    async def story(world: World, connection: Connection) -> list[tuple[Entity, dict[str, float]]]:
        for entity, values in QUOTAS:
            assert await alter(connection, entity, **values) is ErrorCode.NONE
        components = [DescribeClientQuotasRequest.ComponentData(*each) for each in asked]
        answer = await connection.send(DescribeClientQuotasRequest(components, strict))
        assert answer.error_code == ErrorCode.NONE
        return [
            (
                {part.entity_type: part.entity_name for part in entry.entity},
                {value.key: value.value for value in entry.values},
            )
            for entry in answer.entries or ()
        ]

    told = seen_in(story)
    assert sorted(told, key=str) == sorted((QUOTAS[number] for number in found), key=str)


@pytest.mark.parametrize(
    ("entity", "values"),
    [
        ({}, {"producer_byte_rate": 1.0}),
        ({"user": ""}, {"producer_byte_rate": 1.0}),
        ({"planet": "mars"}, {"producer_byte_rate": 1.0}),
        ({"user": "u"}, {"connection_creation_rate": 1.0}),
        ({"ip": "10.0.0.1"}, {"producer_byte_rate": 1.0}),
        ({"ip": "10.0.0.1", "user": "u"}, {"connection_creation_rate": 1.0}),
        ({"user": "u"}, {"producer_byte_rate": 1.5}),
        ({"user": "u"}, {"no_such_rate": 1.0}),
    ],
)
def test_a_quota_that_means_nothing_is_refused_and_leaves_nothing(entity: Entity, values: dict[str, float]) -> None:
    async def story(world: World, connection: Connection) -> ErrorCode:
        told = await alter(connection, entity, request_percentage=1.0, **values)
        for kind in ("users", "clients", "ips"):
            assert world.children(f"/config/{kind}") == []
        return told

    assert seen_in(story) is ErrorCode.INVALID_REQUEST


def test_what_is_only_validated_throttles_nobody() -> None:
    async def story(world: World, connection: Connection) -> None:
        assert await alter(connection, {"user": "u"}, validate=True, producer_byte_rate=1.0) is ErrorCode.NONE
        assert world.children("/config/users") == []
        wrong = await alter(connection, {"user": "u"}, validate=True, no_such_rate=1.0)
        assert wrong is ErrorCode.INVALID_REQUEST

    seen_in(story)
