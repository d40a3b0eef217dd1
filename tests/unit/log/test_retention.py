"""Which segments are too old, decided from values."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from barnabas.log.retention import segments_to_delete
from barnabas.log.settings import LogSettings
from barnabas.model.config import broker_config, topic_config


class Segment(NamedTuple):
    base_offset: int
    size: int
    largest_timestamp: int


THREE = (Segment(0, 100, 1_000), Segment(10, 100, 2_000), Segment(20, 100, 3_000))


def deleted(
    segments: tuple[Segment, ...] = THREE,
    *,
    start: int = 0,
    high: int = 30,
    end: int = 30,
    now_ms: int = 3_000,
    policy: str = "delete",
    retention_bytes: int = -1,
    retention_ms: int = -1,
) -> int:
    config = {
        "cleanup.policy": policy,
        "retention.bytes": str(retention_bytes),
        "retention.ms": str(retention_ms),
    }
    settings = LogSettings.of(topic_config(broker_config({}), config))
    return segments_to_delete(
        segments, settings, log_start_offset=start, high_watermark=high, log_end_offset=end, now_ms=now_ms
    )


def test_nothing_goes_without_a_reason() -> None:
    assert deleted() == 0


def test_what_ends_at_or_before_the_log_start_goes_whatever_the_policy() -> None:
    assert [deleted(start=start, policy="compact") for start in (9, 10, 19, 20, 30)] == [0, 1, 1, 2, 3]


@pytest.mark.parametrize(("retention_bytes", "count"), [(300, 0), (299, 0), (201, 0), (200, 1), (100, 2), (0, 3)])
def test_as_much_is_left_as_retention_bytes_says_or_more(retention_bytes: int, count: int) -> None:
    assert deleted(retention_bytes=retention_bytes) == count


def test_a_segment_is_as_old_as_its_youngest_record() -> None:
    assert [deleted(retention_ms=age) for age in (2_000, 1_999, 1_000, 999, 0)] == [0, 1, 1, 2, 2]


def test_nothing_goes_that_ends_above_the_high_watermark() -> None:
    assert [deleted(retention_ms=0, now_ms=9_000, high=high) for high in (9, 10, 29, 30)] == [0, 1, 2, 3]


def test_an_active_segment_without_data_stays() -> None:
    assert deleted((*THREE[:2], Segment(20, 0, 3_000)), end=20, high=20, retention_ms=0, now_ms=9_000) == 2


def test_size_counts_what_the_log_start_leaves_and_age_what_both_leave() -> None:
    assert deleted(start=10, retention_bytes=100) == 2
    assert deleted(start=10, retention_bytes=100, retention_ms=0, now_ms=9_000) == 3


def test_a_compacted_log_keeps_what_is_old() -> None:
    assert deleted(policy="compact", retention_ms=0, retention_bytes=0, now_ms=9_000) == 0
