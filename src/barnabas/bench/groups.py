"""``barnabas bench groups``: consumer groups that rebalance all the time, beside Apache Kafka 3.9.2.

- A new group on a fresh cluster, by librdkafka: from its subscription to its first record. The offsets topic is made
  meanwhile, and nothing waits for more members (``group.initial.rebalance.delay.ms=0``).
- Many groups by one client over asyncio, the same for both: every member has a connection of its own, joins, is given
  its assignment and heartbeats; in each group one member leaves after the other and comes back. The groups begin one
  after the other, so that some are rebalancing all the time; all in one moment would measure the client's own queue.
  A heartbeat's time is from its sending to its answer, whatever the answer says.
- Groups of one member that commit an offset after each record, one commit in flight each; and many that only rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Self

from barnabas.bench.clusters import Subject, make_topic, running_apache, running_barnabas
from barnabas.bench.side_by_side import Figure, median_and_p99
from barnabas.client.connection import Connection
from barnabas.model.errors import ErrorCode
from barnabas.runtime.real import real_runtime
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest

CONFIG: Final = {"group.initial.rebalance.delay.ms": "0"}
HEARTBEAT_S: Final = 0.25
RESTS_S: Final = 2.0
"""How long a group is left alone before one of its members goes and comes back."""
QUIET: Final = 1000
TOPIC: Final = "bench-first"
_RUNTIME: Final = real_runtime()
_SESSION_MS: Final = 30_000
_AGAIN: Final = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class MeasuredMember:
    """A member of a group, on a connection of its own; `requests` are how many were answered."""

    def __init__(self, subject: Subject, group: str, number: int = 0) -> None:
        self._group = group
        self._connection = Connection(_RUNTIME, "127.0.0.1", subject.port, f"{group}-{number}")
        self._member_id = ""
        self._generation = -1
        self.requests = 0

    async def __aenter__(self) -> Self:
        await self._connection.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    async def _ask(self, request: Any, version: int) -> Any:
        answer = await self._connection.send(request, version, 2 * _SESSION_MS)
        self.requests += 1
        return answer

    async def join(self) -> bool:
        """Returns when the member has its assignment, or the group rebalances again; whether it led the rebalance."""
        protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"")
        while True:
            request = JoinGroupRequest(
                self._group, _SESSION_MS, _SESSION_MS, self._member_id, None, "consumer", [protocol]
            )
            joined = await self._ask(request, 5)
            if joined.error_code in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.UNKNOWN_MEMBER_ID):
                self._member_id = joined.member_id if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED else ""
                continue
            if joined.error_code:
                assert joined.error_code in _AGAIN, ErrorCode(joined.error_code).name
                await asyncio.sleep(0.05)
                continue
            self._member_id, self._generation = joined.member_id, joined.generation_id
            shares = [
                SyncGroupRequest.SyncGroupRequestAssignment(member.member_id, b"share") for member in joined.members
            ]  # empty but for the leader's
            sync = SyncGroupRequest(self._group, self._generation, self._member_id, assignments=shares)
            synced = await self._ask(sync, 3)
            return bool(shares) and not synced.error_code

    async def heartbeat(self) -> bool:
        """Whether the member may go on as it is."""
        answer = await self._ask(HeartbeatRequest(self._group, self._generation, self._member_id), 3)
        return not answer.error_code

    async def commit(self, offset: int) -> None:
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, offset, 0, committed_metadata="")
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(TOPIC, [partition])
        answer = await self._ask(OffsetCommitRequest(self._group, self._generation, self._member_id, topics=[topic]), 7)
        (code,) = (each.error_code for topic in answer.topics for each in topic.partitions)
        assert not code, ErrorCode(code).name

    async def leave(self) -> None:
        leaver = LeaveGroupRequest.MemberIdentity(self._member_id)
        await self._ask(LeaveGroupRequest(group_id=self._group, members=[leaver]), 4)
        self._member_id = ""


class GroupLoad:
    """A load on one broker for some seconds: how many requests it answered, and its CPU for them."""

    def __init__(self, subject: Subject, name: str) -> None:
        self.subject = subject
        self.name = name
        self.members: list[MeasuredMember] = []
        self.heartbeats_s: list[float] = []
        """How long the answers took."""
        self.rebalances = 0
        """How many ended."""
        self.stopping = False
        self.cpu_s = 0.0
        self.requests = 0

    def member(self, group: int, number: int = 0) -> MeasuredMember:
        member = MeasuredMember(self.subject, f"{self.name}-{group}", number)
        self.members.append(member)
        return member

    async def last(self, seconds: float) -> None:
        """Measures so long. Members that wait in a rebalance when it is over wait for the sessions of those that have
        gone, which is no part of it."""
        spent, requests = self.subject.cpu_s(), sum(member.requests for member in self.members)
        await asyncio.sleep(seconds)
        self.cpu_s = self.subject.cpu_s() - spent
        self.requests = sum(member.requests for member in self.members) - requests
        self.stopping = True

    async def rebalance(self, groups: int, members: int, seconds: float) -> None:
        lives = [
            asyncio.ensure_future(self._comes_and_goes(group, number, members, RESTS_S * group / groups))
            for group in range(groups)
            for number in range(members)
        ]
        try:
            await self.last(seconds)
            await asyncio.gather(*lives)
        finally:
            for life in lives:
                life.cancel()

    async def _comes_and_goes(self, group: int, number: int, members: int, begins_s: float) -> None:
        await asyncio.sleep(begins_s)
        async with self.member(group, number) as member:
            leaves_at = time.monotonic() + RESTS_S * (1 + number)
            while not self.stopping:
                led = await member.join()
                self.rebalances += led and not self.stopping
                while not self.stopping:
                    await asyncio.sleep(HEARTBEAT_S)
                    if time.monotonic() > leaves_at:
                        leaves_at += RESTS_S * members
                        await member.leave()
                        break
                    begun = time.perf_counter()
                    goes_on = await member.heartbeat()
                    self.heartbeats_s.append(time.perf_counter() - begun)
                    if not goes_on:
                        break

    async def steady(
        self, groups: int, seconds: float, live: Callable[[GroupLoad, MeasuredMember, int], Awaitable[None]]
    ) -> None:
        """Groups of one member, each of which does `live` until it is over; their joining is not measured."""
        async with contextlib.AsyncExitStack() as open_members:
            for group in range(groups):
                await open_members.enter_async_context(self.member(group))
            await asyncio.gather(*(member.join() for member in self.members))
            lives = [asyncio.ensure_future(live(self, member, at)) for at, member in enumerate(self.members)]
            await self.last(seconds)
            await asyncio.gather(*lives)
            await asyncio.gather(*(member.leave() for member in self.members))


async def commits(load: GroupLoad, member: MeasuredMember, _: int) -> None:
    """One that commits after each record."""
    offset = 0
    while not load.stopping:
        await member.commit(offset := offset + 1)


async def rests(load: GroupLoad, member: MeasuredMember, at: int) -> None:
    """One of a quiet group: a heartbeat each second, and not all in one moment."""
    await asyncio.sleep(at / len(load.members))
    while not load.stopping:
        await member.heartbeat()
        await asyncio.sleep(1)


def first_record_s(subject: Subject) -> float:
    """Seconds from the subscription of a new group, the cluster's first, until it has a record."""
    from confluent_kafka import Consumer, Producer

    make_topic(subject, TOPIC)
    producer = Producer({"bootstrap.servers": subject.bootstrap})
    producer.produce(TOPIC, b"first")
    assert producer.flush(30) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": subject.bootstrap,
            "group.id": "bench-first",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        begun = time.monotonic()
        consumer.subscribe([TOPIC])
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
    """One broker each. `rounds` fresh clusters for the first record; then `rounds` of each load in turn."""
    first = Figure("a new group's first record, fresh cluster", "s", "<= 1.0")
    p50 = Figure(f"heartbeat p50, {groups} groups of {members} rebalancing", "ms", "<= 1.0")
    p99 = Figure(f"heartbeat p99, {groups} groups of {members} rebalancing", "ms", "<= 1.0")
    rate = Figure("rebalances a second", "1/s", ">= 1.0")
    cpu = Figure("broker CPU a second of it", "s", "<= 1.0")
    each = Figure("broker CPU of a request of it", "µs", "<= 1.0")
    quiet = Figure(f"{QUIET} quiet groups: broker CPU of a heartbeat", "µs", "<= 1.0")
    commit = Figure(f"{groups} groups that commit each record: broker CPU of a commit", "µs", "<= 1.0")
    commit_rate = Figure("commits a second", "1/s", ">= 1.0")
    memory = Figure("resident memory after it", "MB", "<= 1.0")
    loads = (p50, p99, rate, cpu, each, quiet, commit, commit_rate, memory)
    for number in range(rounds - 1):  # the last pair goes on to carry the load
        with running_barnabas(place / f"fresh-{number}") as ours:
            first.ours.append(first_record_s(ours))
        with running_apache(place / f"apache-fresh-{number}", config=CONFIG) as theirs:
            first.theirs.append(first_record_s(theirs))

    def run(subject: Subject, name: str) -> tuple[float, ...]:
        load = GroupLoad(subject, f"{name}-rebalancing")
        asyncio.run(load.rebalance(groups, members, seconds))
        heartbeats_s = median_and_p99(load.heartbeats_s)
        committing, resting = GroupLoad(subject, f"{name}-committing"), GroupLoad(subject, f"{name}-resting")
        asyncio.run(committing.steady(groups, seconds / 2, commits))
        asyncio.run(resting.steady(QUIET, seconds / 2, rests))
        return (
            heartbeats_s["p50"] * 1000,
            heartbeats_s["p99"] * 1000,
            load.rebalances / seconds,
            load.cpu_s / seconds,
            load.cpu_s / load.requests * 1e6,
            resting.cpu_s / resting.requests * 1e6,
            committing.cpu_s / committing.requests * 1e6,
            committing.requests / (seconds / 2),
            subject.memory_mb(),
        )

    with running_barnabas(place / "barnabas") as ours, running_apache(place / "apache", config=CONFIG) as theirs:
        for subject, found in ((ours, first.ours), (theirs, first.theirs)):
            found.append(first_record_s(subject))
            coordinator_is_there(subject)
            run(subject, "warm-up")
        for number in range(rounds):
            for subject in (ours, theirs):
                for figure, value in zip(loads, run(subject, f"round-{number}"), strict=True):
                    figure.add(value, ours=subject is ours)
    return [first, *loads]
