"""A bug that every run meets is found in a cluster that lives. The others are ``make judge-mutants``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from living_mutants import living


def test_a_bug_that_is_put_back_is_found() -> None:
    verdict, _ = living("B85", 0.5)
    assert "aborted-read" in {each.anomaly for each in verdict.anomalies}
