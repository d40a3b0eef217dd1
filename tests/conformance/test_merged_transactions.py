"""The judge's limit `KAFKA-18137`: that a coordinator held a transaction past its acknowledged end is read off the log
that Apache's and ours keep.

Nobody can make a coordinator's load come late at will. So the history lies: it has an acknowledged end that no client
asked for, between two records of one transaction, and what the log has of it is the brokers' own.
"""

from __future__ import annotations

import asyncio

import pytest

from barnabas.client import Cluster, NewTopic, TopicPartition, connect
from barnabas.judge.check import check
from barnabas.judge.coordinators_log import coordinators_log
from barnabas.judge.history import APACHE_VERSION, Client, Op, OperationHistory
from barnabas.judge.journal import Journal, Notes, now
from barnabas.judge.merged import note_merged
from barnabas.judge.scan import scan, wait_until_settled
from barnabas.judge.workload import Work

STATES = "__transaction_state"


async def move(cluster: Cluster, at: TopicPartition) -> None:
    """Another broker leads it, in another epoch."""
    known = await cluster.refresh([STATES])
    leader, epoch = known.leader(at), known.leader_epoch(at)
    replicas = known.topics[STATES].partitions[at.partition].replicas
    await cluster.admin.alter_reassignments({at: [*(broker for broker in replicas if broker != leader), leader]})
    await cluster.admin.elect_leaders([at])
    while (known := await cluster.refresh([STATES])).leader_epoch(at) <= epoch or known.leader(at) == leader:
        await cluster.pause(50)


async def held_past_its_end(bootstrap: str, topic: str, moved: bool) -> OperationHistory:
    """Two transactions by the history, and one by the coordinator, whose office changes between them where it moved."""
    at = TopicPartition(topic, 0)
    work = Work(bootstrap, Notes({topic: {}}, {APACHE_VERSION: "3.9.2"}), {"list-append": topic}, 1)
    journal = work.notes.journal(Client("transactor", transactional_id=topic))
    async with connect(bootstrap) as cluster:
        await cluster.admin.create_topics([NewTopic(topic, partitions=1, replication_factor=3)])
        producer = cluster.transactional_producer(topic)
        await producer.init_transactions()
        await producer.begin_transaction()

        async def send(txn: int) -> None:
            value, invoked = work.notes.value(), now()
            delivered = await producer.send(topic, str(value).encode(), partition=0)
            journal.add(Op.SEND, invoked, at, offset=delivered.offset, value=value, txn=txn)

        await send(1)
        await cluster.pause(10)
        _end(journal, 1, topic, now())
        await cluster.pause(10)
        if moved:
            log = await coordinators_log(work)
            await move(cluster, next(place for place, written in log.items() if topic in dict(written)))
        await send(2)
        invoked = now()
        await producer.commit_transaction()
        _end(journal, 2, topic, invoked)
        assert await wait_until_settled(work) == ()
        note_merged(work, await coordinators_log(work))
        await scan(work)
    return work.notes.history()


def _end(journal: Journal, txn: int, name: str, invoked: int) -> None:
    journal.add(Op.COMMIT, invoked, txn=txn, name=name)


@pytest.mark.parametrize("moved", [True, False])
@pytest.mark.parametrize("brokers", ["ours", "apaches"])
@pytest.mark.timeout(180)
def test_what_was_held_for_open_in_two_epochs_is_told_of_the_transaction_that_was_ended_between(
    brokers: str, moved: bool, request: pytest.FixtureRequest
) -> None:
    topic = f"merged-{moved}"
    history = asyncio.run(held_past_its_end(request.getfixturevalue(brokers), topic, moved))
    rows = history.rows(Op.MERGED)
    told = [(history.place_name(history.place[row]), history.names[history.name[row]]) for row in rows]
    assert told == ([(f"{topic}/0", topic)] if moved else [])
    verdict = check(history)
    assert [(each.anomaly, each.limit, each.count) for each in (*verdict.anomalies, *verdict.limits)] == [
        ("hanging-transaction", "KAFKA-18137" if moved else None, 1)
    ]
