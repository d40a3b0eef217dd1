"""Injects faults of processes, disks and networks, one after the other; each is healed before the next."""

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
"""No file of a broker can grow; then the broker is killed, unless it has ended by itself, and started."""
KILL_TWO: Final = "kill-two"
"""``kill -9`` of a broker, then of another one while the first is down; then both are started."""
ELECT: Final = "elect"
"""An election of preferred leaders after every other fault (``auto.leader.rebalance.enable`` does it within minutes):
brokers that stayed up lose partitions and coordinators' roles to others, and get them again later."""
FAULTS: Final = (*PROCESS_FAULTS, KILL_TWO, DISK_FULL, ELECT, *NETWORK_FAULTS, *PEER_FAULTS, *ZOOKEEPER_FAULTS)


def faults_of(make: str | None, *, script: bool = False, tls: bool = False) -> tuple[str, ...]:
    """The possible faults. Only a cluster that is made for the run has proxies between brokers; a script need not be
    able to fill a disk; with `tls` no proxy can read the clients' traffic."""
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
"""How long a fault lasts, from and to: a paused broker's session ends in some faults but not in others."""
BETWEEN_S: Final = (1.0, 5.0)
"""How long after the first of two brokers the second is killed, from and to: mostly before the session of the first has
ended. A leader elected in the first broker's place may be the second, which is dead by then, so that another follower
is elected next."""
END_TXNS: Final = 20
END_TXNS_S: Final = 60
FIRST_S: Final = 2.0
REST_S: Final = (4.0, 10.0)


class JudgeNemesis:
    """`brokers` is for faults of processes, `proxy` for those of the clients' network, `peers` for those of the
    brokers' network."""

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
        """`aim` chooses the broker for a fault of processes; by default it is random. `elect` requests preferred
        elections, and raises `KafkaError` or ``OSError`` if no broker answers. A broker that ends during its start is
        started again, as by a supervisor, until `start_s` have passed: Apache's ends if its ZooKeeper session expires
        before it has registered, which may happen several times on a busy machine."""
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
        """Runs until `wait`, which sleeps, returns that the run is over; a present fault is healed in any case. Raises
        `JudgedClusterError` if the cluster does not do as it is told. Every fault has its turn, in a new order each
        time.
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
        """Records every EndTxn that the proxy delivered late. It must be called after the proxy's end."""
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
        # Recorded at its beginning: its effects on requests may show before it is healed.
        self._do(strike, broker, fault)
        try:
            wait(self._chance.uniform(*self._held_s))
            if fault == DELAY_END_TXN:
                self._wait_for_end_txns(wait)
        finally:
            self._do(heal, broker, "heal")

    def _kill_two(self, wait: Callable[[float], bool]) -> None:
        """If there is a proxy between brokers, it slows their links from before the kills until both brokers are back.
        Then followers do not know yet what is committed, cannot quickly fetch truncated records again, and a returning
        broker learns late what it leads."""
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
        """Waits until the fault has affected some EndTxn requests: slow clients send few of them."""
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
            # Few requests are EndTxns: at a single broker a run of minutes would hardly see one.
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
            # Not `wait`, which returns early at the end of the run: this wait must be complete.
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
