"""Our files under Apache Kafka's tools and broker, and its files under ours."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path

import apache
import pytest
from in_apaches_place import wait_until_unregistered
from kafka_tools import tool

from barnabas.log.log import AppendOrigin, Log
from barnabas.log.log_dirs import LogDirs
from barnabas.model.config import broker_config, topic_config
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import real_runtime
from barnabas.wire.records import ControlType, Record, build_batch, control_batch, records_of

pytestmark = [pytest.mark.long(1), pytest.mark.apache]

RUNTIME = real_runtime()
NOW = RUNTIME.clock.now_ms()
COMPLAINTS = re.compile(
    r"mismatch|not valid|invalid|Found|error|exception|isvalid: false|bytes of invalid|corrupt|not sorted",
    re.IGNORECASE,
)


def records(number: int, count: int, **fields: object) -> bytearray:
    made = [
        Record(i, NOW + number * 10 + i, f"key {number}".encode(), b"value " * 20, [("header", b"x")])
        for i in range(count)
    ]
    return bytearray(build_batch(made, **fields))  # type: ignore[arg-type]


def filled_log(directory: Path) -> Log:
    """A log with every compression, several segments and leader epochs, and transactions of both ends."""
    config = topic_config(broker_config({}), {"segment.bytes": "20000", "index.interval.bytes": "500"})
    partition = TopicPartition("flights", 0)
    log = Log.open(RUNTIME.disk, str(directory / str(partition)), partition, config, now_ms=NOW)
    sequence = 0
    for number in range(300):
        codec = ("none", "gzip", "snappy", "lz4", "zstd")[number % 5]
        log.append_as_leader(records(number, 1 + number % 7, compression=codec), number // 60, now_ms=NOW)
        if number % 20 == 3:
            for _ in range(2):
                data = records(
                    number, 2, producer_id=1, producer_epoch=0, base_sequence=sequence, is_transactional=True
                )
                log.append_as_leader(data, number // 60, now_ms=NOW)
                sequence += 2
            kind = ControlType.ABORT if number % 40 == 3 else ControlType.COMMIT
            marker = control_batch(kind, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW)
            log.append_as_leader(bytearray(marker), number // 60, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)
    assert len(log.segments) > 3
    return log


def dump(directories: Iterable[Path], *arguments: str) -> str:
    """What kafka-dump-log prints of every file of `directories`, in none of which it finds anything wrong."""
    files = sorted(
        str(path)
        for directory in directories
        for path in directory.iterdir()
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    )
    said = tool("kafka-dump-log", "--files", ",".join(files), *arguments)
    assert said.status == 0, said
    complaints = [line for line in (said.out + said.err).splitlines() if COMPLAINTS.search(line)]
    assert not complaints, "\n".join(complaints[:10])
    return said.out


def test_kafka_dump_log_reads_every_file_while_we_write(tmp_path: Path) -> None:
    log = filled_log(tmp_path)
    printed = dump([Path(log.directory)], "--deep-iteration", "--print-data-log")
    assert f"lastOffset: {log.log_end_offset - 1} " in printed
    log.close_files()


def test_kafka_dump_log_reads_every_file_after_a_clean_stop(tmp_path: Path) -> None:
    log = filled_log(tmp_path)
    log.close(now_ms=NOW)
    printed = dump([Path(log.directory)], "--deep-iteration")
    for word in ("compresscodec: zstd", "compresscodec: lz4", "compresscodec: snappy", "compresscodec: gzip"):
        assert word in printed
    assert "endTxnMarker: ABORT" in printed
    assert "producerId: 1 producerEpoch: 0" in printed
    dump([Path(log.directory)], "--index-sanity-check")


def test_kafka_dump_log_reads_what_compaction_left(tmp_path: Path) -> None:
    """Batches with gaps, empty ones, delete horizons, and indexes of segments that were merged."""
    config = broker_config(
        {
            "log.dirs": str(tmp_path),
            "log.cleanup.policy": "compact",
            "log.segment.bytes": "20000",
            "log.index.interval.bytes": "500",
        }
    )
    dirs = LogDirs(RUNTIME, config)
    asyncio.run(dirs.load())
    log = dirs.get_or_create(TopicPartition("flights", 0))
    log.producers.requires_verification = False
    sequence = 0
    for number in range(400):
        codec = ("none", "gzip", "snappy", "lz4", "zstd")[number % 5]
        log.append_as_leader(records(number % 37, 1 + number % 7, compression=codec), 0, now_ms=NOW)
        log.append_as_leader(bytearray(build_batch([Record(0, NOW, b"gone %d" % (number % 9), None)])), 0, now_ms=NOW)
        if number % 10 == 3:
            data = records(
                number % 5, 2, producer_id=1, producer_epoch=0, base_sequence=sequence, is_transactional=True
            )
            log.append_as_leader(data, 0, now_ms=NOW)
            sequence += 2
            kind = ControlType.ABORT if number % 20 == 3 else ControlType.COMMIT
            marker = control_batch(kind, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW)
            log.append_as_leader(bytearray(marker), 0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)
    before = log.size
    assert asyncio.run(dirs.cleaner.clean_filthiest())
    assert log.size < before / 3
    dirs.close()
    printed = dump([tmp_path / "flights-0"], "--deep-iteration", "--print-data-log")
    assert "deleteHorizonMs" in printed
    assert re.search(r"count: 0 .*producerId: 1", printed) or "isControl: true" in printed


def all_values(log: Log) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for segment in log.segments:
        for batch in segment.batches():
            if not batch.is_control:
                data = segment.read_batch(batch)
                found += [(r.offset, r.value or b"") for r in records_of(data, 0, len(data))]
    return found


def our_log_dirs(directory: Path) -> LogDirs:
    log_dirs = LogDirs(RUNTIME, broker_config({"log.dirs": str(directory), "broker.id": "0"}))
    asyncio.run(log_dirs.load())
    return log_dirs


@pytest.mark.parametrize("clean", [True, False], ids=["clean-stop", "kill-9"])
def test_a_log_dir_goes_from_apache_kafka_to_us_and_back(tmp_path: Path, clean: bool) -> None:
    options = {"log.segment.bytes": "30000", "log.index.interval.bytes": "1000", "zookeeper.session.timeout.ms": "3000"}
    with apache.ApacheCluster(tmp_path, 1, config=options) as kafka:
        server = ("--bootstrap-server", kafka.bootstrap)
        created = tool("kafka-topics", *server, "--create", "--topic", "flights", "--partitions", "2")
        assert created.status == 0, created
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            lines = "\n".join(f"{codec} {number}" for number in range(400)) + "\n"
            sent = tool(
                "kafka-console-producer", *server, "--topic", "flights", "--compression-codec", codec, text=lines
            )
            assert sent.status == 0, sent
        kafka.stop(0) if clean else kafka.kill(0)

        log_dirs = our_log_dirs(tmp_path / "broker-0" / "data")
        cluster_id = next(iter(log_dirs.meta_properties().values())).cluster_id
        assert cluster_id is not None
        log_dirs.identify(cluster_id, 0)
        assert log_dirs.stored_broker_id() == 0
        ours = {partition: log for partition, log in log_dirs.logs.items() if partition.topic == "flights"}
        assert sorted(ours) == [TopicPartition("flights", 0), TopicPartition("flights", 1)]
        held = sorted(value for log in ours.values() for _, value in all_values(log))
        expected = sorted(
            f"{codec} {number}".encode() for codec in ("none", "gzip", "snappy", "lz4", "zstd") for number in range(400)
        )
        assert held == expected
        for log in ours.values():
            assert log.topic_id is not None
            if log.log_end_offset:  # the producer chooses partitions at random
                assert log.latest_epoch == 0
                assert log.producers.entries, "console producers are idempotent"
            for i in range(100):
                one = build_batch([Record(0, NOW, None, f"ours {i}".encode())])
                log.append_as_leader(one, 0, now_ms=NOW)
        log_dirs.close(clean=clean)

        wait_until_unregistered(kafka.zookeeper, 0)
        kafka.start(0)
        read = tool(
            "kafka-console-consumer", *server, "--topic", "flights", "--from-beginning", "--max-messages", "2200",
            "--timeout-ms", "30000",
        )  # fmt: skip
        assert sorted(read.out.encode().splitlines()) == sorted(
            expected + 2 * [f"ours {i}".encode() for i in range(100)]
        )
        kafka.stop(0)
        written = (tmp_path / "broker-0" / "server.log").read_text()
        assert "ERROR" not in written
        for log in ours.values():
            assert "Found a corrupted index" not in written
            dump([Path(log.directory)], "--deep-iteration")
