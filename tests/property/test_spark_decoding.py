"""Compiled decoding gives what plain Python gives: any records, codecs, timestamps, headers, ranges and compactions."""

from __future__ import annotations

import struct

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.spark.arrow import Columns, Fetched, decode_compiled, decode_plain, record_batches
from barnabas.spark.compiled import IS_BUILT, record_walk
from barnabas.spark.plan import OffsetRange
from barnabas.spark.record_columns import RecordWalk
from barnabas.spark.values import ValueFormat
from barnabas.wire.compression import Codec
from barnabas.wire.errors import WireError
from barnabas.wire.records import HEADER_BYTES, Record, batches, build_batch, rewritten

pytest.importorskip("numba")
from barnabas.spark import kernels

WALKS = [RecordWalk(kernels.decode, kernels.decode_headers), *([record_walk()] if IS_BUILT else [])]
"""By numba, and by the extension in C where it was built."""

NAMES = ("key", "value", "offset", "timestamp", "timestampType", "headers")
data = st.none() | st.binary(max_size=200)
records = st.lists(
    st.tuples(
        st.integers(-1, 2**41), data, data, st.lists(st.tuples(st.text(max_size=5), data), max_size=3), st.booleans()
    ),
    min_size=1,
    max_size=12,
)


def joined(made: list[bytes]) -> Fetched:
    view = memoryview(b"".join(made))
    return Fetched(view, list(batches(view)))


@st.composite
def fetches(draw: st.DrawFn) -> Fetched:
    """Batches of one codec kind; some with records that compaction took away."""
    packed = draw(st.booleans())
    offset, made = draw(st.integers(0, 2**40)), []
    for batch in draw(st.lists(records, min_size=1, max_size=4)):
        codec = draw(st.sampled_from(list(Codec)[1:])) if packed else Codec.NONE
        whole = [Record(offset + n, t, k, v, h) for n, (t, k, v, h, _) in enumerate(batch)]
        offset += len(whole) + draw(st.integers(0, 3))
        append_time = draw(st.none() | st.integers(0, 2**41))
        built = build_batch(whole, compression=codec, log_append_time=append_time)
        kept = [record for record, given_ in zip(whole, batch, strict=True) if given_[4]]
        made.append(rewritten(built, kept) if kept and append_time is None else built)
    return joined(made)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(fetches(), st.integers(0, 40), st.integers(0, 40))
def test_all_decoders_give_the_same_columns(fetch: Fetched, skip: int, keep: int) -> None:
    first = fetch.batches[0][0].base_offset + skip
    wanted = OffsetRange("t", 0, first, first + keep)
    plain = decode_plain(fetch, wanted, NAMES)
    for walk in WALKS:
        compiled = decode_compiled(fetch, wanted, NAMES, walk)
        for name in NAMES:
            compiled[name].validate(full=True)
            assert compiled[name].equals(plain[name]), name
        assert set(decode_compiled(fetch, wanted, ("value",), walk)) == {"value", "offset"}


def test_batches_of_every_kind_in_one_answer_come_in_order() -> None:
    made = [
        build_batch([Record(n * 3 + each, 1, None, b"%d" % n) for each in range(3)], compression=codec)
        for n, codec in enumerate([Codec.NONE, Codec.ZSTD, Codec.LZ4, Codec.NONE, Codec.GZIP, Codec.SNAPPY])
    ]
    for compiled in (True, False):
        got = record_batches(
            iter([joined(made)]), OffsetRange("t", 4, 1, 17), Columns(("offset", "partition", "topic")),
            ValueFormat.parse({}), compiled=compiled,
        )  # fmt: skip
        table = pyarrow.Table.from_batches(got)
        assert table["offset"].to_pylist() == list(range(1, 17))
        assert set(table["partition"].to_pylist()) == {4}
        assert set(table["topic"].to_pylist()) == {"t"}


def test_header_names_that_are_no_utf8_are_mended_alike() -> None:
    built = bytearray(build_batch([Record(0, 1, None, b"v", [("name", b"x")])]))
    at = built.index(b"name")
    built[at] = 0xFF
    wanted = OffsetRange("t", 0, 0, 1)
    fetch = joined([bytes(built)])
    for walk in WALKS:
        compiled = decode_compiled(fetch, wanted, NAMES, walk)
        assert compiled["headers"].equals(decode_plain(fetch, wanted, NAMES)["headers"])


@settings(max_examples=60, deadline=None)
@given(st.integers(61, 100), st.integers(0, 255))
def test_broken_records_are_an_error_or_something_else_but_never_a_crash(at: int, byte: int) -> None:
    built = bytearray(build_batch([Record(n, 1, b"key", b"value" * 3, [("h", b"x")]) for n in range(4)]))
    built[at] = byte
    for walk in WALKS:
        try:
            found = decode_compiled(joined([bytes(built)]), OffsetRange("t", 0, 0, 4), NAMES, walk)
        except WireError:
            continue
        found["value"].validate(full=True)


HUGE = b"\xfe" + b"\xff" * 8 + b"\x01"
"""2**63 - 1 as a zigzag varint: behind any position it is a negative number."""


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize(
    ("record", "said"),
    [
        (HUGE + b"\0\0\0\x01\x01\0", "ends too early"),
        (b"\x1e\0\0\0" + HUGE + b"\x01\0", "end elsewhere"),
        (b"\x1e\0\0\0\x01" + HUGE + b"\0", "end elsewhere"),
        (b"\x1e\0\0\0\x01\x01" + HUGE, "number of headers"),
        (b"\x22\0\0\0\x01\x01\x02" + HUGE + b"\x01", "end elsewhere"),
        (b"\x24\0\0\0\x01\x01\x02\x02n" + HUGE, "end elsewhere"),
    ],
)
def test_a_size_beyond_all_bytes_is_an_error(walk: RecordWalk, record: bytes, said: str) -> None:
    built = build_batch([Record(0, 1, None, None)])
    batch = built[:8] + struct.pack(">i", HEADER_BYTES - 12 + len(record)) + built[12:HEADER_BYTES] + record
    with pytest.raises(WireError, match=said):
        decode_compiled(joined([batch]), OffsetRange("t", 0, 0, 1), NAMES, walk)


@pytest.mark.skipif(not IS_BUILT, reason="the extension in C was not built")
def test_buffers_that_are_too_small_are_not_written_beyond() -> None:
    import numpy

    data = numpy.frombuffer(build_batch([Record(n, 1, b"k", b"v") for n in range(4)]), numpy.uint8)
    sections = numpy.array([[HEADER_BYTES, len(data), 4, 0, 0, 0, 0]], numpy.int64)

    def decoded(rows: int, size: int) -> int:
        wide = [numpy.zeros(rows, numpy.int64) for _ in range(4)]
        column = [numpy.zeros(rows + 1, numpy.int32), numpy.zeros(size, numpy.uint8), numpy.zeros(1, numpy.uint8)]
        totals = numpy.zeros(6, numpy.int64)
        return record_walk().decode(
            data, sections, 0, 9, True, True, wide[0], wide[1], numpy.zeros(rows, numpy.int32),
            *column, *column, wide[2], wide[3], totals,
        )  # fmt: skip

    assert decoded(4, 8) == 4
    assert [decoded(3, 8), decoded(4, 3), decoded(0, 0)] == [-5, -5, -5]
