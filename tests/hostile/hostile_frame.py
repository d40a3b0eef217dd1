"""Attacks on living brokers, and what they do to others: a cluster of processes, a well-behaved client, verdicts.

How to add an attack: a function in a file ``attacks_*.py`` beside this one, which is found by itself::

    from hostile_frame import Target, attack

    @attack("a length of 100 MiB and nothing behind it")
    def long_silence(target: Target) -> None:
        for _ in range(20):
            caller = target.caller()
            caller.send(struct.pack(">i", 100 << 20))

It runs beside the neighbour (`hostile_neighbour.py`), and is over when it returns; `Target.caller` opens connections,
which are closed then, and counts what is sent. ``make hostile`` and ``test_hostile.py`` run it alone, and say of it:

- the neighbour's p99 during the attack against before it (produce to acknowledgement; 50 records a second, with a clock
  of its own, to partitions led by every broker). It counts as what it would be if brokers that had something to do had
  had a core: how long they wait for one is the machine's doing, or its other guests',
- the attacked brokers' memory: resident before, and at its peak, which may be above it by three times what was sent and
  `SLACK_BYTES` (or what ``attack(..., memory_bytes=…)`` grants),
- that every record acknowledged to the neighbour is there, once, at its offset, and that no broker has ended.

``make hostile MINUTES=30`` runs all of them at once, over and over, while a broker is killed with SIGKILL every minute.
There connections break: `Broken` is what `Caller` raises, and ends an attack's round. An attack checks what it was
answered with plain ``assert``, or not at all. Topics of its own it makes with `Target.topic`, named after itself.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster import Cluster, barnabas, until
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.wire import frames
from barnabas.wire.frames import response_class
from barnabas.wire.messages.metadata import MetadataRequest

NEIGHBOURS_TOPIC = "neighbour"
ORDINARY_TOPIC = "ordinary"
PARTITIONS = 6
SLACK_BYTES = 96 << 20
"""What any attack may take beside three times its size: the allocator's, and what the neighbour itself comes to."""
PATIENCE_S = 60.0
CLIENT_ID = "stranger"


class Broken(Exception):
    """The connection ended, or could not be made."""


@dataclass(frozen=True)
class Attack:
    name: str
    run: Callable[[Target], None]
    memory_bytes: int | None


ATTACKS: dict[str, Attack] = {}


def attack(name: str, *, memory_bytes: int | None = None) -> Callable[[Callable[[Target], None]], Callable[..., None]]:
    """Registers an attack; `memory_bytes` is what it may cost a broker, whatever was sent."""

    def register(run: Callable[[Target], None]) -> Callable[..., None]:
        assert name not in ATTACKS, name
        ATTACKS[name] = Attack(name, run, memory_bytes)
        return run

    return register


def all_attacks() -> dict[str, Attack]:
    for file in sorted(Path(__file__).parent.glob("attacks_*.py")):
        importlib.import_module(file.stem)
    return ATTACKS


class Caller:
    """The attacker's end of one connection."""

    def __init__(self, port: int, sent: Callable[[int], None]) -> None:
        self._sent = sent
        try:
            self.socket = socket.create_connection(("127.0.0.1", port), 10)
        except OSError as error:
            raise Broken(str(error)) from error
        self.socket.settimeout(PATIENCE_S)

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """As it stands, without a frame. Raises `Broken` when the broker closes meanwhile."""
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Broken(str(error)) from error
        finally:
            self._sent(len(data))

    def request(self, key: int, version: int, body: bytes | bytearray, *, flexible: bool = False) -> None:
        head = struct.pack(">hhih", key, version, 7, len(CLIENT_ID)) + CLIENT_ID.encode() + (b"\0" if flexible else b"")
        self.send(struct.pack(">i", len(head) + len(body)) + head)
        self.send(body)

    def answer_bytes(self) -> int:
        """Waits for one answer, which is thrown away as it comes; its size. Raises `Broken` where none comes."""
        (size,) = struct.unpack(">i", self._exactly(4))
        left = size
        while left:
            left -= len(self._some(min(left, 1 << 20)))
        return int(size)

    def answer(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def ask(self, message: Any, version: int) -> Any:
        """Sends `message` and waits for its response. Raises `Broken` where the broker hangs up instead."""
        self.send(b"".join(frames.encode_request(message, version, 1, CLIENT_ID)))
        return frames.decode_response(response_class(message.api_key), version, self.answer())[1]

    def refused(self) -> bool:
        """Whether the broker closes the connection instead of an answer."""
        try:
            self.answer_bytes()
        except Broken:
            return True
        return False

    def first_byte(self) -> None:
        """Waits until an answer begins, and takes no more of it."""
        self._some(1)

    def until_closed(self) -> None:
        """Takes what comes until the other end closes the connection."""
        with contextlib.suppress(Broken):
            while True:
                self._some(1 << 20)

    def close(self) -> None:
        self.socket.close()

    def _some(self, length: int) -> bytes:
        try:
            found = self.socket.recv(length)
        except TimeoutError:
            raise AssertionError(f"the broker said nothing for {PATIENCE_S:.0f} s") from None
        except OSError as error:
            raise Broken(str(error)) from error
        if not found:
            raise Broken("the broker closed the connection")
        return found

    def _exactly(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            parts += self._some(length - len(parts))
        return bytes(parts)


@dataclass
class Target:
    """What one run of an attack sees: the brokers' ports (the first leads the attack's own topics), and a way in."""

    name: str
    cluster: Cluster
    world: World
    sent: int = 0
    callers: list[Caller] = field(default_factory=list)

    @property
    def thorough(self) -> bool:
        """Whether there is time for all of it, as ``make hostile`` has and CI has not."""
        return self.world.thorough

    @property
    def brokers(self) -> list[dict[str, Any]]:
        """``id``, ``port`` and ``pid`` of each."""
        return list(self.cluster.state["brokers"])

    def caller(self, broker_id: int = 0) -> Caller:
        if broker_id < 0:
            raise Broken("a broker said that nobody is it now, such as the controller")
        caller = Caller(self.cluster.broker(broker_id)["port"], self._count)
        self.callers.append(caller)
        return caller

    def coordinator(self) -> Caller:
        """A connection to the coordinator, where nothing is said yet."""
        caller = Caller(int(self.cluster.zookeeper.rpartition(":")[2]), self._count)
        self.callers.append(caller)
        return caller

    def topic(self, suffix: str = "", *, partitions: int = 1, **config: str) -> str:
        """A topic of this attack's own, every partition on broker 0 alone; made once. ``cleanup_policy="compact"``."""
        name = re.sub(r"[^a-z0-9]+", "-", f"{self.name} {suffix}".lower()).strip("-")
        values = {key.replace("_", "."): value for key, value in config.items()}
        self.world.create_topic(name, replicas=[[0]] * partitions, config=values)
        return name

    def _count(self, count: int) -> None:
        self.sent += count


@dataclass
class Verdict:
    attack: str
    seconds: float
    sent: int
    p99_before_ms: float
    p99_during_ms: float
    at_work: float
    """How much of the time in which it had something to do the broker had a core that had one for the least."""
    worst_ms: float
    before: dict[int, int]
    """Resident bytes by broker id."""
    peak: dict[int, int]
    wrong: list[str]

    @property
    def slower_ms(self) -> float:
        """How far the p99 would be above what it was on a machine that had a core for each broker."""
        return self.p99_during_ms * self.at_work - self.p99_before_ms

    @property
    def grown(self) -> int:
        return max(self.peak[each] - self.before[each] for each in self.before)


class Memory:
    """A process's resident bytes, and their high-water mark since it was last asked to forget."""

    @staticmethod
    def _status(pid: int, name: str) -> int:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"{name} of {pid}")

    @classmethod
    def resident(cls, pid: int) -> int:
        return cls._status(pid, "VmRSS")

    @classmethod
    def peak(cls, pid: int) -> int:
        return cls._status(pid, "VmHWM")

    @staticmethod
    def forget_peak(pid: int) -> None:
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def on_a_core_and_waiting(pid: int) -> tuple[int, int]:
    """How long the thread of the broker's loop has run, and has waited for a core, in nanoseconds (proc-schedstat)."""
    ran, waited, _ = map(int, Path(f"/proc/{pid}/schedstat").read_text().split())
    return ran, waited


def percentile(values: list[float], percent: float) -> float:
    if not values:
        return float("inf")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


class World:
    """A cluster of three brokers with the neighbour at it."""

    def __init__(self, cluster: Cluster, directory: Path, *, thorough: bool) -> None:
        self.cluster = cluster
        self.thorough = thorough
        self.notes = directory / "neighbour.jsonl"
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        self._topics: set[str] = set()
        self._lock = threading.Lock()
        self._neighbour: subprocess.Popen[bytes] | None = None
        self.before_ms = float("inf")

    def create_topic(self, name: str, replicas: list[list[int]], config: dict[str, str]) -> None:
        with self._lock:
            if name in self._topics:
                return
            topic = NewTopic(name, len(replicas), replica_assignment=replicas, config=config)

            def led() -> bool:
                if self._led(name, replicas):
                    return True
                with contextlib.suppress(KafkaException):  # there already, or a broker was killed meanwhile
                    self._admin.create_topics([topic])[name].result(PATIENCE_S)
                return False

            until(led, f"{name} has its leaders", 2 * PATIENCE_S)
            self._topics.add(name)

    def has_made(self, topics: Iterable[str]) -> None:
        """An attack makes these for itself."""
        with self._lock:
            self._topics |= set(topics)

    def delete_topics(self) -> None:
        """Deletes those that attacks have made: what a topic takes lasts as long as somebody wants it."""
        names = sorted(self._topics - {NEIGHBOURS_TOPIC, ORDINARY_TOPIC})

        def gone() -> bool:
            with contextlib.suppress(KafkaException):  # a broker was killed meanwhile
                there = self._admin.list_topics(timeout=PATIENCE_S).topics
                left = [each for each in names if each in there]
                for deleted in self._admin.delete_topics(left).values() if left else ():
                    deleted.result(PATIENCE_S)
                return not left
            return False

        until(gone, "the attacks' topics are deleted", 5 * PATIENCE_S)
        self._topics -= set(names)

    def _led(self, name: str, replicas: list[list[int]]) -> bool:
        """Whether each leader itself says so."""
        topics = [MetadataRequest.MetadataRequestTopic(name=name)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        for leader in {each[0] for each in replicas}:
            try:
                caller = Caller(self.cluster.broker(leader)["port"], lambda count: None)
                with contextlib.closing(caller):
                    (topic,) = caller.ask(request, 9).topics
            except Broken:
                return False
            leaders = {each.partition_index: each.leader_id for each in topic.partitions}
            if any(leaders.get(index) != leader for index, each in enumerate(replicas) if each[0] == leader):
                return False
        return True

    def start(self) -> None:
        replicas = [[each % 3, (each + 1) % 3, (each + 2) % 3] for each in range(PARTITIONS)]
        self.create_topic(NEIGHBOURS_TOPIC, replicas, {"min.insync.replicas": "2"})
        self._neighbour = subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).with_name("hostile_neighbour.py")),
                *(self.cluster.bootstrap, NEIGHBOURS_TOPIC, str(PARTITIONS), str(self.notes)),
            ],
            stdin=subprocess.PIPE,
            stderr=self.notes.with_suffix(".log").open("w"),
        )
        until(lambda: len(self.latencies_ms(0, float("inf"))) > 50, "the neighbour is served")

    def stop(self) -> None:
        if self._neighbour is not None:
            assert self._neighbour.stdin is not None
            self._neighbour.stdin.close()
            assert self._neighbour.wait(90) == 0, "the neighbour ended by itself, or does not end"

    def happened(self, what: str) -> Iterator[list[Any]]:
        if not self.notes.exists():
            return
        with self.notes.open() as lines:
            for line in lines:
                if line.endswith("\n") and line.startswith(f'["{what}"'):
                    yield json.loads(line)

    def latencies_ms(self, begin: float, end: float) -> list[float]:
        """Of the records that the neighbour sent between two moments of the monotonic clock."""
        return [1000 * (acked - sent) for _, _, sent, acked, *_ in self.happened("acked") if begin <= sent <= end]

    def answered_up_to(self, moment: float) -> bool:
        """Whether something that the neighbour sent after `moment` is acknowledged: what was before it is decided."""
        return any(sent > moment for _, _, sent, *_ in self.happened("acked"))

    def measure_before(self, seconds: float = 3.0) -> None:
        begin = time.monotonic()
        until(lambda: self.answered_up_to(begin + seconds), "the neighbour is served")
        self.before_ms = percentile(self.latencies_ms(begin, begin + seconds), 99)

    def run(self, each: Attack) -> Verdict:
        """One attack alone, and its verdict."""
        pids = {broker["id"]: broker["pid"] for broker in self.cluster.state["brokers"]}
        target = Target(each.name, self.cluster, self)
        before = {broker: Memory.resident(pid) for broker, pid in pids.items()}
        for pid in pids.values():
            Memory.forget_peak(pid)
        wrong: list[str] = []
        clocks = {pid: on_a_core_and_waiting(pid) for pid in pids.values()}
        begin = time.monotonic()
        try:
            each.run(target)
        except Broken as error:
            wrong.append(f"the attack was ended by a broken connection: {error}")
        except AssertionError:
            wrong.append(f"the attack was not answered as it should: {traceback.format_exc(limit=-1)}")
        finally:
            for caller in target.callers:
                caller.close()
        end = time.monotonic()
        until(lambda: self.answered_up_to(end), f"the neighbour is served after {each.name}", 120)
        during = self.latencies_ms(begin - 0.1, end)
        wrong += [f"broker {broker} has ended" for broker, pid in pids.items() if not Path(f"/proc/{pid}").exists()]
        peak = {broker: Memory.peak(pid) for broker, pid in pids.items() if Path(f"/proc/{pid}").exists()}
        at_work = 1.0
        for broker in peak:
            ran, waited = map(int.__sub__, on_a_core_and_waiting(pids[broker]), clocks[pids[broker]])
            at_work = min(at_work, ran / (ran + waited))
        verdict = Verdict(
            each.name, end - begin, target.sent, self.before_ms, percentile(during, 99), at_work,
            max(during, default=0.0), {broker: before[broker] for broker in peak}, peak, wrong,
        )  # fmt: skip
        allowed = 3 * target.sent + SLACK_BYTES if each.memory_bytes is None else each.memory_bytes
        if peak and verdict.grown > allowed:
            wrong.append(
                f"a broker took {verdict.grown >> 20} MiB for {target.sent} bytes; {allowed >> 20} are allowed"
            )
        return verdict

    def lost(self) -> list[str]:
        """What was acknowledged to the neighbour and is not where it was said to be; what failed; what came twice."""
        acked = {number: (partition, offset) for _, number, _, _, partition, offset in self.happened("acked")}
        assert acked, "nothing was acknowledged"
        found: dict[tuple[int, int], int] = {}
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": "judge", "log_level": 0})
        ends = {}
        for partition in range(PARTITIONS):
            place = TopicPartition(NEIGHBOURS_TOPIC, partition, 0)
            ends[partition] = consumer.get_watermark_offsets(place, 30)[1]
        consumer.assign([TopicPartition(NEIGHBOURS_TOPIC, each, 0) for each in ends])
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < sum(ends.values()) and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.5):
                if message.error() is None:
                    found[message.partition(), message.offset()] = int(message.value())
        consumer.close()
        wrong = [
            f"record {number} was acknowledged at {place} and {found.get(place)} is there"
            for number, place in acked.items()
            if found.get(place) != number
        ]
        times = Counter(found.values())
        return wrong + [f"record {number} is there {count} times" for number, count in times.items() if count > 1]

    def progress(self) -> str:
        """How far the neighbour is: records acknowledged, and how long ago the last of each partition was sent."""
        last: dict[int, float] = {}
        count = 0
        for _, _, sent, _, partition, _ in self.happened("acked"):
            last[partition] = sent
            count += 1
        ago = ", ".join(f"{partition}: {time.monotonic() - last[partition]:.1f} s" for partition in sorted(last))
        failed = [what[-1] for what in self.happened("failed")]
        return f"{count} acknowledged, the last sent before ({ago}), {len(failed)} failed {failed[-1:]}"

    def state(self) -> str:
        """The neighbour's process, and what the cluster says of itself."""
        assert self._neighbour is not None
        told = [
            done.stdout + done.stderr
            for done in (
                barnabas("status", "--dir", str(self.cluster.directory)),
                barnabas("topic", "describe", NEIGHBOURS_TOPIC, "--dir", str(self.cluster.directory)),
            )
        ]
        return "\n".join([f"the neighbour's exit code: {self._neighbour.poll()}", *told])

    def complaints(self) -> str:
        """What the brokers' logs warn of, the last of it."""
        found = []
        for log in sorted(self.cluster.directory.rglob("broker*.log")):
            lines = [line for line in log.read_text(errors="replace").splitlines() if " INFO " not in line]
            found += [f"{log.name}: {line}" for line in lines[-8:]]
        return "\n".join(found)


@contextlib.contextmanager
def living(directory: Path, cluster: Cluster, *, thorough: bool = False) -> Iterator[World]:
    world = World(cluster, directory, thorough=thorough)
    try:
        world.start()
        world.measure_before()
        yield world
    finally:
        world.stop()
