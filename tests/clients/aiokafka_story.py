"""What aiokafka makes of a cluster: topics, configurations, an idempotent producer, groups (its assignors are eager),
static members, transactions with their offsets. Facts, without ids and times."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

WAIT_S = 60
FIRST_MS = 1_700_000_000_000
MEMBERS: Mapping[str, Callable[[int], dict[str, Any]]] = {
    "eager": lambda _: {"partition_assignment_strategy": (RangePartitionAssignor,)},
    "sticky": lambda _: {"partition_assignment_strategy": (StickyPartitionAssignor,)},
    "static": lambda number: {"group_instance_id": f"instance-{number}"},
}


async def word(asked: Awaitable[object]) -> str:
    """The name of the error, or ``done``."""
    try:
        await asked
    except KafkaError as error:
        return type(error).__name__
    return "done"


def tell(bootstrap: str, name: str) -> dict[str, Any]:
    return asyncio.run(story(bootstrap, name))


async def story(bootstrap: str, name: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    topic = f"{name}-topic"
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await topics(admin, topic, facts)
        await produced(bootstrap, topic, facts)
        for how in MEMBERS:
            await group(bootstrap, admin, f"{name}-{how}", topic, how, facts)
        await offsets(bootstrap, admin, name, topic, facts)
        await transactions(bootstrap, admin, name, topic, facts)
        gone = await admin.delete_topics([topic, f"{name}-absent"])
        facts["deleted"] = sorted(tuple(each[:2]) for each in gone.topic_error_codes)
    finally:
        await admin.close()
    return facts


async def topics(admin: AIOKafkaAdminClient, topic: str, facts: dict[str, Any]) -> None:
    async def create(*arguments: Any, **more: Any) -> int:
        answer = await admin.create_topics([NewTopic(*arguments, **more)])
        return int(answer.topic_errors[0][1])

    facts["created"] = [
        await create(topic, 3, 3, topic_configs={"retention.ms": "-1"}),
        await create(topic, 3, 3),
        await create("not a name", 3, 3),
        await create(f"{topic}-many", 1, 9),
        await create(f"{topic}-odd", 1, 3, topic_configs={"no.such": "1"}),
    ]
    facts["grown"] = [await word(admin.create_partitions({topic: NewPartitions(count)})) for count in (4, 3)]
    facts["altered"] = []
    for configs in ({"retention.ms": "-1", "max.message.bytes": "2000000"}, {"segment.bytes": "nonsense"}):
        (answer,) = await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)])
        facts["altered"].append([each[0] for each in answer.resources])
    (described,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], True)
    ((_, _, _, _, entries),) = described.resources
    facts["configs"] = sorted([entry[0], entry[1], *entry[2:5], len(entry[5])] for entry in entries)
    (listed,) = await admin.describe_topics([topic])
    facts["partitions"] = sorted([each["partition"], len(each["replicas"])] for each in listed["partitions"])
    facts["brokers"] = len((await admin.describe_cluster())["brokers"])


async def produced(bootstrap: str, topic: str, facts: dict[str, Any]) -> None:
    reports: dict[int, int] = {}
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
        sent = [
            await producer.send(
                topic, b"v%d" % number, b"k%d" % (number % 17), headers=[("n", b"%d" % number)],
                timestamp_ms=FIRST_MS + number,
            )
            for number in range(300)
        ]  # fmt: skip
        for told in await asyncio.gather(*sent):
            reports[told.partition] = max(reports.get(told.partition, 0), told.offset)
    facts["produced"] = dict(sorted(reports.items()))


async def group(
    bootstrap: str, admin: AIOKafkaAdminClient, name: str, topic: str, how: str, facts: dict[str, Any]
) -> None:
    """Two members, until each has two of four partitions and all 300 records were seen."""
    values: set[bytes] = set()
    members = [
        AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest", enable_auto_commit=False,
            session_timeout_ms=10_000, heartbeat_interval_ms=300, **MEMBERS[how](number),
        )
        for number in range(2)
    ]  # fmt: skip

    async def read(member: AIOKafkaConsumer) -> None:
        """Until both have their share, whatever the other's reads."""
        while len(values) < 300 or any(len(each.assignment()) != 2 for each in members):
            for messages in (await member.getmany(timeout_ms=200)).values():
                for message in messages:
                    assert dict(message.headers)["n"] == message.value[1:]
                    values.add(message.value)

    async with contextlib.AsyncExitStack() as stack:
        await asyncio.gather(*(stack.enter_async_context(member) for member in members))
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*(read(member) for member in members))
        (described,) = await admin.describe_consumer_groups([name])
        ((error, _, state, kind, protocol, joined, *_),) = described.groups
        facts[how] = [error, state, kind, protocol, len(joined)]
        for member in members:
            await member.commit()
    facts[f"{how} committed"] = await committed(admin, name)


async def committed(admin: AIOKafkaAdminClient, name: str) -> dict[int, int]:
    found = await admin.list_consumer_group_offsets(name)
    return dict(sorted((at.partition, each.offset) for at, each in found.items()))


async def offsets(bootstrap: str, admin: AIOKafkaAdminClient, name: str, topic: str, facts: dict[str, Any]) -> None:
    first = TopicPartition(topic, 0)
    facts["records deleted"] = list((await admin.delete_records({first: RecordsToDelete(5)})).values())
    facts["too many deleted"] = await word(admin.delete_records({first: RecordsToDelete(10_000)}))
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        facts["earliest"] = list((await consumer.beginning_offsets([first])).values())
        facts["latest"] = list((await consumer.end_offsets([first])).values())
        found = (await consumer.offsets_for_times({first: FIRST_MS + 150}))[first]
        facts["at a time"] = [found.offset, found.timestamp]
    listed = await admin.list_consumer_groups()
    facts["groups"] = sorted(each[:2] for each in listed if each[0].startswith(name))


async def transactions(
    bootstrap: str, admin: AIOKafkaAdminClient, name: str, topic: str, facts: dict[str, Any]
) -> None:
    target, eos, at = f"{name}-target", f"{name}-eos", TopicPartition(topic, 0)
    await admin.create_topics([NewTopic(target, 1, 3)])
    settings = {"bootstrap_servers": bootstrap, "transactional_id": name}
    async with AIOKafkaProducer(**settings) as producer:
        for kept in (True, False, True):
            await producer.begin_transaction()
            for number in range(10):
                await producer.send_and_wait(target, f"{kept} {number}".encode(), partition=0)
            await producer.send_offsets_to_transaction({at: 7 if kept else 99}, eos)
            if kept:
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
        async with AIOKafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as reader:
            reader.assign([TopicPartition(target, 0)])
            async with asyncio.timeout(WAIT_S):
                facts["transacted"] = [(await reader.getone()).value.decode() for _ in range(20)]
        async with asyncio.timeout(WAIT_S):  # the markers follow the answer to the commit
            while await committed(admin, eos) != {0: 7}:  # noqa: ASYNC110 - a fact of other processes
                await asyncio.sleep(0.02)
        facts["sent offsets"] = await committed(admin, eos)
        await producer.begin_transaction()
        await producer.send_and_wait(target, b"zombie", partition=0)
        async with AIOKafkaProducer(**settings):
            facts["fenced"] = await word(producer.commit_transaction())
