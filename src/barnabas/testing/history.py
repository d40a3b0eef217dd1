"""A cluster's promises and events, as its brokers saw them.

An acknowledgement is recorded when its answer is handed to the connection, with the CRC of the batch, so that `verify`
can check it later. The timeline has the brokers' own log lines and the test's faults.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.model.ids import TopicPartition, Uuid
from barnabas.testing.loop import current_process

TIMELINE_MAX: Final = 50_000
HIGH_WATERMARKS_MAX: Final = 2_000


class Acknowledged(NamedTuple):
    """A batch that was acknowledged to a producer with acks=all. `crc` is None if the broker rewrote the batch."""

    at_ms: int
    broker_id: int
    topic_id: Uuid
    topic_partition: TopicPartition
    base_offset: int
    last_offset: int
    crc: int | None


class HistoryEvent(NamedTuple):
    at_ms: int
    who: str
    what: str


@dataclass(slots=True)
class Served:
    """A batch that a consumer received."""

    at_ms: int
    broker_id: int
    crc: int


class ClusterHistory:
    def __init__(self) -> None:
        self.began_ms = now_ms()
        self.acknowledged: list[Acknowledged] = []
        self.served: dict[tuple[Uuid, TopicPartition, int], Served] = {}
        """Batches that consumers received, by topic id, partition and base offset."""
        self.contradictions: list[str] = []
        """Contradictions, found as they happened: two consumers received different batches for one offset."""
        self.timeline: deque[HistoryEvent] = deque(maxlen=TIMELINE_MAX)
        self.high_watermarks: dict[TopicPartition, deque[tuple[int, int, int]]] = {}
        """The changes of each partition's high watermark: time, leader, high watermark."""

    def note(self, who: str, what: str) -> None:
        self.timeline.append(HistoryEvent(now_ms(), who, what))

    def acknowledge(
        self,
        broker_id: int,
        topic_id: Uuid,
        topic_partition: TopicPartition,
        base_offset: int,
        last_offset: int,
        crc: int | None,
    ) -> None:
        self.acknowledged.append(
            Acknowledged(now_ms(), broker_id, topic_id, topic_partition, base_offset, last_offset, crc)
        )

    def serve(
        self, broker_id: int, topic_id: Uuid, topic_partition: TopicPartition, base_offset: int, crc: int
    ) -> None:
        before = self.served.setdefault((topic_id, topic_partition, base_offset), Served(now_ms(), broker_id, crc))
        if before.crc != crc:
            self.contradictions.append(
                f"{topic_partition}@{base_offset}: broker {broker_id} gave a consumer another batch than broker "
                f"{before.broker_id} had given one {now_ms() - before.at_ms} ms before"
            )

    def high_watermark(self, broker_id: int, topic_partition: TopicPartition, offset: int) -> None:
        moves = self.high_watermarks.get(topic_partition)
        if moves is None:
            moves = self.high_watermarks[topic_partition] = deque(maxlen=HIGH_WATERMARKS_MAX)
        moves.append((now_ms(), broker_id, offset))

    def story(self, partitions: Iterable[TopicPartition] = (), *, last: int | None = None) -> str:
        """The timeline as text, one line for each event; for `partitions` also the changes of the high watermark."""
        events = [(entry.at_ms, index, entry.who, entry.what) for index, entry in enumerate(list(self.timeline))]
        for topic_partition in partitions:
            for at_ms, broker_id, low, high in _runs(self.high_watermarks.get(topic_partition, ()), self.timeline):
                span = f"{low} → {high}" if low != high else str(high)
                events.append((at_ms, -1, f"broker {broker_id}", f"high watermark of {topic_partition} {span}"))
        events.sort()
        if last is not None:
            events = events[-last:]
        return "\n".join(f"{(at_ms - self.began_ms) / 1000:9.3f} s  {who:<12} {what}" for at_ms, _, who, what in events)


def _runs(moves: Iterable[tuple[int, int, int]], timeline: Iterable[HistoryEvent]) -> list[tuple[int, int, int, int]]:
    """Joins consecutive changes by one leader: time, leader, from, to."""
    moments = [event.at_ms for event in timeline]
    runs: list[tuple[int, int, int, int]] = []
    passed = 0
    for at_ms, broker_id, offset in moves:
        before = passed
        while passed < len(moments) and moments[passed] <= at_ms:
            passed += 1
        if runs and runs[-1][1] == broker_id and passed == before:
            began_ms, _, low, _ = runs[-1]
            runs[-1] = (began_ms, broker_id, low, offset)
        else:
            runs.append((at_ms, broker_id, offset, offset))
    return runs


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class _ToTimeline(logging.Filter):
    """Puts brokers' log lines into the timeline of their cluster; only errors go to the test's own logs, too."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        process = current_process.get()
        if process is None:
            return record.levelno >= self._level
        process.tell(process.name, record.getMessage())
        return record.levelno >= logging.ERROR


_lock = threading.Lock()
_listening: list[object] = []
_restore: list[tuple[int, _ToTimeline]] = []


def _loggers() -> list[logging.Logger]:
    """All of our loggers: a filter works only for its own logger."""
    known = logging.getLogger().manager.loggerDict
    return [logging.getLogger(name) for name in list(known) if name == "barnabas" or name.startswith("barnabas.")]


def listen(who: object) -> None:
    """Sends brokers' log lines to the timelines from now on, while a cluster wants them."""
    with _lock:
        _listening.append(who)
        root = logging.getLogger("barnabas")
        if len(_listening) == 1:
            _restore.append((root.level, _ToTimeline(root.getEffectiveLevel())))
            root.setLevel(min(logging.INFO, root.getEffectiveLevel()))
        for logger in _loggers():
            logger.addFilter(_restore[0][1])


def forget(who: object) -> None:
    """Restores the logging set-up after the last cluster."""
    with _lock:
        if who in _listening:
            _listening.remove(who)
            if not _listening:
                level, to_timeline = _restore.pop()
                logging.getLogger("barnabas").setLevel(level)
                for logger in _loggers():
                    logger.removeFilter(to_timeline)
