"""Bytes and records into a partition's log and out of it, for metrics (Kafka's ``BrokerTopicStats``).

The incoming traffic is computed from the log's length, which is noted only when leading begins or ends, so that an
append pays nothing for it. Records are counted as offsets, as by Kafka's ``MessagesInPerSec``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.log.log import Log


class Traffic:
    """The traffic of one partition, or of several together. All numbers only grow."""

    __slots__ = (
        "_bytes",
        "_leading",
        "_log",
        "_offset",
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "produces",
        "records_in",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.records_in = 0
        """Records from producers; records that a follower copies do not count."""
        self.bytes_in = 0
        self.bytes_out = 0
        """Bytes to consumers."""
        self.bytes_rejected = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.produces = 0
        """Producers' appends; the figures below count consumers' and followers' reads, and failures."""
        self.failed_produces = 0
        self.fetches = 0
        self.failed_fetches = 0
        self._log: Log | None = None
        self._leading = False
        self._bytes = 0
        self._offset = 0

    def look(self, log: Log | None, *, leading: bool) -> None:
        """Counts the appends since the last look; from now on `log` and `leading` apply."""
        before = self._log
        if before is not None:
            appended = before.segments.appended_bytes - self._bytes
            if self._leading:
                self.bytes_in += appended
                self.records_in += max(0, before.log_end_offset - self._offset)
            else:
                self.replication_bytes_in += appended
        self._log, self._leading = log, leading
        if log is not None:
            self._bytes, self._offset = log.segments.appended_bytes, log.log_end_offset

    def looked(self) -> Traffic:
        """Looks, and returns itself."""
        log = self._log
        if log is not None and (log.segments.appended_bytes != self._bytes or log.log_end_offset != self._offset):
            self.look(log, leading=self._leading)
        return self

    def add(self, other: Traffic) -> None:
        """Adds the traffic of another partition, or of a deleted one."""
        self.records_in += other.records_in
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.bytes_rejected += other.bytes_rejected
        self.replication_bytes_in += other.replication_bytes_in
        self.replication_bytes_out += other.replication_bytes_out
        self.produces += other.produces
        self.failed_produces += other.failed_produces
        self.fetches += other.fetches
        self.failed_fetches += other.failed_fetches
