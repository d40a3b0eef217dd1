"""A broker whose files are damaged: it says what is wrong, the rest goes on, and no acknowledged record is lost."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from processes import Cluster, eventually

COUNT = 300
EVERY_FAULT = pytest.mark.skipif(not os.environ.get("BARNABAS_DISKS"), reason="make disks has every fault")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """One broker with two log directories, and a topic in each."""
    made = Cluster(tmp_path, 1, {"log.flush.offset.checkpoint.interval.ms": "100"})
    file = tmp_path / "broker-0.properties"
    file.write_text(file.read_text() + f"log.dirs={tmp_path}/a,{tmp_path}/b\n")
    with made:
        admin = AdminClient({"bootstrap.servers": made.bootstrap, "log_level": 0})
        for topic in ("one", "two"):
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
        yield made


def place(cluster: Cluster, topic: str) -> Path:
    found: Path = next(cluster.directory.glob(f"?/{topic}-0"))
    return found


class Writer:
    """Produces numbered records, idempotent and acks=all, and knows which were acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        self.acknowledged: dict[str, list[str]] = {"one": [], "two": []}
        self.refused: list[KafkaError] = []
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "acks": "all", "message.timeout.ms": 1500, "log_level": 0}
        )

    def write(self, topic: str, count: int, size: int = 500) -> None:
        for number in range(count):
            value = f"{number} ".ljust(size, "x")

            def told(error: KafkaError | None, message: object, value: str = value) -> None:
                if error is None:
                    self.acknowledged[topic].append(value)
                else:
                    self.refused.append(error)

            self._producer.produce(topic, value, on_delivery=told)
        self._producer.flush(10)


def read(cluster: Cluster, topic: str, count: int) -> list[str]:
    """Every record from the beginning, `count` of them at least."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "fetch.wait.max.ms": 20, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    _, end = eventually(
        lambda: consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5), what=f"{topic} has a leader"
    )
    found: list[str] = []
    while len(found) < end:
        found += [message.value().decode() for message in consumer.consume(1000, 1) if message.error() is None]
    consumer.close()
    assert len(found) >= count
    return found


def test_a_full_disk_takes_its_directory_offline_and_no_acknowledged_record(cluster: Cluster) -> None:
    writer, broker = Writer(cluster), cluster.brokers[0]
    writer.write("one", COUNT)
    writer.write("two", 3)
    full = place(cluster, "one")
    # No file may grow beyond the middle of the next batch: the kernel takes a part of it and refuses the rest.
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (full.joinpath(f"{0:020d}.log").stat().st_size + 200,) * 2)
    writer.write("one", 1)
    assert len(writer.acknowledged["one"]) == COUNT
    assert len(writer.refused) == 1
    assert f"Log directory {full.parent} is offline: appending to the log of one-0" in broker.output()
    writer.write("two", 3)
    assert len(writer.acknowledged["two"]) == 6, "the other directory goes on"
    broker.kill()
    cluster.start_broker(0)
    assert "200 bytes after offset 300 are no whole batches and are cut" in broker.output()
    assert read(cluster, "one", COUNT) == writer.acknowledged["one"]
    assert read(cluster, "two", 6) == writer.acknowledged["two"]


@EVERY_FAULT
def test_damaged_indexes_and_checkpoints_cost_no_record(cluster: Cluster) -> None:
    writer, broker = Writer(cluster), cluster.brokers[0]
    for topic in ("one", "two"):
        writer.write(topic, COUNT)
    assert broker.stop() == 0
    for topic in ("one", "two"):
        directory = place(cluster, topic)
        with (directory / f"{0:020d}.index").open("r+b") as index:
            index.truncate(5)
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            (directory.parent / name).write_bytes(bytes(100))
        (directory / "leader-epoch-checkpoint").write_bytes(bytes(10))
    cluster.start_broker(0)
    for topic in ("one", "two"):
        assert read(cluster, topic, COUNT) == writer.acknowledged[topic]
        assert f"{place(cluster, topic)}/{0:020d}.log, which is recovered" in broker.output()
        assert f"{place(cluster, topic).parent}/recovery-point-offset-checkpoint" in broker.output()
    writer.write("one", 1)
    assert not writer.refused


@EVERY_FAULT
def test_a_directory_that_cannot_be_used_is_told_and_back_after_its_repair(cluster: Cluster) -> None:
    writer, broker = Writer(cluster), cluster.brokers[0]
    for topic in ("one", "two"):
        writer.write(topic, 10)
    broken = place(cluster, "one").parent
    assert broker.stop() == 0
    broken.rename(broken.with_name("away"))
    broken.write_text("not a directory")
    cluster.start_broker(0)
    assert f"Log directory {broken} is offline: opening the log directory: " in broker.output()
    assert read(cluster, "two", 10) == writer.acknowledged["two"]
    broker.stop()
    broken.unlink()
    broken.with_name("away").rename(broken)
    cluster.start_broker(0)
    eventually(lambda: read(cluster, "one", 10) == writer.acknowledged["one"], what="its records are there again")
