"""Who may do what at the coordinator: SASL, TLS with certificates, super users; by Apache's own Java client as well."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import apache
import pytest
from certificates import Authority, Certificate
from coordinators import Coordinator, Wire
from processes import eventually

from barnabas.cli.app import run
from barnabas.runtime.real import real_runtime
from barnabas.security.tls.settings import TlsSettings
from barnabas.security.tls.stores import Store
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.client.connection import ClientSecurity
from barnabas.zk.client.login import DigestMd5Login
from barnabas.zk.protocol.acl import digest_of
from barnabas.zk.protocol.data import ACL, AUTH_XID
from barnabas.zk.protocol.errors import NoAuth, ZkErrorCode
from barnabas.zk.protocol.ops import Create, GetData, SetData
from barnabas.zk.protocol.session_ops import Auth, Ping, Sasl, WhoAmI


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Certificate:
    return authority.issue("alice")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Coordinator]:
    server_key = authority.issue("server")
    config = {
        "DigestAuthenticationProvider.superDigest": digest_of(b"super:duper"),
        "superUser": "admin",
        "barnabas.sasl.user.admin": "admin-secret",
        "barnabas.sasl.user.bob": 'b,"ob\\',
        "barnabas.sasl.user.kafka": "kafka-secret",
        "ssl.keyStore.location": str(server_key.key_store),
        "ssl.trustStore.location": str(authority.trust_store),
        "X509AuthenticationProvider.superUser": "O=barnabas,CN=root",
    }
    options = [part for key, value in config.items() for part in ("--config", f"{key}={value}")]
    server = Coordinator(tmp_path_factory.mktemp("secured"), *options)
    try:
        server.up()
        yield server
    finally:
        server.close()


def secure_port(server: Coordinator) -> int:
    notice = next(line for line in server.output().splitlines() if line.startswith("{"))
    return int(json.loads(notice)["secure_port"])


def with_client(address: str, story: object, security: ClientSecurity | None = None) -> object:
    """What the story returns that is given a client of these identities."""

    async def run() -> object:
        client = ZooKeeperClient(
            *(real_runtime(), address),
            session_timeout_ms=10_000,
            connection_timeout_ms=20_000,
            security=security or ClientSecurity(),
        )
        await client.start()
        try:
            return await story(client)  # type: ignore[operator]
        finally:
            await client.close()

    return asyncio.run(run())


async def who_am_i(client: ZooKeeperClient) -> list[tuple[str, str]]:
    return sorted(await client.submit(WhoAmI()))


def test_a_sasl_user_is_known_and_what_is_hers_is_closed_to_others(secured: Coordinator) -> None:
    def security(user: str, password: str) -> ClientSecurity:
        return ClientSecurity(sasl=DigestMd5Login(user, password))

    bob = security("bob", 'b,"ob\\')
    assert with_client(secured.address, who_am_i, bob) == [("ip", "127.0.0.1"), ("sasl", "bob")]

    async def make(client: ZooKeeperClient) -> None:
        await client.submit(Create("/bobs", b"x", acl=(ACL(31, "sasl", "bob"),)))

    async def change(client: ZooKeeperClient) -> None:
        await client.submit(SetData("/bobs", b"y"))

    with_client(secured.address, make, bob)
    with_client(secured.address, change, bob)
    with pytest.raises(NoAuth):
        with_client(secured.address, change)
    with pytest.raises(NoAuth):
        with_client(secured.address, change, security("kafka", "kafka-secret"))
    with_client(secured.address, change, security("admin", "admin-secret"))  # the super user


@pytest.mark.parametrize(("user", "password"), [("bob", "wrong"), ("nobody", "x"), ("bob", "")])
def test_a_wrong_password_is_refused_and_the_connection_closed(secured: Coordinator, user: str, password: str) -> None:
    from barnabas.zk.protocol.digest_md5 import client_tokens

    with Wire(secured) as client:
        tokens = client_tokens(user, password, "nonce")
        client.send(Sasl(next(tokens)))
        challenge = Sasl(b"").decode_result(client.frame(), 16)[0]
        assert challenge is not None
        assert client.call(Sasl(tokens.send(challenge))) == (1, ZkErrorCode.AUTH_FAILED)
        assert client.closed()


@pytest.mark.parametrize("token", [b"x", b"\xff" * 100, b"username=bob", b'nonce="', bytes(70_000)])
def test_a_damaged_sasl_token_is_refused(secured: Coordinator, token: bytes) -> None:
    with Wire(secured) as client:
        client.send(Sasl(b""))
        client.frame()
        assert client.call(Sasl(token)) == (1, ZkErrorCode.AUTH_FAILED)
        assert client.closed()


@pytest.mark.parametrize("xid", [AUTH_XID, 7])
def test_an_auth_packet_is_answered_under_its_own_xid(secured: Coordinator, xid: int) -> None:
    with Wire(secured) as client:
        assert client.call(Auth("digest", b"alice:secret"), xid) == (xid, 0)
        assert client.call(Auth("kerberos", b"alice"), xid) == (xid, ZkErrorCode.AUTH_FAILED)
        assert client.closed()


def test_the_digest_super_user_may_do_everything(secured: Coordinator) -> None:
    with Wire(secured) as owner, Wire(secured) as stranger:
        assert owner.call(Auth("digest", b"alice:secret"), AUTH_XID) == (AUTH_XID, 0)
        assert owner.call(Create("/alices", b"x", acl=(ACL(31, "auth", ""),))) == (1, 0)
        assert stranger.call(GetData("/alices")) == (1, ZkErrorCode.NO_AUTH)
        assert stranger.call(Auth("digest", b"super:duper"), AUTH_XID) == (AUTH_XID, 0)
        assert stranger.call(GetData("/alices")) == (1, 0)


def test_a_certificates_subject_is_an_identity(secured: Coordinator, authority: Authority, alice: Certificate) -> None:
    def security(certificate: Certificate) -> ClientSecurity:
        return ClientSecurity(
            tls=TlsSettings(
                key_store=Store(str(certificate.key_store), "key"),
                trust_store=Store(str(authority.trust_store), "trust"),
            ).client_context()
        )

    address = f"127.0.0.1:{secure_port(secured)}"
    assert with_client(address, who_am_i, security(alice)) == [("ip", "127.0.0.1"), ("x509", "O=barnabas,CN=alice")]

    async def make(client: ZooKeeperClient) -> None:
        await client.submit(Create("/alices-own", b"x", acl=(ACL(31, "x509", "O=barnabas,CN=alice"),)))

    async def read(client: ZooKeeperClient) -> object:
        return (await client.submit(GetData("/alices-own")))[0]

    with_client(address, make, security(alice))
    with pytest.raises(NoAuth):
        with_client(address, read, security(authority.issue("mallory")))
    assert with_client(address, read, security(authority.issue("root"))) == b"x"  # the super user


def test_a_client_without_a_certificate_is_turned_away_and_the_plain_port_goes_on(
    secured: Coordinator, authority: Authority
) -> None:
    context = ssl.create_default_context(cafile=str(authority.trust_store))
    context.check_hostname = False
    answered = b""
    with contextlib.suppress(OSError):
        plain = socket.create_connection(("127.0.0.1", secure_port(secured)), timeout=10)
        with plain, context.wrap_socket(plain) as connection:
            connection.sendall(b"ruok")
            answered = connection.recv(10)
    assert answered == b""
    with socket.create_connection(("127.0.0.1", secure_port(secured)), timeout=20) as plain:
        plain.sendall(b"ruok, in the clear")
        plain.settimeout(20)
        assert b"imok" not in plain.recv(100)
    with Wire(secured) as client:
        assert client.call(Ping(), -2) == (-2, 0)


def test_where_sasl_is_required_nothing_goes_without(tmp_path: Path) -> None:
    options = ("--config", "sessionRequireClientSASLAuth=true", "--config", "barnabas.sasl.user.kafka=secret")
    server = Coordinator(tmp_path, *options)
    try:
        server.up()
        with Wire(server) as client:
            assert client.call(Ping(), -2) == (-2, 0)
            assert client.call(GetData("/")) == (1, ZkErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH)
            assert client.closed()

        async def read(client: ZooKeeperClient) -> object:
            return (await client.submit(GetData("/")))[0]

        assert with_client(server.address, read, ClientSecurity(sasl=DigestMd5Login("kafka", "secret"))) == b""
    finally:
        server.close()


def test_a_bad_configuration_is_said_in_a_sentence(tmp_path: Path) -> None:
    for config, sentence in (
        ("tickTime=soon", "tickTime=soon: it takes a number of milliseconds above 0."),
        ("tickTme=5", "Did you mean tickTime?"),
        ("secureClientPort=2182", "secureClientPort needs ssl.keyStore.location"),
        ("minSessionTimeout=90000", "is more than maxSessionTimeout=40000"),
        ("ssl.clientAuth=perhaps", "it takes none, want or need"),
    ):
        server = Coordinator(tmp_path, "--config", config)
        server.start()
        assert server.wait() == 1
        assert sentence in server.output()


def shell(server: str, *command: str, java: tuple[str, ...] = (), options: tuple[str, ...] = ()) -> str:
    line = apache.tool_command("zookeeper-shell", "-server", server, *options, *command)
    done = subprocess.run([line[0], *java, *line[1:]], capture_output=True, text=True, timeout=90, input="")
    return done.stdout + done.stderr


@pytest.mark.apache
def test_apaches_own_client_proves_itself_by_sasl_and_by_certificate(
    secured: Coordinator, authority: Authority, alice: Certificate, tmp_path: Path
) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(
        "Client { org.apache.zookeeper.server.auth.DigestLoginModule required "
        'username="kafka" password="kafka-secret"; };\n'
    )
    login = (f"-Djava.security.auth.login.config={jaas}",)
    assert "Created /by-java" in shell(secured.address, "create", "/by-java", "x", "sasl:kafka:cdrwa", java=login)
    assert "Insufficient permission" in shell(secured.address, "get", "/by-java")
    # The client tells what became of its connection before or behind what it was asked for.
    assert "x" in shell(secured.address, "get", "/by-java", java=login).splitlines()
    tls = tmp_path / "tls.properties"
    tls.write_text(
        "zookeeper.ssl.client.enable=true\nzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n"
        f"zookeeper.ssl.keystore.location={alice.key_store}\nzookeeper.ssl.keystore.type=PEM\n"
        f"zookeeper.ssl.truststore.location={authority.trust_store}\nzookeeper.ssl.truststore.type=PEM\n"
    )
    told = shell(
        f"127.0.0.1:{secure_port(secured)}", "create", "/by-tls", "x", "auth::cdrwa",
        options=("-zk-tls-config-file", str(tls)),
    )  # fmt: skip
    assert "Created /by-tls" in told, told
    eventually(lambda: "Insufficient permission" in shell(secured.address, "get", "/by-tls"))


def test_a_command_reaches_a_server_behind_tls_by_a_brokers_file(
    secured: Coordinator, authority: Authority, alice: Certificate, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """As `kafka-configs` does; without the file it is no ZooKeeper that answers there."""
    address = f"127.0.0.1:{secure_port(secured)}"
    file = tmp_path / "server.properties"
    file.write_text(
        "broker.id=0\nzookeeper.ssl.client.enable=true\nbarnabas.zookeeper.sasl.username=bob\n"
        'barnabas.zookeeper.sasl.password=b,"ob\\\\\n'
        f"zookeeper.ssl.keystore.location={alice.key_store}\n"
        f"zookeeper.ssl.truststore.location={authority.trust_store}\n"
    )
    said = [*("-z", address), *("--zk-tls-config-file", str(file))]
    assert run(["zk", "create", "/of-bob", "x", "--acl", "sasl:bob:cdrwa", *said]) == 0
    assert run(["zk", "get", "/of-bob", *said]) == 0
    assert capsys.readouterr().out == "/of-bob\nx"
    monkeypatch.setenv("BARNABAS_ZK_TLS_CONFIG_FILE", str(file))
    assert run(["zk", "get", "/of-bob", "-z", address]) == 0
    assert run(["zk", "get", "/of-bob", "-z", address, "--auth", "sasl:kafka:kafka-secret"]) == 1
    assert "/of-bob does not permit that" in capsys.readouterr().err
    assert run(["rehearse", "kill", "0", "-z", address]) == 2
    assert "No broker is registered" in capsys.readouterr().err
    monkeypatch.delenv("BARNABAS_ZK_TLS_CONFIG_FILE")
    assert run(["zk", "get", "/of-bob", "-z", address]) == 1
    assert "No ZooKeeper answers" in capsys.readouterr().err
    assert run(["zk", "ls", "/", *said[:3], str(tmp_path / "none")]) == 2
    assert "cannot be read" in capsys.readouterr().err
