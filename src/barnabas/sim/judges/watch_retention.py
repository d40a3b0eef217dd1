"""Watches what retention deletes: everything that is too old or too much, and nothing else (R17).

Deleted records and the size of a log seldom meet in a run. So every log that has grown by a segment is asked what
retention would delete if half of it were deleted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from barnabas.log.log import Log
from barnabas.log.retention import segments_to_delete
from barnabas.sim.judges.chain import Chain
from barnabas.sim.world.node import EPOCH_MS
from barnabas.sim.world.probes import Probes
from barnabas.sim.world.world import World

if TYPE_CHECKING:
    from barnabas.sim.judges.watch_logs import LogWatch

FOR_EVER: Final = -1


class RetentionWatch:
    def __init__(self, world: World, logs: LogWatch, probes: Probes) -> None:
        self.world = world
        self.logs = logs
        self._asked: dict[Log, int] = {}
        """How many segments a log had when it was last asked."""
        probes.around(Log, "delete_old_segments", self._around_delete_old_segments)

    def _around_delete_old_segments(self, original: Any, log: Log, *, now_ms: int) -> Any:
        before = log.log_start_offset
        chain = self.logs.chain_of(log)
        if chain is not None and self._asked.get(log) != len(log.segments):
            self._asked[log] = len(log.segments)
            self.ask_what_stays(log, chain, now_ms)
        segments = [(segment.base_offset, segment.size) for segment in log.segments]
        with self.logs.under_way(chain, "deleting"):
            deleted = original(log, now_ms=now_ms)
        if chain is not None and log.log_start_offset > before:
            self._retained(log, chain, before, segments, now_ms)
        if chain is not None:
            self._old_are_gone(log, chain, now_ms)
        return deleted

    def ask_what_stays(self, log: Log, chain: Chain, now_ms: int) -> None:
        """R17: if the first half of the log were deleted, and the size limit were what is left, nothing else would
        go."""
        segments = list(log.segments)
        half = len(segments) // 2
        if not half:
            return
        self.world.check("R17")
        left = sum(segment.size for segment in segments[half:])
        count = segments_to_delete(
            segments, replace(log.settings, delete=True, retention_bytes=left, retention_ms=FOR_EVER),
            log_start_offset=segments[half].base_offset, high_watermark=log.log_end_offset,
            log_end_offset=log.log_end_offset, now_ms=now_ms,
        )  # fmt: skip
        if any(segment.size for segment in segments[half:count]):
            self.world.violated(
                "R17", f"{chain.node} has {left} bytes of {chain.partition} from {segments[half].base_offset} on, and "
                f"would not keep as much: {count} of {len(segments)} segments would go", chain.partition, chain.node,
            )  # fmt: skip

    def _retained(self, log: Log, chain: Chain, before: int, segments: list[tuple[int, int]], now_ms: int) -> None:
        """R17: only records that are too old by the broker's clock, or beyond the size limit, go, and none above the
        high watermark.

        Segments beyond the size go first, and old ones then (``UnifiedLog.deleteOldSegments``). `segments` are those
        from before, by base offset and size in bytes.
        """
        world, settings = self.world, log.settings
        world.check("R17")
        if log.log_start_offset > log.high_watermark:
            world.violated(
                "R17", f"{chain.node} deleted {chain.partition} to {log.log_start_offset}, above the high watermark "
                f"{log.high_watermark}", chain.partition, chain.node,
            )  # fmt: skip
        young = [
            (link.base, age_ms)
            for link in chain.links
            if before <= link.base and link.last < log.log_start_offset
            for age_ms in [now_ms - EPOCH_MS - link.timestamp_ms]
            if not 0 <= settings.retention_ms < age_ms
        ]
        left = sum(size for base, size in segments if young and base > young[-1][0])
        if young and not 0 <= settings.retention_bytes <= left:
            world.violated(
                "R17", f"{chain.node} deleted {chain.partition} from {before} to {log.log_start_offset}: what is at "
                f"{young[-1][0]} was {young[-1][1]} ms old, and {left} bytes lay behind it; retention.ms "
                f"{settings.retention_ms}, retention.bytes {settings.retention_bytes}", chain.partition, chain.node,
            )  # fmt: skip

    def _old_are_gone(self, log: Log, chain: Chain, now_ms: int) -> None:
        """R17: after retention a log does not begin with a segment whose records are all too old, nor with one without
        which it would still reach the size limit."""
        segments, settings = log.segments, log.settings
        if not settings.delete or len(segments) < 2 or segments[1].base_offset > log.high_watermark:
            return
        self.world.check("R17")
        what = f"{chain.node} keeps what is before {segments[1].base_offset} of {chain.partition}"
        of_first = [link for link in chain.links if segments[0].base_offset <= link.base < segments[1].base_offset]
        youngest_ms = max((link.timestamp_ms for link in of_first if link.is_timed), default=now_ms)
        if 0 <= settings.retention_ms < now_ms - EPOCH_MS - youngest_ms:
            sentence = f"{what}, older than retention.ms {settings.retention_ms}"
            self.world.violated("R17", sentence, chain.partition, chain.node)
        left = sum(segment.size for segment in segments[1:])
        if 0 <= settings.retention_bytes <= left:
            sentence = f"{what}, and has {left} bytes without it; retention.bytes is {settings.retention_bytes}"
            self.world.violated("R17", sentence, chain.partition, chain.node)
