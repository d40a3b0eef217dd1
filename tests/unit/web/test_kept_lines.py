"""Lines of a scrape that the next one finds: which are, and how many."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.web.kept_lines import KEPT_LINES, KeptLines, Lines, parts
from barnabas.web.metrics import Kind


def of(kept: KeptLines, *series: str) -> Lines:
    def made(lot: Sequence[str]) -> list[str]:
        return [part for each in lot for part in parts(Kind.GAUGE, ("of",), (each,))]

    return kept.of(series[0], series, made)


def test_lines_are_made_again_where_a_number_changed() -> None:
    lines = of(KeptLines(), "100 %", "")
    first = lines.told("size", [1, 2.5])
    assert first == b'size{of="100 %"} 1\nsize 2.5\n'
    assert lines.told("size", [1, 2.5]) is first
    assert lines.told("length", [1, 2.5]) == first.replace(b"size", b"length")
    assert lines.told("size", [1, 3]) == first.replace(b"2.5", b"3")


def test_what_the_last_scrape_told_is_kept_and_nothing_else() -> None:
    kept = KeptLines()
    first, second = of(kept, "1"), of(kept, "2", "3")
    kept.end()
    assert of(kept, "2", "3") is second
    kept.end()
    assert of(kept, "2", "3") is second
    assert of(kept, "2", "4") is not second
    assert of(kept, "1") is not first


def test_nothing_is_kept_when_no_other_scrape_is_expected() -> None:
    kept = KeptLines()
    first = of(kept, "1")
    kept.end()
    begun = of(kept, "2")
    kept.forget()
    kept.end()
    assert of(kept, "1") is not first
    assert of(kept, "2") is not begun


def test_no_more_is_kept_than_there_is_room_for() -> None:
    kept = KeptLines()
    series = [[f"{lot} {number}" for number in range(49)] for lot in range(KEPT_LINES // 50 + 5)]
    made = [of(kept, *lot) for lot in series]
    kept.end()
    again = [of(kept, *lot) for lot in series]
    assert [one is other for one, other in zip(made, again, strict=True)] == [True] * (KEPT_LINES // 50) + [False] * 5
    told = [[lines.told("size", [1] * 49) for _ in range(2)] for lines in again]
    assert [one is other for one, other in told] == [True] * (KEPT_LINES // 50) + [False] * 5
