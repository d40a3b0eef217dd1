"""Other people's clients on listeners of every kind, and attacks on them: who proves nothing gets nothing."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority, Certificate
from processes import eventually, read
from secured import AUTHENTICATION_TIMEOUT_MS, LISTENERS, SESSION_MS, SecuredCluster

from barnabas.model.errors import ErrorCode
from barnabas.wire.frames import decode_response, encode_request, response_class
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest

RECORDS = 500


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster(tmp_path_factory.mktemp("secured")) as running:
        yield running


# Clients


@pytest.mark.parametrize("listener", LISTENERS)
def test_librdkafka_writes_and_reads(cluster: SecuredCluster, listener: str) -> None:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    settings = cluster.settings(listener)
    topic = f"librdkafka-{listener}"
    admin = AdminClient(settings)
    for made in admin.create_topics([NewTopic(topic, 3, 3)]).values():
        made.result(60)
    producer = Producer({**settings, "acks": "all"})
    refused: list[object] = []
    for number in range(RECORDS):
        producer.produce(topic, bytes(2000), str(number), on_delivery=lambda e, _: e and refused.append(e))
    assert producer.flush(60) == 0
    assert not refused
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    keys: set[bytes] = set()
    complaints: list[str] = []

    def all_read() -> bool:
        keys.update(each.key() for each in read(consumer, complaints))
        return len(keys) == RECORDS

    eventually(all_read, what=f"{RECORDS} records are read ({complaints})")
    consumer.close()


@pytest.mark.parametrize("listener", LISTENERS)
def test_kafka_python_writes_and_reads(cluster: SecuredCluster, listener: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    kind = LISTENERS[listener]
    settings: dict[str, Any] = {
        "bootstrap_servers": f"127.0.0.1:{cluster.port(listener, 1)}",
        "security_protocol": kind,
    }
    if kind.endswith("SSL"):
        settings |= {"ssl_cafile": str(cluster.authority.trust_store)}
    if kind == "SSL":
        settings |= {"ssl_certfile": str(cluster.alice.certificate), "ssl_keyfile": str(cluster.alice.key)}
    if kind.startswith("SASL"):
        settings |= {"sasl_mechanism": "PLAIN", "sasl_plain_username": "alice", "sasl_plain_password": "wonder"}
    topic = f"kafka-python-{listener}"
    producer = KafkaProducer(**settings, acks="all")
    sent = [producer.send(topic, bytes(1000)) for _ in range(50)]
    for each in sent:
        each.get(60)
    producer.close()
    consumer = KafkaConsumer(topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=60_000)
    assert sum(1 for _ in zip(range(50), consumer, strict=False)) == 50
    consumer.close()


@pytest.mark.parametrize("listener", LISTENERS)
def test_aiokafka_writes_and_reads(cluster: SecuredCluster, listener: str) -> None:
    import asyncio

    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def play() -> int:
        kind = LISTENERS[listener]
        settings: dict[str, Any] = {
            "bootstrap_servers": f"127.0.0.1:{cluster.port(listener, 2)}",
            "security_protocol": kind,
        }
        if kind.endswith("SSL"):
            context = ssl.create_default_context(cafile=str(cluster.authority.trust_store))
            if kind == "SSL":
                context.load_cert_chain(cluster.alice.certificate, cluster.alice.key)
            settings |= {"ssl_context": context}
        if kind.startswith("SASL"):
            settings |= {"sasl_mechanism": "PLAIN", "sasl_plain_username": "alice", "sasl_plain_password": "wonder"}
        topic = f"aiokafka-{listener}"
        async with AIOKafkaProducer(**settings, acks="all") as producer:
            for _ in range(50):
                await producer.send_and_wait(topic, bytes(1000))
        async with AIOKafkaConsumer(topic, **settings, auto_offset_reset="earliest") as consumer:
            return len([await consumer.getone() for _ in range(50)])

    assert asyncio.run(play()) == 50


# Attacks

Wire = socket.socket | ssl.SSLSocket


def plain(cluster: SecuredCluster, listener: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", cluster.port(listener)), timeout=60)


def secured(cluster: SecuredCluster, listener: str, certificate: Certificate | None = None) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(cluster.authority.trust_store))
    if certificate is not None:
        context.load_cert_chain(certificate.certificate, certificate.key)
    return context.wrap_socket(plain(cluster, listener), server_hostname="localhost")


def frame(message: Any, version: int) -> bytes:
    return b"".join(encode_request(message, version, 1, "attacker"))


def ask(wire: Wire, message: Any, version: int) -> Any:
    wire.sendall(frame(message, version))
    (size,) = struct.unpack(">i", exactly(wire, 4))
    return decode_response(response_class(message.api_key), version, exactly(wire, size))[1]


def exactly(wire: Wire, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = wire.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def ends(wire: Wire) -> bool:
    """Whether the broker closes, having said nothing more."""
    try:
        return wire.recv(1) == b""
    except (ConnectionError, ssl.SSLError):
        return True


def login(wire: Wire, token: bytes = b"\0alice\0wonder") -> Any:
    assert ask(wire, SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    return ask(wire, SaslAuthenticateRequest(auth_bytes=token), 2)


def test_a_certificate_names_the_principal_and_sasl_what_it_proved(cluster: SecuredCluster) -> None:
    with secured(cluster, "TLS", cluster.alice) as wire:
        assert len(ask(wire, MetadataRequest(topics=[]), 4).brokers) == 3
        assert ask(wire, SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert ask(wire, ApiVersionsRequest(), 0).error_code == 0  # which ended nothing
    with secured(cluster, "BOTH") as wire:
        assert login(wire).error_code == 0
        assert len(ask(wire, MetadataRequest(topics=[]), 4).brokers) == 3
        assert login_again_is_refused(wire)


def login_again_is_refused(wire: Wire) -> bool:
    answer = ask(wire, SaslAuthenticateRequest(auth_bytes=b"\0broker\0inner"), 2)
    return bool(answer.error_code == ErrorCode.ILLEGAL_SASL_STATE)


@pytest.mark.parametrize("foe", ["nobody", "of another authority", "expired"])
def test_who_has_no_certificate_that_counts_is_not_let_in(cluster: SecuredCluster, foe: str, tmp_path: Path) -> None:
    certificate = None
    if foe == "of another authority":
        certificate = Authority(tmp_path, "other").issue("alice")
    elif foe == "expired":
        certificate = cluster.authority.issue("late", days=-1)
    with pytest.raises((ssl.SSLError, ConnectionError, EOFError)), secured(cluster, "TLS", certificate) as wire:
        ask(wire, ApiVersionsRequest(), 0)
    expected = {
        "nobody": "peer did not return a certificate",
        "of another authority": "its certificate is not trusted",
        "expired": "certificate has expired",
    }
    assert "closing the connection from 127.0.0.1" in cluster.said(expected[foe])


def test_cleartext_on_a_tls_port_and_the_reverse(cluster: SecuredCluster) -> None:
    for listener in ("TLS", "BOTH"):
        with plain(cluster, listener) as wire:
            wire.sendall(frame(ApiVersionsRequest(), 0))
            assert ends(wire)
    assert "it does not speak TLS" in cluster.said("it does not speak TLS")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        secured(cluster, "PLAIN")
    assert "closing" in cluster.said("it speaks TLS, and this listener does not")


def test_nobody_renegotiates(cluster: SecuredCluster) -> None:
    """CVE-2009-3555, and whoever would have the broker compute for nothing. TLS 1.3 cannot, and 1.2 may not."""
    trust, address = str(cluster.authority.trust_store), f"127.0.0.1:{cluster.port('BOTH')}"
    asking = subprocess.Popen(
        ["openssl", "s_client", "-tls1_2", "-CAfile", trust, "-connect", address],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert asking.stdin is not None
    asking.stdin.write("R\n")
    asking.stdin.flush()
    said, _ = asking.communicate(timeout=60)
    assert "RENEGOTIATING" in said
    assert "no renegotiation" in said


@pytest.mark.parametrize("listener", ["PLAIN", "BOTH"])
def test_nothing_is_answered_before_the_login_is_over(cluster: SecuredCluster, listener: str) -> None:
    def connected() -> Wire:
        return plain(cluster, listener) if listener == "PLAIN" else secured(cluster, listener)

    with connected() as wire:
        wire.sendall(frame(MetadataRequest(topics=[]), 4))
        assert ends(wire)
    with connected() as wire:  # all in one packet, the forbidden behind the login that fails
        wire.sendall(
            frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            + frame(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
            + frame(MetadataRequest(topics=[]), 4)
        )
        assert read_all(wire).count(b"PLAIN") == 1
    with connected() as wire:  # the forbidden between the two
        assert ask(wire, SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        wire.sendall(frame(MetadataRequest(topics=[]), 4))
        assert ends(wire)
    with connected() as wire:
        answer = login(wire, b"\0alice\0wrong")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert ends(wire)
    assert "Invalid username or password" in cluster.said("authentication by PLAIN failed")


def read_all(wire: Wire) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while more := wire.recv(65536):
            data += more
    assert b"127.0.0.1" not in data, "a broker's address, which only Metadata tells"
    return data


def test_a_login_in_one_packet_with_what_follows_it_is_served(cluster: SecuredCluster) -> None:
    with plain(cluster, "PLAIN") as wire:
        wire.sendall(
            frame(ApiVersionsRequest(), 0)
            + frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            + frame(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wonder"), 2)
            + frame(ApiVersionsRequest(), 0)
        )
        for _ in range(4):
            (size,) = struct.unpack(">i", exactly(wire, 4))
            exactly(wire, size)


def test_a_session_is_prolonged_by_the_same_principal_or_ends(cluster: SecuredCluster) -> None:
    with plain(cluster, "PLAIN") as wire:
        assert login(wire).session_lifetime_ms == SESSION_MS
        again = login(wire)
        assert (again.error_code, again.session_lifetime_ms) == (0, SESSION_MS)
        with pytest.raises((EOFError, ConnectionError)):  # noqa: PT012
            while True:
                ask(wire, MetadataRequest(topics=[]), 4)
                time.sleep(0.1)
    cluster.said("its session has ended, and it did not authenticate again")
    with plain(cluster, "PLAIN") as wire:
        assert login(wire).error_code == 0
        other = login(wire, b"\0broker\0inner")
        assert other.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert other.error_message.startswith("Cannot change principals during re-authentication from User.alice")
        assert ends(wire)
    with plain(cluster, "PLAIN") as wire:
        assert login(wire).error_code == 0
        assert ask(wire, SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        wire.sendall(frame(MetadataRequest(topics=[]), 4))  # in the midst of it, nothing else
        assert ends(wire)


@pytest.mark.parametrize("size", [-1, 512 * 1024 + 1, 100 * 1024 * 1024])
def test_a_stranger_announces_512_kib_at_most(cluster: SecuredCluster, size: int) -> None:
    with plain(cluster, "PLAIN") as wire:
        wire.sendall(struct.pack(">i", size))
        assert ends(wire)
    with plain(cluster, "PLAIN") as wire:
        assert login(wire).error_code == 0
        wire.sendall(struct.pack(">i", 512 * 1024 + 1))
        assert ask_size_is_taken(wire)


def ask_size_is_taken(wire: socket.socket) -> bool:
    wire.settimeout(0.5)
    try:
        return wire.recv(1) != b""
    except TimeoutError:
        return True


def test_half_a_handshake_has_a_deadline(cluster: SecuredCluster) -> None:
    """Silent ones, ones that stop within the first record or request, and ones that stop between TLS and SASL."""
    began = time.monotonic()
    wires: list[Wire] = [plain(cluster, listener) for listener in LISTENERS for _ in range(20)]
    for wire in wires[::2]:
        wire.sendall(b"\0\0" if wire.getpeername()[1] == cluster.port("PLAIN") else b"\x16\x03\x01")
    wires.append(secured(cluster, "BOTH"))
    for wire in wires:
        assert ends(wire)
        wire.close()
    assert time.monotonic() - began > AUTHENTICATION_TIMEOUT_MS / 2000
    cluster.said(f"it did not authenticate within {AUTHENTICATION_TIMEOUT_MS} ms")


def test_a_broker_whose_name_is_another_is_not_spoken_to(tmp_path: Path) -> None:
    """Brokers check each other's names: one whose certificate has none of its addresses gets no followers."""
    wrong = Authority(tmp_path / "wrong-name", "wrong").issue("broker", hosts="DNS:elsewhere.example.com")
    trust = tmp_path / "wrong-name" / "wrong.pem"
    stores = {"ssl.keystore.location": str(wrong.key_store), "ssl.truststore.location": str(trust)}
    cluster = SecuredCluster(tmp_path, 1, stores)
    try:
        cluster.coordinator.start()
        cluster.brokers[0].start()
        assert "127.0.0.1" in cluster.said("certificate is not valid for '127.0.0.1'")
    finally:
        cluster.stop()
