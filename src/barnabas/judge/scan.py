"""The end of a run: every partition is read once from its start to its end, including the markers of transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from barnabas.client import Cluster, TopicPartition
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from barnabas.client.positions import read
from barnabas.judge.copies import Batches
from barnabas.judge.history import NONE, Client, Op
from barnabas.judge.journal import Journal, now
from barnabas.judge.workload import OURS, TROUBLE, Work, decoded, value_of
from barnabas.model.errors import check_code
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.records import batches, records_of

PATIENCE_S: Final = 120
"""How long the cluster may take to recover, and to end open transactions."""
_FETCH_VERSION: Final = 11
_FETCH_BYTES: Final = 1 << 20


class Loading(NamedTuple):
    """A coordinator always answered that it loads, from `since` to `until`."""

    at: TopicPartition
    """The partition of ``__transaction_state`` that it coordinates."""
    leader_epoch: int
    since: int
    until: int


async def wait_until_settled(work: Work) -> tuple[str, ...]:
    """Waits until every partition answers and its last stable offset is its end; returns those that take too long."""
    deadline = now() + PATIENCE_S * 10**9
    open_still = work.places()
    async with work.connect() as cluster:
        while now() < deadline:
            settled = await asyncio.gather(*(_is_settled(cluster, at) for at in open_still))
            open_still = [at for at, ended in zip(open_still, settled, strict=True) if not ended]
            if not open_still:
                break
            await asyncio.sleep(1)
    return tuple(map(str, open_still))


async def _is_settled(cluster: Cluster, at: TopicPartition) -> bool:
    try:
        end = (await cluster.list_offsets({at: LATEST}))[at].offset
        return end == (await cluster.list_offsets({at: LATEST}, isolation_level=READ_COMMITTED))[at].offset
    except TROUBLE:
        return False


async def ask_groups(work: Work) -> tuple[str, ...]:
    """Records the committed offsets in answers to each group, once nobody commits any more. If a transaction holds them
    back for two minutes, the offsets without that transaction are recorded; those groups are returned. Raises the
    cluster client's error if no coordinator answers.
    """
    kept_back = []
    journal = work.notes.journal(Client("groups", OURS))
    async with work.connect() as cluster:
        for group in work.notes.groups():
            stable = partial(cluster.committed_offsets, group, work.places(), require_stable=True)
            invoked = now()
            try:
                told = await cluster.retrying(stable, timeout_ms=PATIENCE_S * 1000)
            except TROUBLE:
                kept_back.append(group)
                invoked = now()
                told = await cluster.committed_offsets(group, work.places())
            completed = now()
            for at, committed in told.items():
                journal.add(
                    Op.FETCH_OFFSET, invoked, at, completed=completed, offset=max(NONE, committed.offset), name=group
                )
    return tuple(kept_back)


async def scan(
    work: Work, forgotten: Collection[int] = (), loading: Mapping[int, Loading] = MappingProxyType({})
) -> None:
    """`forgotten` are producer ids whose transactions were written over (`barnabas.judge.forgotten`), `loading` those
    whose coordinator loads for ever (`barnabas.judge.loading`): their last records are recorded. Raises the cluster
    client's error if a partition cannot be read for two minutes."""
    for name, isolation, level in (
        ("scan", "read_uncommitted", READ_UNCOMMITTED),
        ("scan-committed", "read_committed", READ_COMMITTED),
    ):
        journal = work.notes.journal(Client(name, OURS, isolation=isolation, scan=True))
        async with work.connect() as cluster:
            for at in work.places():
                await cluster.retrying(
                    partial(_scan, work, cluster, journal, at, level, forgotten, loading), timeout_ms=PATIENCE_S * 1000
                )


async def _scan(
    work: Work,
    cluster: Cluster,
    journal: Journal,
    at: TopicPartition,
    level: int,
    forgotten: Collection[int],
    loading: Mapping[int, Loading],
) -> None:
    begun = now()
    end = (await cluster.list_offsets({at: LATEST}, isolation_level=level))[at].offset
    asked = now()
    log_start = offset = (await cluster.list_offsets({at: EARLIEST}))[at].offset
    told = now()
    found: list[tuple[Op, int, int, int, int]] = []
    last_of: dict[int, int] = {}
    since, patience = offset, now() + PATIENCE_S * 10**9
    while offset < end:
        if offset > since:
            since, patience = offset, now() + PATIENCE_S * 10**9
        if now() > patience:
            raise TimeoutError(f"{at} returns nothing from offset {offset} on, but reports its end at {end}")
        invoked = now()
        part = await fetch(cluster, at, offset, level)
        if level == READ_COMMITTED:
            records, offset, _ = read(part.records or b"", offset, part.aborted_transactions or ())
            found += [(Op.READ, invoked, record.offset, decoded(record.key), value_of(record)) for record in records]
            continue
        for header, start, stop in batches(part.records or b""):
            if header.next_offset <= offset:
                continue
            if header.is_control:
                found.append((Op.MARKER, invoked, header.base_offset, NONE, last_of.get(header.producer_id, NONE)))
            else:
                valued = [
                    (record, value_of(record))
                    for record in records_of(part.records, start, stop)
                    if record.offset >= offset
                ]
                found += [(Op.READ, invoked, record.offset, decoded(record.key), value) for record, value in valued]
                work.batches[at].add(
                    header, [(value, record.offset) for record, value in valued if record.offset < end]
                )
                if header.is_transactional and valued:
                    last_of[header.producer_id] = valued[-1][1]
            offset = header.next_offset
    journal.add(Op.LOG_START, asked, at, completed=told, offset=log_start)
    for op, invoked, where, key, value in found:
        if where < end:
            journal.add(op, invoked, at, offset=where, key=key, value=value)
    if level == READ_UNCOMMITTED:
        for copy in work.batches.pop(at, Batches()).copies():
            journal.add(Op.COPY, begun, at, offset=copy.offset, value=copy.value, name=copy.batch)
    for producer_id in sorted(last_of.keys() & forgotten):
        journal.add(Op.FORGOTTEN, begun, at, value=last_of[producer_id])
    for producer_id in sorted(last_of.keys() & loading.keys()):
        said = loading[producer_id]
        journal.add(
            Op.LOADING, said.since, at, completed=said.until, offset=said.leader_epoch, value=last_of[producer_id],
            name=str(said.at),
        )  # fmt: skip
    journal.add(Op.SCANNED, begun, at, offset=end)


async def fetch(cluster: Cluster, at: TopicPartition, offset: int, level: int, timeout_ms: int = 30_000) -> Any:
    """One answer of the partition's leader. Raises `KafkaError`."""
    connection = await cluster.leader(at)
    partition = FetchRequest.FetchPartition(at.partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=_FETCH_BYTES,
        isolation_level=level,
        topics=[FetchRequest.FetchTopic(at.topic, partitions=[partition])],
    )
    answer = await connection.send(request, _FETCH_VERSION, timeout_ms)
    part = answer.responses[0].partitions[0]
    check_code(part.error_code, what=at)
    return part
