"""Long plays take turns: every one of them has its share, and whatever is not long runs always."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PLUGIN = Path(__file__).parents[1]
SUITE = """
    import pytest

    @pytest.mark.long
    @pytest.mark.parametrize("case", range(6))
    def test_spread(case): pass

    @pytest.mark.long(1)
    @pytest.mark.parametrize("case", range(2))
    def test_whole(case): pass

    def test_short(): pass
"""


@pytest.mark.parametrize(
    ("share", "run"),
    [
        ("1/4", {"spread[0]", "spread[4]", "short"}),
        ("2/4", {"spread[1]", "spread[5]", "whole[0]", "whole[1]", "short"}),
        ("3/4", {"spread[2]", "short"}),
        ("4/4", {"spread[3]", "short"}),
        ("1/1", {*(f"spread[{case}]" for case in range(6)), "whole[0]", "whole[1]", "short"}),
    ],
)
def test_a_share_runs_what_is_in_it_and_says_what_waits(pytester: pytest.Pytester, share: str, run: set[str]) -> None:
    pytester.makeini(f"[pytest]\npythonpath = {PLUGIN}\nmarkers = long")
    pytester.makeconftest('pytest_plugins = ["long_plays"]')
    pytester.makepyfile(SUITE)
    told = pytester.runpytest_subprocess("-v", f"--long={share}")
    told.assert_outcomes(passed=len(run), deselected=9 - len(run))
    assert {test for test in run if f"test_{test} PASSED" in told.stdout.str()} == run
    assert (f"{9 - len(run)} tests of long plays are in other shares than {share}" in told.stdout.str()) == (
        len(run) < 9
    )


def test_a_file_of_which_all_waits_is_no_failure(pytester: pytest.Pytester) -> None:
    pytester.makeini(f"[pytest]\npythonpath = {PLUGIN}\nmarkers = long")
    pytester.makeconftest('pytest_plugins = ["long_plays"]')
    pytester.makepyfile("import pytest\n\n@pytest.mark.long(1)\ndef test_it(): assert False")
    assert pytester.runpytest_subprocess("--long=1/4").ret == pytest.ExitCode.OK
    assert pytester.runpytest_subprocess("--long=2/4").ret == pytest.ExitCode.TESTS_FAILED
