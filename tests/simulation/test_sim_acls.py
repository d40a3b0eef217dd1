"""ACLs that two brokers share through ZooKeeper: made, told, changed at once at both, and gone by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import ClusterClient
from barnabas.client.producer import Producer
from barnabas.model.acl import Operation, PatternType, Permission, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.security.acls import Acl, AclFilter, Resource
from barnabas.sim.world.world import World, broker_name
from barnabas.wire.messages.create_acls import CreateAclsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsRequest
from barnabas.wire.messages.describe_acls import DescribeAclsRequest

AUTHORIZER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
ORDERS = Resource(ResourceType.TOPIC, "orders")
ALL_ORDERS = Resource(ResourceType.TOPIC, "ord", PatternType.PREFIXED)
ALICE_READS = Acl("User:alice", "*", Operation.READ, Permission.ALLOW)
BOB_WRITES = Acl("User:bob", "10.0.0.1", Operation.WRITE, Permission.DENY)
Seen = TypeVar("Seen")


def seen_in(story: Callable[[World, ClusterClient], Coroutine[Any, Any, Seen]], **config: str) -> Seen:
    """What `story` sees in two brokers at which anybody may do what no ACL speaks of."""
    world = World(7, 2, AUTHORIZER | {name.replace("_", "."): text for name, text in config.items()})

    async def run() -> Seen:
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 2, "the brokers' start")
        return await world.client(lambda _, cluster: story(world, cluster), "operator")

    return world.loop.run_until_complete(run())


def known_at(world: World, number: int) -> list[tuple[Resource, Acl]]:
    acls = world.brokers[broker_name(number)].acls
    assert acls is not None
    return list(acls.authorizer.find(AclFilter()))


async def both_know(world: World, *bindings: tuple[Resource, Acl]) -> None:
    for number in (0, 1):
        await world.until(lambda number=number: known_at(world, number) == sorted(bindings), f"broker {number}")


def creation(resource: Resource, acl: Acl) -> CreateAclsRequest.AclCreation:
    return CreateAclsRequest.AclCreation(
        resource.resource_type,
        resource.name,
        resource.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def test_what_is_allowed_at_one_broker_is_told_and_goes_at_both() -> None:
    async def story(world: World, cluster: ClusterClient) -> None:
        admin = Admin(cluster)
        first, second = [(ORDERS, ALICE_READS), (ALL_ORDERS, BOB_WRITES)], [(ORDERS, BOB_WRITES)]
        assert await admin.create_acls(first) == [None, None]
        assert await admin.create_acls(second) == [None]
        await both_know(world, *first, *second)
        assert sorted(await admin.describe_acls()) == sorted(first + second)
        assert await admin.describe_acls(AclFilter(name="ord")) == [(ALL_ORDERS, BOB_WRITES)]
        assert await admin.describe_acls(AclFilter(principal="User:alice")) == [(ORDERS, ALICE_READS)]
        for number in (0, 1):
            world.kill(broker_name(number))
            world.start(broker_name(number))
            await world.until(lambda number=number: broker_name(number) in world.brokers, "its start")
        await both_know(world, *first, *second)

    seen_in(story)


def test_what_is_taken_back_is_told_and_what_else_there_is_stays() -> None:
    async def story(world: World, cluster: ClusterClient) -> None:
        admin = Admin(cluster)
        made = [(ORDERS, ALICE_READS), (ORDERS, BOB_WRITES), (ALL_ORDERS, BOB_WRITES)]
        assert await admin.create_acls(made) == [None] * 3
        assert await admin.delete_acls(AclFilter(name="orders", principal="User:bob")) == [(ORDERS, BOB_WRITES)]
        await both_know(world, (ORDERS, ALICE_READS), (ALL_ORDERS, BOB_WRITES))
        assert world.children("/kafka-acl/Topic") == ["orders"]
        everything = AclFilter(ResourceType.TOPIC, "orders", PatternType.MATCH)
        assert await admin.delete_acls(everything) == [(ALL_ORDERS, BOB_WRITES), (ORDERS, ALICE_READS)]
        await both_know(world)
        assert world.children("/kafka-acl/Topic") == world.children("/kafka-acl-extended/prefixed/Topic") == []
        assert await admin.delete_acls(everything) == []

    seen_in(story)


def test_of_several_filters_the_first_that_takes_an_acl_has_it() -> None:
    async def story(world: World, cluster: ClusterClient) -> list[list[str]]:
        await Admin(cluster).create_acls([(ORDERS, ALICE_READS), (ORDERS, BOB_WRITES)])

        def named(name: str | None, principal: str | None) -> DeleteAclsRequest.DeleteAclsFilter:
            return DeleteAclsRequest.DeleteAclsFilter(2, name, 1, principal, None, 1, 1)

        asked = DeleteAclsRequest([named("orders", "User:bob"), named(None, None), named("orders", "User:alice")])
        answer = await (await cluster.any()).send(asked)
        assert {acl.error_code for result in answer.filter_results for acl in result.matching_acls} == {0}
        return [[acl.principal for acl in result.matching_acls] for result in answer.filter_results]

    assert seen_in(story) == [["User:bob"], ["User:alice"], []]


def test_what_two_brokers_are_asked_to_add_at_the_same_moment_is_all_there() -> None:
    async def story(world: World, cluster: ClusterClient) -> None:
        users = [Acl(f"User:{number}", "*", Operation.READ, Permission.ALLOW) for number in range(8)]
        connections = [await cluster.broker(number % 2) for number in range(8)]
        answers = await asyncio.gather(
            *(
                connection.send(CreateAclsRequest([creation(ORDERS, acl)]))
                for connection, acl in zip(connections, users, strict=True)
            )
        )
        assert [answer.results[0].error_code for answer in answers] == [0] * 8
        await both_know(world, *((ORDERS, acl) for acl in users))

    seen_in(story)


def test_an_acl_that_is_there_is_made_again_without_a_word_to_others() -> None:
    async def story(world: World, cluster: ClusterClient) -> list[list[str]]:
        told = []
        for _ in range(2):
            assert await Admin(cluster).create_acls([(ORDERS, ALICE_READS)]) == [None]
            told.append(world.children("/kafka-acl-changes"))
        return told

    first, second = seen_in(story)
    assert len(first) == 1
    assert second == first


@pytest.mark.parametrize(
    ("resource", "principal", "why"),
    [
        (Resource(ResourceType.TOPIC, "a/b"), "User:a", "Failed to create ACL"),
        (Resource(ResourceType.TOPIC, ""), "User:a", "Invalid empty resource name"),
        (Resource(ResourceType.CLUSTER, "mine"), "User:a", "The only valid name for the CLUSTER resource"),
        (ORDERS, "alice", "expected a string in format principalType:principalName but got alice"),
        (Resource(ResourceType.ANY, "a"), "User:a", "resourceType must not be ANY"),
        (Resource(ResourceType.TOPIC, "a", PatternType.MATCH), "User:a", "patternType must not be MATCH"),
    ],
)
def test_what_is_no_acl_is_refused_and_those_beside_it_are_made(resource: Resource, principal: str, why: str) -> None:
    async def story(world: World, cluster: ClusterClient) -> tuple[int, str]:
        wrong = ALICE_READS._replace(principal=principal)
        made = CreateAclsRequest([creation(resource, wrong), creation(ALL_ORDERS, BOB_WRITES)])
        refused, beside = (await (await cluster.any()).send(made)).results
        if "must not be" in why:  # then the request is
            assert beside.error_code == refused.error_code
            assert known_at(world, 0) == []
        else:
            assert beside.error_code == 0
            await both_know(world, (ALL_ORDERS, BOB_WRITES))
        return refused.error_code, refused.error_message

    code, message = seen_in(story)
    assert code == ErrorCode.INVALID_REQUEST
    assert message.startswith(why)


def test_who_is_denied_is_refused_from_the_next_request_on_and_let_in_again() -> None:
    async def story(world: World, cluster: ClusterClient) -> None:
        admin = Admin(cluster)
        assert await admin.create_topics([NewTopic("orders", assignment={0: [0], 1: [1]})]) == {"orders": None}
        denial = ALL_ORDERS, Acl("User:ANONYMOUS", "*", Operation.WRITE, Permission.DENY)
        others = ALL_ORDERS, Acl("User:*", "*", Operation.ALL, Permission.ALLOW)

        async def write() -> set[ErrorCode]:
            producer, told = Producer(cluster, acks=-1), set()
            for partition in (0, 1):
                try:
                    await (await producer.append("orders", b"x", partition=partition))
                    told.add(ErrorCode.NONE)
                except KafkaError as error:
                    told.add(error.code)
            await producer.close()
            return told

        assert await write() == {ErrorCode.NONE}
        assert await admin.create_acls([denial, others]) == [None, None]
        await both_know(world, denial, others)
        assert await write() == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        assert await admin.delete_acls(AclFilter(permission=Permission.DENY)) == [denial]
        await both_know(world, others)
        assert await write() == {ErrorCode.NONE}

    seen_in(story)


@pytest.mark.parametrize("request_", [DescribeAclsRequest(1, None, 1, None, None, 1, 1), CreateAclsRequest([])])
def test_where_nobody_is_asked_who_may_what_there_are_no_acls(request_: Any) -> None:
    async def story(world: World, cluster: ClusterClient) -> Any:
        if isinstance(request_, CreateAclsRequest):
            request_.creations = [creation(ORDERS, ALICE_READS)]
        answer = await (await cluster.any()).send(request_)
        return answer if isinstance(request_, DescribeAclsRequest) else answer.results[0]

    assert seen_in(story, authorizer_class_name="").error_code == ErrorCode.SECURITY_DISABLED
