"""The judge's limit `KAFKA-18137`: what a coordinator wrote over is read off the log that Apache's and ours keep.

Nobody can make a coordinator forget at will: a client whose id is ``__admin_client`` writes into the coordinators' log
what one with an empty cache writes there, a new producer's state over that of an open transaction.
"""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import Producer

from barnabas.client import NewTopic, ProducerFenced, connect
from barnabas.coordinator.group_answers import partition_for
from barnabas.coordinator.transaction_records import transaction_record
from barnabas.coordinator.transactions import TransactionMetadata
from barnabas.judge.coordinators_log import coordinators_log
from barnabas.judge.forgotten import written_over
from barnabas.judge.history import Op
from barnabas.judge.journal import Notes
from barnabas.judge.scan import scan
from barnabas.judge.workload import Work


def write_over(bootstrap: str, transactional_id: str, producer_id: int, partitions: int) -> None:
    key, value = transaction_record(transactional_id, TransactionMetadata(producer_id, 0, 60_000))
    writer = Producer({"bootstrap.servers": bootstrap, "client.id": "__admin_client", "acks": "all"})
    outcomes: list[object] = []
    writer.produce(
        "__transaction_state", value, key, partition_for(transactional_id, partitions),
        on_delivery=lambda error, _: outcomes.append(error),
    )  # fmt: skip
    assert writer.flush(30) == 0
    assert outcomes == [None]


async def forgotten_producers(work: Work) -> set[int]:
    return {producer_id for written in (await coordinators_log(work)).values() for producer_id in written_over(written)}


async def forgotten(bootstrap: str, name: str) -> tuple[int, list[int], list[int]]:
    """The producer id of a transaction that was written over; what the log tells; and the values that a scan notes."""
    topic = f"{name}-forgotten"
    work = Work(bootstrap, Notes({topic: {}}), {"list-append": topic}, 1)
    async with connect(bootstrap) as cluster:
        await cluster.admin.create_topics([NewTopic(topic, partitions=1, replication_factor=3)])
        remembered = cluster.transactional_producer(f"{name}-remembered")
        await remembered.init_transactions()
        for value in (1, 2):
            await remembered.begin_transaction()
            await remembered.send(topic, str(value).encode(), partition=0)
            await (remembered.commit_transaction() if value == 1 else remembered.abort_transaction())
        # Another one of this id ends what is open, which is nothing that was forgotten.
        await remembered.begin_transaction()
        await remembered.send(topic, b"3", partition=0)
        again = cluster.transactional_producer(f"{name}-remembered")
        await again.init_transactions()
        await again.begin_transaction()
        await again.send(topic, b"4", partition=0)
        await again.commit_transaction()
        with pytest.raises(ProducerFenced):
            await remembered.abort_transaction()
        before = await forgotten_producers(work)
        open_still = cluster.transactional_producer(f"{name}-forgotten")
        await open_still.init_transactions()
        await open_still.begin_transaction()
        await open_still.send(topic, b"5", partition=0)
        (described,) = (await cluster.admin.describe_transactions([f"{name}-forgotten"])).values()
        states = len((await cluster.refresh(["__transaction_state"])).partitions("__transaction_state"))
        await asyncio.to_thread(write_over, bootstrap, f"{name}-forgotten", described.producer_id + 1_000_000, states)
        after = await forgotten_producers(work)
        await scan(work, after)
        await open_still.abort_transaction()
    history = work.notes.history()
    return described.producer_id, sorted(after - before), history.value[history.rows(Op.FORGOTTEN)].tolist()


@pytest.mark.parametrize("brokers", ["ours", "apaches"])
@pytest.mark.timeout(180)
def test_what_was_written_over_is_told_of_the_partitions_that_wait_for_its_end(
    brokers: str, request: pytest.FixtureRequest
) -> None:
    producer_id, found, values = asyncio.run(forgotten(request.getfixturevalue(brokers), brokers))
    assert found == [producer_id]
    assert values == [5]
