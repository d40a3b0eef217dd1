"""Log directories that were damaged after a clean stop, under our broker and under Apache Kafka 3.9.2.

Each damage has a log directory of its own, so that one start of each broker serves them all. What is written here of
Kafka is what it did: where it has learned better, the test says so.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apache
import pytest
from cluster import until
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from in_apaches_place import our_broker, wait_until_unregistered

from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.list_offsets import ListOffsetsRequest
from barnabas.wire.records import HEADER_BYTES, batches

pytestmark = [pytest.mark.long(0), pytest.mark.apache]

TOPIC = "flights"
RECORDS = 40
"""In each partition, and as many batches."""
CONFIG = {"log.segment.bytes": "2000", "log.index.interval.bytes": "300", "zookeeper.session.timeout.ms": "6000"}


class Damage(NamedTuple):
    name: str
    done: Callable[[Path], object]
    """To a partition's directory."""
    missing: Callable[[Path], list[int]] = lambda directory: []
    """The offsets that no reader of ours finds any more."""
    missing_in_apaches: Callable[[Path], list[int]] | None = None
    """The same of Kafka's, where they are others."""


def segment(directory: Path, number: int, suffix: str = ".log") -> Path:
    """The file of the first, second, or last segment."""
    return sorted(directory.glob("*.log"))[number].with_suffix(suffix)


def offsets_of(directory: Path, number: int) -> list[int]:
    return [header.base_offset for header, _, _ in batches(segment(directory, number).read_bytes())]


def changed(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def one_too_far(index: bytes) -> bytes:
    """The second entry's position is that of the batch's second byte."""
    rows = list(struct.iter_unpack(">ii", index))
    rows[1] = (rows[1][0], rows[1][1] + 1)
    return b"".join(struct.pack(">ii", *row) for row in rows)


def behind_the_second_entry(directory: Path) -> list[int]:
    """Until the third one leads on."""
    (_, _), (first, _), (last, _), *_ = struct.iter_unpack(">ii", segment(directory, 1, ".index").read_bytes())
    base = offsets_of(directory, 1)[0]
    return [*range(base + first, base + last)]


def a_record_and_an_index(directory: Path) -> None:
    changed(segment(directory, 1), lambda data: data[: HEADER_BYTES + 9] + b"?" + data[HEADER_BYTES + 10 :])
    segment(directory, 1, ".index").unlink()


def swapped(directory: Path) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        path = segment(directory, 1, suffix)
        shutil.copy(path, f"{path}.swap")


def a_directory(directory: Path) -> None:
    (directory / "notes.deleted").mkdir()


DAMAGES = [
    Damage("nothing", lambda directory: None),
    Damage("an index is gone", lambda directory: segment(directory, 1, ".index").unlink()),
    Damage(
        "an index is cut short", lambda directory: changed(segment(directory, -1, ".index"), lambda data: data[:-1])
    ),
    Damage(
        "an index leads amid a batch",
        lambda directory: changed(segment(directory, 1, ".index"), one_too_far),
        missing_in_apaches=behind_the_second_entry,
    ),
    Damage("a time index is garbage", lambda directory: segment(directory, 1, ".timeindex").write_bytes(b"\xff" * 24)),
    Damage(
        "a record is damaged, and its segment's index gone",
        a_record_and_an_index,
        missing_in_apaches=lambda directory: offsets_of(directory, 1),
    ),
    Damage(
        "the last segment is cut short",
        lambda directory: changed(segment(directory, -1), lambda data: data[:-1]),
        missing=lambda directory: offsets_of(directory, -1)[-1:],
        missing_in_apaches=lambda directory: offsets_of(directory, -1),  # the index leads to the batch that was cut
    ),
    Damage("leader epochs are gone", lambda directory: (directory / "leader-epoch-checkpoint").unlink()),
    Damage("a snapshot is garbage", lambda directory: max(directory.glob("*.snapshot")).write_bytes(b"?" * 20)),
    Damage("a segment was being swapped", swapped),
    Damage("there is a directory", a_directory),
]


def test_every_record_that_is_whole_is_read(tmp_path: Path) -> None:
    """One by one, as a consumer that asks for a byte: each offset is looked up in the indexes."""
    dirs = [tmp_path / "logs" / str(number) for number in range(len(DAMAGES))]
    config = {**CONFIG, "log.dirs": ",".join(map(str, dirs))}
    with apache.ApacheCluster(tmp_path, 1, config=config) as kafka:
        filled(kafka.bootstrap)
        kafka.stop(0)
        places = [next((tmp_path / "logs").glob(f"*/{TOPIC}-{number}")) for number in range(len(DAMAGES))]
        expected = [damage.missing(place) for damage, place in zip(DAMAGES, places, strict=True)]
        expected_of_apaches = [
            (damage.missing_in_apaches or damage.missing)(place) for damage, place in zip(DAMAGES, places, strict=True)
        ]
        for damage, place in zip(DAMAGES, places, strict=True):
            damage.done(place)
        shutil.copytree(tmp_path / "logs", tmp_path / "damaged")

        with our_broker(kafka):
            assert told(missing(kafka.ports[0])) == told(expected)
        shutil.rmtree(tmp_path / "logs")
        shutil.copytree(tmp_path / "damaged", tmp_path / "logs")
        wait_until_unregistered(kafka.zookeeper, 0)
        kafka.start(0)
        assert told(missing(kafka.ports[0])) == told(expected_of_apaches)


def test_zeros_behind_the_last_batch_are_cut_and_keep_no_broker_from_starting(tmp_path: Path) -> None:
    """Apache's does not start, and leaves all its partitions offline."""
    with apache.ApacheCluster(tmp_path, 1, config=CONFIG) as kafka:
        filled(kafka.bootstrap)
        kafka.stop(0)
        changed(segment(kafka.log_dir(0) / f"{TOPIC}-0", -1), lambda data: data + bytes(100))
        wait_until_unregistered(kafka.zookeeper, 0)
        with pytest.raises(RuntimeError, match="Found record size 0 smaller than minimum record overhead"):
            kafka.start(0)
        with our_broker(kafka):
            assert told(missing(kafka.ports[0])) == told([[] for _ in DAMAGES])


def told(found: list[list[int]]) -> dict[str, list[int]]:
    return {damage.name: offsets for damage, offsets in zip(DAMAGES, found, strict=True)}


def filled(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, len(DAMAGES), 1)])[TOPIC].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 1, "linger.ms": 0, "log_level": 0})
    for number in range(RECORDS):
        for partition in range(len(DAMAGES)):
            producer.produce(TOPIC, f"{number} ".ljust(100, "x"), partition=partition)
    assert producer.flush(60) == 0


def missing(port: int) -> list[list[int]]:
    """By partition, the offsets at which no batch is found, but for what lies behind its log's end."""
    connection = BlockingConnection("127.0.0.1", port)
    try:
        # A leader begins at the high watermark that was written down last, and is at its log's end a moment later.
        halfway = RECORDS // 2
        until(lambda: all(end_of(connection, number) > halfway for number in range(len(DAMAGES))), "all is committed")
        return [
            [offset for offset in range(RECORDS) if not is_there(connection, number, offset)]
            for number in range(len(DAMAGES))
        ]
    finally:
        connection.close()


def end_of(connection: BlockingConnection, number: int) -> int:
    """-1 where it is not told."""
    asked = ListOffsetsRequest.ListOffsetsPartition(number, timestamp=-1)
    request = ListOffsetsRequest(-1, topics=[ListOffsetsRequest.ListOffsetsTopic(TOPIC, [asked])])
    (answer,) = connection.send(request, 7).topics[0].partitions
    return int(answer.offset)


def is_there(connection: BlockingConnection, number: int, offset: int) -> bool:
    wanted = FetchRequest.FetchPartition(number, fetch_offset=offset, partition_max_bytes=1)
    request = FetchRequest(max_bytes=1, topics=[FetchRequest.FetchTopic(TOPIC, partitions=[wanted])])
    (answer,) = connection.send(request, 11).responses[0].partitions
    if answer.error_code != ErrorCode.NONE or not answer.records:
        return False
    header, _, _ = next(batches(answer.records))
    return bool(header.base_offset == offset)
