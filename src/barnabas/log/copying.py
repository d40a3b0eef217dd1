"""Batches of another replica's log appended to this one: a follower's, or one that moves to another directory."""

from __future__ import annotations

import logging

from barnabas.log.log import Log
from barnabas.log.results import UnexpectedAppendOffset
from barnabas.runtime import Bytes

logger = logging.getLogger(__name__)


def append_copied(log: Log, records: Bytes, wall_ms: int) -> None:
    """Appends records of another replica's log. If this log has to be cut below their start, nothing is appended."""
    try:
        log.append_as_follower(records, now_ms=wall_ms)
    except UnexpectedAppendOffset as error:
        if not error.first_offset < log.log_end_offset <= error.last_offset:
            raise
        if log.log_end_offset == log.log_start_offset:
            # The other log begins within a batch, and so would this one: this log begins with the whole batch.
            log.truncate_fully_and_start_at(error.first_offset, now_ms=wall_ms)
        else:
            # The other log lost records in a power loss and wrote this batch in their place, in the same epoch, so that
            # no epoch shows it. Apache's follower stops here until the next election.
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
