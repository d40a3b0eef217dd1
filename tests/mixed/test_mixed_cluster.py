"""Brokers of Apache Kafka 3.9.2 and ours in one cluster, on a real ZooKeeper, under faults at whoever holds a role."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mixed_brokers import SHAPES, BothKinds
from mixed_play import play

pytestmark = pytest.mark.apache


@pytest.mark.timeout(900)
@pytest.mark.parametrize("brokers", SHAPES, ids=str, indirect=True, scope="session")
def test_both_kinds_hold_every_role_and_nothing_acknowledged_is_lost(tmp_path: Path, brokers: BothKinds) -> None:
    seed = int.from_bytes(os.urandom(4))
    print(f"seed {seed}")
    minutes = 2.0 if "MIXED_PROTOCOLS" in os.environ else 1.0
    # What Kafka wrote is told, and judged by `make mixed-chaos`: what it writes among itself is known by samples.
    assert play(brokers, tmp_path, minutes, seed).wrong == []
