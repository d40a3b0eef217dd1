"""The indexes of a segment beside lists of their entries: over any appends, cuts, flushes and new starts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.log.index_file import CorruptIndex
from barnabas.log.offset_index import OffsetIndex
from barnabas.log.time_index import TimeIndex
from barnabas.sim.world.disk import SimDisk, Volume

BASE = 1_000
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 300), st.integers(0, 300)),
        st.tuples(st.just("cut"), st.integers(-1, 300), st.just(0)),
        st.tuples(st.sampled_from(("flush", "begin again")), st.just(0), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_an_offset_index_is_a_list_of_offsets_and_positions(steps: list[tuple[str, int, int]]) -> None:
    disk = SimDisk(Volume(), lambda operation, path: None, lambda: 0)
    index = OffsetIndex(disk, "/index", BASE, 32, new=True)
    model: list[tuple[int, int]] = []
    for step, offset, position in steps:
        if step == "append":
            if model and (offset <= model[-1][0] or position <= model[-1][1]):
                with pytest.raises(CorruptIndex):
                    index.append(BASE + offset, position)
            else:
                index.append(BASE + offset, position)
                model.append((offset, position))
        elif step == "cut":
            index.truncate_to(BASE + offset)
            model = [entry for entry in model if entry[0] < offset]
        else:
            index.flush()
            assert len(disk.read("/index")) == index.file_size == len(model) * 8
            if step == "begin again":
                index = OffsetIndex(disk, "/index", BASE, 32)
                continue  # what comes next is the first to look at the file
        assert index.entries == len(model)
        assert index.full == (len(model) >= 4)
        assert (index.last_offset - BASE, index.last_position) == (model[-1] if model else (0, 0))
        for at in range(-1, 302, 3):
            assert index.lookup(BASE + at) == max((entry[1] for entry in model if entry[0] <= at), default=0)
            beyond = min((entry[0] for entry in model if entry[1] >= at), default=None)
            assert index.upper_bound_offset(at) == (None if beyond is None else BASE + beyond)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_a_time_index_is_a_list_of_timestamps_and_offsets(steps: list[tuple[str, int, int]]) -> None:
    disk = SimDisk(Volume(), lambda operation, path: None, lambda: 0)
    index = TimeIndex(disk, "/index", BASE, 48, new=True)
    model: list[tuple[int, int]] = []
    for step, offset, timestamp in steps:
        if step == "append":
            later = not model or timestamp > model[-1][0]
            if later and model and offset < model[-1][1]:
                with pytest.raises(CorruptIndex):
                    index.maybe_append(timestamp, BASE + offset)
            else:
                assert index.maybe_append(timestamp, BASE + offset) == later
                model += [(timestamp, offset)] * later
        elif step == "cut":
            index.truncate_to(BASE + offset)
            model = [entry for entry in model if entry[1] < offset]
        else:
            index.flush()
            assert len(disk.read("/index")) == index.file_size == len(model) * 12
            if step == "begin again":
                index = TimeIndex(disk, "/index", BASE, 48)
                continue
        assert index.entries == len(model)
        assert index.full == (len(model) >= 3)
        last_timestamp, last_offset = index.last_entry
        assert (last_timestamp, last_offset - BASE) == (model[-1] if model else (-1, 0))
        for at in range(-1, 302, 3):
            timestamp_there, offset_there = index.lookup(at)
            before = [entry for entry in model if entry[0] <= at]
            assert (timestamp_there, offset_there - BASE) == (before[-1] if before else (-1, 0))
