"""What is recorded of old bugs: a catch stands as long as its code does, and is tried again."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys

import pytest
from mutants import catch
from mutants.copies import PACKAGE
from mutants.digests import NEVER_SIMULATED, SIMULATOR, bare, changed_since
from mutants.edits import replace
from mutants.hunt import Record, only, recorded
from mutants.mutant import mutant
from mutants.recall import BY_NOTHING, BY_OWN_PLAY, BY_OWN_TEST, BY_PLAY, BY_SEEDS, STALE, caught_by, page, read_results
from mutants.replay import replayed, share_of
from mutants.table import MUTANTS

OF = {each.bug: each for each in MUTANTS}
BUG = OF["B01"]
BREAK = {"invariant": "C1", "sentence": "", "invariants": ["C1"], "runs": 3, "cpu_s": 1.5, "false_alarms": []}
BY: dict[str, dict[str, Record]] = {
    "seeds": {"seeds": {**BREAK, "profile": "GC", "seed": 2}},
    "play": {"play": {**BREAK, "play": "zombie-controller"}},
    "own play": {"play": {**BREAK, "play": "B02"}},
    "test": {"test": {"test": "tests/unit/sim/test_recall.py::test_it", "noticed": True}},
    "no seed": {"seeds": {"runs": 400, "cpu_s": 600.5, "false_alarms": []}},
}


def known(*names: str) -> dict[str, Record]:
    return {way: recorded(BUG, record) for name in names for way, record in BY[name].items()}


def stale(records: dict[str, Record]) -> dict[str, Record]:
    return {
        way: {**record, "commit": "c0ffee", "stands_on": {**record["stands_on"], "product": "another"}}
        for way, record in records.items()
    }


def test_comments_docstrings_and_empty_lines_are_no_change_of_the_code() -> None:
    told = '''"""A module."""\n\ndef f():\n    """Says\n    much."""\n    # Why.\n    return "# 1"  # so\n'''
    assert bare(told) == bare('def f():\n\n    return "# 1"') != bare('def f():\n    return "# 2"')


def test_results_stand_on_all_that_runs_take_in_and_on_nothing_else() -> None:
    runs = "from barnabas.sim import run, scenarios; import sys; print(*sys.modules)"
    names = subprocess.run([sys.executable, "-c", runs], capture_output=True, text=True, check=True).stdout.split()
    taken_in = {name.split(".")[1] for name in names if name.startswith("barnabas.")}
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert rooms - taken_in == {*NEVER_SIMULATED}
    assert SIMULATOR in taken_in


@pytest.mark.parametrize(
    ("record", "parts"),
    [
        ("seeds", ["mutant", "product", "simulator"]),
        ("play", ["mutant", "product", "simulator", "play"]),
        ("test", ["mutant", "product", "test"]),
    ],
)
def test_a_result_is_stale_when_anything_that_it_stands_on_changed(record: str, parts: list[str]) -> None:
    (found,) = known(record).values()
    assert list(found["stands_on"]) == parts
    assert changed_since(BUG, found) == []
    for part in parts:
        assert changed_since(BUG, {**found, "stands_on": {**found["stands_on"], part: "another"}}) == [part]


@pytest.mark.parametrize(
    ("records", "kind"),
    [
        (known("seeds", "play", "test"), BY_SEEDS),
        (known("no seed", "play", "test"), BY_PLAY),
        (known("no seed", "own play", "test"), BY_OWN_PLAY),
        (known("no seed", "test"), BY_OWN_TEST),
        (known("no seed"), BY_NOTHING),
        ({}, BY_NOTHING),
        (stale(known("seeds", "play", "test")), STALE),
        (stale(known("seeds")) | known("play"), BY_PLAY),
        (stale(known("no seed")), BY_NOTHING),
    ],
)
def test_a_bug_counts_for_the_most_general_find_that_holds(records: dict[str, Record], kind: str) -> None:
    assert caught_by(BUG, records) == kind
    assert f"| {kind} | 1 |" in page({BUG.bug: records}) or kind == BY_NOTHING


def test_the_page_marks_what_is_stale() -> None:
    (row,) = (line for line in page({BUG.bug: stale(known("seeds"))}).splitlines() if line.startswith("| B01 "))
    assert "| GC 2 | 3 | 2 | C1 † |" in row


def test_shares_are_all_together_and_a_commit_names_one() -> None:
    mutants = list(MUTANTS)
    shares = [share_of(mutants, f"{number}/6") for number in range(1, 7)]
    assert sorted(each.bug for share in shares for each in share) == sorted(OF)
    assert share_of(mutants, "head/6") in shares
    with pytest.raises(ValueError, match="there is no share 7/6"):
        share_of(mutants, "7/6")


def test_a_replay_tells_whether_the_bug_is_still_caught() -> None:
    anchor, checked = "zk.kafka.requests:KafkaRequests._checked_requests", BUG.edits[0].old
    harmless = mutant("B01", "", "", "GC", "C1", replace(anchor, checked, "pass"))
    record = {"play": "zombie-controller", "commit": "c0ffee"}
    assert replayed(BUG, record) == (True, "caught by play zombie-controller")
    assert replayed(harmless, record, cpu_seconds=0) == (
        False,
        "NOT CAUGHT: play zombie-controller, which caught it at c0ffee, does not any more, "
        "nor do other seeds in 0.0 CPU s",
    )


def test_what_is_recorded_is_of_a_mutant_and_can_be_run_again() -> None:
    results = read_results()
    assert {*results} <= {*OF}
    for records in results.values():
        assert {*records} <= {"seeds", "play", "test"}
        for record in records.values():
            if "invariant" in record:
                json.dumps(only(record))


def test_a_run_that_takes_too_long_is_stopped_in_whatever_it_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A task and the loop catch every exception but what a Ctrl-C raises."""
    monkeypatch.setattr(catch, "RUN_CPU_SECONDS", 0.3)
    task = {"plays": [], "profiles": ["all"], "seeds": [0], "cpu_seconds": 60, "skip": 0}
    monkeypatch.setattr(sys, "argv", ["catch.py", json.dumps(task)])
    before = signal.getsignal(signal.SIGPROF)
    try:
        catch.main()
    finally:
        signal.signal(signal.SIGPROF, before)
        logging.disable(logging.NOTSET)
    found = json.loads(capsys.readouterr().out)
    assert (found["invariant"], found["sentence"]) == ("L1", "not over after 0.3 CPU s")
