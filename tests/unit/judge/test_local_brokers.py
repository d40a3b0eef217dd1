"""What the nemesis may do to brokers that ``barnabas up`` has started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.judge.clusters import JudgedClusterError, LocalBrokers


def test_a_broker_without_a_process_is_not_struck(tmp_path: Path) -> None:
    """To the system, the process 0 is whoever asks, and all that were started with it."""
    (tmp_path / "cluster.json").write_text(json.dumps({"brokers": [{"id": 0, "pid": None, "port": 9092}]}))
    brokers = LocalBrokers(tmp_path)
    brokers.kill(0)
    with pytest.raises(JudgedClusterError, match="broker 0 does not run"):
        brokers.resume(0)
