"""Reads a partition of an internal topic to its end, as a newly elected coordinator does.

The partition may contain unreadable records: clients may write to internal topics (those with the client id
``__admin_client``, as in Kafka), disks rot, and newer brokers write versions that are unknown here. An unreadable
record is skipped as if it had never been written: an earlier one of the same key counts, and the loading goes on.
(Apache 3.9 logs "Error loading offsets" and ignores the rest of the partition.)

A buffer holds tens of thousands of small records. They are loaded in slices: loaded in one go, the broker's ZooKeeper
session could expire meanwhile, and a broker that is elected again has to load again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from barnabas.coordinator.coordinator_log import CoordinatorLog
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.turns import SLICE, Turns
from barnabas.runtime.unreadable import Unreadable
from barnabas.wire.errors import WireError
from barnabas.wire.records import BatchHeader, Record, batches, check_crc, records_of
from barnabas.wire.structs import Bytes

logger = logging.getLogger(__name__)

Replay: TypeAlias = Callable[[BatchHeader, Record], None]
"""Applies one record; an exception gives the reason to skip the record."""

PASSING_S: Final = 1.0
"""The pause before a read is tried again for which the process had no file descriptor."""
_DAMAGED: Final = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.OFFSET_OUT_OF_RANGE)


async def load_partition(
    log: CoordinatorLog,
    topic_partition: TopicPartition,
    replay: Replay,
    *,
    buffer_bytes: int,
    is_current: Callable[[], bool],
    unreadable: Unreadable,
    turns: Turns,
) -> None:
    """Replays every record, a slice at a time, as long as `is_current`.

    Raises `KafkaError` if this broker no longer leads the log, or its disk failed.
    """
    passed_over = 0

    def skip(what: str, offset: int, why: object) -> None:
        nonlocal passed_over
        passed_over += 1
        unreadable.skip(f"{topic_partition.topic} {what}", f"{topic_partition} offset {offset}", why)

    left = SLICE

    async def goes_on() -> bool:
        """Lets other tasks run after a slice; False if another broker leads the partition by then."""
        nonlocal left
        left -= 1
        if left > 0:
            return True
        left = SLICE
        await turns.next()
        return is_current()

    offset: int | None = log.start_offset(topic_partition)
    behind: int | None
    damage: str | None
    while offset is not None and is_current():
        try:
            data, end_offset = log.read(topic_partition, offset, buffer_bytes)
        except KafkaError as error:
            if error.passing:
                logger.warning("%s is read again from offset %d: %s", topic_partition, offset, error)
                await asyncio.sleep(PASSING_S)
                continue
            if error.code not in _DAMAGED:
                raise
            behind, damage = offset, str(error)
        else:
            if not data:
                break
            behind, damage = await _replay_batches(data, offset, end_offset, replay, skip, goes_on)
        if damage is not None:
            # Only the next segment's start is known to be the beginning of a batch.
            skip("segment", behind, damage)
            behind = log.next_segment(topic_partition, max(offset, behind - 1))
        offset = behind
        await turns.next()
    if passed_over and is_current():
        logger.warning("%s: %d records or batches could not be read and were passed over", topic_partition, passed_over)


async def _replay_batches(
    data: Bytes,
    offset: int,
    end_offset: int | None,
    replay: Replay,
    skip: Callable[[str, int, object], None],
    goes_on: Callable[[], Awaitable[bool]],
) -> tuple[int, str | None]:
    """Replays whole batches; returns the offset after the last, and the reason if the rest cannot be read.

    `goes_on` is asked before each batch and after each record.

    A batch beyond `end_offset` has a corrupt base offset, which the CRC does not cover.
    """
    next_offset = offset
    try:
        for header, start, end in batches(data):
            if not await goes_on():
                return next_offset, None
            if header.next_offset <= next_offset:
                raise WireError(f"a batch ends at offset {header.last_offset}, and the one before at {next_offset - 1}")
            if end_offset is not None and header.next_offset > end_offset:
                raise WireError(f"a batch ends at offset {header.last_offset}, and the next segment is at {end_offset}")
            next_offset = header.next_offset
            try:
                check_crc(data, start, end)
                records = records_of(data, start, end)
            except WireError as error:
                skip("batch", header.base_offset, error)
                continue
            for record in records:
                try:
                    replay(header, record)
                except WireError as error:
                    skip("record", record.offset, error)
                except Exception as error:
                    # Any exception is caught: these bytes stay in the log, and each start would fail again.
                    skip("record", record.offset, repr(error))
                if not await goes_on():
                    return next_offset, None
    except WireError as error:
        return next_offset, str(error)
    return next_offset, None if next_offset > offset else f"{len(data)} bytes hold no whole batch"
