"""A bug that every run meets is found in a cluster that lives. The others are ``make judge-mutants``."""

from __future__ import annotations

import pytest
from living_mutants import living


@pytest.mark.long(3)
def test_a_bug_that_is_put_back_is_found() -> None:
    verdict, _ = living("B85", 0.5)
    assert "aborted-read" in {each.anomaly for each in verdict.anomalies}
