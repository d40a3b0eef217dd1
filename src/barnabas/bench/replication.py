"""``barnabas bench replication | catch-up | recovery | idle``: three brokers each, beside Apache Kafka 3.9.2.

Both clusters run at the same time with their logs on the same disk. The same client loads them in turn, A B A B, and
each figure is taken pair by pair. CPU is that of all three brokers together, memory that of one.

- ``replication``: one partition with three replicas, acks=all, two of them in sync at least: batches of 1 KB and of
  100 B, as an idempotent librdkafka makes them and made before the clock starts (small records keep a client busier
  than any broker); requests of one record, alone and five in flight. The brokers of the other cluster are paused
  meanwhile: ``idle`` measures the cost of unused brokers. A measurement during which the host of a virtual machine took
  its cores away is repeated (`undisturbed`).
- ``catch-up``: a broker becomes a replica of a full partition (a reassignment), and follows until it is in sync.
- ``recovery``: a broker checks the whole log of that size after ``kill -9``. The recovery point is deleted, since it is
  chance how much of a log was written after it.
- ``idle``: many partitions on each broker that nobody uses.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Final

from barnabas.bench.clusters import Subject, both, drop_topic, make_topic, process_cpu_s, seen_by, standing_still, until
from barnabas.bench.controller import BROKERS, CONFIG
from barnabas.bench.produce_load import BYTES_MAX, Load, measured
from barnabas.bench.side_by_side import Figure, console, median_and_p99, produce, warming_up
from barnabas.bench.small_requests import Shape, SmallRequests
from barnabas.bench.undisturbed import stolen_s, undisturbed
from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest

_GB: Final = 1_000_000_000
ALONE: Final = Shape("alone", 1, 1, True)
_FIVE: Final = Shape("five in flight", 1, 5, True)
_READY_MADE_S: Final = 3.0
_SHORT_PAIRS: Final = 5
"""How often a round measures small requests: the speed of a virtual machine's cores changes within seconds."""
PATIENT: Final = {**CONFIG, "zookeeper.session.timeout.ms": "40000"}
"""With this session timeout paused brokers keep their ZooKeeper sessions."""
_IDEMPOTENT: Final = {"acks": "all", "enable.idempotence": True}
_IDLE_SETTLE_S: Final = 20.0
_TOPICS: Final = 20


# ------------------------------------------------------------------------------------------------ replication


def measure_replication(directory: Path, rounds: int, megabytes: int, requests: int, warm_up_s: float) -> list[Figure]:
    figures: dict[str, Figure] = {}
    for size in (1000, 100):
        for client in ("librdkafka", "ready-made"):
            of = f"acks=all, {size} B, {client}"
            figures[f"{size}/{client}/rate"] = Figure(f"{of}: records per second", "1/s", ">= 1.3")
            figures[f"{size}/{client}/cpu"] = Figure(f"{of}: CPU of three brokers per GB", "s", "<= 0.7")
    figures["p50"] = Figure("acks=all, one record: p50", "ms", "<= 0.5")
    figures["p99"] = Figure("acks=all, one record: p99", "ms", "<= 0.5")
    figures["five"] = Figure("acks=all, idempotent, 5 in flight: per second", "1/s", ">= 1.3")
    with both(directory, BROKERS, PATIENT) as (barnabas, apache):
        pairs = (barnabas, apache), (apache, barnabas)
        for subject, other in pairs:
            for name in warming_up(subject.name, warm_up_s):
                _one_by_one(subject, other, name, requests)
                _loaded(subject, other, name, megabytes)
        for number in range(rounds):
            stolen, begun = stolen_s(), time.monotonic()
            steps = [partial(_one_by_one, requests=requests)] * _SHORT_PAIRS + [partial(_loaded, megabytes=megabytes)]
            for at, step in enumerate(steps):
                ours, theirs = (step(subject, other, f"bench-{number}-{at}") for subject, other in pairs)
                for name in ours:
                    figures[name].ours.append(ours[name])
                    figures[name].theirs.append(theirs[name])
            share = (stolen_s() - stolen) / (time.monotonic() - begun)
            console.print(f"  round {number + 1}/{rounds}; the host took {share:.0%} of a core", style="dim")
    return list(figures.values())


def _make_room(megabytes: int) -> None:
    """Waits for the disk, and touches more memory than the next load writes, be it `megabytes` or `BYTES_MAX`.

    Earlier writes keep the disk busy for seconds, and the next writer waits for it. The host of a virtual machine takes
    free memory away within seconds, and each page that comes back costs three times the CPU of the write itself.
    Neither shall be measured.
    """
    os.sync()
    chunk = bytes(1_000_000)
    with tempfile.TemporaryFile() as file:
        for _ in range(BROKERS * (megabytes + BYTES_MAX // len(chunk))):
            file.write(chunk)


def _one_by_one(subject: Subject, other: Subject, topic: str, requests: int) -> dict[str, float]:
    values: dict[str, float] = {}
    os.sync()  # a large load keeps the disk busy for seconds
    make_topic(subject, topic, [list(range(BROKERS))])

    def alone() -> list[float]:
        with SmallRequests(subject.ports[0], topic, ALONE, requests) as client, standing_still(other):
            return client.latencies_ms()

    values |= median_and_p99(undisturbed(alone))

    def five() -> float:
        with SmallRequests(subject.ports[0], topic, _FIVE, requests) as client, standing_still(other):
            return client.requests / client.run()

    values["five"] = undisturbed(five)
    drop_topic(subject, topic)
    return values


def _loaded(subject: Subject, other: Subject, topic: str, megabytes: int) -> dict[str, float]:
    return {
        **_loaded_with(subject, other, f"{topic}-1000", 1000, megabytes),
        # Small records are half of the bytes: they cost the client most.
        **_loaded_with(subject, other, f"{topic}-100", 100, megabytes // 2),
    }


def _loaded_with(subject: Subject, other: Subject, topic: str, size: int, megabytes: int) -> dict[str, float]:
    """Records of `size` bytes."""
    records = megabytes * 1_000_000 // size
    load = Load(4, 5, record_bytes=size, batch_bytes=100_000, replicas=BROKERS, acks=-1)

    def librdkafka() -> tuple[float, float]:
        before = subject.cpu_s()
        with standing_still(other):
            took = produce(subject, topic, records, size, _IDEMPOTENT)
        return records / took, (subject.cpu_s() - before) / (records * size) * _GB

    def ready_made() -> tuple[float, float]:
        with standing_still(other):
            sent, used = measured(subject.ports[0], topic, load, _READY_MADE_S, subject.cpu_s)
        return sent.requests * load.records / sent.seconds, used / (sent.requests * load.value_bytes) * _GB

    make_topic(subject, topic, [list(range(BROKERS))])
    values: dict[str, float] = {}
    for name, measure in (("librdkafka", librdkafka), ("ready-made", ready_made)):
        rate, cpu = undisturbed(measure, partial(_make_room, megabytes))
        values[f"{size}/{name}/rate"], values[f"{size}/{name}/cpu"] = rate, cpu
    drop_topic(subject, topic)
    return values


# ------------------------------------------------------------------------------------------------ large logs


def measure_catch_up(directory: Path, rounds: int, gigabytes: float) -> list[Figure]:
    took = Figure(f"a new follower catches up {gigabytes:g} GB", "s", "<= 1")
    cpu = Figure("its CPU and its leader's, per GB", "s", "<= 1")
    with both(directory, BROKERS, CONFIG) as subjects:
        for number in range(rounds):
            for subject in subjects:
                seconds, used = _catch_up(subject, f"bench-{number}", gigabytes)
                took.add(seconds, ours=subject is subjects[0])
                cpu.add(used / gigabytes, ours=subject is subjects[0])
                console.print(f"  round {number + 1}/{rounds}  {subject.name}: {seconds:.1f} s", style="dim")
    return [took, cpu]


def _catch_up(subject: Subject, topic: str, gigabytes: float) -> tuple[float, float]:
    newcomer = BROKERS - 1
    make_topic(subject, topic, [[0]])
    produce(subject, topic, int(gigabytes * _GB / 1000), 1000)
    os.sync()  # earlier writes would delay the copy, by a random time
    taking_part = [subject.pid(broker) for broker in (0, newcomer)]
    before = sum(map(process_cpu_s, taking_part))
    begun = time.monotonic()
    _reassign(subject, topic, [0, newcomer])
    until(lambda: len(seen_by(subject.ports[0]).topics[topic].partitions[0].isr) == 2, "a whole ISR")
    seconds = time.monotonic() - begun
    used = sum(map(process_cpu_s, taking_part)) - before
    drop_topic(subject, topic)
    return seconds, used


def _reassign(subject: Subject, topic: str, replicas: list[int]) -> None:
    partition = AlterPartitionReassignmentsRequest.ReassignablePartition(0, replicas)
    wanted = AlterPartitionReassignmentsRequest.ReassignableTopic(topic, [partition])
    port = subject.ports[seen_by(subject.ports[0]).controller_id]
    with BlockingConnection("127.0.0.1", port, "barnabas-bench", request_timeout_ms=60_000) as connection:
        answer = connection.send(AlterPartitionReassignmentsRequest(60_000, [wanted]))
    code = answer.error_code or answer.responses[0].partitions[0].error_code
    if code:
        raise RuntimeError(f"{subject.name} refused the reassignment of {topic}: {ErrorCode(code).name}")


def measure_recovery(directory: Path, rounds: int, gigabytes: float) -> list[Figure]:
    took = Figure(f"recovery of {gigabytes:g} GB after kill -9, until the broker answers", "s", "<= 1")
    with both(directory, BROKERS, CONFIG) as subjects:
        for subject in subjects:
            make_topic(subject, "bench", [[0]])
            produce(subject, "bench", int(gigabytes * _GB / 1000), 1000)
        for number in range(rounds):
            for subject in subjects:
                seconds = _recover(subject, "bench")
                took.add(seconds, ours=subject is subjects[0])
                console.print(f"  round {number + 1}/{rounds}  {subject.name}: {seconds:.1f} s", style="dim")
    return [took]


def _recover(subject: Subject, topic: str) -> float:
    subject.kill(0)
    # Apache's broker fails if its old registration is still there; ours would wait for its end.
    until(lambda: 0 not in seen_by(subject.ports[1]).brokers, "the end of a registration")
    (subject.log_dir(0) / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    begun = time.monotonic()
    subject.start(0)
    until(lambda: _leads(subject, topic), f"a leader of {topic}")
    return time.monotonic() - begun


def _leads(subject: Subject, topic: str) -> bool:
    known = seen_by(subject.ports[0]).topics.get(topic)
    return known is not None and known.partitions[0].leader == 0


# ------------------------------------------------------------------------------------------------ idle


def measure_idle(directory: Path, rounds: int, partitions: int, seconds: float) -> list[Figure]:
    cpu = Figure(f"{partitions} idle partitions a broker: CPU of one broker", "% of a core", "<= 1")
    memory = Figure(f"{partitions} idle partitions a broker: memory of one broker", "MB", "<= 0.333")
    per_topic = max(1, partitions // _TOPICS)
    with both(directory, BROKERS, CONFIG) as subjects:
        for subject in subjects:
            for number in range(math.ceil(partitions / per_topic)):
                make_topic(
                    subject,
                    f"idle-{number}",
                    [[(at + turn) % BROKERS for turn in range(BROKERS)] for at in range(per_topic)],
                )
            console.print(f"  {subject.name} has its partitions", style="dim")
        time.sleep(_IDLE_SETTLE_S)
        for _ in range(rounds):
            before = [subject.cpu_s() for subject in subjects]
            time.sleep(seconds)
            for subject, used in zip(subjects, before, strict=True):
                share = (subject.cpu_s() - used) / BROKERS / seconds * 100
                cpu.add(share, ours=subject is subjects[0])
                memory.add(subject.memory_mb(), ours=subject is subjects[0])
    return [cpu, memory]
