"""TLS between a TCP transport and a protocol: what arrives in pieces of any size, slow readers, and the end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from clocks import ManualClock
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from barnabas.runtime.tls_transport import KEY_UPDATES_BYTES, TlsTransport
from barnabas.security.tls.settings import TlsSettings, tls_settings


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> TlsSettings:
    authority = Authority(tmp_path_factory.mktemp("ca"))
    return tls_settings(
        {
            "ssl.keystore.location": str(authority.issue("broker").key_store),
            "ssl.truststore.location": str(authority.trust_store),
            "ssl.client.auth": "required",
        }
    )


class Raw(asyncio.Transport):
    """A TCP transport whose other end takes what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.closed = False
        self.paused = False

    def write(self, data: Any) -> None:
        self.sent += data

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class Inner(asyncio.BufferedProtocol):
    """Receives into a buffer of `size` bytes, as a connection with a frame under way does."""

    def __init__(self, size: int = 1000) -> None:
        self.buffer = memoryview(bytearray(size))
        self.received = bytearray()
        self.certificate: bytes | None = None
        self.reason = ""
        self.lost = False
        self.writable = True
        self.asked = 0
        self.on_bytes: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def secured(self, certificate: bytes | None) -> None:
        self.certificate = certificate

    def insecure(self, reason: str) -> None:
        self.reason = reason

    def get_buffer(self, sizehint: int) -> memoryview:
        self.asked += 1
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]
        self.on_bytes()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True


class Pair:
    """A client in memory, and our side of the connection to it."""

    def __init__(
        self, stores: TlsSettings, inner: Inner, piece: int = 100_000, server: ssl.SSLContext | None = None
    ) -> None:
        self.inner = inner
        self.raw = Raw()
        self.clock = ManualClock(time.time_ns() // 1_000_000)
        self.tls = TlsTransport(inner, server or stores.server_context(), self.clock)
        self.tls.connection_made(self.raw)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = stores.client_context()
        self.client = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.piece = piece
        self.read = bytearray()

    def pump(self) -> None:
        """What the client has to say arrives, in pieces; what was sent to it is read."""
        data = self.outgoing.read()
        for start in range(0, len(data), self.piece):
            part = data[start : start + self.piece]
            self.tls.get_buffer(-1)[: len(part)] = part
            self.tls.buffer_updated(len(part))
        self.incoming.write(bytes(self.raw.sent))
        self.raw.sent.clear()

    def shake_hands(self) -> None:
        for _ in range(4):
            with contextlib.suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            self.pump()

    def read_all(self) -> None:
        self.pump()
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            while data := self.client.read(65536):
                self.read += data


@pytest.mark.parametrize("piece", [1, 7, 1000, 60_000])
@pytest.mark.parametrize("size", [1, 1000, 100_000])
def test_bytes_arrive_whole_in_pieces_of_any_size(stores: TlsSettings, piece: int, size: int) -> None:
    async def play() -> None:
        pair = Pair(stores, Inner(size), piece)
        pair.shake_hands()
        assert pair.inner.certificate
        sent = bytes(range(256)) * 150
        pair.client.write(sent)
        pair.pump()
        assert bytes(pair.inner.received) == sent

    asyncio.run(play())


def test_nothing_more_is_asked_for_where_nothing_more_has_come(stores: TlsSettings) -> None:
    async def play() -> None:
        pair = Pair(stores, Inner(1000))
        pair.shake_hands()
        before = pair.inner.asked
        for times, size in ((1, 100), (1, 1000), (2, 1001), (43, 41_000)):  # the last in three records
            pair.client.write(bytes(size))
            pair.pump()
            before, asked = pair.inner.asked, pair.inner.asked - before
            assert asked == times

    asyncio.run(play())


def test_nothing_is_decrypted_while_reading_pauses(stores: TlsSettings) -> None:
    async def play() -> None:
        pair = Pair(stores, Inner(10))
        pair.shake_hands()
        pair.inner.on_bytes = pair.tls.pause_reading
        pair.client.write(b"x" * 100)
        pair.pump()
        assert len(pair.inner.received) == 10
        assert pair.raw.paused
        pair.inner.on_bytes = lambda: None
        pair.tls.resume_reading()
        assert len(pair.inner.received) == 10  # not in the midst of what the protocol does
        await asyncio.sleep(0)
        assert len(pair.inner.received) == 100

    asyncio.run(play())


def test_what_a_slow_reader_does_not_take_is_not_encrypted(stores: TlsSettings) -> None:
    async def play() -> None:
        pair = Pair(stores, Inner())
        pair.shake_hands()
        pair.tls.pause_writing()
        answer = bytes(3_000_000)
        pair.tls.write(memoryview(answer))
        pair.tls.writelines([b"and", b"", b"more"])
        assert not pair.raw.sent
        assert pair.tls.get_write_buffer_size() == len(answer) + 7
        pair.tls.close()  # behind what was written
        assert not pair.raw.closed
        pair.tls.resume_writing()
        assert pair.raw.closed
        pair.read_all()
        assert pair.read == answer + b"andmore"

    asyncio.run(play())


def test_who_says_that_it_ends_is_answered_so(stores: TlsSettings) -> None:
    async def play() -> None:
        pair = Pair(stores, Inner())
        pair.shake_hands()
        with contextlib.suppress(ssl.SSLError):
            pair.client.unwrap()
        pair.pump()
        assert pair.raw.closed
        pair.client.unwrap()  # which takes the other side's word, and raises without it

    asyncio.run(play())


class Ending(Inner):
    """Has something to do when the other side has ended."""

    def eof_received(self) -> bool:
        return True


@pytest.mark.parametrize("ends_tls", [True, False])
def test_whether_the_end_of_the_other_side_ends_the_connection_says_the_protocol(
    stores: TlsSettings, ends_tls: bool
) -> None:
    async def play() -> None:
        pair = Pair(stores, Ending())
        pair.shake_hands()
        if ends_tls:
            with contextlib.suppress(ssl.SSLError):
                pair.client.unwrap()
            pair.pump()
        assert pair.tls.eof_received()
        assert not pair.raw.closed
        pair.tls.close()
        assert pair.raw.closed

    asyncio.run(play())


@pytest.mark.parametrize("who_ends", ["client", "broker", "nobody says"])
@pytest.mark.parametrize(
    ("version", "takes_tickets"),
    [
        ("TLSv1_2", True),
        *([("TLSv1_2", False)] if ssl.OPENSSL_VERSION_INFO[:2] == (3, 0) else []),  # 3.6 keeps it all the same
        ("TLSv1_3", True),
    ],
)
def test_no_session_is_kept_where_the_connection_has_ended(
    stores: TlsSettings, version: str, takes_tickets: bool, who_ends: str
) -> None:
    """Or whoever connects again and again fills the memory: with 10 KiB each time that it shows a certificate."""

    async def play() -> None:
        server = stores.server_context()
        client = stores.client_context()
        client.maximum_version = ssl.TLSVersion[version]
        if not takes_tickets:
            client.options |= ssl.OP_NO_TICKET
        for _ in range(3):
            pair = Pair(stores, Inner(), server=server)
            pair.client = client.wrap_bio(pair.incoming, pair.outgoing, server_hostname="localhost")
            pair.shake_hands()
            assert pair.inner.certificate
            if who_ends == "client":
                with contextlib.suppress(ssl.SSLError):
                    pair.client.unwrap()
                pair.pump()
            elif who_ends == "broker":
                pair.tls.close()
            assert pair.raw.closed is (who_ends != "nobody says")
            pair.tls.connection_lost(None)
        del pair
        gc.collect()
        assert server.session_stats()["number"] == 0

    asyncio.run(play())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\0\0\0\x0a\0\x12\0\0\0\0\0\0", "it does not speak TLS"),
        (b"GET / HTTP/1.1\r\n", "it does not speak TLS"),
        (b"\x16\x03\x01\xff\xff" + bytes(100), "TLS failed"),
        (b"\x16\x03\x01\0\x05hello", "TLS failed"),
    ],
)
def test_what_is_no_tls_ends_the_connection_with_the_reason(stores: TlsSettings, data: bytes, reason: str) -> None:
    async def play() -> None:
        pair = Pair(stores, Inner())
        pair.tls.get_buffer(-1)[: len(data)] = data
        pair.tls.buffer_updated(len(data))
        assert pair.raw.closed
        assert reason in pair.inner.reason
        assert not pair.inner.received

    asyncio.run(play())


def test_a_record_that_is_not_the_peers_ends_the_connection(stores: TlsSettings) -> None:
    async def play() -> None:
        pair = Pair(stores, Inner())
        pair.shake_hands()
        forged = b"\x17\x03\x03\0\x20" + bytes(32)
        pair.tls.get_buffer(-1)[: len(forged)] = forged
        pair.tls.buffer_updated(len(forged))
        assert pair.raw.closed
        assert "TLS failed" in pair.inner.reason
        assert not pair.inner.received

    asyncio.run(play())


class KeyUpdates:
    """What a client of TLS 1.3 writes that only updates its keys, and asks for the other side's each time."""

    def __init__(self, logged: str) -> None:
        found = re.search(r"CLIENT_TRAFFIC_SECRET_0 \w+ (\w+)", logged)
        assert found is not None
        self.secret = bytes.fromhex(found[1])
        self.hash = hashes.SHA384() if len(self.secret) == 48 else hashes.SHA256()

    def derived(self, label: bytes, length: int) -> bytes:
        """RFC 8446, 7.1."""
        info = length.to_bytes(2, "big") + bytes([6 + len(label)]) + b"tls13 " + label + b"\0"
        return HKDFExpand(self.hash, length, info).derive(self.secret)

    def next(self) -> bytes:
        message = b"\x18\x00\x00\x01\x01" + b"\x16"
        head = b"\x17\x03\x03" + (len(message) + 16).to_bytes(2, "big")
        record = AESGCM(self.derived(b"key", 32)).encrypt(self.derived(b"iv", 12), message, head)
        self.secret = self.derived(b"traffic upd", len(self.secret))
        return head + record


def test_who_updates_its_keys_without_end_is_closed(stores: TlsSettings, tmp_path: Path) -> None:
    async def play() -> None:
        pair = Pair(stores, inner := Inner())
        context = stores.client_context()
        context.keylog_filename = str(tmp_path / "keys")
        pair.client = context.wrap_bio(pair.incoming, pair.outgoing, server_hostname="localhost")
        pair.shake_hands()
        assert pair.client.version() == "TLSv1.3"
        updates = KeyUpdates((tmp_path / "keys").read_text())
        answered = 0
        while not pair.raw.closed and answered < 10 * KEY_UPDATES_BYTES:
            pair.outgoing.write(b"".join(updates.next() for _ in range(100)))
            piece = pair.outgoing.read()
            pair.tls.get_buffer(-1)[: len(piece)] = piece
            pair.tls.buffer_updated(len(piece))
            answered = len(pair.raw.sent)
            assert pair.raw.closed or not inner.reason
        assert inner.reason == "it updates its keys without end"
        assert KEY_UPDATES_BYTES < answered < 2 * KEY_UPDATES_BYTES

    asyncio.run(play())


def test_a_client_of_another_authority_is_named_so(stores: TlsSettings, tmp_path: Path) -> None:
    async def play() -> None:
        other = Authority(tmp_path, "other").issue("alice")
        pair = Pair(stores, Inner())
        foreign = ssl.create_default_context()
        foreign.check_hostname, foreign.verify_mode = False, ssl.CERT_NONE
        foreign.load_cert_chain(other.certificate, other.key)
        pair.client = foreign.wrap_bio(pair.incoming, pair.outgoing)
        pair.shake_hands()
        assert pair.inner.reason.startswith("its certificate is not trusted: ")
        assert pair.inner.certificate is None
        assert pair.raw.closed

    asyncio.run(play())


DAYS_MS = 24 * 3_600_000


@pytest.mark.parametrize(
    ("version", "stores_changed", "days", "resumed", "reason"),
    [
        ("TLSv1_2", False, 0, True, ""),
        ("TLSv1_2", False, 31, True, "its certificate has expired since its TLS session began"),
        ("TLSv1_2", True, 0, False, ""),
        ("TLSv1_3", False, 0, False, ""),
    ],
)
def test_a_session_is_worth_no_more_than_its_certificate(
    stores: TlsSettings, version: str, stores_changed: bool, days: int, resumed: bool, reason: str
) -> None:
    """Nobody looks at the certificates of a session that is taken up again: it is one of the same stores, and ends with
    its certificate. TLS 1.3 takes none up, since nobody is given a ticket."""

    async def play() -> None:
        server, client = stores.server_context(), stores.client_context()
        client.maximum_version = ssl.TLSVersion[version]
        session, seen, first = None, [], None
        for number in range(2):
            changed = stores_changed and number == 1
            pair = Pair(stores, Inner(), server=stores.server_context() if changed else server)
            pair.clock.ms += days * DAYS_MS
            pair.client = client.wrap_bio(pair.incoming, pair.outgoing, server_hostname="localhost", session=session)
            pair.shake_hands()
            if number == 0:
                pair.tls.write(b"a ticket would come before this")
                pair.read_all()
                assert pair.inner.certificate
            first = first or pair  # a session goes when its first connection goes without a word
            session = pair.client.session
            seen.append((pair.client.session_reused, pair.inner.reason, pair.raw.closed))
        assert seen == [(False, "", False), (resumed, reason, bool(reason))]
        assert bool(pair.inner.certificate) == (not reason)

    asyncio.run(play())
