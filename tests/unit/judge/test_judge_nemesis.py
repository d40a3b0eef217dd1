"""What the nemesis strikes, and heals again."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.judge.clusters import JudgedClusterError, ScriptBrokers
from barnabas.judge.coordination import ISOLATE, ProxiedZooKeeper
from barnabas.judge.history import Client, Op, Status
from barnabas.judge.journal import Notes
from barnabas.judge.nemesis import KILL_TWO, JudgeNemesis
from barnabas.judge.peers import ProxiedPeers
from barnabas.judge.proxy import CUT, DELAY, Proxy


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


def brokers_that_refuse_to_start(directory: Path, times: int) -> ScriptBrokers:
    """One broker, of which so many starts fail; what it is told stands in ``said``."""
    script = directory / "script"
    script.write_text(
        f'#!/bin/sh\n[ "$1" = brokers ] && echo 4 && exit\necho "$1" >> {directory}/said\n[ "$1" = start ] || exit 0\n'
        f'[ "$(grep -c start {directory}/said)" -gt {times} ] || {{ echo expired >&2; exit 1; }}\n'
    )
    script.chmod(0o755)
    return ScriptBrokers(script, "localhost:9092")


@pytest.mark.parametrize(("times", "start_s", "starts"), [(5, 60, 6), (5, 0, 1)])
def test_a_broker_that_ends_as_it_starts_is_started_again_for_a_while(
    tmp_path: Path, times: int, start_s: float, starts: int
) -> None:
    notes = Notes({})
    nemesis = JudgeNemesis(
        ["kill"],
        brokers_that_refuse_to_start(tmp_path, times),
        None,
        notes.journal(Client("nemesis")),
        0,
        held_s=(7, 7),
        rest_s=(0, 0),
        start_s=start_s,
    )
    waits = iter([True, False, False])
    if starts > times:
        nemesis.run(lambda seconds: next(waits))
    else:
        with pytest.raises(JudgedClusterError, match="expired"):
            nemesis.run(lambda seconds: next(waits))
    assert (tmp_path / "said").read_text().split() == ["kill", "start"] * starts
    history = notes.history()
    refused = history.rows(Op.NEMESIS)[history.status[history.rows(Op.NEMESIS)] == Status.FAILED]
    assert [history.names[number] for number in history.name[refused]] == ["start broker 4"] * (starts - 1)


class Watched(ScriptBrokers):
    """Three brokers, and what their links were like whenever one was started; what they are told stands in ``said``."""

    def __init__(self, directory: Path, links: Proxy) -> None:
        script = directory / "script"
        script.write_text(f'#!/bin/sh\n[ "$1" = brokers ] && echo 4 5 6 && exit\necho "$1 $2" >> {directory}/said\n')
        script.chmod(0o755)
        super().__init__(script, "localhost:9092")
        self.links, self.started_under = links, list[dict[int, str]]()

    def start(self, broker: int) -> None:
        self.started_under.append(dict(self.links.faults))
        super().start(broker)


@pytest.mark.parametrize("ends", [False, True])
def test_a_second_broker_is_killed_while_the_first_is_down_and_links_are_slow_until_both_are_back(
    tmp_path: Path, ends: bool
) -> None:
    """`ends`: the run does, before the time of the second one has come."""
    notes, peers = Notes({}), ProxiedPeers(range(4, 7)).proxy
    brokers = Watched(tmp_path, peers)
    nemesis = JudgeNemesis([KILL_TWO], brokers, None, notes.journal(Client("nemesis")), 0, peers)
    waits = iter([True, True, not ends, not ends, False])
    waited_under = []

    def wait(seconds: float) -> bool:
        waited_under.append(dict(peers.faults))
        return next(waits)

    try:
        nemesis.run(wait)
    finally:
        peers.close()
    slow = dict.fromkeys((4, 5, 6), DELAY)
    assert waited_under == [{}, *[slow] * (2 if ends else 3), {}]
    told = [words.split() for words in (tmp_path / "said").read_text().splitlines()]
    down = [broker for what, broker in told if what == "kill"]
    assert len(set(down)) == (1 if ends else 2)
    assert told == [[what, broker] for what in ("kill", "start") for broker in down]
    assert brokers.started_under == [slow] * len(down)
    assert nemesis.struck == {KILL_TWO: 1}
    history = notes.history()
    names = [history.names[number] for number in history.name[history.rows(Op.NEMESIS)]]
    assert names == [f"{what} broker {broker}" for what in ("kill", "heal") for broker in down]
