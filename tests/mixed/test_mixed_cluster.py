"""Brokers of Apache Kafka 3.9.2 and ours in one cluster, on a real ZooKeeper, under faults at whoever holds a role.

``MIXED_PROTOCOLS=2.6,2.8`` plays it with these values of inter.broker.protocol.version (`make mixed`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from apache import require
from mixed_play import play

pytestmark = pytest.mark.apache

PROTOCOLS = os.environ.get("MIXED_PROTOCOLS", "3.9").split(",")
MINUTES = 3.0


@pytest.mark.timeout(900)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_both_kinds_hold_every_role_and_nothing_acknowledged_is_lost(tmp_path: Path, protocol: str) -> None:
    require()
    seed = int.from_bytes(os.urandom(4))
    print(f"seed {seed}")
    # What Kafka wrote is told, and judged by `make mixed-chaos`: what it writes among itself is known by samples.
    assert play(tmp_path, MINUTES, seed, inter_broker_protocol_version=protocol).wrong == []
