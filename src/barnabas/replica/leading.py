"""A leader's decisions about its followers: the high watermark, the ISR, and when a produce with acks=all is complete.

The functions here take offsets, ISR, epochs and time, and return a high watermark, a proposal for the ISR, or nothing.
They have no log, change nothing and do not wait: `partition` calls them and carries the decisions out.

- The high watermark is the smallest log end offset among the maximal ISR and the caught-up followers that may join it.
  It only rises within a leader epoch, and only while the ISR is not below ``min.insync.replicas``.
- A change of the ISR is proposed to the controller and pending until its answer. A follower to be added already holds
  back the high watermark; a follower to be removed still does. At most one change is in flight (KIP-497).

All times are monotonic, in ms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.model.errors import ErrorCode
from barnabas.model.leadership import CommittedIsr, IsrState, LeaderAndIsr, PendingExpandIsr, PendingShrinkIsr
from barnabas.replica.progress import Progress

_NONE: Final = ErrorCode.NONE
"""An enum's member as a global: CPython 3.11 takes a fifth of a microsecond to find it in its class."""
_ISR_AWAITS_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


@dataclass(frozen=True, slots=True)
class ProposedIsr:
    """A change of the ISR that was sent to the controller: the proposed ISR, and the state until the answer."""

    state: PendingExpandIsr | PendingShrinkIsr
    sent: LeaderAndIsr


def next_high_watermark(
    high_watermark: int,
    log_end_offset: int,
    isr_state: IsrState,
    followers: Mapping[int, Progress],
    min_insync_replicas: int,
    is_alive: Callable[[int], bool],
    lag_max_ms: int,
    now_ms: int,
) -> int:
    """The high watermark that the maximal ISR allows, never lower than the present one.

    A caught-up follower outside of the ISR also holds it back: otherwise the high watermark would stay ahead of a
    follower that is always a little behind, and the follower could never join.
    """
    reached = log_end_offset
    maximal_isr = isr_state.isr if type(isr_state) is CommittedIsr else isr_state.maximal_isr
    for broker_id, progress in followers.items():
        if progress.log_end_offset < reached and (
            broker_id in maximal_isr
            or (progress.is_caught_up(log_end_offset, now_ms, lag_max_ms) and is_alive(broker_id))
        ):
            reached = progress.log_end_offset
            if reached <= high_watermark:
                return high_watermark
    if reached <= high_watermark or (
        len(isr_state.isr) < min_insync_replicas and lacks_min_isr(isr_state, followers, min_insync_replicas)
    ):
        return high_watermark
    return reached


def effective_min_isr(followers: Mapping[int, Progress], min_insync_replicas: int) -> int:
    """``min.insync.replicas``, or the number of replicas if that is smaller."""
    return min(min_insync_replicas, len(followers) + 1)


def lacks_min_isr(isr_state: IsrState, followers: Mapping[int, Progress], min_insync_replicas: int) -> bool:
    """Whether fewer than `effective_min_isr` are in sync; mostly `min_insync_replicas` are, which is enough."""
    return len(isr_state.isr) < effective_min_isr(followers, min_insync_replicas)


def produce_outcome(
    required_offset: int,
    high_watermark: int,
    isr_state: IsrState,
    followers: Mapping[int, Progress],
    min_insync_replicas: int,
) -> tuple[bool, ErrorCode]:
    """Whether an acks=all produce appended up to `required_offset` is over, and with which error."""
    if high_watermark < required_offset:
        return False, _NONE
    if len(isr_state.isr) < min_insync_replicas:
        needed = effective_min_isr(followers, min_insync_replicas)
        if len(isr_state.isr) < needed and len(isr_state.maximal_isr) < needed:
            # Enough replicas were in sync at the append; the ISR has shrunk since.
            return True, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return True, _NONE


def lowest_log_start(log_start_offset: int, followers: Mapping[int, Progress], is_alive: Callable[[int], bool]) -> int:
    """The smallest log start offset among the live replicas: records below it are deleted everywhere."""
    lowest = log_start_offset
    for broker_id, progress in followers.items():
        if progress.log_start_offset < lowest and is_alive(broker_id):
            lowest = progress.log_start_offset
    return lowest


def expanded_isr(
    isr_state: IsrState,
    follower: Progress,
    high_watermark: int,
    leader_epoch_start_offset: int,
    is_alive: Callable[[int], bool],
) -> PendingExpandIsr | None:
    """The ISR with a follower that has all committed records, and has reached this leader's epoch.

    Without the second condition a follower could be elected that lacks records committed under the previous leader;
    this leader has them above its high watermark.
    """
    if (
        follower.broker_id in isr_state.isr
        or not isinstance(isr_state, CommittedIsr)
        or follower.log_end_offset < high_watermark
        or follower.log_end_offset < leader_epoch_start_offset
        or not is_alive(follower.broker_id)
    ):
        return None
    return PendingExpandIsr(frozenset((follower.broker_id,)), isr_state)


def shrunk_isr(
    isr_state: IsrState,
    leader_id: int,
    followers: Mapping[int, Progress],
    log_end_offset: int,
    lag_max_ms: int,
    now_ms: int,
) -> PendingShrinkIsr | None:
    """The ISR without the followers that have not been caught up for ``replica.lag.time.max.ms``."""
    if not isinstance(isr_state, CommittedIsr):
        return None
    lagging = set()
    for broker_id in isr_state.isr:
        if broker_id != leader_id:
            progress = followers.get(broker_id)
            if progress is None or not progress.is_caught_up(log_end_offset, now_ms, lag_max_ms):
                lagging.add(broker_id)
    return PendingShrinkIsr(frozenset(lagging), isr_state) if lagging else None


def refused_isr(proposed: ProposedIsr, error: ErrorCode) -> tuple[IsrState, bool]:
    """After the controller refused: the ISR from now on, and whether the same proposal is sent again."""
    if error in (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA):
        # It was certainly not done: the committed ISR counts, and a later fetch or check may propose again.
        return proposed.state.committed, False
    # Whether it was done is unknown here: it stays pending, after some errors until the next LeaderAndIsr.
    return proposed.state, error not in _ISR_AWAITS_METADATA
