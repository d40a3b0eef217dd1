"""A follower's progress, which its leader knows from its fetches (Kafka's ``Replica``)."""

from __future__ import annotations

from typing import Final

from barnabas.model.ids import NO_OFFSET

NEVER_MS: Final = -(1 << 62)
"""Before every instant of a monotonic clock, which may begin at any value."""


class Progress:
    """One follower's progress. All times are monotonic: a jump of the wall clock removes no follower from the ISR.

    Invariant: the follower had everything up to the leader's log end offset at `last_caught_up_ms`.
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "last_fetch_leader_log_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.log_start_offset = NO_OFFSET
        self.log_end_offset = NO_OFFSET
        self.last_fetch_leader_log_end_offset = 0
        self.last_fetch_ms = NEVER_MS
        self.last_caught_up_ms = NEVER_MS
        self.broker_epoch: int | None = None

    def record_fetch(
        self, fetch_offset: int, log_start_offset: int, leader_end_offset: int, broker_epoch: int, now_ms: int
    ) -> None:
        """Notes that the follower asks for `fetch_offset` and has all before; the leader ended at `leader_end_offset`.

        A follower that reaches the leader's end offset of its previous fetch was caught up then, although the leader
        has moved on since: a steady load must not make it look slow.
        """
        if fetch_offset >= leader_end_offset:
            if now_ms > self.last_caught_up_ms:
                self.last_caught_up_ms = now_ms
        elif fetch_offset >= self.last_fetch_leader_log_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset = fetch_offset
        if leader_end_offset > self.last_fetch_leader_log_end_offset:
            self.last_fetch_leader_log_end_offset = leader_end_offset
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def rested_until(self, fetch_ms: int) -> None:
        """Notes that the follower, which had all records, rested and fetched until `fetch_ms`."""
        if fetch_ms > self.last_caught_up_ms:
            self.last_caught_up_ms = fetch_ms
        if fetch_ms > self.last_fetch_ms:
            self.last_fetch_ms = fetch_ms
        if self.log_end_offset > self.last_fetch_leader_log_end_offset:
            self.last_fetch_leader_log_end_offset = self.log_end_offset

    def reset(self, leader_end_offset: int, *, new_leader: bool, in_sync: bool, now_ms: int) -> None:
        """Begins a new leader epoch. A member of the ISR has the full lag time from now to fetch; others have none.

        A re-elected leader still knows its followers' offsets; a new leader does not.
        """
        self.last_caught_up_ms = now_ms if in_sync else NEVER_MS
        if new_leader:
            self.log_start_offset = NO_OFFSET
            self.log_end_offset = NO_OFFSET
            self.last_fetch_leader_log_end_offset = NO_OFFSET
            self.last_fetch_ms = NEVER_MS
            self.broker_epoch = None
        else:
            self.last_fetch_leader_log_end_offset = leader_end_offset
            self.last_fetch_ms = now_ms if in_sync else NEVER_MS

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_max_ms

    def __repr__(self) -> str:
        return (
            f"Progress(broker {self.broker_id}, log_end_offset={self.log_end_offset}, "
            f"last_caught_up_ms={self.last_caught_up_ms})"
        )
