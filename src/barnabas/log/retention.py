"""Which segments of a log are too old: by its start, its size and its age (``UnifiedLog.deleteOldSegments``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from barnabas.log.settings import LogSettings


class Aging(Protocol):
    """A segment's facts that decide on its retention."""

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int:
        """In bytes."""
        ...

    @property
    def largest_timestamp(self) -> int:
        """In ms; used only if age decides, since it may read the disk."""
        ...


def segments_to_delete(
    segments: Sequence[Aging],
    settings: LogSettings,
    *,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
    now_ms: int,
) -> int:
    """How many of the first segments are deleted; the active one too, if it has data.

    No segment that ends above the high watermark: the start offset can never pass it, and no follower loses records
    that it still has to fetch.
    """
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    replicated = 0
    while replicated < len(segments) and ends[replicated] <= high_watermark:
        replicated += 1
    if replicated == len(segments) and not segments[-1].size:
        replicated -= 1
    doomed = 0
    while doomed < replicated and ends[doomed] <= log_start_offset:
        doomed += 1
    if not settings.delete:
        return doomed
    excess = sum(segment.size for segment in segments[doomed:]) - settings.retention_bytes
    if settings.retention_bytes >= 0 and excess > 0:
        while doomed < replicated and excess >= segments[doomed].size:
            excess -= segments[doomed].size
            doomed += 1
    if settings.retention_ms >= 0:
        while doomed < replicated and now_ms - segments[doomed].largest_timestamp > settings.retention_ms:
            doomed += 1
    return doomed
