"""Batches of another replica's log on their way into this one: a follower's, or one that moves to another directory.

Offsets and epochs stay as they are. `batches_to_append` is a function of the bytes and of where the log ends.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crc32c import crc32c

from barnabas.log.batches import (
    ATTRIBUTES_AT,
    HEADER_BYTES,
    LOG_OVERHEAD,
    PREFIX,
    CorruptBatch,
    StoredBatch,
    batches_in,
    crc_is_valid,
    parse,
)
from barnabas.log.refusals import corrupt
from barnabas.log.results import UnexpectedAppendOffset
from barnabas.model.ids import TopicPartition
from barnabas.runtime import Bytes

if TYPE_CHECKING:
    from barnabas.log.log import Log

logger = logging.getLogger(__name__)


def batches_to_append(
    topic_partition: TopicPartition, view: memoryview, log_start_offset: int, log_end_offset: int
) -> list[tuple[int, StoredBatch]]:
    """Every whole batch of `view` with its start there; a partial one at the end is left out.

    Raises CORRUPT_MESSAGE, and `UnexpectedAppendOffset` where the first one begins before the log's end.
    """
    batches: list[tuple[int, StoredBatch]] = []
    next_offset = log_end_offset
    try:
        # A follower that keeps up is sent exactly one.
        is_one = len(view) >= HEADER_BYTES and PREFIX.unpack_from(view)[1] == len(view) - LOG_OVERHEAD
        for start, batch in ((0, parse(view, 0, 0)),) if is_one else batches_in(view):
            if batch.magic != 2:
                valid = crc_is_valid(view, start, batch)
            else:  # without a call: every batch passes here
                valid = crc32c(view[start + ATTRIBUTES_AT : start + batch.size]) == batch.crc
            if not valid:
                raise corrupt(topic_partition, f"Record is corrupt (stored crc = {batch.crc})")
            if batch.base_offset < next_offset:
                if not batches:
                    raise UnexpectedAppendOffset(
                        f"Unexpected offset in append to {topic_partition}. First offset {batch.base_offset} "
                        f"is less than the next offset {next_offset}. Log start offset = {log_start_offset}",
                        batch.base_offset,
                        batch.last_offset,
                    )
                raise corrupt(topic_partition, f"Out of order offsets: {batch.base_offset} after {next_offset - 1}")
            batches.append((start, batch))
            next_offset = batch.last_offset + 1
    except CorruptBatch as error:
        raise corrupt(topic_partition, str(error)) from None
    return batches


def append_copied(log: Log, records: Bytes, wall_ms: int) -> None:
    """Appends what was read of another replica's log; the log may end before it did, and then nothing was appended."""
    try:
        log.append_as_follower(records, now_ms=wall_ms)
    except UnexpectedAppendOffset as error:
        if not error.first_offset < log.log_end_offset <= error.last_offset:
            raise
        if log.log_end_offset == log.log_start_offset:
            # That log begins within a batch, and so would this one: it begins with the whole batch.
            log.truncate_fully_and_start_at(error.first_offset, now_ms=wall_ms)
        else:
            # The other log lost records with the power and wrote this batch in their place, in the same epoch, so that
            # no epoch tells. Apache's follower stops here until the next election.
            logger.warning(
                "truncating %s from %d to %d: the leader's batch of offsets %d to %d is not this log's",
                log.topic_partition,
                log.log_end_offset,
                error.first_offset,
                error.first_offset,
                error.last_offset,
            )
            log.truncate_to(error.first_offset, now_ms=wall_ms)
        if log.log_end_offset == error.first_offset:
            log.append_as_follower(records, now_ms=wall_ms)
