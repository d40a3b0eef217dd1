"""A topic's configuration as a log reads it: plain numbers, looked up once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from barnabas.model.config import Config
from barnabas.model.sentinels import LAST_MOMENT_MS
from barnabas.wire import scan
from barnabas.wire.compression import Codec

_CODECS: Final = {"uncompressed": "none"}
_WITH_LEVELS: Final = (Codec.GZIP, Codec.ZSTD)
_known: Final[WeakKeyDictionary[Config, LogSettings]] = WeakKeyDictionary()


@dataclass(frozen=True)
class LogSettings:
    """Kafka's ``LogConfig``."""

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    index_bytes: int
    index_interval_bytes: int
    max_message_bytes: int
    retention_ms: int
    retention_bytes: int
    delete: bool
    compact: bool
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    codec: int | None
    """The codec of ``compression.type``; None leaves it to the producer."""
    compression_level: int | None
    """``compression.gzip.level`` or ``compression.zstd.level``; None for other codecs."""
    scan_flags: int
    """What `wire.scan` checks in each record."""
    min_insync_replicas: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int
    throttled_leaders: frozenset[str]
    """``partition:broker`` of each replica to which its leader sends no faster than its quota; ``*`` for all."""
    throttled_followers: frozenset[str]

    @classmethod
    def of(cls, config: Config) -> LogSettings:
        """One object for all logs of a topic, which have one configuration: its list of throttled replicas has
        thousands of names when a topic with as many partitions is moved."""
        known = _known.get(config)
        if known is None:
            known = _known[config] = cls._read(config)
        return known

    @classmethod
    def _read(cls, config: Config) -> LogSettings:
        policies = config.items("cleanup.policy")
        # The deprecated single bound applies if one of its two replacements is unbounded (KIP-937).
        difference = config.number("message.timestamp.difference.max.ms")
        before = config.number("message.timestamp.before.max.ms")
        after = config.number("message.timestamp.after.max.ms")
        compact = "compact" in policies
        max_lag_ms = config.number("max.compaction.lag.ms")
        segment_ms = config.number("segment.ms")
        log_append_time = config.text("message.timestamp.type") == "LogAppendTime"
        compression = config.text("compression.type")
        codec = None if compression == "producer" else Codec.named(_CODECS.get(compression, compression))
        return cls(
            segment_bytes=config.number("segment.bytes"),
            # Only rolled segments are cleaned: a bound on the lag is also one on the segment's age (KIP-354).
            segment_ms=min(segment_ms, max_lag_ms) if compact else segment_ms,
            segment_jitter_ms=config.number("segment.jitter.ms"),
            index_bytes=config.number("segment.index.bytes"),
            index_interval_bytes=config.number("index.interval.bytes"),
            max_message_bytes=config.number("max.message.bytes"),
            retention_ms=config.number("retention.ms"),
            retention_bytes=config.number("retention.bytes"),
            delete="delete" in policies,
            compact=compact,
            file_delete_delay_ms=config.number("file.delete.delay.ms"),
            flush_messages=config.number("flush.messages"),
            flush_ms=config.number("flush.ms"),
            log_append_time=log_append_time,
            timestamp_before_max_ms=difference if before == LAST_MOMENT_MS else before,
            timestamp_after_max_ms=difference if after == LAST_MOMENT_MS else after,
            codec=codec,
            compression_level=config.number(f"compression.{compression}.level") if codec in _WITH_LEVELS else None,
            scan_flags=(0 if log_append_time else scan.CREATE_TIME) | (scan.NEEDS_KEYS if compact else 0),
            min_insync_replicas=config.number("min.insync.replicas"),
            min_cleanable_dirty_ratio=config.real("min.cleanable.dirty.ratio"),
            min_compaction_lag_ms=config.number("min.compaction.lag.ms"),
            max_compaction_lag_ms=max_lag_ms,
            delete_retention_ms=config.number("delete.retention.ms"),
            throttled_leaders=frozenset(config.items("leader.replication.throttled.replicas")),
            throttled_followers=frozenset(config.items("follower.replication.throttled.replicas")),
        )
