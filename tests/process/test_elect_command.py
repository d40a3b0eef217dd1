"""``barnabas partition elect``: what it says of an election that could not be held."""

from __future__ import annotations

import subprocess
import sys

from barnabas.testing import KafkaCluster


def elect(cluster: KafkaCluster, partition: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "barnabas", "partition", "elect", partition, "-b", cluster.bootstrap],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_preferred_leader_that_is_away_is_not_called_an_election_that_nobody_needs() -> None:
    with KafkaCluster(2) as cluster:
        cluster.create_topic("t", assignment={0: [1, 0]})
        done = elect(cluster, "t-0")
        assert (done.returncode, done.stdout) == (0, "no partition needed an election\n")
        cluster.broker(1).kill()
        cluster.partition("t", 0).wait(leader=0)
        done = elect(cluster, "t-0")
        assert (done.returncode, done.stdout) == (1, "")
        assert "PREFERRED_LEADER_NOT_AVAILABLE" in done.stderr
