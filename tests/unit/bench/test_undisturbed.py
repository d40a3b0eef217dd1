"""Measurements that are made again while the host of a virtual machine takes its cores away."""

from __future__ import annotations

from barnabas.bench.undisturbed import ATTEMPTS, stolen_s, undisturbed

HOUR_S = 3600.0


def measured(stolen_s: list[float]) -> tuple[int, int]:
    """Of attempts of an hour during which so much was stolen: the one that counts, and how many there were."""
    made = 0

    def measure() -> int:
        nonlocal made
        made += 1
        return made

    counts = undisturbed(measure, stolen_s=lambda: sum(stolen_s[:made]), now_s=lambda: HOUR_S * made)
    return counts, made


def test_what_nothing_disturbed_is_measured_once() -> None:
    assert measured([0.0]) == (1, 1)


def test_what_was_disturbed_is_measured_again() -> None:
    assert measured([HOUR_S, HOUR_S, 0.0]) == (3, 3)


def test_the_least_disturbed_counts_where_all_were() -> None:
    stolen = [3 * HOUR_S] * ATTEMPTS
    stolen[1] = HOUR_S
    assert measured(stolen) == (2, ATTEMPTS)


def test_what_the_preparation_costs_does_not_disturb_the_measurement() -> None:
    stolen = prepared = 0.0

    def prepare() -> None:
        nonlocal stolen, prepared
        stolen += HOUR_S
        prepared += 1

    assert undisturbed(lambda: "measured", prepare, lambda: stolen) == "measured"
    assert prepared == 1


def test_what_this_machine_lost_only_grows() -> None:
    before = stolen_s()
    assert 0 <= before <= stolen_s()
