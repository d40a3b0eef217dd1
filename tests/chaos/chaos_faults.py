"""What is done to the cluster. Each fault lasts a few seconds, and is over when the function returns."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from chaos_machines import SESSION_TIMEOUT_S, Abilities, Cluster, Machine, eventually

from barnabas.log.checkpoints import RECOVERY_POINTS, read_offsets
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import RealDisk
from barnabas.wire.records import batches

Say = Callable[[str], None]
TOPICS = ["chaos", "__consumer_offsets"]


@dataclass
class Scene:
    cluster: Cluster
    chance: random.Random
    say: Say

    def broker(self) -> Machine:
        return self.chance.choice(self.cluster.brokers)

    def leaderish(self) -> Machine:
        """A broker, the controller with a chance of one half."""
        told = self.cluster.brokers[0].told([]) or self.cluster.brokers[1].told([])
        for each in self.cluster.brokers:
            if told is not None and each.number == told.controller_id and self.chance.random() < 0.5:
                return each
        return self.broker()

    def others(self, machine: Machine) -> list[Machine]:
        return [each for each in self.cluster.machines if each is not machine]


def kill(scene: Scene) -> None:
    broker = scene.leaderish()
    scene.say(f"kill -9 {broker.name}")
    broker.kill()
    time.sleep(scene.chance.uniform(0, 7))
    broker.start()
    scene.say(f"{broker.name} starts again")


def kill_two(scene: Scene) -> None:
    first, second = scene.chance.sample(scene.cluster.brokers, 2)
    scene.say(f"kill -9 {first.name} and {second.name}")
    first.kill()
    time.sleep(scene.chance.uniform(0, 4))
    second.kill()
    time.sleep(scene.chance.uniform(0, 4))
    second.start()
    time.sleep(scene.chance.uniform(0, 1))
    first.start()
    scene.say("both start again")


def kill_coordinator(scene: Scene) -> None:
    scene.say("kill -9 the coordinator")
    scene.cluster.zookeeper.kill()
    time.sleep(scene.chance.uniform(0, 6))
    scene.cluster.zookeeper.start()
    scene.say("the coordinator starts again")


def stop(scene: Scene) -> None:
    broker = scene.broker()
    scene.say(f"SIGTERM to {broker.name}")
    broker.stop()
    time.sleep(scene.chance.uniform(0, 3))
    broker.start()
    scene.say(f"{broker.name} starts again")


def pause(scene: Scene) -> None:
    broker = scene.leaderish()
    seconds = SESSION_TIMEOUT_S + scene.chance.uniform(0.5, 5)
    scene.say(f"SIGSTOP {broker.name} for {seconds:.1f} s")
    broker.signal(signal.SIGSTOP)
    time.sleep(seconds)
    broker.signal(signal.SIGCONT)


def stutter(scene: Scene) -> None:
    broker = scene.leaderish()
    scene.say(f"SIGSTOP and SIGCONT {broker.name} by turns")
    for _ in range(8):
        broker.signal(signal.SIGSTOP)
        time.sleep(scene.chance.uniform(0.2, 0.8))
        broker.signal(signal.SIGCONT)
        time.sleep(scene.chance.uniform(0, 0.3))


@contextlib.contextmanager
def dropped(pairs: list[tuple[Machine, Machine]], share: float = 1.0) -> Iterator[None]:
    """Nothing (or not a `share` of the packets) from the first of each pair reaches the second."""
    rules: list[tuple[Machine, list[str]]] = []
    for source, target in pairs:
        rule = ["INPUT", "-s", source.host, "-j", "DROP"]
        if share < 1:
            rule += ["-m", "statistic", "--mode", "random", "--probability", f"{share:.2f}"]
        rules.append((target, rule))
    try:
        for machine, rule in rules:
            machine.inside("iptables", "-w", "-A", *rule)
        yield
    finally:
        for machine, rule in rules:
            machine.inside("iptables", "-w", "-D", *rule)


def one_way(scene: Scene) -> None:
    broker = scene.leaderish()
    other = scene.chance.choice(scene.others(broker))
    pair = (broker, other) if scene.chance.random() < 0.5 else (other, broker)
    scene.say(f"nothing from {pair[0].name} reaches {pair[1].name}")
    with dropped([pair]):
        time.sleep(scene.chance.uniform(3, 8))
    scene.say("the link is whole again")


def isolate(scene: Scene) -> None:
    """Cut off from brokers and coordinator; clients still reach it."""
    broker = scene.leaderish()
    scene.say(f"{broker.name} and the others do not reach each other")
    others = scene.others(broker)
    with dropped([(broker, each) for each in others] + [(each, broker) for each in others]):
        time.sleep(scene.chance.uniform(3, 9))
    scene.say("the links are whole again")


def from_coordinator(scene: Scene) -> None:
    broker = scene.leaderish()
    zookeeper = scene.cluster.zookeeper
    scene.say(f"{broker.name} and the coordinator do not reach each other")
    with dropped([(broker, zookeeper), (zookeeper, broker)]):
        time.sleep(scene.chance.uniform(3, 9))
    scene.say("the link is whole again")


def bad_link(scene: Scene) -> None:
    broker = scene.broker()
    others = scene.others(broker)
    if scene.cluster.able.netem:
        scene.say(f"netem on {broker.name}: 80 ms ± 40, 5 % lost")
        words = ["root", "netem", "delay", "80ms", "40ms", "loss", "5%"]
        pairs = []
    else:
        scene.say(f"{broker.name} sends 1 Mbit/s at most, and a tenth of the packets to it is lost")
        words = ["root", "tbf", "rate", "1mbit", "burst", "16k", "latency", "200ms"]
        pairs = [(each, broker) for each in others]
    with dropped(pairs, 0.1):
        broker.inside("tc", "qdisc", "add", "dev", "eth0", *words)
        try:
            time.sleep(scene.chance.uniform(4, 8))
        finally:
            broker.inside("tc", "qdisc", "del", "dev", "eth0", "root")
    scene.say("the link is good again")


def full_disk(scene: Scene) -> None:
    broker = scene.broker()
    scene.say(f"the disk of {broker.name} is full")
    broker.wanted = False  # a broker without a log directory that works ends itself
    ballast = broker.disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 65536)
    time.sleep(scene.chance.uniform(2, 6))
    ballast.unlink()
    ended = not broker.running
    broker.stop()
    broker.start()
    scene.say(f"{broker.name} {'had ended itself' if ended else 'was stopped'}, has room again and starts")


def torn_tail(scene: Scene) -> None:
    """A machine without power: what was not synced is cut or garbled. It boots for longer than its session lasts."""
    broker = scene.broker()
    scene.say(f"{broker.name} loses its power")
    broker.kill()
    damage = damaged(broker, scene.chance)
    witness = next(each for each in scene.cluster.brokers if each is not broker)

    def is_out() -> bool:
        told = witness.told(TOPICS)
        return told is not None and not any(
            broker.number in partition.isr or partition.leader == broker.number
            for topic in told.topics.values()
            for partition in topic.partitions.values()
        )

    eventually(is_out, 30, f"{broker.name} is in no ISR any more")
    broker.start()
    scene.say(f"{broker.name} has power again; {damage}")


def damaged(broker: Machine, chance: random.Random) -> str:
    """Cuts, zeroes or garbles the unsynced tail of each log's last segment."""
    directory = str(broker.log_dir)
    synced = read_offsets(RealDisk(), directory, RECOVERY_POINTS)
    cut = garbled = 0
    for name in sorted(os.listdir(directory)):
        topic, _, number = name.rpartition("-")
        segments = sorted(each for each in broker.log_dir.joinpath(name).glob("*.log")) if number.isdigit() else []
        if not segments:
            continue
        path = segments[-1]
        data = path.read_bytes()
        recovery_point = synced.get(TopicPartition(topic, int(number)), 0)
        start = 0
        for header, position, end in batches(memoryview(data)):
            if header.last_offset >= recovery_point:
                start = position
                break
            start = end
        if start >= len(data):
            continue
        at = chance.randrange(start, len(data))
        kind = chance.random()
        if kind < 0.4:
            os.truncate(path, at)
            cut += 1
        elif kind < 0.8:
            page = data[at:]
            hole = bytes(len(page)) if kind < 0.6 else chance.randbytes(len(page))
            path.write_bytes(data[:at] + hole)
            garbled += 1
    return f"{cut} logs were cut, {garbled} garbled"


def kinds(able: Abilities) -> dict[str, Callable[[Scene], None]]:
    found: dict[str, Callable[[Scene], None]] = {
        "kill": kill,
        "pause": pause,
        "torn tail": torn_tail,
        "kill two": kill_two,
        "stop": stop,
        "coordinator": kill_coordinator,
        "stutter": stutter,
    }
    if able.drops:
        found |= {"one way": one_way, "isolated": isolate, "no coordinator": from_coordinator, "bad link": bad_link}
    if able.tmpfs:
        found["full disk"] = full_disk
    return found
