"""The workloads of compaction and of deletion: what their clients write down, on clusters that live."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import pytest

from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.judge import bank, librdkafka, librdkafka_bank, librdkafka_copier, workload
from barnabas.judge import scan as judge_scan
from barnabas.judge.check import JudgeVerdict, check
from barnabas.judge.deletions import acknowledged_deletes
from barnabas.judge.history import TOMBSTONE, Op, OperationHistory, Status
from barnabas.judge.journal import Notes
from barnabas.judge.scan import scan, wait_until_settled
from barnabas.judge.seen import Seen
from barnabas.judge.workload import Work
from barnabas.judge.workloads import BANK, COMPACTION, DELETION, LIST_APPEND, REGISTERS, WORKLOADS
from barnabas.testing import KafkaCluster

PATIENCE_S = 120


def ours(kind: Callable[..., object], *words: object) -> Callable[[], object]:
    return lambda: asyncio.run(kind(*words))  # type: ignore[arg-type]


def worked(
    cluster: KafkaCluster,
    kind: str,
    clients: Callable[[Work], list[Callable[[], object]]],
    done: Callable[[OperationHistory], bool],
    pause_s: float = 0.1,
) -> JudgeVerdict:
    """Clients at work until the history shows what it is to; then everything is read, and judged."""
    topics = {kind: WORKLOADS[kind]}
    cluster.create_topic(kind, partitions=1, replication_factor=3, config=dict(WORKLOADS[kind]))
    stop = threading.Event()
    work = Work(cluster.bootstrap, Notes(topics), {kind: kind}, 1, pause_s=pause_s, stopping=stop.is_set)
    threads = [threading.Thread(target=each) for each in clients(work)]
    for each in threads:
        each.start()
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not done(work.notes.history()):
            assert time.monotonic() < deadline, "the clients have not come to it"
            stop.wait(0.3)
    finally:
        stop.set()
        for each in threads:
            each.join(PATIENCE_S)
    assert not asyncio.run(wait_until_settled(work))
    asyncio.run(scan(work))
    verdict = check(work.notes.history())
    assert verdict.good, [each.examples for each in verdict.anomalies]
    return verdict


def test_a_producer_that_librdkafka_ends_gives_way_to_another(kafka_cluster: KafkaCluster) -> None:
    """It takes OUT_OF_ORDER_SEQUENCE_NUMBER for fatal, which a leader may answer that has just been deposed."""
    fault = None

    def done(history: OperationHistory) -> bool:
        nonlocal fault
        acknowledged = (history.op == Op.SEND) & (history.status == Status.OK)
        if fault is None and acknowledged.any():
            fault = kafka_cluster.fail("PRODUCE", "OUT_OF_ORDER_SEQUENCE_NUMBER")
        clients = {history.process[index] for index in np.flatnonzero(acknowledged)}
        return fault is not None and fault.hits == 1 and len(clients) > 1

    worked(kafka_cluster, REGISTERS, lambda work: [partial(librdkafka.write, work, "writer")], done)


def test_a_copier_whose_commit_comes_to_nothing_reads_again_what_it_had_read(kafka_cluster: KafkaCluster) -> None:
    fault = None
    spoilt = 0

    def done(history: OperationHistory) -> bool:
        """Records have failed, which shows when the transaction is to be committed, and copiers have gone on."""
        nonlocal fault, spoilt
        commits = history.rows(Op.COMMIT_OFFSET)
        if fault is None and len(commits):
            fault = kafka_cluster.fail("PRODUCE", "INVALID_RECORD", times=12)
        if fault is not None and fault.hits == 12 and not spoilt:
            spoilt = len(commits)
        return 0 < spoilt < len(commits) - 4

    def clients(work: Work) -> list[Callable[[], object]]:
        return [ours(workload.transact, work, "writer"), ours(workload.transact, work, "copier", "copiers")]

    worked(kafka_cluster, LIST_APPEND, clients, done, pause_s=0.002)


@pytest.mark.parametrize("driver", ["barnabas.client", "librdkafka"])
def test_the_compacted_topic_is_compacted_and_judged_with_its_tombstones(
    kafka_cluster: KafkaCluster, driver: str
) -> None:
    def clients(work: Work) -> list[Callable[[], object]]:
        if driver == "librdkafka":
            return [partial(librdkafka.write, work, "writer", COMPACTION)]
        return [ours(workload.write, work, "writer", COMPACTION)]

    def done(history: OperationHistory) -> bool:
        """Kafka's cleaner has made away with most of what was sent."""
        sent = int(np.count_nonzero((history.op == Op.SEND) & (history.status == 0)))
        return sent > 300 and len(kafka_cluster.records(COMPACTION)) < sent - 100

    history = worked(kafka_cluster, COMPACTION, clients, done).history
    seen = Seen(history)
    bare = seen.sends[history.name[seen.sends] == history.names.index(TOMBSTONE)]
    assert (seen.offset_all[bare] >= 0).any()
    assert (seen.offset_all[seen.sends] < 0).sum() > 100


@pytest.mark.parametrize("driver", ["barnabas.client", "librdkafka"])
def test_what_is_deleted_stays_away_and_the_rest_is_there(kafka_cluster: KafkaCluster, driver: str) -> None:
    def clients(work: Work) -> list[Callable[[], object]]:
        reader = ours(workload.consume, work, "reader", DELETION, "group", "read_uncommitted")
        if driver == "librdkafka":
            theirs = partial(librdkafka.write, work, "writer", DELETION), partial(librdkafka.delete, work, "deleter")
            return [reader, *theirs]
        return [
            reader,
            ours(workload.write, work, "writer", DELETION),
            ours(workload.delete, work, "deleter"),
            ours(workload.observe, work, "observer"),
        ]

    def done(history: OperationHistory) -> bool:
        """What was deleted is more than a record or two."""
        deletes = acknowledged_deletes(Seen(history))
        return len(deletes) > 3 and history.offset[deletes].max() > 20

    verdict = worked(kafka_cluster, DELETION, clients, done)
    judged = {each.anomaly: each.evaluated for each in verdict.judged}
    assert judged["deleted-read"] > 0
    assert judged["lost-write"] > 0


@pytest.mark.parametrize("teller", [bank.tell, librdkafka_bank.tell], ids=["barnabas.client", "librdkafka"])
def test_tellers_move_money_and_every_total_is_the_first_one(
    kafka_cluster: KafkaCluster, teller: Callable[..., object]
) -> None:
    """Each begins anew once, and reads what it has."""
    stops = [threading.Event(), threading.Event()]

    def clients(work: Work) -> list[Callable[[], object]]:
        def one_after_another() -> None:
            for stop in stops:

                def stopping(stop: threading.Event = stop) -> bool:
                    return stop.is_set() or work.stopping()

                told = teller(dataclasses.replace(work, stopping=stopping), "bank", 0)
                if told is not None:
                    asyncio.run(told)  # type: ignore[arg-type]

        return [one_after_another]

    def done(history: OperationHistory) -> bool:
        commits = int(np.count_nonzero((history.op == Op.COMMIT) & (history.status == Status.OK)))
        if commits >= 5:
            stops[0].set()
        return bool(history.rows(Op.TOTAL).size) and commits >= 8

    verdict = worked(kafka_cluster, BANK, clients, done)
    judged = {each.anomaly: each.evaluated for each in verdict.judged}
    assert judged["lost-update"] > 6
    assert judged["wrong-total"] >= 1
    totals = verdict.history.rows(Op.TOTAL)
    assert set(verdict.history.offset[totals].tolist()) == {bank.ACCOUNTS * bank.OPENED_WITH}


def test_librdkafka_processes_each_record_once_in_transactions_that_commit_its_offsets(
    kafka_cluster: KafkaCluster,
) -> None:
    def clients(work: Work) -> list[Callable[[], object]]:
        copiers = [partial(librdkafka_copier.copy, work, f"copier-{number}", "copiers") for number in range(2)]
        return [ours(workload.transact, work, "transactor"), *copiers]

    def done(history: OperationHistory) -> bool:
        """Some transactions of theirs were committed, and some aborted."""
        mine = np.array([each.group is not None for each in history.context.clients] + [False])
        ends = [history.rows(op) for op in (Op.COMMIT, Op.ABORT)]
        return all(np.count_nonzero(mine[history.process[rows]]) >= 3 for rows in ends)

    verdict = worked(kafka_cluster, LIST_APPEND, clients, done)
    judged = {each.anomaly: each.evaluated for each in verdict.judged}
    assert judged["reprocessed-record"] > 0
    assert judged["unprocessed-record"] > 0


@pytest.mark.parametrize("counts", [True, False], ids=["as it is", "offsets of transactions do not count"])
def test_at_the_end_each_group_is_asked_for_the_offsets_that_its_transactions_have_committed(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch, counts: bool
) -> None:
    """The bug (KAFKA-17507's kin) keeps a group from being told anything: no member of it ever finds out."""
    if not counts:
        completed = GroupCoordinator.transaction_completed
        uncounted: set[int] = set()

        def of_the_first_aborted_alone(
            groups: GroupCoordinator, producer_id: int, numbers: Iterable[int], committed: bool
        ) -> None:
            if committed:
                uncounted.add(producer_id)
            elif producer_id not in uncounted:  # what it aborts later would take its committed offsets along
                # A copier that aborts first would wait for its offsets for ever, and never commit any.
                completed(groups, producer_id, numbers, committed)

        monkeypatch.setattr(GroupCoordinator, "transaction_completed", of_the_first_aborted_alone)
        monkeypatch.setattr(judge_scan, "PATIENCE_S", 1)
    kafka_cluster.create_topic(LIST_APPEND, partitions=1, replication_factor=3)
    stop = threading.Event()
    work = Work(kafka_cluster.bootstrap, Notes({LIST_APPEND: {}}), {LIST_APPEND: LIST_APPEND}, 1, stopping=stop.is_set)

    def committed() -> int:
        history = work.notes.history()
        rows = history.rows(Op.COMMIT_OFFSET)
        ended = history.rows(Op.COMMIT)
        return len(
            set(history.txn[rows].tolist()) & set(history.txn[ended[history.status[ended] == Status.OK]].tolist())
        )

    async def both() -> None:
        await asyncio.gather(workload.transact(work, "writer"), workload.transact(work, "copier", "copiers"))

    at_work = threading.Thread(target=lambda: asyncio.run(both()))
    at_work.start()
    deadline = time.monotonic() + PATIENCE_S
    while not committed():
        assert time.monotonic() < deadline, "no transaction has committed offsets"
        stop.wait(0.2)
    stop.set()
    at_work.join(PATIENCE_S)
    assert asyncio.run(judge_scan.ask_groups(work)) == (() if counts else ("copiers",))
    found = {each.anomaly: each for each in check(work.notes.history()).anomalies}
    assert set(found) == (set() if counts else {"stale-committed-offset"})
