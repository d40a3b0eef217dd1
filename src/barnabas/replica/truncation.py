"""Where a follower truncates its log (``AbstractFetcherThread.getOffsetTruncationState``).

The leader names the largest epoch that it has and that is not above the follower's last one, and that epoch's end. With
``inter.broker.protocol.version`` from 2.7 on it does so in a fetch's answer; below, the follower asks with
OffsetForLeaderEpoch before it fetches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Final

from barnabas.log.batches import LEADER_EPOCH_AT
from barnabas.log.log import Log
from barnabas.model.ids import NO_EPOCH, NO_OFFSET, TopicPartition
from barnabas.runtime import Bytes
from barnabas.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from barnabas.wire.records import HEADER_BYTES, MAGIC_AT

_LEADER_EPOCH: Final = Struct(">i")

Topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
AskedPartition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition


@dataclass(frozen=True)
class Truncation:
    """Truncate the log to `offset`; unless that is `complete`, the leader has to be asked again."""

    offset: int
    complete: bool


def truncation_offset(log: Log, leader_epoch: int, leader_end_offset: int) -> int:
    """Where to cut a log whose leader tells that `leader_epoch` ends at `leader_end_offset`; that is the leader's
    largest epoch not above the follower's.

    If this log lacks that epoch, the end of its next smaller one counts, and the leader is asked again.
    """
    epoch, end_offset = log.end_offset_for_epoch(leader_epoch)
    if epoch == NO_EPOCH:
        # No epoch of this log is that old: only the leader's answer is known.
        return min(leader_end_offset, log.log_end_offset)
    if epoch != leader_epoch:
        return min(end_offset, log.log_end_offset)
    return min(end_offset, leader_end_offset, log.log_end_offset)


def truncation(log: Log, leader_epoch: int, leader_end_offset: int) -> Truncation:
    """What an answer to OffsetForLeaderEpoch means for `log`."""
    if leader_end_offset == NO_OFFSET:
        # The leader knows no epoch that old: the logs agree up to the high watermark.
        return Truncation(min(log.high_watermark, log.log_end_offset), complete=True)
    if leader_epoch == NO_EPOCH:
        # Version 0 of the answer does not name the epoch (before KIP-279), and there is only one to ask about.
        return Truncation(min(leader_end_offset, log.log_end_offset), complete=True)
    known_epoch, _ = log.end_offset_for_epoch(leader_epoch)
    return Truncation(truncation_offset(log, leader_epoch, leader_end_offset), known_epoch in (NO_EPOCH, leader_epoch))


def truncation_by_two_ends(log: Log, last_epoch_end: int, end_before: int, *, leader_begins_there: bool) -> Truncation:
    """Combines two answers of version 0, which name no epoch: for the log's last epoch, and for the preceding number.

    The two ends differ only if the leader has records of the last epoch. If they are equal and the leader's log begins
    there, all differing records are deleted on the leader. Apache's follower asks only the first question, and keeps
    records that its leader never had (KIP-279).
    """
    if end_before != last_epoch_end or leader_begins_there:
        return Truncation(min(last_epoch_end, log.log_end_offset), complete=True)
    return Truncation(min(log.leader_epochs.entries[-1].start_offset, last_epoch_end), complete=False)


def parting_offset(log: Log, records: Bytes, leader_epoch: int) -> int | None:
    """Where `log` parts from its leader's log, which continues at this log's end with `records` of an older epoch than
    this log already has; None where it does not.

    Epochs only rise along a log, so the leader lacks the records written here in a later epoch. Either log lost that
    epoch's beginning in a power loss and then went on in it: both have the epoch, and neither a fetch's answer nor
    OffsetForLeaderEpoch shows it. Apache's follower appends, with falling epochs, and differs forever.

    Where this log has epochs after `leader_epoch`, the znodes were restored: the leader's log falls back there as well.
    """
    if len(records) < HEADER_BYTES or records[MAGIC_AT] != 2:
        return None
    (epoch,) = _LEADER_EPOCH.unpack_from(records, LEADER_EPOCH_AT)
    if not NO_EPOCH < epoch < log.leader_epochs.latest_epoch <= leader_epoch:
        return None
    later = log.leader_epochs.first_after(epoch)
    # An epoch that began at the end has no record: it is only dropped from the cache (`Log.append_as_follower`).
    return later.start_offset if later is not None and later.start_offset < log.log_end_offset else None


def epoch_request(
    replica_id: int, partitions: Iterable[tuple[TopicPartition, int, int]]
) -> OffsetForLeaderEpochRequest:
    """Asks for epochs' end offsets; `partitions` come with their current leader epoch and their log's last epoch."""
    topics: dict[str, Topic] = {}
    for (name, number), current_leader_epoch, last_epoch in partitions:
        topics.setdefault(name, Topic(name)).partitions.append(AskedPartition(number, current_leader_epoch, last_epoch))
    return OffsetForLeaderEpochRequest(replica_id=replica_id, topics=list(topics.values()))
