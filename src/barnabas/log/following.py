"""Batches of another replica's log on their way into this one: a follower's, or one that moves to another directory.

Offsets and epochs stay as they are. `batches_to_append` is a function of the bytes and of where the log ends.
"""

from __future__ import annotations

from crc32c import crc32c

from barnabas.log.batches import PREFIX, CorruptBatch, StoredBatch, batches_in, crc_is_valid, parse
from barnabas.log.refusals import corrupt
from barnabas.log.results import UnexpectedAppendOffset
from barnabas.model.ids import TopicPartition
from barnabas.wire.records import ATTRIBUTES_AT, HEADER_BYTES, LOG_OVERHEAD


def batches_to_append(
    topic_partition: TopicPartition, view: memoryview, log_start_offset: int, log_end_offset: int
) -> list[tuple[int, StoredBatch]]:
    """Every whole batch of `view` with its start there; a partial one at the end is omitted.

    Raises CORRUPT_MESSAGE, and `UnexpectedAppendOffset` if the first batch begins before the log's end.
    """
    batches: list[tuple[int, StoredBatch]] = []
    next_offset = log_end_offset
    try:
        # A follower that keeps up gets exactly one batch.
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
