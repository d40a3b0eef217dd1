"""The judge's limit `librdkafka-new-epoch`: brokers, Apache's and ours, take a record again under another epoch of its
producer, as librdkafka sends it; and what the scan notes of the batches tells that from another duplicate.

What librdkafka does by itself, once in an hour under faults, is done here batch by batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest

from barnabas.client import Cluster, NewTopic, TopicPartition, connect
from barnabas.judge.check import check
from barnabas.judge.history import Client, Op
from barnabas.judge.journal import Notes, now
from barnabas.judge.librdkafka import THEIRS
from barnabas.judge.scan import scan
from barnabas.judge.workload import Work, encoded
from barnabas.model.errors import check_code
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch


async def producer_id(cluster: Cluster, at: TopicPartition) -> int:
    answer = await (await cluster.leader(at)).send(InitProducerIdRequest(None, 60_000), 4, 30_000)
    check_code(answer.error_code, what="no producer id")
    assert answer.producer_epoch == 0
    found: int = answer.producer_id
    return found


async def produce(cluster: Cluster, at: TopicPartition, values: Sequence[int], batch: tuple[int, int, int]) -> int:
    """Where the first of them stands. `batch` is its producer id, epoch and base sequence."""
    records = [Record(offset, 0, None, encoded(value)) for offset, value in enumerate(values)]
    names = ("producer_id", "producer_epoch", "base_sequence")
    data = build_batch(records, **dict(zip(names, batch, strict=True)))
    partition = ProduceRequest.PartitionProduceData(at.partition, data)
    request = ProduceRequest(None, -1, 30_000, [ProduceRequest.TopicProduceData(at.topic, [partition])])
    part = (await (await cluster.leader(at)).send(request, 9, 60_000)).responses[0].partition_responses[0]
    check_code(part.error_code, what=at)
    offset: int = part.base_offset
    return offset


async def written(bootstrap: str, topic: str, epochs: tuple[int, int]) -> tuple[Work, int]:
    """Values 1 to 4, of which 2 and 3 are sent once more, by themselves or under the next epoch."""
    at = TopicPartition(topic, 0)
    work = Work(bootstrap, Notes({topic: {}}), {"registers": topic}, 1)
    journal = work.notes.journal(Client("writer", THEIRS))
    async with connect(bootstrap) as cluster:
        await cluster.admin.create_topics([NewTopic(topic, partitions=1, replication_factor=3)])
        producer = await cluster.retrying(partial(producer_id, cluster, at), timeout_ms=60_000)
        sent = {value: now() for value in (1, 2, 3, 4)}
        # A leader may hear later than the controller answers that there is such a topic.
        first = partial(produce, cluster, at, (1,), (producer, epochs[0], 0))
        offsets = {1: await cluster.retrying(first, timeout_ms=60_000)}
        assert await produce(cluster, at, (2, 3), (producer, epochs[0], 1)) == 1
        # A repetition is known again: it is answered, and not written.
        assert await produce(cluster, at, (2, 3), (producer, epochs[0], 1)) == 1
        again = 0 if epochs[1] > epochs[0] else 3
        offsets[2] = await produce(cluster, at, (2,), (producer, epochs[1], again))
        offsets[3] = await produce(cluster, at, (3, 4), (producer, epochs[1], again + 1))
        offsets[4] = offsets[3] + 1
        for value, invoked in sent.items():
            journal.add(Op.SEND, invoked, at, offset=offsets[value], value=value)
    await scan(work)
    return work, producer


@pytest.mark.parametrize(("epochs", "limit"), [((0, 1), "librdkafka-new-epoch"), ((0, 0), None)])
@pytest.mark.parametrize("brokers", ["ours", "apaches"])
@pytest.mark.timeout(300)
def test_what_stands_twice_is_the_clients_own_work_under_another_epoch_and_not_under_one(
    brokers: str, epochs: tuple[int, int], limit: str | None, request: pytest.FixtureRequest
) -> None:
    topic = f"copies-{brokers}-{epochs[1]}"
    work, producer = asyncio.run(written(request.getfixturevalue(brokers), topic, epochs))
    history = work.notes.history()
    first = 0 if epochs[1] else 3
    noted = [
        (int(history.value[row]), int(history.offset[row]), history.names[history.name[row]])
        for row in history.rows(Op.COPY)
    ]
    assert sorted(noted) == [
        (2, 1, f"{producer}/0/1"),
        (2, 3, f"{producer}/{epochs[1]}/{first}"),
        (3, 2, f"{producer}/0/1"),
        (3, 4, f"{producer}/{epochs[1]}/{first + 1}"),
    ]
    verdict = check(history)
    assert [(each.anomaly, each.limit, each.count) for each in (*verdict.anomalies, *verdict.limits)] == [
        ("duplicate", limit, 2)
    ]
