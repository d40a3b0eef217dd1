"""Faults, one after the other, each healed before the next: of processes, disks, and all networks."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from barnabas.client import KafkaError
from barnabas.judge.clusters import PATIENCE_S, Brokers, JudgedClusterError
from barnabas.judge.coordination import ISOLATE, ZOOKEEPER_FAULTS
from barnabas.judge.coordination import PREFIX as ZK_PREFIX
from barnabas.judge.history import Op, Status
from barnabas.judge.journal import Journal, now
from barnabas.judge.peers import PEER_FAULTS, PREFIX
from barnabas.judge.proxy import CUT, DELAY, DELAY_END_TXN, NETWORK_FAULTS, Proxy

PROCESS_FAULTS: Final = ("kill", "pause", "shutdown")
"""``kill -9`` and a start, SIGSTOP and SIGCONT, a controlled shutdown and a start."""
DISK_FULL: Final = "disk-full"
"""No file of a broker grows any more; it is killed, if it has not ended by then, and started."""
KILL_TWO: Final = "kill-two"
"""``kill -9`` of a broker, of another one while the first is down, and both are started."""
ELECT: Final = "elect"
"""Preferred leaders come back after every other fault, as ``auto.leader.rebalance.enable`` has them within minutes: so
brokers that stayed up lose partitions and coordinators' roles to others, and get them again."""
FAULTS: Final = (*PROCESS_FAULTS, KILL_TWO, DISK_FULL, ELECT, *NETWORK_FAULTS, *PEER_FAULTS, *ZOOKEEPER_FAULTS)


def faults_of(make: str | None, *, script: bool = False, tls: bool = False) -> tuple[str, ...]:
    """The faults that are possible: a cluster of this kind that is made for the run has links that are ours, a script
    need not know how to fill a disk, and with `tls` no proxy can read what clients and brokers say."""
    return (
        *PROCESS_FAULTS,
        KILL_TWO,
        *(() if script else (DISK_FULL,)),
        ELECT,
        *(() if tls else NETWORK_FAULTS),
        *(PEER_FAULTS if make is not None else ()),
        *(ZOOKEEPER_FAULTS if make is not None and not make.startswith("kraft") else ()),
    )


HELD_S: Final = (3.0, 15.0)
"""How long a fault lasts: a paused broker's session ends in some of them, and in others it does not."""
BETWEEN_S: Final = (1.0, 5.0)
"""How long after the first of two the second is killed: mostly before the session of the first has ended. Whoever is
elected in its place then is dead by that time, and those who follow it are elected next."""
END_TXNS: Final = 20
END_TXNS_S: Final = 60
FIRST_S: Final = 2.0
REST_S: Final = (4.0, 10.0)


class JudgeNemesis:
    """`brokers` serves faults of processes, `proxy` those of the clients' network, `peers` those of the brokers'
    network."""

    def __init__(
        self,
        faults: Sequence[str],
        brokers: Brokers | None,
        proxy: Proxy | None,
        journal: Journal,
        seed: int,
        peers: Proxy | None = None,
        aim: Callable[[str], int] | None = None,
        held_s: tuple[float, float] = HELD_S,
        rest_s: tuple[float, float] = REST_S,
        elect: Callable[[], None] | None = None,
        zookeeper: Proxy | None = None,
        start_s: float = PATIENCE_S,
    ) -> None:
        """`aim` names the broker that a fault of processes strikes; by default chance does. `elect` requests preferred
        elections, and raises `KafkaError` or ``OSError`` where nobody answers. A broker that ends while it starts is
        started again, as a supervisor would do, until `start_s` have passed: Apache's ends when its ZooKeeper session
        expires before it has registered, and on a busy machine that may happen several times."""
        self._start_s = start_s
        self._held_s = held_s
        self._rest_s = rest_s
        self._peers = peers
        self._zookeeper = zookeeper
        self._faults = [fault for fault in faults if fault != ELECT]
        self._elect = elect if ELECT in faults else None
        self._brokers = brokers
        self._proxy = proxy
        self._journal = journal
        self._chance = random.Random(seed)
        self._aim = aim
        self.struck: dict[str, int] = dict.fromkeys(faults, 0)

    def run(self, wait: Callable[[float], bool]) -> None:
        """`wait` sleeps, and says whether the run goes on; a fault that is under way is healed in any case.

        Raises `JudgedClusterError` where the cluster does not do as it is told. Every fault has its turn, in a new
        order each time.
        """
        due: list[str] = []
        goes_on = wait(FIRST_S)
        while goes_on:
            if not due:
                due = self._chance.sample(self._faults, len(self._faults))
            if due:
                self._strike(due.pop(), wait)
            goes_on = wait(self._chance.uniform(*self._rest_s))
            if self._elect is not None:
                self._bring_leaders_back(self._elect)

    def _bring_leaders_back(self, elect: Callable[[], None]) -> None:
        invoked = now()
        try:
            elect()
        except (KafkaError, OSError) as error:
            self._journal.add(Op.NEMESIS, invoked, status=Status.UNKNOWN, name=ELECT, error=error)
        else:
            self._journal.add(Op.NEMESIS, invoked, name=ELECT)
            self.struck[ELECT] += 1

    def note_held(self) -> None:
        """Writes down every EndTxn that the proxy delivered late; to be called when the proxy has ended."""
        for held in () if self._proxy is None else self._proxy.held:
            name = f"{DELAY_END_TXN}:{held.transactional_id}"
            self._journal.add(Op.NEMESIS, held.since, completed=held.until, name=name)

    def _strike(self, fault: str, wait: Callable[[float], bool]) -> None:
        self.struck[fault] += 1
        if fault == KILL_TWO:
            self._kill_two(wait)
            return
        broker = self._target(fault)
        strike, heal = self._ways(fault)
        # It is written down as it begins: what it does to requests may show before it is healed.
        self._do(strike, broker, fault)
        try:
            wait(self._chance.uniform(*self._held_s))
            if fault == DELAY_END_TXN:
                self._wait_for_end_txns(wait)
        finally:
            self._do(heal, broker, "heal")

    def _kill_two(self, wait: Callable[[float], bool]) -> None:
        """Where the links between brokers are ours, they are slow from before until both are back. Followers then do
        not know yet what is committed, cannot quickly fetch again what they cut, and a returning broker hears late what
        it leads."""
        assert self._brokers is not None
        both = self._chance.sample(list(self._brokers.ids), min(2, len(self._brokers.ids)))
        down = []
        kill, start = self._ways("kill")
        try:
            if self._peers is not None:
                _everywhere(self._peers, DELAY)
                wait(self._chance.uniform(*BETWEEN_S))
            for broker, lasting_s in zip(both, (BETWEEN_S, self._held_s), strict=False):
                self._do(kill, broker, "kill")
                down.append(broker)
                if not wait(self._chance.uniform(*lasting_s)):
                    break
        finally:
            try:
                for broker in down:
                    self._do(start, broker, "heal")
            finally:
                if self._peers is not None:
                    _everywhere(self._peers, None)

    def _do(self, what: Callable[[int], None], broker: int, word: str) -> None:
        invoked = now()
        what(broker)
        self._journal.add(Op.NEMESIS, invoked, name=f"{word} broker {broker}")

    def _wait_for_end_txns(self, wait: Callable[[float], bool]) -> None:
        """Slow clients send few of them: the fault lasts until it has met some."""
        assert self._proxy is not None
        enough = self._proxy.struck[DELAY_END_TXN] + END_TXNS
        for _ in range(END_TXNS_S):
            if self._proxy.struck[DELAY_END_TXN] >= enough or not wait(1.0):
                break

    def _target(self, fault: str) -> int:
        if fault in NETWORK_FAULTS:
            assert self._proxy is not None
            return self._chance.choice(list(self._proxy.ports))
        if fault in PEER_FAULTS:
            assert self._peers is not None
            return self._chance.choice(list(self._peers.ports))
        if fault in ZOOKEEPER_FAULTS:
            assert self._zookeeper is not None
            return self._chance.choice(list(self._zookeeper.ports))
        assert self._brokers is not None
        return self._chance.choice(self._brokers.ids) if self._aim is None else self._aim(fault)

    def _ways(self, fault: str) -> tuple[Callable[[int], None], Callable[[int], None]]:
        if fault in NETWORK_FAULTS:
            proxy = self._proxy
            assert proxy is not None
            if fault != DELAY_END_TXN:
                return (lambda broker: proxy.strike(broker, fault)), proxy.heal
            # Few requests are EndTxns: at one broker alone a run of minutes would hardly see one.
            return (lambda _: _everywhere(proxy, DELAY_END_TXN)), (lambda _: _everywhere(proxy, None))
        if fault in PEER_FAULTS:
            peers = self._peers
            assert peers is not None
            return (lambda broker: peers.strike(broker, fault.removeprefix(PREFIX))), peers.heal
        if fault in ZOOKEEPER_FAULTS:
            zookeeper = self._zookeeper
            assert zookeeper is not None
            if fault == ISOLATE:
                return self._isolate, self._join_again
            return (lambda broker: zookeeper.strike(broker, fault.removeprefix(ZK_PREFIX))), zookeeper.heal
        brokers = self._brokers
        assert brokers is not None
        if fault == DISK_FULL:

            def start_again(broker: int) -> None:
                brokers.kill(broker)
                self._start(brokers, broker)

            return brokers.fill_disk, start_again
        if fault == "pause":
            return brokers.pause, brokers.resume
        return (brokers.kill if fault == "kill" else brokers.shutdown), partial(self._start, brokers)

    def _start(self, brokers: Brokers, broker: int) -> None:
        deadline = time.monotonic() + self._start_s
        while True:
            invoked = now()
            try:
                return brokers.start(broker)
            except JudgedClusterError as error:
                if time.monotonic() >= deadline:
                    raise
                self._journal.add(Op.NEMESIS, invoked, status=Status.FAILED, name=f"start broker {broker}", error=error)
                brokers.kill(broker)
            # Not `wait`, which the end of the run cuts short: a fault is healed in any case.
            time.sleep(self._rest_s[0])

    def _isolate(self, broker: int) -> None:
        for proxy in (self._peers, self._zookeeper):
            assert proxy is not None
            proxy.strike(broker, CUT)

    def _join_again(self, broker: int) -> None:
        for proxy in (self._peers, self._zookeeper):
            assert proxy is not None
            proxy.heal(broker)


def _everywhere(proxy: Proxy, fault: str | None) -> None:
    for broker in proxy.ports:
        if fault is None:
            proxy.heal(broker)
        else:
            proxy.strike(broker, fault)
