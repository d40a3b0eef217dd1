"""The kernel in C and its counterpart in Python find the same, in whatever pieces the records come."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verdicts.batches import BODIES, THREE, record

from barnabas.wire import scan
from barnabas.wire.records import HEADER, HEADER_BYTES
from barnabas.wire.scan import APPEND_TIMED, CREATE_TIME, NEEDS_KEYS, STRICT, NativeScan, PythonScan, Settings

pytestmark = pytest.mark.skipif(
    scan.RUNNING != "the kernel", reason="there is no kernel; test_kernel_build.py asks why"
)

LONGS = st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from((-1, 0, 5, 1_700_000_000_000)))
FLAGS = st.lists(st.sampled_from((STRICT, NEEDS_KEYS, CREATE_TIME, APPEND_TIMED)), unique=True).map(sum)
LENGTHS = st.one_of(st.integers(0, 40), st.integers(-3, 300), st.sampled_from((8191, 8192, -(1 << 31), (1 << 31) - 1)))


@st.composite
def fields(draw: Any) -> bytes:
    """A record by `record`, or one with odd lengths."""
    key = draw(st.one_of(st.none(), st.binary(max_size=80)))
    value = draw(st.one_of(st.none(), st.binary(max_size=200)))
    headers = draw(st.sampled_from((b"\x00", b"\x00", b"\x02\x02n\x02v", b"\x04\x02n\x01\x00\x00", b"\x01")))
    delta = draw(st.sampled_from((0, 0, 5, -7, 1 << 40)))
    return record(draw(st.integers(-1, 3)), delta, key, value, headers, grown=draw(st.sampled_from((0, 0, 0, 1, -2))))


BODY = st.one_of(
    st.sampled_from([each.body[:2000] for each in BODIES]),
    st.lists(fields(), max_size=5).map(b"".join),
    st.binary(max_size=60),
)


@st.composite
def mutated(draw: Any) -> bytes:
    """Records, some of whose bytes are others, left out or doubled."""
    body = bytearray(draw(BODY))
    for _ in range(draw(st.integers(0, 4))):
        if not body:
            break
        at = draw(st.integers(0, len(body) - 1))
        what = draw(st.sampled_from(("other", "without", "twice", "high")))
        if what == "other":
            body[at] = draw(st.integers(0, 255))
        elif what == "high":
            body[at] |= 0x80
        elif what == "without":
            del body[at]
        else:
            body[at:at] = body[at : at + draw(st.integers(1, 20))]
    return bytes(body)


@st.composite
def settings(draw: Any) -> Settings:
    count = draw(st.one_of(st.integers(0, 5), st.integers(-(1 << 31), (1 << 31) - 1)))
    return Settings(*(draw(LONGS) for _ in range(5)), count, draw(FLAGS))


def fed(kind: type, given_settings: Settings, body: bytes, cuts: list[int]) -> Any:
    made = kind(given_settings)
    starts = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    faults = [
        made.feed(memoryview(body)[start:end], end == len(body) and number == len(starts) - 2)
        for number, (start, end) in enumerate(itertools.pairwise(starts))
    ]
    return faults[-1], made.found()


@given(settings=settings(), body=mutated(), cuts=st.lists(st.integers(0, 10_000), max_size=6))
def test_both_find_the_same_in_any_pieces(settings: Settings, body: bytes, cuts: list[int]) -> None:
    whole = fed(NativeScan, settings, body, [])
    assert fed(PythonScan, settings, body, []) == whole
    assert fed(NativeScan, settings, body, cuts) == whole
    assert fed(PythonScan, settings, body, cuts) == whole


@given(settings=settings(), body=mutated(), max_timestamp=LONGS)
def test_both_say_the_same_of_a_whole_batch(settings: Settings, body: bytes, max_timestamp: int) -> None:
    header = HEADER.pack(0, 0, 0, 2, 0, 0, 0, settings.base_timestamp, max_timestamp, -1, -1, -1, settings.record_count)
    arguments = (header + body, settings.now, settings.before_max, settings.after_max, settings.flags & ~STRICT)
    assert scan.check(*arguments) == scan.python_check(*arguments)


@pytest.mark.parametrize("kind", [NativeScan, PythonScan])
@pytest.mark.parametrize("deltas", [(0, 1, 2), (1, 0, 2), (0, 2, 2), (0, 0, 2), (0, 1, 1), (1, 2, 3)])
def test_offsets_are_in_order_where_all_of_them_are(kind: type, deltas: tuple[int, ...]) -> None:
    body = b"".join(record(delta) for delta in deltas)
    fault, found = fed(kind, Settings(0, 0, 0, 0, 0, len(deltas), 0), body, [])
    assert (fault, found.disordered) == (0, deltas != (0, 1, 2))


def test_more_wrong_records_than_are_told_of_are_counted() -> None:
    body = record(key=None) * (scan.ERRORS_MAX + 7)
    given_settings = Settings(0, 0, 0, 0, 0, scan.ERRORS_MAX + 7, NEEDS_KEYS)
    found = fed(NativeScan, given_settings, body, [100, 7000])[1]
    assert (found.error_count, len(found.errors)) == (scan.ERRORS_MAX + 7, scan.ERRORS_MAX)
    assert found == fed(PythonScan, given_settings, body, [])[1]


def test_a_batch_that_is_shorter_than_its_header_is_not_fine() -> None:
    assert scan.check(bytes(HEADER_BYTES - 1), 0, 0, 0, 0) == scan.python_check(b"", 0, 0, 0, 0) == scan.NOT_FINE


def test_three_good_records_are_fine() -> None:
    header = HEADER.pack(0, 0, 0, 2, 0, 0, 2, 100, 105, -1, -1, -1, 3)
    assert scan.check(header + THREE, 110, 20, 20, CREATE_TIME) == scan.FINE
    assert scan.check(header + THREE, 110, 9, 20, CREATE_TIME) == scan.NOT_FINE
