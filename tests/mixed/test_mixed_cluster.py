"""Brokers of Apache Kafka 3.9.2 and ours in one cluster, on a real ZooKeeper, under faults at whoever holds a role.

``MIXED_PROTOCOLS=2.6,2.8`` plays it with these values of inter.broker.protocol.version (`make mixed`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mixed_brokers import BothKinds
from mixed_play import play

pytestmark = pytest.mark.apache

PROTOCOLS = os.environ.get("MIXED_PROTOCOLS", "3.9").split(",")
MINUTES = 2.0
"""As many faults as come in three minutes where they are not brisk."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("brokers", PROTOCOLS, indirect=True, scope="session")
def test_both_kinds_hold_every_role_and_nothing_acknowledged_is_lost(tmp_path: Path, brokers: BothKinds) -> None:
    seed = int.from_bytes(os.urandom(4))
    print(f"seed {seed}")
    # What Kafka wrote is told, and judged by `make mixed-chaos`: what it writes among itself is known by samples.
    assert play(brokers, tmp_path, MINUTES, seed, brisk=True).wrong == []
