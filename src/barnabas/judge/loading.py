"""Finds coordinators that load their partition of ``__transaction_state`` for ever (KAFKA-18137), by their own answers.

In Apache Kafka before 4.0 a failed load (it may ask ZooKeeper in an expired session, for example) leaves its entry in
``loadingPartitions``. Unloading removes only the entry of the epoch that ends. From then on the broker, whenever it is
the partition's coordinator, answers every request with COORDINATOR_LOAD_IN_PROGRESS, even its own search for expired
transactions. Nobody ends the open transactions of the partition.

The log does not show whether a transaction is lost in this way or in another. So the check uses the coordinator's
answers, in one epoch and for longer than any load of a run's log takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from barnabas.client import Cluster, TopicPartition
from barnabas.judge.coordinators_log import OPEN, Written, WrittenState
from barnabas.judge.endings import LOADS_S
from barnabas.judge.journal import now
from barnabas.judge.scan import Loading
from barnabas.judge.workload import TROUBLE, Work
from barnabas.model.errors import ErrorCode
from barnabas.model.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest

_VERSION = 0
_REQUEST_MS = 10_000


async def loading_for_good(
    work: Work, log: Mapping[TopicPartition, Sequence[Written]], lasting_s: float = LOADS_S
) -> dict[int, Loading]:
    """The transactions that are open or prepared by the coordinators' `log`, and whose coordinator answers for
    `lasting_s`, in one epoch of its partition, that it loads; by producer id."""
    newest: dict[TopicPartition, dict[str, WrittenState | None]] = {at: dict(written) for at, written in log.items()}
    wanted = {
        at: {name: told.producer_id for name, told in ids.items() if told is not None and told.status in OPEN}
        for at, ids in newest.items()
    }
    wanted = {at: ids for at, ids in wanted.items() if ids}
    async with work.connect() as cluster:
        told = await asyncio.gather(*(_loading(cluster, at, ids, lasting_s) for at, ids in wanted.items()))
    return {
        producer_id: loading
        for ids, loading in zip(wanted.values(), told, strict=True)
        if loading is not None
        for producer_id in ids.values()
    }


async def _loading(cluster: Cluster, at: TopicPartition, ids: Collection[str], lasting_s: float) -> Loading | None:
    """None if the coordinator gives another answer or none, or its epoch changes."""
    office, since, until = None, 0, 0
    try:
        while True:
            known = await cluster.refresh([TRANSACTION_STATE_TOPIC])
            held = known.leader(at), known.leader_epoch(at)
            if office not in (None, held):
                return None
            office = held
            if since and until - since >= lasting_s * 10**9:
                return Loading(at, known.leader_epoch(at), since, until)
            coordinator = await cluster.leader(at)
            until = now()
            request = DescribeTransactionsRequest(transactional_ids=list(ids))
            answer = await coordinator.send(request, _VERSION, _REQUEST_MS)
            codes = {state.error_code for state in answer.transaction_states}
            if codes != {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
                return None
            since = since or now()
            await asyncio.sleep(min(1.0, lasting_s / 4))
    except TROUBLE:
        return None  # a coordinator that does not answer proves nothing
