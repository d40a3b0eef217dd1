"""Made histories: each anomaly's own example, more with one anomaly each, and as many near misses without any."""

from __future__ import annotations

from pathlib import Path

import pytest
from history_lines import parse

from barnabas.judge.anomalies import ANOMALIES, LIMITS
from barnabas.judge.check import check
from barnabas.judge.history import HistoryError, OperationHistory

HERE = Path(__file__).parent


def sections(name: str) -> dict[str, str]:
    """The histories of a file by their titles."""
    parts = (HERE / name).read_text(encoding="utf-8").split("\n== ")[1:]
    return {title: text for title, _, text in (part.partition("\n") for part in parts)}


def bad() -> dict[str, tuple[str, str | None, str]]:
    """What is found, by its name and its limit (None: an anomaly), and the history that it is found in."""
    always = {"G0": "writes-not-isolated", "G1b": "poll-within-transaction"}
    histories = {name: (name, always.get(name), each.example) for name, each in ANOMALIES.items()}
    for title, text in sections("bad_histories.txt").items():
        name, _, found = title.rpartition(": ")
        anomaly, _, limit = found.partition("/")
        histories[name] = (anomaly, limit or None, text)
    return histories


TWICE = """client s scan=yes
topic r cleanup.policy=compact
client p driver=librdkafka
q send r/0@0 k=2 v=2
p send r/0@2 k=1 v=1
q send r/0@3 k=3 v=3
d read r/0@0 k=2 v=2
d read r/0@1 k=1 v=1
d read r/0@2 k=1 v=1
d read r/0@3 k=3 v=3
c assign r/0@0
c read r/0@0 k=2 v=2
{}c read r/0@3 k=3 v=3
s copy r/0@1 v=1 g=7/0/41
s copy r/0@2 v=1 g=7/1/0
s read r/0@0 k=2 v=2
s read r/0@2 k=1 v=1
s read r/0@3 k=3 v=3
s scanned r/0@4"""
"""A record that stands twice, of which a reader was given neither copy, or what is put in."""
LEFT_OUT = [TWICE.format(""), TWICE.format("c read r/0@1 k=1 v=1\n")]
BAD = bad()
GOOD = sections("good_histories.txt")


def test_the_document_has_the_number_of_them() -> None:
    said = " ".join((HERE.parents[2] / "docs/judge.md").read_text(encoding="utf-8").split())
    others = len(BAD) - len(ANOMALIES)
    assert f"made histories: {len(BAD)} with one anomaly each ({others} and the examples above)" in said
    assert f"and {len(GOOD)} near misses" in said


def made(text: str) -> OperationHistory:
    """The history of a text, in whose last operation ``LATER`` stands for a minute."""
    history = parse(text.replace(" LATER", ""))
    if "LATER" in text:
        history.invoked[-1] += 60_000_000_000
        history.completed[-1] += 60_000_000_000
    return history


def found(text: str) -> list[tuple[str, str | None, int]]:
    verdict = check(made(text))
    return [(each.anomaly, each.limit, each.count) for each in (*verdict.anomalies, *verdict.limits)]


@pytest.mark.parametrize("name", BAD)
def test_a_history_with_one_anomaly_shows_that_one_and_no_other(name: str) -> None:
    anomaly, limit, text = BAD[name]
    assert found(text) == [(anomaly, limit, 1)]


@pytest.mark.parametrize("name", GOOD)
def test_a_near_miss_shows_none(name: str) -> None:
    assert found(GOOD[name]) == []


@pytest.mark.parametrize("text", LEFT_OUT)
def test_the_last_copy_of_a_keys_last_record_is_not_to_be_left_out(text: str) -> None:
    assert found(text) == [("poll-skip", None, 1), ("duplicate", "librdkafka-new-epoch", 1)]


@pytest.mark.parametrize("name", BAD)
def test_wall_clocks_that_go_back_say_nothing(name: str) -> None:
    history = made(BAD[name][2])
    before = check(history)
    history.wall[:] = -history.invoked
    assert check(history).judged == before.judged


def test_there_are_forty_of_each_and_every_anomaly_and_limit_is_among_them() -> None:
    assert min(len(BAD), len(GOOD)) >= 40
    assert {anomaly for anomaly, _, _ in BAD.values()} == set(ANOMALIES)
    assert {limit for _, limit, _ in BAD.values()} == {None, *LIMITS}


def test_what_a_history_could_not_have_shown_is_named() -> None:
    verdict = check(parse("p send r/0@0 v=1\nc read r/0@0 v=1"))
    assert verdict.good
    assert "lost-write" in verdict.unjudged
    assert "duplicate" not in verdict.unjudged


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("p send r/0@0 v=1\nq send r/0@1 v=1", "value 1 is sent twice"),
        ("p send r/0@0", "a send has no value"),
        ("p send v=1", "row 0 \\(send\\) has no partition"),
        ("p commit", "row 0 \\(commit\\) ends no transaction"),
        ("c fetch-offset r/0@1", "row 0 \\(fetch-offset\\) names no group"),
        ("p send r/0@0 v=1\np send r/0@1 v=2 ..1", "row 1 \\(send\\) completes before it is invoked"),
    ],
)
def test_a_history_that_contradicts_itself_is_refused(text: str, why: str) -> None:
    with pytest.raises(HistoryError, match=why):
        check(parse(text))
