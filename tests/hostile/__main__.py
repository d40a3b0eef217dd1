"""``python tests/hostile [--only WORD] [--minutes N] [--seed N]``: the attacks of `hostile_frame`, told as a table.

With ``--minutes`` all of them at once for so long, again and again, while a broker is killed with SIGKILL every minute.
Memory is compared with what it was before any attack, when the brokers had served ordinary load: the neighbour, and
`ORDINARY_MIB` of records in every codec, produced by several clients with acks=all and read by a consumer group.
Like is compared with like: each broker is killed and started before that load as it will be between attacks. (Brokers
that start together are forked from one process and map 7 MiB less of the interpreter's file, until each starts alone.)
Before both looks brokers have `QUIET_S` with the neighbour alone: members of groups are kept as long as the session
timeout says that they asked for (six seconds, and as long for a rebalance), and what is free goes back by and by.
Before the second the attacks' topics are deleted: they would last, as anybody's, and were not there at the first. In
the end each is started once more on the files that the attacks have left: what it takes then is what there is to hold.
Exit code 1 where somebody else noticed: a p99 more than 250 ms above what it was, an acknowledged record that is lost,
or memory that does not come back to within a fifth of what it was.
"""

from __future__ import annotations

import argparse
import random
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from cluster import running, until
from confluent_kafka import Consumer, Producer
from hostile_frame import (
    ORDINARY_TOPIC,
    Attack,
    Broken,
    Memory,
    Target,
    Verdict,
    World,
    all_attacks,
    living,
    percentile,
)

P99_MS = 250.0
KILL_EVERY_S = 60.0
GROWTH = 1.2
QUIET_S = 45.0
BROKERS = 3
BACK_S = 240.0
ROUND_S = 900.0
"""Until the last round of every attack is over, when all of them began it together."""
START_S = 300.0
"""A broker's start among all attacks at once: `up` waits until every broker answers one more client, which may take
ten seconds each time on a machine that is busy with other things."""
ORDINARY_MIB = 64
ORDINARY_CLIENTS = 8
MIB = 1 << 20


def told(verdicts: list[Verdict]) -> None:
    width = max(len(each.attack) for each in verdicts)
    print(f"{'attack':<{width}}  seconds   sent MiB  p99 before  during  at work     worst   memory before     peak")
    for each in verdicts:
        broker = max(each.before, key=lambda broker: each.peak[broker] - each.before[broker])
        print(
            f"{each.attack:<{width}}  {each.seconds:7.1f}  {each.sent / MIB:9.1f}  {each.p99_before_ms:7.0f} ms"
            f"  {each.p99_during_ms:6.0f} ms  {each.at_work:6.0%}  {each.worst_ms:6.0f} ms"
            f"  {each.before[broker] / MIB:9.0f} MiB  {each.peak[broker] / MIB:6.0f} MiB"
        )
        for wrong in each.wrong:
            print(f"{'':<{width}}  FAIL {wrong}")


def one_by_one(world: World, attacks: list[Attack]) -> bool:
    verdicts = [world.run(each) for each in attacks]
    world.stop()
    told(verdicts)
    lost = world.lost()
    print("\n".join(lost[:20]) or "nothing acknowledged is lost")
    slow = [each.attack for each in verdicts if each.slower_ms > P99_MS]
    for each in slow:
        print(f"FAIL {each}: the p99 of others is more than {P99_MS:.0f} ms above what it was")
    return not (lost or slow or any(each.wrong for each in verdicts))


def ordinary_load(world: World) -> None:
    """What brokers see on any day: producers in every codec to replicated partitions, a group that reads it all."""
    world.create_topic(ORDINARY_TOPIC, [[each % 3, (each + 1) % 3, (each + 2) % 3] for each in range(6)], {})
    value = random.Random(0).randbytes(512) * 2
    for number in range(ORDINARY_CLIENTS):
        codec = ("none", "gzip", "snappy", "lz4", "zstd")[number % 5]
        producer = Producer({"bootstrap.servers": world.cluster.bootstrap, "acks": "all", "compression.type": codec})
        for _ in range(ORDINARY_MIB * MIB // len(value) // ORDINARY_CLIENTS):
            while len(producer) > 10_000:
                producer.poll(0.1)
            producer.produce(ORDINARY_TOPIC, value)
        assert producer.flush(120) == 0, "ordinary load is served"
    settings = {"bootstrap.servers": world.cluster.bootstrap, "group.id": "ordinary", "auto.offset.reset": "earliest"}
    consumers = [Consumer(settings) for _ in range(ORDINARY_CLIENTS)]
    for each in consumers:
        each.subscribe([ORDINARY_TOPIC])
    left = ORDINARY_MIB * MIB // len(value)

    def read() -> bool:
        nonlocal left
        left -= sum(message.error() is None for each in consumers for message in each.consume(1000, 0.1))
        return left <= 0

    until(read, "the group has read it all", START_S)
    for each in consumers:
        each.close()


def all_at_once(world: World, attacks: list[Attack], minutes: float, seed: int) -> bool:
    over = threading.Event()
    rounds: Counter[str] = Counter()
    wrong: list[str] = []

    def again_and_again(each: Attack) -> None:
        while not over.is_set():
            target = Target(each.name, world.cluster, world)
            try:
                each.run(target)
                rounds[each.name] += 1
            except (Broken, ProcessLookupError):  # of a process that was killed meanwhile
                over.wait(0.2)
            except AssertionError as error:
                # A broker that was killed meanwhile answers nothing, or with an error that passes.
                wrong.append(f"{each.name}: {error}")
            finally:
                for caller in target.callers:
                    caller.close()

    def resident() -> dict[int, int]:
        return {broker["id"]: Memory.resident(broker["pid"]) for broker in world.cluster.state["brokers"]}

    def up() -> None:
        """As whoever watches over brokers: one that the coordinator had no time for within its patience ends, and is
        started again."""
        deadline = time.monotonic() + START_S
        while True:
            try:
                world.cluster.up(START_S)
                return
            except AssertionError as error:
                if time.monotonic() > deadline:
                    raise
                wrong.append(f"a broker did not start: {error}")

    def start_anew() -> None:
        for broker in range(BROKERS):
            world.cluster.kill(broker)
            up()
            back = time.monotonic()
            until(
                lambda back=back: world.answered_up_to(back), f"the neighbour is served by broker {broker} again", 120
            )

    start_anew()
    ordinary_load(world)
    time.sleep(QUIET_S)
    before = resident()
    told([world.run(each) for each in attacks])
    threads = [threading.Thread(target=again_and_again, args=(each,), name=each.name, daemon=True) for each in attacks]
    for thread in threads:
        thread.start()
    chance = random.Random(seed)
    began = time.monotonic()
    due = began
    while (left := began + minutes * 60 - time.monotonic()) > 0:
        # Every minute, however long it took to stand up again after the kill before.
        due += KILL_EVERY_S
        time.sleep(max(0, min(left, due - time.monotonic())))
        if time.monotonic() < began + minutes * 60:
            broker = chance.randrange(BROKERS)
            peaks = ", ".join(f"{each // MIB} MiB" for each in resident().values())
            now = f"{time.monotonic() - began:7.0f} s"
            print(f"{now}  kill -9 broker {broker}; resident {peaks}; {world.progress()}", flush=True)
            world.cluster.kill(broker)
            time.sleep(chance.uniform(0, 5))
            up()
    over.set()
    ends_by = time.monotonic() + ROUND_S
    for thread in threads:
        thread.join(max(0, ends_by - time.monotonic()))
    late = [thread.name for thread in threads if thread.is_alive()]
    end = time.monotonic()
    print(f"the last round of each took {end + ROUND_S - ends_by:.0f} s; not over: {late}", flush=True)
    try:
        until(lambda: world.answered_up_to(end), "the neighbour is served afterwards", 120)
    except AssertionError:
        print(f"{world.progress()}\n{world.state()}\n{world.complaints()}", flush=True)
        raise
    world.delete_topics()
    time.sleep(QUIET_S)
    # On a machine that is busy the last attacks end late, and what is free goes back later still.
    deadline = time.monotonic() + BACK_S
    while any((after := resident())[each] > before[each] * GROWTH for each in before) and time.monotonic() < deadline:
        time.sleep(5)
    start_anew()
    time.sleep(QUIET_S)
    anew = resident()
    world.stop()
    latencies = world.latencies_ms(began, end)
    for each in before:
        times = after[each] / before[each]
        print(
            f"broker {each}: {before[each] / MIB:.1f} MiB before, {after[each] / MIB:.1f} after ({times:.2f} times), "
            f"{anew[each] / MIB:.1f} started anew on the same files"
        )
    print(
        f"{len(latencies)} records acknowledged to the neighbour: p50 {percentile(latencies, 50):.0f} ms, "
        f"p99 {percentile(latencies, 99):.0f} ms, the slowest after {max(latencies):.0f} ms"
    )
    for name, count in sorted(rounds.items()):
        print(f"{count:7} times  {name}")
    grown = [
        f"broker {each}: {before[each] // MIB} MiB before, {after[each] // MIB} MiB after"
        for each in before
        if after[each] > before[each] * GROWTH
    ]
    lost = world.lost()
    for each in [*Counter(wrong).most_common(10), *lost[:20], *grown]:
        print("FAIL" if each in lost or each in grown else "note", each)
    print("nothing acknowledged is lost" if not lost else f"{len(lost)} records are wrong")
    return not (lost or grown or late)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    given = parser.parse_args()
    attacks = [each for name, each in all_attacks().items() if given.only in name]
    directory = Path(tempfile.mkdtemp(prefix="hostile-"))
    try:
        with running(directory / "cluster", BROKERS) as cluster, living(directory, cluster, thorough=True) as world:
            if given.minutes:
                print(f"seed {given.seed}")
                fine = all_at_once(world, attacks, given.minutes, given.seed)
            else:
                fine = one_by_one(world, attacks)
            if not fine:
                print(world.complaints())
    except BaseException:
        print(f"what the brokers and the neighbour wrote stays in {directory}")
        raise
    shutil.rmtree(directory, ignore_errors=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
