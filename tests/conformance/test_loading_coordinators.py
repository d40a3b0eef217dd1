"""The judge's limit `KAFKA-18137`: a coordinator that says for good that it loads is asked in one epoch of its office.

Nobody can make a coordinator's load fail at will: a proxy says in its place what Apache Kafka's says then. All else is
what the brokers, Apache's or ours, say themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections.abc import Iterator

import pytest

from barnabas.client import Cluster, NewTopic, TransactionalProducer, connect
from barnabas.judge.check import check
from barnabas.judge.coordinators_log import coordinators_log
from barnabas.judge.history import APACHE_VERSION, Client, Op, OperationHistory
from barnabas.judge.journal import Notes, now
from barnabas.judge.loading import loading_for_good
from barnabas.judge.proxy import ProxiedClient, Proxy, framed, read_frame
from barnabas.judge.scan import Loading, scan
from barnabas.judge.workload import Work
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.api import ApiKey
from barnabas.wire.frames import decode_request_header, encode_response
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse

STATES = "__transaction_state"
_HEADER = struct.Struct(">hhi")


class Coordinator(ProxiedClient):
    """What a broker says, but to DescribeTransactions, as often as `loading` says."""

    loading = 0
    """How many times it answers that it loads; to be set by each test."""
    asked = threading.Event()

    async def requests(self, behind: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await read_frame(self.reader)
                api_key, version, correlation_id = _HEADER.unpack_from(frame)
                if api_key == ApiKey.DESCRIBE_TRANSACTIONS and Coordinator.loading > 0:
                    Coordinator.loading -= 1
                    Coordinator.asked.set()
                    _, position = decode_request_header(frame)
                    asked, _ = DescribeTransactionsRequest.decode(frame, version, position)
                    states = [
                        DescribeTransactionsResponse.TransactionState(
                            error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, transactional_id=name
                        )
                        for name in asked.transactional_ids
                    ]
                    answer = DescribeTransactionsResponse(transaction_states=states)
                    self._writer.writelines(encode_response(answer, version, correlation_id))
                    continue
                self._asked[correlation_id] = (api_key, version)
                behind.write(framed(frame))


@pytest.fixture(params=["ours", "apaches"])
def proxied(request: pytest.FixtureRequest) -> Iterator[str]:
    async def addresses(bootstrap: str) -> dict[int, tuple[str, int]]:
        async with connect(bootstrap) as cluster:
            brokers = (await cluster.refresh([])).brokers.values()
            return {broker.broker_id: (broker.host, broker.port) for broker in brokers}

    proxy = Proxy(asyncio.run(addresses(request.getfixturevalue(request.param))), link=Coordinator)
    try:
        yield proxy.bootstrap
    finally:
        proxy.close()


async def hung(cluster: Cluster, work: Work, topic: str) -> tuple[TransactionalProducer, int]:
    """Whose transaction of one record hangs, by a history that says that its end was acknowledged; and its id."""
    producer = cluster.transactional_producer(topic)
    await producer.init_transactions()
    await producer.begin_transaction()
    journal = work.notes.journal(Client("transactor", transactional_id=topic))
    value, txn, invoked = work.notes.value(), work.notes.txn(), now()
    delivered = await producer.send(topic, str(value).encode(), partition=0)
    journal.add(Op.SEND, invoked, TopicPartition(topic, 0), offset=delivered.offset, value=value, txn=txn)
    journal.add(Op.COMMIT, now(), txn=txn, name=topic)
    (described,) = (await cluster.admin.describe_transactions([topic])).values()
    return producer, described.producer_id


async def seen(bootstrap: str, loading: int, lasting_s: float) -> tuple[int, dict[int, int], OperationHistory]:
    """The producer of a transaction that hangs, those whose coordinators say that they load, with the epoch of each
    office, and the history of it."""
    topic = f"loading-{loading}"
    work = Work(bootstrap, Notes({topic: {}}, {APACHE_VERSION: "3.9.2"}), {"list-append": topic}, 1)
    Coordinator.loading = 0
    async with connect(bootstrap) as cluster:
        await cluster.admin.create_topics([NewTopic(topic, partitions=1, replication_factor=3)])
        producer, producer_id = await hung(cluster, work, topic)
        log = await coordinators_log(work)
        Coordinator.loading = loading
        told = await loading_for_good(work, log, lasting_s)
        Coordinator.loading = 0
        epochs = {office.at: office.leader_epoch for office in told.values()}
        known = await cluster.refresh([STATES])
        assert epochs == {at: known.leader_epoch(at) for at in epochs}
        assert all(office.until - office.since >= lasting_s * 10**9 for office in told.values())
        await scan(work, (), told)
        await producer.abort_transaction()
    return producer_id, {one: office.leader_epoch for one, office in told.items()}, work.notes.history()


@pytest.mark.timeout(180)
def test_a_transaction_whose_coordinator_says_all_the_time_that_it_loads_is_noted_where_it_hangs(proxied: str) -> None:
    producer_id, told, history = asyncio.run(seen(proxied, 1_000_000, 1.0))
    assert list(told) == [producer_id]
    (row,) = history.rows(Op.LOADING)
    assert (history.place_name(history.place[row]), history.offset[row]) == ("loading-1000000/0", told[producer_id])
    assert history.names[history.name[row]].startswith(f"{STATES}-")
    (hanging,) = check(history).anomalies
    assert hanging.anomaly == "hanging-transaction", "it was asked for a second, which proves nothing"
    history.completed[row] = history.invoked[row] + 30 * 10**9
    assert [(each.anomaly, each.limit) for each in check(history).limits] == [("hanging-transaction", "KAFKA-18137")]


@pytest.mark.timeout(180)
def test_one_that_loads_for_a_while_or_not_at_all_is_not(proxied: str) -> None:
    for loading in (0, 1):
        _, told, history = asyncio.run(seen(proxied, loading, 1.0))
        assert not told
        assert not len(history.rows(Op.LOADING))
        assert [(each.anomaly, each.limit) for each in check(history).anomalies] == [("hanging-transaction", None)]


async def moved(bootstrap: str) -> dict[int, Loading]:
    """What comes of asking a coordinator whose partition has another epoch and leader while it is asked."""
    topic = "loading-moved"
    work = Work(bootstrap, Notes({topic: {}}), {"list-append": topic}, 1)
    Coordinator.loading = 0
    async with connect(bootstrap) as cluster:
        await cluster.admin.create_topics([NewTopic(topic, partitions=1, replication_factor=3)])
        producer, _ = await hung(cluster, work, topic)
        log = await coordinators_log(work)
        at = next(at for at, written in log.items() if topic in dict(written))
        leader = (await cluster.refresh([STATES])).leader(at)
        replicas = cluster.metadata.topics[STATES].partitions[at.partition].replicas
        Coordinator.loading = 1_000_000
        Coordinator.asked.clear()
        asking = asyncio.create_task(loading_for_good(work, log, 60.0))
        await asyncio.to_thread(Coordinator.asked.wait, 60)
        await cluster.admin.alter_reassignments({at: [*(broker for broker in replicas if broker != leader), leader]})
        await cluster.admin.elect_leaders([at])
        told = await asking
        Coordinator.loading = 0
        await producer.abort_transaction()
    return told


@pytest.mark.timeout(180)
def test_one_that_loses_its_office_while_it_is_asked_is_not(proxied: str) -> None:
    assert not asyncio.run(moved(proxied))
