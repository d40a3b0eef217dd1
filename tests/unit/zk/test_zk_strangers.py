"""What the coordinator grants to a client that has not said who it is: little, for a short time, counted."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from certificates import Authority
from turns import until

from barnabas.runtime.real import real_runtime
from barnabas.security.sasl.exchange import SaslRefused
from barnabas.security.sasl.login import Tokens
from barnabas.zk.client.client import ClientSecurity, ZooKeeperAuthFailed, ZooKeeperClient
from barnabas.zk.client.login import DigestMd5Login, ZooKeeperLogin
from barnabas.zk.protocol.acl import SUPER, digest_of
from barnabas.zk.protocol.data import AUTH_XID, OpCode
from barnabas.zk.protocol.digest_md5 import client_tokens
from barnabas.zk.protocol.errors import ZkErrorCode
from barnabas.zk.protocol.frames import ConnectRequest, ConnectResponse, decode_reply_header, encode_request, framed
from barnabas.zk.protocol.session_ops import Auth, CloseSession, Ping, Sasl, WhoAmI
from barnabas.zk.server import connection as bounds
from barnabas.zk.server.auth import Authentication
from barnabas.zk.server.config import CoordinatorConfig
from barnabas.zk.server.introductions import IDENTITIES_MAX
from barnabas.zk.server.reads import READS
from barnabas.zk.server.server import CoordinatorServer

SOON_MS = 400
PATIENCE_S = 40
SESSION = framed(ConnectRequest(30_000, 0, bytes(16)).encode())
Story = Callable[[CoordinatorServer], Awaitable[None]]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> CoordinatorConfig:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    return CoordinatorConfig(key_store=str(authority.issue("server").key_store), client_auth="none")


def play(directory: Path, config: CoordinatorConfig, story: Story) -> None:
    async def run() -> None:
        server = CoordinatorServer(
            real_runtime(), host="127.0.0.1", port=0, data_dir=str(directory), fsync=False, config=config
        )
        await server.start()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await story(server)
        finally:
            await server.close()

    asyncio.run(run())


class Stranger:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int, tls: ssl.SSLContext | None = None) -> Stranger:
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=tls))

    def say(self, data: bytes) -> None:
        self._writer.write(data)

    async def frame(self) -> bytes:
        length = int.from_bytes(await self._reader.readexactly(4), "big")
        return await self._reader.readexactly(length)

    async def code(self) -> int:
        return decode_reply_header(await self.frame()).code

    async def is_closed(self) -> bool:
        """Waits until the other side has closed it, and nothing else came before."""
        try:
            return await self._reader.read(1) == b""
        except ConnectionError:
            return True


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def of_a_handshake() -> bytes:
    """A whole ClientHello, behind which a client says nothing more."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        unverified().wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01", of_a_handshake()], ids=["nothing", "a byte or two", "hello"])
def test_a_handshake_that_does_not_end_is_ended(
    tmp_path: Path, tls: CoordinatorConfig, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(bounds, "STRANGER_MS", SOON_MS)

    async def story(server: CoordinatorServer) -> None:
        silent = await asyncio.open_connection("127.0.0.1", server.secure_port)
        silent[1].write(said)
        with contextlib.suppress(ConnectionError):
            await silent[0].read()  # what the server says of itself, and then the end
        await until(lambda: not server.connections)

    play(tmp_path, tls, story)


def test_a_client_that_is_silent_behind_the_handshake_is_dropped_and_one_with_a_session_stays(
    tmp_path: Path, tls: CoordinatorConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "STRANGER_MS", SOON_MS)

    async def story(server: CoordinatorServer) -> None:
        known = await Stranger.connect(server.secure_port, unverified())
        known.say(SESSION)
        await known.frame()
        assert await (await Stranger.connect(server.secure_port, unverified())).is_closed()
        known.say(encode_request(-2, Ping()))
        assert await known.code() == 0

    play(tmp_path, tls, story)


def test_who_does_not_shake_hands_counts_as_a_connection(tmp_path: Path, tls: CoordinatorConfig) -> None:
    async def story(server: CoordinatorServer) -> None:
        held = [await asyncio.open_connection("127.0.0.1", server.secure_port) for _ in range(2)]
        await until(lambda: len(server.connections) == 2)
        assert await (await Stranger.connect(server.port)).is_closed()
        assert len(server.connections) == 2
        for _, writer in held:
            writer.close()

    play(tmp_path, replace(tls, max_client_connections=2), story)


def test_who_asks_by_a_word_and_says_no_more_is_answered(tmp_path: Path) -> None:
    """As ``nc -N``, ``ncat`` and ``socat`` do when their input ends."""

    async def story(server: CoordinatorServer) -> None:
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"ruok\n")
            writer.write_eof()
            assert await reader.read() == b"imok"
            writer.close()
        await until(lambda: not server.connections)

    play(tmp_path, CoordinatorConfig(), story)


@pytest.mark.parametrize("said", [b"", b"ru", SESSION], ids=["nothing", "half a word", "a session"])
def test_who_says_no_more_and_waits_for_no_word_goes_at_once(tmp_path: Path, said: bytes) -> None:
    async def story(server: CoordinatorServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(said)
        writer.write_eof()
        await reader.read()
        await until(lambda: not server.connections)
        writer.close()

    play(tmp_path, CoordinatorConfig(), story)


def test_a_long_frame_is_refused_before_a_session_and_taken_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "STRANGER_MS", 10 * PATIENCE_S * 1000)

    async def story(server: CoordinatorServer) -> None:
        long = framed(bytes(bounds.STRANGER_BYTES + 1))
        stranger = await Stranger.connect(server.port)
        stranger.say(long[:4])
        assert await stranger.is_closed()
        known = await Stranger.connect(server.port)
        known.say(SESSION)
        await known.frame()
        known.say(encode_request(5, Sasl(bytes(bounds.STRANGER_BYTES + 1))))
        assert await known.code() == 0

    play(tmp_path, CoordinatorConfig(), story)


def test_where_sasl_is_required_a_session_is_not_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "STRANGER_MS", SOON_MS)

    async def session(server: CoordinatorServer) -> Stranger:
        client = await Stranger.connect(server.port)
        client.say(SESSION)
        await client.frame()
        return client

    async def story(server: CoordinatorServer) -> None:
        known = await session(server)
        tokens = client_tokens("kafka", "secret", "nonce")
        known.say(encode_request(1, Sasl(next(tokens))))
        challenge = Sasl(b"").decode_result(await known.frame(), 16)[0]
        assert challenge is not None
        known.say(encode_request(2, Sasl(tokens.send(challenge))))
        assert await known.code() == 0
        long = await session(server)
        long.say(framed(bytes(bounds.STRANGER_BYTES + 1))[:4])
        assert await long.is_closed()
        idle = await session(server)
        idle.say(encode_request(-2, Ping()))  # a stranger may ping, which does not make it known
        assert await idle.code() == 0
        assert await idle.is_closed()
        known.say(encode_request(-2, Ping()))
        assert await known.code() == 0

    play(tmp_path, CoordinatorConfig(sasl_users={"kafka": "secret"}, sasl_required=True), story)


class NoTickets:
    """A login that has nothing to log in with, as Kerberos without its centre."""

    mechanism, user = "GSSAPI", "kafka"

    async def begin(self, host: str, address: str, nonce: str) -> Tokens:
        raise SaslRefused(f"no tickets for {host} at {address}")


@pytest.mark.parametrize(
    ("login", "said"),
    [
        (DigestMd5Login("kafka", "secret"), r"the server does not offer SASL \(DIGEST-MD5\)"),
        (NoTickets(), r"SASL: no tickets for localhost at 127\.0\.0\.1"),
    ],
)
def test_a_client_that_cannot_prove_who_it_is_says_why(tmp_path: Path, login: ZooKeeperLogin, said: str) -> None:
    async def story(server: CoordinatorServer) -> None:
        client = ZooKeeperClient(
            real_runtime(),
            f"localhost:{server.port}",
            session_timeout_ms=6000,
            connection_timeout_ms=10_000,
            security=ClientSecurity(sasl=login),
        )
        with pytest.raises(ZooKeeperAuthFailed, match=said):
            await client.start()

    play(tmp_path, CoordinatorConfig(), story)


def test_a_connection_proves_to_be_so_many_and_no_more(tmp_path: Path) -> None:
    async def story(server: CoordinatorServer) -> None:
        client = await Stranger.connect(server.port)
        client.say(SESSION)
        await client.frame()
        for number in range(1, IDENTITIES_MAX):  # beside the address
            client.say(encode_request(AUTH_XID, Auth("digest", b"user%d:secret" % number)))
            assert await client.code() == 0
        client.say(encode_request(AUTH_XID, Auth("digest", b"one:more")))
        assert await client.code() == ZkErrorCode.AUTH_FAILED
        assert await client.is_closed()

    play(tmp_path, CoordinatorConfig(), story)


def test_who_asks_who_it_is_hears_all_of_a_name_that_has_colons(tmp_path: Path) -> None:
    """Only a digest has a secret behind its colon."""

    async def story(server: CoordinatorServer) -> None:
        connection = bounds.ServerConnection(server)
        connection.identities = [("ip", "fe80::1"), ("digest", "bob:hash"), ("x509", "CN=urn:a"), ("super", "")]
        answer = READS[WhoAmI](server.tree, connection, WhoAmI())
        assert answer == [("ip", "fe80::1"), ("digest", "bob"), ("x509", "CN=urn:a"), ("super", "")]

    play(tmp_path, CoordinatorConfig(), story)


def test_who_ends_its_session_is_let_go_behind_the_answer(tmp_path: Path) -> None:
    async def story(server: CoordinatorServer) -> None:
        client = await Stranger.connect(server.port)
        client.say(SESSION)
        granted = ConnectResponse.decode(await client.frame())
        assert (granted.timeout_ms, list(server.sessions.live)) == (30_000, [granted.session_id])
        client.say(encode_request(1, CloseSession()) + encode_request(-2, Ping()))
        assert await client.code() == 0
        assert await client.is_closed()
        again = await Stranger.connect(server.port)
        again.say(framed(ConnectRequest(30_000, granted.session_id, granted.password).encode()))
        assert ConnectResponse.decode(await again.frame()).session_id == 0

    play(tmp_path, CoordinatorConfig(), story)


def test_only_who_is_named_super_is(tls: CoordinatorConfig) -> None:
    pem = Path(tls.key_store).read_text()
    certificate = ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE") :])
    subject, digest = "O=barnabas,CN=server", digest_of(b"admin:secret")
    known = Authentication(
        CoordinatorConfig(sasl_super_user="admin", super_digest=digest, x509_super_user="O=barnabas,CN=another")
    )
    assert [SUPER in known.sasl_user(user) for user in ("admin", "kafka", "")] == [True, False, False]
    shown = [known.packet(Auth("digest", said), "") or [] for said in (b"admin:secret", b"admin:guess", b"")]
    assert [SUPER in each for each in shown] == [True, False, False]
    assert known.certificate(certificate) == [("x509", subject)]
    assert SUPER in Authentication(CoordinatorConfig(x509_super_user=subject)).certificate(certificate)
    nobody = Authentication(CoordinatorConfig())
    assert nobody.sasl_user("") == [("sasl", "")]
    assert nobody.certificate(certificate) == [("x509", subject)]


def test_who_says_nothing_for_an_identity_has_none(tmp_path: Path) -> None:
    """An absent password is not the empty one, which anybody may have."""

    async def story(server: CoordinatorServer) -> None:
        for said, code in ((b"", 0), (None, ZkErrorCode.AUTH_FAILED)):
            client = await Stranger.connect(server.port)
            client.say(SESSION)
            await client.frame()
            client.say(encode_request(AUTH_XID, Auth("digest", said)))
            assert await client.code() == code
        assert await client.is_closed()

    play(tmp_path, CoordinatorConfig(), story)


DAMAGED = struct.pack(">iii", 8, 1, OpCode.EXISTS)


def test_what_a_stranger_does_wrong_a_thousand_times_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(server: CoordinatorServer) -> None:
        client = await Stranger.connect(server.port)
        client.say(SESSION + DAMAGED * 1_000)
        await client.frame()
        for _ in range(1_000):
            assert await client.code() == ZkErrorCode.MARSHALLING_ERROR
        for said in (encode_request(AUTH_XID, Auth("nobody", b"")), struct.pack(">iii", 8, 1, 999)):
            for _ in range(5):
                client = await Stranger.connect(server.port)
                client.say(SESSION + said)
                await client.frame()
                await client.code()
                assert await client.is_closed()

    with caplog.at_level("INFO"):
        play(tmp_path, CoordinatorConfig(), story)
    told = [record.getMessage() for record in caplog.records]
    for words in ("is damaged", "failed to authenticate under the scheme", "the unknown op code"):
        assert len([line for line in told if words in line]) == 1
