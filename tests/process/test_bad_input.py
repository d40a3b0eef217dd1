"""Whatever is thrown at a broker costs at most that one connection, and nothing accepted is lost."""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache import free_port
from cluster import BARNABAS, Cluster, barnabas, running
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.model.errors import ErrorCode
from barnabas.wire import frames
from barnabas.wire.messages.produce import ProduceRequest, ProduceResponse
from barnabas.wire.records import Record, build_batch

PRODUCE_VERSION = 9


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("bad-input"), 1) as started:
        topic = NewTopic("kept", 1, 1)
        admin = AdminClient({"bootstrap.servers": started.bootstrap})
        admin.create_topics([topic])["kept"].result(30)
        producer = Producer({"bootstrap.servers": started.bootstrap, "acks": "all"})
        for number in range(10):
            producer.produce("kept", str(number))
        assert producer.flush(30) == 0
        yield started


@pytest.fixture(autouse=True)
def _what_was_accepted_is_still_there(cluster: Cluster) -> Iterator[None]:
    yield
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "kept"})
    consumer.assign([TopicPartition("kept", 0, 0)])
    found = consumer.consume(10, 30)
    consumer.close()
    assert [message.value() for message in found] == [b"%d" % number for number in range(10)]


def connect(cluster: Cluster) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", cluster.broker(0)["port"]), 10)
    connection.settimeout(10)
    return connection


def closed_without_an_answer(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def request(key: int, version: int, body: bytes = b"") -> bytes:
    content = struct.pack(">hhih", key, version, 7, 4) + b"test" + body
    return struct.pack(">i", len(content)) + content


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", id="an HTTP request"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), id="a TLS hello"),
        pytest.param(struct.pack(">i", -1) + bytes(64), id="a negative size"),
        pytest.param(struct.pack(">i", 2**31 - 1) + bytes(64), id="a frame of 2 GB"),
        pytest.param(struct.pack(">i", 3) + bytes(3), id="a frame too short for a header"),
        pytest.param(request(999, 0), id="an unknown API key"),
        pytest.param(request(3, 99), id="an unknown version"),
        pytest.param(request(3, 1, struct.pack(">i", 2**31 - 1)), id="an array longer than its frame"),
        pytest.param(request(0, 9, b"\xff" * 40), id="a body that is no Produce request"),
    ],
)
def test_nonsense_closes_that_one_connection(cluster: Cluster, sent: bytes) -> None:
    with connect(cluster) as bystander, connect(cluster) as connection:
        connection.sendall(sent)
        assert closed_without_an_answer(connection)
        bystander.sendall(request(18, 0))
        assert bystander.recv(4)


def test_an_unknown_version_of_api_versions_is_answered_with_what_is_known(cluster: Cluster) -> None:
    with connect(cluster) as connection:
        connection.sendall(request(18, 99))
        size, correlation_id, error = struct.unpack(">iih", connection.recv(10))
        assert correlation_id == 7
        assert error == ErrorCode.UNSUPPORTED_VERSION
        assert size == 16  # as Kafka: the range of ApiVersions itself and nothing else (KIP-511)


def test_a_frame_of_2_gb_is_refused_before_any_memory_is_taken(cluster: Cluster) -> None:
    def resident_kb() -> int:
        status = Path(f"/proc/{cluster.broker(0)['pid']}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])

    before = resident_kb()
    for _ in range(5):
        with connect(cluster) as connection:
            connection.sendall(struct.pack(">i", 2**31 - 1) + bytes(1000))
            assert closed_without_an_answer(connection)
    assert resident_kb() - before < 50_000


def produce(cluster: Cluster, batch: bytes) -> int:
    message = ProduceRequest(
        acks=-1,
        timeout_ms=5000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name="kept", partition_data=[ProduceRequest.PartitionProduceData(index=0, records=batch)]
            )
        ],
    )
    with connect(cluster) as connection:
        connection.sendall(b"".join(frames.encode_request(message, PRODUCE_VERSION, 1, "test")))
        size = struct.unpack(">i", connection.recv(4))[0]
        frame = b""
        while len(frame) < size:
            frame += connection.recv(size - len(frame))
    _, response = frames.decode_response(ProduceResponse, PRODUCE_VERSION, frame)
    return int(response.responses[0].partition_responses[0].error_code)


def test_a_batch_with_a_wrong_crc_is_a_corrupt_message(cluster: Cluster) -> None:
    batch = bytearray(build_batch([Record(0, 0, None, b"value", [])]))
    batch[-2] ^= 1
    assert produce(cluster, bytes(batch)) == ErrorCode.CORRUPT_MESSAGE


def test_a_batch_whose_length_is_a_lie_is_a_corrupt_message(cluster: Cluster) -> None:
    batch = bytearray(build_batch([Record(0, 0, None, b"value", [])]))
    batch[8:12] = struct.pack(">i", 1 << 30)
    assert produce(cluster, bytes(batch)) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


def properties(directory: Path, cluster: Cluster, **values: str) -> Path:
    file = directory / "server.properties"
    merged = {
        "broker.id": "7",
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
        "zookeeper.connect": cluster.zookeeper,
        "log.dirs": str(directory / "data"),
        **{name.replace("_", "."): value for name, value in values.items()},
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in merged.items()))
    return file


def refused(file: Path) -> str:
    """What a broker that can't start says; it must end by itself, with 1 or 2, and without a traceback."""
    ended = subprocess.run([*BARNABAS, "broker", str(file)], capture_output=True, text=True, timeout=60)
    assert ended.returncode in (1, 2), ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_a_port_in_use_is_named(cluster: Cluster, tmp_path: Path) -> None:
    port = str(cluster.broker(0)["port"])
    assert port in refused(properties(tmp_path, cluster, listeners=f"PLAINTEXT://127.0.0.1:{port}"))


def test_another_clusters_log_dir_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=0\nbroker.id=7\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n")
    said = refused(properties(tmp_path, cluster))
    assert "AAAAAAAAAAAAAAAAAAAAAA" in said
    assert "cluster" in said


def test_another_brokers_log_dir_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=0\nbroker.id=5\n")
    assert "broker.id" in refused(properties(tmp_path, cluster))


def test_a_directory_that_cannot_be_written_is_named(cluster: Cluster, tmp_path: Path) -> None:
    assert "/proc/barnabas" in refused(properties(tmp_path, cluster, log_dirs="/proc/barnabas"))


def test_a_bad_configuration_value_says_what_is_allowed(cluster: Cluster, tmp_path: Path) -> None:
    said = refused(properties(tmp_path, cluster, num_partitions="many"))
    assert "num.partitions" in said
    assert "whole number" in said


def test_a_value_that_no_broker_can_run_with_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    assert "num.replica.fetchers" in refused(properties(tmp_path, cluster, num_replica_fetchers="0"))


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("ssl.keystore.location", {"listeners": "SSL://127.0.0.1:0", "security_inter_broker_protocol": "SSL"}),
        ("authorizer.class.name", {"authorizer_class_name": "com.example.Authorizer"}),
        ("principal.builder.class", {"principal_builder_class": "com.example.Names"}),
    ],
)
def test_protection_that_is_not_there_is_refused_before_the_broker_is_registered(
    cluster: Cluster, tmp_path: Path, key: str, values: dict[str, str]
) -> None:
    assert key in refused(properties(tmp_path, cluster, **values))


def test_up_on_a_taken_port_says_so(cluster: Cluster, tmp_path: Path) -> None:
    port = cluster.broker(0)["port"]
    done = barnabas("up", "-n", "1", "--dir", str(tmp_path / "c"), "--base-port", str(port))
    try:
        assert done.returncode in (1, 2)
        assert str(port) in done.stderr
        assert "Traceback" not in done.stderr
    finally:
        barnabas("down", "--dir", str(tmp_path / "c"), "--kill")
