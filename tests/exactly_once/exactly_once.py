"""The exactly-once run: records through source, transformation and sink, while everybody dies in turn.

    python tests/exactly_once/exactly_once.py --records 1000000 --cluster apache --spark standalone

Executors, the driver and a partition's leader are killed at every step of a micro-batch, the controller and the
coordinator of transactions in the middle of one, all with -9: 21 deaths, 24 with a transaction a task. The query
is started again each time; at the end confluent-kafka reads the output under read_committed and judges it by count and
content: every record once, as it should be.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from contextlib import ExitStack, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from clusters import Brokers, Standalone, brokers, standalone
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.client.blocking import BlockingCluster
from barnabas.client.blocking_producer import BlockingProducer

PARTITIONS = 6
SILENCE_S = 60
HERE = Path(__file__).parent
STEPS = {
    "exactly-once": ["planned", "writing", "written", "marked", "decided", "ended"],
    "exactly-once-by-task": ["planned", "writing", "written", "marked", "decided", "ending", "ended"],
}
OTHER_DEATHS = ["controller:writing", "coordinator:writing", "coordinator:marked"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--cluster", choices=["barnabas", "apache"], default="barnabas")
    parser.add_argument("--delivery", choices=list(STEPS), default="exactly-once")
    parser.add_argument("--spark", choices=["local", "standalone"], default="local")
    parser.add_argument("--deaths", help="who dies where, with commas, instead of all: driver:written,leader:writing")
    parser.add_argument("--timeout", type=float, default=3_600, help="seconds for a single start of the query")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    began = time.monotonic()
    deaths = arguments.deaths.split(",") if arguments.deaths else all_deaths(arguments.delivery, arguments.spark)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="exactly-once-")))
        dying = directory / "dying"
        dying.mkdir()
        (dying / "plan").write_text("\n".join(deaths))
        kafka = stack.enter_context(brokers(arguments.cluster, directory / "kafka"))
        fill(kafka.bootstrap, arguments.records)
        tell(began, f"{arguments.records} records in {PARTITIONS} partitions on {arguments.cluster}")
        environment = {"DYING_IN": str(dying), "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path[1:]])}
        spark = None
        if arguments.spark == "standalone":
            spark = stack.enter_context(standalone(directory, environment))
            tell(began, f"a Spark standalone cluster of two workers at {spark.master}")
        given = {
            "bootstrap": kafka.bootstrap,
            "delivery": arguments.delivery,
            # Each death takes a batch of its own, more or less.
            "batch": max(1, arguments.records // (len(deaths) + 2)),
            "checkpoint": f"file://{directory}/checkpoint",
            "dying": str(dying),
            "master": "local[2,4]" if spark is None else spark.master,
            "config": {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"},
        }
        starts = run(given, environment, dying, Killer(kafka, spark), deaths, began, arguments.timeout)
        kafka.recovered()
        verdict = judge(kafka.bootstrap, arguments.records)
        died = len(list(dying.glob("died-*")))
    tell(began, f"{died} of {len(deaths)} deaths, {starts} starts of the query")
    print(json.dumps({**verdict, "deaths": died, "starts": starts, "seconds": round(time.monotonic() - began)}))
    good = verdict["distinct"] == verdict["read"] == arguments.records and not verdict["wrong"]
    return 0 if good and died == len(deaths) else 1


def all_deaths(delivery: str, spark: str) -> list[str]:
    """Everybody at every step. With ``local`` an executor is a process of Python, the JVM is the driver's."""
    who = "executor" if spark == "standalone" else "worker"
    return [f"{each}:{step}" for step in STEPS[delivery] for each in (who, "driver", "leader")] + OTHER_DEATHS


class Killer:
    """Whoever can't kill itself is killed here, by the name of its part: brokers, and executors beside the driver."""

    def __init__(self, kafka: Brokers, spark: Standalone | None) -> None:
        self._kafka = kafka
        self._spark = spark

    def kill(self, who: str) -> str:
        if who == "executor":
            assert self._spark is not None, "without a cluster Spark has no executors of their own"
            return f"process {self._spark.kill_executor()}, an executor"
        return f"broker {self._kafka.kill(who)}, the {who}"

    def recover(self) -> None:
        self._kafka.recover()


def tell(began: float, what: str) -> None:
    print(f"{time.monotonic() - began:6.1f} s  {what}", file=sys.stderr, flush=True)


def fill(bootstrap: str, records: int) -> None:
    """``in`` with the keys and values 0 to records - 1, and an empty ``out``."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in ("in", "out")]).values():
        made.result(60)
    with BlockingCluster(bootstrap) as cluster:
        producer = BlockingProducer(cluster, compression="lz4")
        for number in range(records):
            producer.send("in", b"record %d" % number, key=b"%d" % number, partition=number % PARTITIONS)
        producer.flush()


def run(
    given: dict[str, object],
    environment: dict[str, str],
    dying: Path,
    killer: Killer,
    deaths: list[str],
    began: float,
    timeout: float,
) -> int:
    """Starts the query until it has ended well; kills whom it asks for. Gives how often it was started."""
    for start in range(1, 3 * len(deaths) + 4):
        with open(dying.parent / f"query-{start}.log", "wb") as log:
            query = subprocess.Popen(
                [sys.executable, str(HERE / "query.py"), json.dumps(given)],
                stdout=log,
                stderr=log,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        try:
            ended = watch(query, dying, killer, deaths, began, timeout)
        finally:
            # Python's side of a killed driver, and workers that it had.
            if query.poll() is None or ended != 0:
                kill_group(query)
        tell(began, f"start {start} ended with {ended}")
        if ended == 0:
            return start
        if not any(dying.glob("died-*")):
            raise RuntimeError(f"the query failed before anybody died:\n{tail(Path(log.name))}")
    raise RuntimeError(f"the query does not get to its end:\n{tail(Path(log.name))}")


def watch(
    query: subprocess.Popen[bytes], dying: Path, killer: Killer, deaths: list[str], began: float, timeout: float
) -> int:
    deadline = time.monotonic() + timeout
    told = len(list(dying.glob("died-*")))
    while query.poll() is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the query did not end within {timeout:.0f} s")
        for asked in dying.glob("asked-*"):
            done = dying / asked.name.replace("asked", "done")
            if not done.exists() and (who := asked.read_text()):
                tell(began, f"{killer.kill(who)}, is killed")
                done.touch()
        killer.recover()
        died = len(list(dying.glob("died-*")))
        while told < died:
            tell(began, f"death {told + 1} of {len(deaths)}: {deaths[told]}")
            told += 1
        try:
            query.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
    return int(query.returncode)


def kill_group(query: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(query.pid, signal.SIGKILL)
    query.wait()


def tail(path: Path) -> str:
    return path.read_text(errors="replace")[-4_000:]


def judge(bootstrap: str, records: int) -> dict[str, int]:
    """What an independent client reads from ``out`` under read_committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition("out", each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
    seen = bytearray(records)
    read = wrong = ended = 0
    silent_since = time.monotonic()
    while ended < PARTITIONS:
        for message in consumer.consume(10_000, timeout=1):
            silent_since = time.monotonic()
            if message.error() is not None:
                ended += 1
                continue
            read += 1
            value = bytes(message.value())
            number = int(message.key())
            plain = b"record %d" % number
            if value != plain + b":%d" % zlib.crc32(plain) or not 0 <= number < records:
                wrong += 1
            else:
                seen[number] = 1
        if time.monotonic() - silent_since > SILENCE_S:
            raise TimeoutError(f"nothing was readable for {SILENCE_S} s after {read} records: a transaction is open")
    consumer.close()
    return {"records": records, "read": read, "distinct": sum(seen), "wrong": wrong}


if __name__ == "__main__":
    sys.exit(main())
