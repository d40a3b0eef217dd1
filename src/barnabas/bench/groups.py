"""``barnabas bench groups``: consumer groups that rebalance all the time, beside Apache Kafka 3.9.2.

- A new group on a fresh cluster, by librdkafka: from its subscription to its first record. The offsets topic is made
  meanwhile, and nothing waits for more members (``group.initial.rebalance.delay.ms=0``).
- Many groups by one client over asyncio, the same for both: every member has a connection of its own, joins, is given
  its assignment and heartbeats; in each group one member leaves after the other and comes back. The groups begin one
  after the other, so that some are rebalancing all the time; all in one moment would measure the client's own queue.
  A heartbeat's time is from its sending to its answer, whatever the answer says.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

from barnabas.bench.clusters import Subject, make_topic, running_apache, running_barnabas
from barnabas.bench.side_by_side import Figure, median_and_p99
from barnabas.client.connection import Connection
from barnabas.model.errors import ErrorCode
from barnabas.runtime.real import real_runtime
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest

CONFIG: Final = {"group.initial.rebalance.delay.ms": "0"}
HEARTBEAT_S: Final = 0.25
RESTS_S: Final = 2.0
"""How long a group is left alone before one of its members goes and comes back."""
_SESSION_MS: Final = 30_000
_AGAIN: Final = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class GroupLoad:
    """Groups of members on one broker; `heartbeats_s` are how long the answers took, `rebalances` how many ended."""

    def __init__(self, subject: Subject, name: str) -> None:
        self._subject = subject
        self._name = name
        self._runtime = real_runtime()
        self._stopping = False
        self.heartbeats_s: list[float] = []
        self.rebalances = 0

    async def run(self, groups: int, members: int, seconds: float) -> None:
        lives = [
            asyncio.ensure_future(self._member(f"{self._name}-{group}", number, members, RESTS_S * group / groups))
            for group in range(groups)
            for number in range(members)
        ]
        try:
            await asyncio.sleep(seconds)
            self._stopping = True
            await asyncio.gather(*lives)
        finally:
            for life in lives:
                life.cancel()

    async def _member(self, group: str, number: int, members: int, begins_s: float) -> None:
        await asyncio.sleep(begins_s)
        connection = Connection(self._runtime, "127.0.0.1", self._subject.port, f"{group}-{number}")
        await connection.connect()
        try:
            member_id = ""
            leaves_at = time.monotonic() + RESTS_S * (1 + number)
            while not self._stopping:
                member_id, generation = await self._join(connection, group, member_id)
                while not self._stopping:
                    await asyncio.sleep(HEARTBEAT_S)
                    if time.monotonic() > leaves_at:
                        leaves_at += RESTS_S * members
                        leave = LeaveGroupRequest(group_id=group, members=[LeaveGroupRequest.MemberIdentity(member_id)])
                        await connection.send(leave, 4)
                        member_id = ""
                        break
                    begun = time.perf_counter()
                    answer = await connection.send(HeartbeatRequest(group, generation, member_id), 3)
                    self.heartbeats_s.append(time.perf_counter() - begun)
                    if answer.error_code:
                        break
        finally:
            await connection.close()

    async def _join(self, connection: Connection, group: str, member_id: str) -> tuple[str, int]:
        """The member's id and generation, when it has been given its assignment."""
        protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"")
        while True:
            request = JoinGroupRequest(group, _SESSION_MS, _SESSION_MS, member_id, None, "consumer", [protocol])
            joined = await connection.send(request, 5, 2 * _SESSION_MS)
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                member_id = joined.member_id
                continue
            if joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                member_id = ""
                continue
            if joined.error_code:
                assert joined.error_code in _AGAIN, ErrorCode(joined.error_code).name
                await asyncio.sleep(0.05)
                continue
            member_id = joined.member_id
            shares = [
                SyncGroupRequest.SyncGroupRequestAssignment(member.member_id, b"share") for member in joined.members
            ]  # empty but for the leader's
            sync = SyncGroupRequest(group, joined.generation_id, member_id, assignments=shares)
            synced = await connection.send(sync, 3, 2 * _SESSION_MS)
            if not synced.error_code:
                self.rebalances += bool(shares)
                return member_id, joined.generation_id
            if self._stopping:
                return member_id, joined.generation_id


def first_record_s(subject: Subject) -> float:
    """Seconds from the subscription of a new group, the cluster's first, until it has a record."""
    from confluent_kafka import Consumer, Producer

    name = "bench-first"
    make_topic(subject, name)
    producer = Producer({"bootstrap.servers": subject.bootstrap})
    producer.produce(name, b"first")
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": subject.bootstrap, "group.id": name, "auto.offset.reset": "earliest", "log_level": 0}
    )
    try:
        begun = time.monotonic()
        consumer.subscribe([name])
        while (message := consumer.poll(60)) is not None and message.error() is not None:
            pass
        assert message is not None, "no record within a minute"
        return time.monotonic() - begun
    finally:
        consumer.close()


def coordinator_is_there(subject: Subject) -> None:
    """Waits for the coordinator, so that the making of the offsets topic is not measured."""
    from barnabas.client.blocking import BlockingConnection

    with BlockingConnection("127.0.0.1", subject.port, "barnabas-bench") as connection:
        while connection.send(FindCoordinatorRequest(key="bench"), 3).error_code:
            time.sleep(0.05)


def measure(place: Path, rounds: int, groups: int, members: int, seconds: float) -> list[Figure]:
    """One broker each. `rounds` fresh clusters for the first record; then `rounds` of the load in turn."""
    first = Figure("a new group's first record, fresh cluster", "s", "<= 1.0")
    p50 = Figure(f"heartbeat p50, {groups} groups of {members} rebalancing", "ms", "<= 1.0")
    p99 = Figure(f"heartbeat p99, {groups} groups of {members} rebalancing", "ms", "<= 1.0")
    rate = Figure("rebalances a second", "1/s", ">= 1.0")
    memory = Figure("resident memory after it", "MB", "<= 1.0")
    cpu = Figure("broker CPU a second of it", "s", "<= 1.0")
    for number in range(rounds - 1):  # the last pair goes on to carry the load
        with running_barnabas(place / f"fresh-{number}") as ours:
            first.ours.append(first_record_s(ours))
        with running_apache(place / f"apache-fresh-{number}", config=CONFIG) as theirs:
            first.theirs.append(first_record_s(theirs))
    with running_barnabas(place / "barnabas") as ours, running_apache(place / "apache", config=CONFIG) as theirs:
        for subject, found in ((ours, first.ours), (theirs, first.theirs)):
            found.append(first_record_s(subject))
            coordinator_is_there(subject)
            asyncio.run(GroupLoad(subject, "warm-up").run(groups, members, seconds))
        for number in range(rounds):
            for subject in (ours, theirs):
                load = GroupLoad(subject, f"round-{number}")
                spent = subject.cpu_s()
                begun = time.monotonic()
                asyncio.run(load.run(groups, members, seconds))
                took = time.monotonic() - begun
                heartbeats_s = median_and_p99(load.heartbeats_s)
                for figure, value in (
                    (p50, heartbeats_s["p50"] * 1000),
                    (p99, heartbeats_s["p99"] * 1000),
                    (rate, load.rebalances / took),
                    (memory, subject.memory_mb()),
                    (cpu, (subject.cpu_s() - spent) / took),
                ):
                    figure.add(value, ours=subject is ours)
    return [first, p50, p99, rate, memory, cpu]
