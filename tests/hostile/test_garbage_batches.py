"""A batch whose bytes are garbage behind a right CRC, in the files of a leader: who meets it says where, and goes on.

No client can have it written any more: it comes from a broker that did not look, or from the files.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import real_runtime
from barnabas.spark.arrow import Columns, record_batches
from barnabas.spark.fetching import fetched
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import OffsetRange
from barnabas.testing import KafkaCluster
from barnabas.wire.records import HEADER_BYTES, packed_batch

T0 = TopicPartition("t", 0)
RECORDS = 3
"""Before the garbage, and behind it."""
NOW = 1_700_000_000_000


def produced(cluster: KafkaCluster, *values: str) -> None:
    outcomes: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0, "linger.ms": 0})
    for value in values:
        producer.produce("t", value, on_delivery=lambda error, _: outcomes.append(error))
        assert producer.flush(30) == 0
    assert outcomes == [None] * len(values)


def garbage(offset: int) -> bytes:
    body = bytearray(HEADER_BYTES) + b"\x7f" * 40
    return bytes(packed_batch(body, 2, base_offset=offset, leader_epoch=0, base_timestamp=NOW, max_timestamp=NOW))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Two brokers. The leader's file gets garbage while both are down; then the follower copies it and life goes on."""
    directory = tmp_path_factory.mktemp("garbage")
    config = {"auto.leader.rebalance.enable": "false"}
    with KafkaCluster(2, directory=directory, config=config) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=2, config={"min.insync.replicas": 2})
        produced(cluster, *(f"before {number}" for number in range(RECORDS)))
        leader = cluster.partition("t", 0).leader
        (follower,) = cluster.partition("t", 0).followers
        follower.kill()
        cluster.partition("t", 0).wait(isr=[leader], timeout=30)
        leader.kill()
        segment = directory / f"broker-{leader.id}" / "t-0" / f"{0:020d}.log"
        with segment.open("ab") as file:
            file.write(garbage(RECORDS))
        leader.start()
        follower.start()
        cluster.partition("t", 0).wait(isr=[leader, follower], timeout=30)
        produced(cluster, *(f"behind {number}" for number in range(RECORDS)))
        copied = (directory / f"broker-{follower.id}" / "t-0" / f"{0:020d}.log").read_bytes()
        assert copied == segment.read_bytes()
        yield cluster


def test_a_follower_copies_it_and_a_restart_of_both_keeps_it(cluster: KafkaCluster) -> None:
    end = cluster.partition("t", 0).high_watermark
    for broker in cluster.brokers:
        broker.kill()
        broker.start()
        cluster.partition("t", 0).wait(isr=cluster.brokers, timeout=30)
    assert cluster.partition("t", 0).high_watermark == end


def test_our_consumer_gives_what_is_before_it_and_then_says_where_it_is(cluster: KafkaCluster) -> None:
    async def story() -> None:
        client = ClusterClient(real_runtime(), cluster.bootstrap)
        consumer = Consumer(client)
        await consumer.assign({T0: 0})
        found: list[bytes | None] = []

        async def read(count: int) -> None:
            while len(found) < count:
                found.extend(each.record.value for each in await consumer.poll(1_000))

        with pytest.raises(KafkaError, match="t-0 at offset 3 cannot be read") as caught:
            await read(RECORDS + 1)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert found == [b"before 0", b"before 1", b"before 2"]
        with pytest.raises(KafkaError, match="t-0 at offset 3 cannot be read"):
            await read(RECORDS + 1)
        assert len(found) == RECORDS, "it stays where it is"
        await consumer.assign({T0: 5})
        await read(2 * RECORDS)
        assert found[RECORDS:] == [b"behind 0", b"behind 1", b"behind 2"]
        await consumer.close()
        await client.close()

    cluster.run(story())


def test_the_consume_command_prints_what_is_before_it_and_then_says_where_it_is(cluster: KafkaCluster) -> None:
    command = [sys.executable, "-m", "barnabas", "consume", "-b", cluster.bootstrap, "-t", "t", "-e", "-o"]

    def consumed(offset: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, offset, "-f", "%v\n"], capture_output=True, text=True, timeout=60, check=False)

    stopped = consumed("start")
    assert stopped.returncode == 1
    assert stopped.stdout.split("\n") == ["before 0", "before 1", "before 2", ""]
    assert "t-0 at offset 3 cannot be read" in stopped.stderr
    behind = consumed("5")
    assert (behind.returncode, behind.stdout) == (0, "behind 0\nbehind 1\nbehind 2\n")


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_the_spark_source_says_where_it_is(cluster: KafkaCluster, compiled: bool) -> None:
    options = SourceOptions.parse({"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "t"}).for_batch()
    columns = Columns(("offset", "value"))

    def read(start: int, end: int) -> list[int]:
        wanted = OffsetRange("t", 0, start, end)
        answers = fetched(options.access.made(), wanted, options)
        arrow = record_batches(answers, wanted, columns, options.value, compiled=compiled)
        return [offset for each in arrow for offset in each.column("offset").to_pylist()]

    end = cluster.partition("t", 0).high_watermark
    with pytest.raises(KafkaError, match="t-0 at offset 3 cannot be read"):
        read(0, end)
    assert read(5, end) == [5, 6, 7]


def test_the_log_command_says_where_it_is(cluster: KafkaCluster) -> None:
    assert cluster._directory is not None
    segment = Path(cluster._directory) / "broker-0" / "t-0" / f"{0:020d}.log"
    command = [sys.executable, "-m", "barnabas", "log", "dump", str(segment), "--records"]
    dumped = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert dumped.returncode == 1
    assert "before 2" in dumped.stdout
    assert "damaged at position" in dumped.stderr
