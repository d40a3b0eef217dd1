"""The ring of what a broker saw: bounded, and whole at every moment that it still has."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.web.assets import MODULES, asset, exported
from barnabas.web.history import OVERHEAD_BYTES, SeenHistory, leader_fact, partition_fact, registered_fact

NAMES = st.sampled_from(["broker/1", "controller", "partition/a-0", "partition/a-1", ""])
VALUES = st.one_of(st.none(), st.integers(0, 3), st.text(max_size=5))


def read(history: SeenHistory) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(b"".join(history.pieces()))
    return value


def folded(told: dict[str, Any]) -> dict[str, Any]:
    """The newest picture, as the page makes it."""
    facts = dict(told["before"])
    for _, name, value in told["changes"]:
        if value is None:
            facts.pop(name, None)
        elif name:
            facts[name] = value
    return facts


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), NAMES, VALUES)), st.integers(200, 2_000), st.integers(50, 500))
def test_what_is_left_of_the_ring_still_makes_the_newest_picture(
    seen: list[tuple[int, str, Any]], bytes_max: int, kept_ms: int
) -> None:
    ms = 0
    history = SeenHistory("a test", ms, bytes_max=bytes_max, kept_ms=kept_ms)
    for later, name, value in seen:
        ms += later
        if name:
            history.note(ms, name, value)
        else:
            history.line(ms, str(value))
        assert history.size <= max(bytes_max, OVERHEAD_BYTES * 3)
    told = read(history)
    assert folded(told) == history.facts
    newest_ms = max((change[0] for change in told["changes"]), default=0)
    assert all(change[0] >= newest_ms - kept_ms for change in told["changes"])
    assert told["written"] == history.written


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), NAMES, VALUES)), st.integers(300, 5_000), st.integers(50, 2_000))
def test_packed_or_not_the_ring_tells_the_same_changes(
    seen: list[tuple[int, str, Any]], bytes_max: int, kept_ms: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("barnabas.web.history.PACKED", 3)
        ms = 0
        history = SeenHistory("a test", ms, bytes_max=bytes_max, kept_ms=kept_ms)
        noted: list[Any] = []
        for later, name, value in seen:
            ms += later
            written = history.written
            if name:
                history.note(ms, name, value)
            else:
                history.line(ms, str(value))
            if history.written > written:
                noted.append([ms, name, value if name else str(value)])
            assert history.size <= max(bytes_max, OVERHEAD_BYTES * 3)
        told = read(history)
        assert len(history) == len(told["changes"])
        assert told["changes"] == noted[len(noted) - len(history) :]
        assert folded(told) == history.facts
        assert not noted or all(change[0] >= noted[-1][0] - kept_ms for change in told["changes"])
        for written in range(history.written + 1):
            new = noted[max(written, len(noted) - len(history)) :]
            assert [json.loads(each) for each in history.since(written)] == new


def test_an_hour_of_offsets_that_move_takes_a_megabyte() -> None:
    history = SeenHistory("a test", 0)
    tracemalloc.start()
    try:
        for second in range(900):
            for partition in range(20):
                end = second * 317 + partition * 1_009
                name = f"offsets/orders-{partition}"
                history.note(1_700_000_000_000 + second * 1_000, name, leader_fact(end - 2, end, {1: end - 3, 2: end}))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(history) == 18_000
    assert taken < 400_000, "a quarter of an hour"


def test_the_facts_of_brokers_and_partitions_are_as_the_page_reads_them() -> None:
    endpoint = Endpoint("PLAINTEXT", "somewhere", 9092)
    assert registered_fact(BrokerInfo(1, (endpoint,), "a"), up=True) == {
        "address": "somewhere:9092",
        "rack": "a",
        "up": True,
    }
    assert registered_fact(BrokerInfo(1, ()), up=False) == {"address": "", "rack": None, "up": False}
    assert partition_fact(2, 7, (2, 3), (1, 2, 3)) == {
        "leader": 2,
        "leader_epoch": 7,
        "isr": [2, 3],
        "replicas": [1, 2, 3],
    }
    told = leader_fact(5, 9, {1: 6, 2: 9, 3: -1})
    assert told == {"role": "leader", "high_watermark": 5, "log_end_offset": 9, "behind": {"1": 3, "2": 0}}


def test_who_counts_along_is_told_what_is_new_and_sees_what_is_lost() -> None:
    history = SeenHistory("a test", 0, bytes_max=10 * (OVERHEAD_BYTES + 20))
    history.note(1, "controller", 1)
    history.note(2, "controller", 1)
    assert history.written == 1, "nothing changed"
    history.note(3, "controller", 2)
    assert [json.loads(each) for each in history.since(1)] == [[3, "controller", 2]]
    assert history.since(2) == []
    for number in range(100):
        history.note(4, "controller", number)
    assert len(history.since(2)) == len(history) < history.written - 2


def test_an_exported_page_fetches_nothing_and_no_text_ends_its_script() -> None:
    history = SeenHistory("a test", 0)
    history.line(1, "</script><script>alert(1)</script> of a topic")
    history.line(2, "<!--<script> behind which the next end of a script is none")
    page = b"".join(exported(history)).decode()
    assert page.count("<script") == page.count("</script>") == 2
    assert "<!--" not in page
    assert "src=" not in page
    assert 'rel="stylesheet"' not in page
    assert "\nimport " not in page
    assert "\nexport " not in page
    assert all(asset(name) is not None for name in MODULES)
    assert asset("../endpoint.py") is None
