"""A real cluster of processes under chaos: ``python tests/chaos/chaos.py [--minutes 30] [--seed N]``.

Three brokers and the coordinator as processes, on machines of their own where root allows it; idempotent producers with
acks=all, RF 3 and min.insync.replicas 2; a consumer group. Every 20 seconds something breaks. At the end it is judged,
by the rules that the simulator's checkers hold it to as well, what the clients were told and what is in the brokers'
files. Exit code 1 on a violation.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from chaos_faults import TOPICS, Scene, kinds
from chaos_machines import Abilities, Cluster, eventually
from chaos_traffic import PARTITIONS, TOPIC, Traffic, origin
from chaos_verdict import acknowledged_survive, order_is_kept, reads_stay

from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import RealDisk
from barnabas.testing.verdict import read_replica, replicas_agree

EVERY_S = 20.0
WHOLE_WITHIN_S = 10.0
PATIENCE_S = 120.0


@dataclass
class Report:
    seed: int
    lines: list[str] = field(default_factory=list)
    faults: dict[str, list[float]] = field(default_factory=dict)
    """By kind: how many seconds after every process listened again the ISR was whole."""
    verdicts: list[tuple[str, str, list[str]]] = field(default_factory=list)
    """What was checked, over how much, and what is wrong."""
    missing: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not any(wrong for _, _, wrong in self.verdicts)

    def text(self) -> str:
        return "\n".join([f"seed {self.seed}", "", *self.lines, "", self.verdict()])

    def verdict(self) -> str:
        parts = [f"left out: {each}" for each in self.missing]
        width = max((len(kind) for kind in self.faults), default=0)
        for kind, seconds in self.faults.items():
            parts.append(f"{kind:<{width}}  {len(seconds):3} times, ISR whole within {max(seconds):4.1f} s")
        parts.append("")
        for what, over, wrong in self.verdicts:
            parts.append(f"{'ok  ' if not wrong else 'FAIL'}  {what} ({over})")
            parts += [f"      {each}" for each in wrong[:10]]
            parts += [f"      and {len(wrong) - 10} more"] if len(wrong) > 10 else []
        return "\n".join(parts)


def run(minutes: float, seed: int, *, install: bool = False, every_s: float = EVERY_S, quiet: bool = True) -> Report:
    report = Report(seed)
    able = Abilities(install=install)
    report.missing = list(able.missing)
    directory = Path(tempfile.mkdtemp(prefix="chaos-"))
    began = time.monotonic()

    def say(text: str) -> None:
        line = f"{time.monotonic() - began:8.1f} s  {text}"
        report.lines.append(line)
        if not quiet:
            print(line, flush=True)

    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        cluster = Cluster(directory, able)
        stack.callback(cluster.remove)
        cluster.start()
        traffic = Traffic(cluster.bootstrap, seed)
        traffic.create_topic()
        traffic.start()
        eventually(lambda: len(traffic.seen.given) > 100, 60, "the consumers are given records")
        say(f"the cluster is up at {cluster.bootstrap}")
        halted = _break(cluster, traffic, report, minutes, seed, every_s, say)
        say("the last fault is over")
        traffic.stop_producing()
        drained = traffic.drain(60)
        _judge(cluster, traffic, report, halted, drained)
        if not report.ok:
            kept = Path(f"chaos-{seed}")
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(directory, kept, ignore_dangling_symlinks=True)
            say(f"the brokers' logs and files are kept in {kept}")
    return report


def _break(
    cluster: Cluster, traffic: Traffic, report: Report, minutes: float, seed: int, every_s: float, say
) -> list[str]:  # type: ignore[no-untyped-def]
    """A fault every `every_s`; returns what ended that should not have."""
    chance = random.Random(seed)
    scene = Scene(cluster, chance, say)
    halted: list[str] = []
    began = time.monotonic()
    schedule = _schedule(list(kinds(cluster.able)), chance)
    count = 0
    while (time.monotonic() - began) < minutes * 60 - every_s / 2 and not halted:
        kind = next(schedule)
        kinds(cluster.able)[kind](scene)
        # A process that starts again is part of the fault, until it listens: that takes what the machine has to give.
        began_again = time.monotonic()
        try:
            eventually(lambda: all(each.answers() for each in cluster.machines), PATIENCE_S, "every process listens")
        except TimeoutError as error:
            halted.append(f"after {kind!r}: {error}")
        over = time.monotonic()
        while not cluster.isr_is_whole(TOPICS):
            if time.monotonic() - over > PATIENCE_S:
                halted.append(f"the ISR is not whole {PATIENCE_S:.0f} s after {kind!r}")
                break
            time.sleep(0.1)
        took = time.monotonic() - over
        report.faults.setdefault(kind, []).append(took)
        say(
            f"every process listens after {over - began_again:.1f} s, every ISR is whole {took:.1f} s later; "
            f"{len(traffic.seen.acknowledged)} records are acknowledged"
        )
        for each in cluster.machines:
            if each.wanted and not each.running:
                assert each.process is not None
                halted.append(f"{each.name} ended by itself with exit code {each.process.returncode}")
        count += 1
        time.sleep(max(0.0, began + count * every_s - time.monotonic()))
    return halted


def _schedule(names: list[str], chance: random.Random) -> Iterator[str]:
    """Every kind before any kind comes again, in an order of the seed's."""
    while True:
        chance.shuffle(names)
        yield from list(names)


def _judge(cluster: Cluster, traffic: Traffic, report: Report, halted: list[str], drained: bool) -> None:
    seen = traffic.seen
    verdicts = report.verdicts
    faults = sum(map(len, report.faults.values()))
    slow = [
        f"after {kind!r} it took {took:.1f} s"
        for kind, all_took in report.faults.items()
        for took in all_took
        if took > WHOLE_WITHIN_S
    ]
    verdicts.append((f"every ISR is whole within {WHOLE_WITHIN_S:.0f} s of each fault", f"{faults} faults", slow))
    verdicts.append(("no process ended by itself", f"{len(cluster.machines)} processes", halted))
    verdicts.append(("no client failed", "5 clients", [repr(each) for each in traffic.errors]))
    try:
        eventually(lambda: cluster.isr_is_whole(TOPICS), PATIENCE_S, "the ISR is whole")
        found = traffic.everything()
    except Exception as error:
        verdicts.append(("the topic can be read", "", [repr(error)]))
        return
    acknowledged = f"{len(seen.acknowledged)} acknowledged of {len(seen.sent)} sent"
    kept = acknowledged_survive(seen.acknowledged, seen.sent, found)
    verdicts.append(("R7, T1: no acknowledged record is lost, moved, doubled or invented", acknowledged, kept))
    verdicts.append(
        ("T1: records are in the order they were sent in", f"{len(found)} records", order_is_kept(found, origin))
    )
    stay = seen.changed + reads_stay(seen.read, found)
    verdicts.append(("R10: an offset never changes its value", f"{len(seen.read)} reads", stay))
    behind = [] if drained else [f"{len(seen.acknowledged.keys() - seen.given)} records were never given to the group"]
    verdicts.append(("the group was given every acknowledged record", acknowledged, behind))
    wrong, looked_at = _files(cluster, found)
    verdicts.append(("R1, R2, R11: the files of all replicas are equal up to the high watermark", looked_at, wrong))


def _files(cluster: Cluster, found: dict[tuple[TopicPartition, int], bytes]) -> tuple[list[str], str]:
    wrong: list[str] = []
    batches = 0
    for number in range(PARTITIONS):
        topic_partition = TopicPartition(TOPIC, number)
        high_watermark = max((offset + 1 for place, offset in found if place == topic_partition), default=0)
        replicas = {}
        for broker in cluster.brokers:
            replica = read_replica(RealDisk(), str(broker.log_dir), topic_partition)
            if replica is None:
                wrong.append(f"{topic_partition}: {broker.name} has no replica")
                continue
            replicas[broker.number] = replica
            batches += len(replica.batches)
            wrong += [f"{topic_partition} on {broker.name}: {each}" for each in replica.wrong]
            if replica.end < high_watermark:
                wrong.append(f"{topic_partition}: {broker.name} ends at {replica.end} of {high_watermark}")
        wrong += [f"{topic_partition}: {each}" for each in replicas_agree(replicas, 0, high_watermark)]
    return wrong, f"{batches} batches in {PARTITIONS} partitions of {len(cluster.brokers)} brokers"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--every", type=float, default=EVERY_S, help="seconds from fault to fault")
    options = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    report = run(options.minutes, seed, install=os.environ.get("CI") == "true", every_s=options.every, quiet=False)
    print(f"\n{report.verdict()}", flush=True)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
