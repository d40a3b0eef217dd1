"""Records the batches of records that may be gone before the scan, in compacted topics and in those with deletions.

Readers read a duplicate record twice, and its batches show whether the client wrote it twice (`barnabas.judge.copies`).
The scan finds the batches only if both copies are still there. So one reader follows the ends of these topics during
the run, and records the same as the scan would.
"""

from __future__ import annotations

import asyncio

from barnabas.client import Cluster, KafkaError, TopicPartition
from barnabas.client.offsets import EARLIEST, READ_UNCOMMITTED
from barnabas.judge.scan import fetch
from barnabas.judge.workload import TROUBLE, Work, value_of
from barnabas.judge.workloads import COMPACTION, DELETION
from barnabas.model.errors import ErrorCode
from barnabas.wire.records import batches, records_of

_FETCH_MS = 5_000
"""A leader that does not answer for this long may have lost its leadership: the reader asks for the leader again."""


async def follow(work: Work, name: str) -> None:
    """Records the batches of the topics of `COMPACTION` and `DELETION` in `Work.batches`. A batch that is gone before
    it is read is missing there, so that it excuses nothing."""
    topics = [work.topics[workload] for workload in (COMPACTION, DELETION) if workload in work.topics]
    async with work.connect() as cluster:
        await asyncio.gather(*(_follow(work, cluster, at) for at in work.places() if at.topic in topics))


async def _follow(work: Work, cluster: Cluster, at: TopicPartition) -> None:
    offset, stale = 0, False
    while not work.stopping():
        try:
            if stale:
                await cluster.refresh([at.topic])
            offset = await _read_on(work, cluster, at, offset)
            stale = False
        except TROUBLE:
            stale = True
        await asyncio.sleep(5 * work.pause_s)


async def _read_on(work: Work, cluster: Cluster, at: TopicPartition, offset: int) -> int:
    """Reads from `offset` on, and returns the offset at which to continue. Raises one of `TROUBLE`."""
    try:
        data = (await fetch(cluster, at, offset, READ_UNCOMMITTED, _FETCH_MS)).records or b""
    except KafkaError as error:
        if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
        # Records were deleted. If the log ends before `offset`, the reader waits for it: rewritten offsets are not
        # followed.
        return max(offset, (await cluster.list_offsets({at: EARLIEST}))[at].offset)
    for header, start, stop in batches(data):
        if header.next_offset > offset:
            records = [] if header.is_control else records_of(data, start, stop)
            work.batches[at].add(header, [(value_of(record), record.offset) for record in records])
            offset = header.next_offset
    return offset
