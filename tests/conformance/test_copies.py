"""The judge's limit `librdkafka-new-epoch`: brokers, Apache's and ours, take a record again under another epoch of its
producer, as librdkafka sends it; and what is noted of the batches tells that from another duplicate, also where one of
the two copies was deleted or compacted away before the scan.

What librdkafka does by itself, once in an hour under faults, is done here batch by batch.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Sequence
from functools import partial

import pytest

from barnabas.client import Cluster, NewTopic, TopicPartition, connect
from barnabas.client.offsets import READ_UNCOMMITTED
from barnabas.judge.check import check
from barnabas.judge.following import follow
from barnabas.judge.history import Client, Op
from barnabas.judge.journal import Journal, Notes, now
from barnabas.judge.librdkafka import THEIRS
from barnabas.judge.scan import fetch, scan
from barnabas.judge.workload import Work, encoded, noted
from barnabas.judge.workloads import COMPACTION, DELETION, WORKLOADS
from barnabas.model.errors import check_code
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, batches, build_batch


async def producer_id(cluster: Cluster, at: TopicPartition) -> int:
    answer = await (await cluster.leader(at)).send(InitProducerIdRequest(None, 60_000), 4, 30_000)
    check_code(answer.error_code, what="no producer id")
    assert answer.producer_epoch == 0
    found: int = answer.producer_id
    return found


async def produce(
    cluster: Cluster, at: TopicPartition, values: Sequence[int], batch: tuple[int, int, int], key: int | None = None
) -> int:
    """Where the first of them stands. `batch` is its producer id, epoch and base sequence."""
    written_at = time.time_ns() // 1_000_000
    key_of_all = None if key is None else encoded(key)
    records = [Record(offset, written_at, key_of_all, encoded(value)) for offset, value in enumerate(values)]
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
    told = [
        (int(history.value[row]), int(history.offset[row]), history.names[history.name[row]])
        for row in history.rows(Op.COPY)
    ]
    assert sorted(told) == [
        (2, 1, f"{producer}/0/1"),
        (2, 3, f"{producer}/{epochs[1]}/{first}"),
        (3, 2, f"{producer}/0/1"),
        (3, 4, f"{producer}/{epochs[1]}/{first + 1}"),
    ]
    verdict = check(history)
    assert [(each.anomaly, each.limit, each.count) for each in (*verdict.anomalies, *verdict.limits)] == [
        ("duplicate", limit, 2)
    ]


FIRST, TWICE, KEPT = 1, 2, 3
"""The value of the first record, of the one that is written twice, and of the one behind both."""


async def read_by_somebody(cluster: Cluster, work: Work, at: TopicPartition, count: int) -> None:
    journal = work.notes.journal(Client("reader"))
    consumer = cluster.consumer(at.topic, auto_offset_reset="earliest")
    left = count
    while left:
        invoked = now()
        records = await consumer.poll(1_000)
        noted(journal, invoked, records)
        left -= len(records)
    await consumer.close()


async def compacted(cluster: Cluster, work: Work, at: TopicPartition, producer: int, journal: Journal) -> None:
    """Returns when both copies have gone: what is written meanwhile has their key, and closes the segment that they are
    in."""
    values, sequence = itertools.count(KEPT + 1), itertools.count(2)
    while True:
        data = (await fetch(cluster, at, 1, READ_UNCOMMITTED)).records or b""
        if all(header.base_offset > 2 for header, _, _ in batches(data)):
            return
        value, invoked = next(values), now()
        offset = await produce(cluster, at, (value,), (producer, 1, next(sequence)), key=TWICE)
        journal.add(Op.SEND, invoked, at, offset=offset, value=value, key=TWICE)
        await cluster.pause(500)


async def copies_go(bootstrap: str, topic: str, workload: str, epoch: int, followed: bool) -> tuple[Work, int]:
    """Value 2 is sent under epoch 0, and again under `epoch`; everybody reads both, and then the first of them is
    deleted, or both are compacted away."""
    at, stop = TopicPartition(topic, 0), threading.Event()
    config = {**WORKLOADS[workload], "segment.ms": "100"}
    work = Work(bootstrap, Notes({topic: config}), {workload: topic}, 1, pause_s=0.02, stopping=stop.is_set)
    journal = work.notes.journal(Client("writer", THEIRS))
    async with connect(bootstrap) as cluster:
        await cluster.admin.create_topics([NewTopic(topic, partitions=1, replication_factor=3, configs=config)])
        producer = await cluster.retrying(partial(producer_id, cluster, at), timeout_ms=60_000)
        following = asyncio.create_task(follow(work, "follower")) if followed else None
        sent = now()
        first = partial(produce, cluster, at, (FIRST,), (producer, 0, 0), key=FIRST)
        await cluster.retrying(first, timeout_ms=60_000)
        assert await produce(cluster, at, (TWICE,), (producer, 0, 1), key=TWICE) == 1
        again = 0 if epoch else 2
        assert await produce(cluster, at, (TWICE,), (producer, epoch, again), key=TWICE) == 2
        assert await produce(cluster, at, (KEPT,), (producer, epoch, again + 1), key=KEPT) == 3
        for value, offset in ((FIRST, 0), (TWICE, 2), (KEPT, 3)):
            journal.add(Op.SEND, sent, at, offset=offset, value=value, key=value)
        await read_by_somebody(cluster, work, at, 4)
        while followed and len(list(work.batches[at].copies())) < 2:
            await cluster.pause(10)
        if workload == COMPACTION:
            await compacted(cluster, work, at, producer, journal)
        else:
            deleting = now()
            assert not isinstance((await cluster.admin.delete_records({at: 2}))[at], Exception)
            journal.add(Op.DELETE, deleting, at, offset=2)
        stop.set()
        if following is not None:
            await following
    await scan(work)
    return work, producer


@pytest.mark.parametrize(
    ("workload", "epoch", "followed", "limit"),
    [
        (DELETION, 1, True, "librdkafka-new-epoch"),
        (DELETION, 0, True, None),
        (DELETION, 1, False, None),
        (COMPACTION, 1, True, "librdkafka-new-epoch"),
    ],
)
@pytest.mark.parametrize("brokers", ["ours", "apaches"])
@pytest.mark.timeout(300)
def test_a_copy_that_has_gone_before_the_scan_is_told_where_it_was_followed(
    brokers: str, workload: str, epoch: int, followed: bool, limit: str | None, request: pytest.FixtureRequest
) -> None:
    topic = f"gone-{workload}-{epoch}-{followed}"
    work, producer = asyncio.run(copies_go(request.getfixturevalue(brokers), topic, workload, epoch, followed))
    history = work.notes.history()
    told = [
        (int(history.value[row]), int(history.offset[row]), history.names[history.name[row]])
        for row in history.rows(Op.COPY)
    ]
    both = [(TWICE, 1, f"{producer}/0/1"), (TWICE, 2, f"{producer}/{epoch}/{0 if epoch else 2}")]
    assert told == (both if followed else [])
    scanned = history.rows(Op.READ)
    scanned = scanned[[history.context.clients[each].name == "scan" for each in history.process[scanned]]]
    assert 1 not in history.offset[scanned]
    verdict = check(history)
    assert [(each.anomaly, each.limit, each.count) for each in (*verdict.anomalies, *verdict.limits)] == [
        ("duplicate", limit, 1)
    ]
