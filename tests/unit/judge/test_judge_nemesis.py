"""What the nemesis strikes, and heals again."""

from __future__ import annotations

from barnabas.judge.coordination import ISOLATE, ProxiedZooKeeper
from barnabas.judge.history import Client
from barnabas.judge.journal import Notes
from barnabas.judge.nemesis import JudgeNemesis
from barnabas.judge.peers import ProxiedPeers
from barnabas.judge.proxy import CUT


def test_a_broker_that_is_isolated_has_neither_peers_nor_zookeeper_until_it_is_healed() -> None:
    peers, zookeeper = (ProxiedPeers(range(3)).proxy, ProxiedZooKeeper(range(3), lambda: "127.0.0.1:1").proxy)
    notes = Notes({})
    nemesis = JudgeNemesis(
        [ISOLATE], None, None, notes.journal(Client("nemesis")), 0, peers, zookeeper=zookeeper, held_s=(7.0, 7.0)
    )
    faults = []

    def wait(seconds: float) -> bool:
        """The run ends while the first fault is there."""
        if seconds == 7.0:
            faults.append((dict(peers.faults), dict(zookeeper.faults)))
        return not faults

    try:
        nemesis.run(wait)
    finally:
        peers.close()
        zookeeper.close()
    ((of_peers, of_zookeeper),) = faults
    assert of_peers == of_zookeeper
    assert list(of_peers.values()) == [CUT]
    assert peers.faults == zookeeper.faults == {}
    assert nemesis.struck == {ISOLATE: 1}
