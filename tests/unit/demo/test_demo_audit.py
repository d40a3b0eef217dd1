"""The audit must be able to fail."""

from __future__ import annotations

from barnabas.cli.demo.audit import compare


def test_a_lost_a_doubled_and_an_unexpected_record_are_each_counted() -> None:
    audit = compare("topic", acknowledged=[1, 2, 3, 4], found=[1, 2, 2, 4, 9])
    assert (audit.lost, audit.duplicated, audit.unexpected) == (1, 1, 1)
    assert not audit.passed
    assert audit.verdict() == "1 lost, 1 duplicated, 1 unexpected", "a count by ids judges neither content nor order"


def test_everything_once_passes() -> None:
    assert compare("topic", [3, 1, 2], [1, 2, 3]).passed
