"""Format strings, offsets and envelopes of ``produce`` and ``consume``."""

from __future__ import annotations

import json

import pytest

from barnabas.cli.formats import Bound, compile_format, json_envelope, parse_offset
from barnabas.client.consumer import ConsumerRecord
from barnabas.wire.records import Record

FETCHED = ConsumerRecord("flights", 3, Record(42, 1_700_000_000_000, b"UA", b"late", [("h", b"1"), ("n", None)]))
TOMBSTONE = ConsumerRecord("flights", 0, Record(7, 0, None, None, []))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%t %p %o %k %v\\n", b"flights 3 42 UA late\n"),
        ("%s|%S|%K|%T", b"late|4|2|1700000000000"),
        ("%h", b"h=1,n=NULL"),
        ("100%%\\t\\x41", b"100%\tA"),
        ("", b""),
    ],
)
def test_a_format_string_prints_what_kcat_prints(text: str, expected: bytes) -> None:
    assert compile_format(text)(FETCHED) == expected


def test_null_prints_nothing_and_has_length_minus_one() -> None:
    assert compile_format("[%k][%v] %K %S")(TOMBSTONE) == b"[][] -1 -1"


@pytest.mark.parametrize("text", ["%q", "%"])
def test_an_unknown_field_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="%t"):
        compile_format(text)


def test_the_envelope_is_one_line_of_json() -> None:
    line = json_envelope(FETCHED)
    assert line.endswith(b"\n")
    assert json.loads(line) == {
        "topic": "flights",
        "partition": 3,
        "offset": 42,
        "tstype": "create",
        "ts": 1_700_000_000_000,
        "headers": ["h", "1", "n", None],
        "key": "UA",
        "payload": "late",
    }


NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", (Bound("start"), None)),
        ("beginning", (Bound("start"), None)),
        ("end", (Bound("end"), None)),
        ("17", (Bound("offset", 17), None)),
        ("-5", (Bound("tail", 5), None)),
        ("@1000", (Bound("time", 1000), None)),
        ("s@1000", (Bound("time", 1000), None)),
        ("e@1000", (Bound("start"), Bound("time", 1000))),
        ("@1000:2000", (Bound("time", 1000), Bound("time", 2000))),
        ("@-1h30m", (Bound("time", NOW - 5_400_000), None)),
        ("@-30m:now", (Bound("time", NOW - 1_800_000), Bound("time", NOW))),
        ("@2024-01-01T00:00:00", (Bound("time", 1_704_067_200_000), None)),
        (
            "@2024-01-01T00:00:00:2024-01-01T00:00:01",
            (Bound("time", 1_704_067_200_000), Bound("time", 1_704_067_201_000)),
        ),
    ],
)
def test_offsets_are_read(text: str, expected: tuple[Bound, Bound | None]) -> None:
    assert parse_offset(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "middle", "@", "@yesterday", "1.5", "--3"])
def test_what_is_no_offset_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_offset(text, NOW)
