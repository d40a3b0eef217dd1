"""Brokers of Apache Kafka 3.9.2 and ours in one cluster, on a real ZooKeeper, under faults at whoever holds a role."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mixed_brokers import SHAPES, BothKinds
from mixed_play import play
from mixed_state import state

pytestmark = pytest.mark.apache


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("brokers", SHAPES, ids=str, indirect=True, scope="session")
def test_both_kinds_hold_every_role_and_nothing_acknowledged_is_lost(tmp_path: Path, brokers: BothKinds) -> None:
    seed = int.from_bytes(os.urandom(4))
    print(f"seed {seed}")
    minutes = 2.0 if "MIXED_PROTOCOLS" in os.environ else 0.5
    # What Kafka wrote is told, and judged by `make mixed-chaos`: what it writes among itself is known by samples.
    assert play(brokers, tmp_path, minutes, seed).wrong == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("brokers", SHAPES[:1], ids=str, indirect=True, scope="session")
def test_a_run_that_fails_is_told_with_how_the_cluster_is(brokers: BothKinds) -> None:
    first, *_, last = brokers.ids
    brokers.kill(last)
    told = state(brokers).splitlines()
    brokers.start(last)
    assert f"broker {first} of apache: S (sleeping)" in told
    assert any(line.startswith("  says that broker ") and line.endswith(" live") for line in told)
    ended = told[told.index(f"broker {last} of ours: ended with -9") :]
    assert ended[2].startswith("  says nothing: ")
    assert ended[-1].startswith("  its last line: ")
