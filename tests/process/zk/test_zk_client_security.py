"""TLS, certificates and SASL: who gets in, who does not, and what whoever is refused is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apache
import pytest
from certificates import Authority
from zk_plays import Run, connected, cut, state_changes, until

from barnabas.model.config import broker_config
from barnabas.runtime.real import real_runtime
from barnabas.security.tls.settings import TlsSettings
from barnabas.security.tls.stores import Store
from barnabas.zk.client.client import (
    ClientSecurity,
    ConnectionState,
    ZooKeeperAuthFailed,
    ZooKeeperClient,
    ZooKeeperTimeout,
)
from barnabas.zk.client.config import client_of
from barnabas.zk.client.login import DigestMd5Login
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.protocol.data import ACL, CREATOR_ALL_ACL, READ_ACL_UNSAFE, ZkPermission
from barnabas.zk.protocol.errors import AuthFailed, NoAuth
from barnabas.zk.protocol.ops import GetACL


def _tls(authority: Authority, name: str | None = None) -> ClientSecurity:
    return ClientSecurity(
        TlsSettings(
            trust_store=Store(str(authority.trust_store), "trust"),
            key_store=None if name is None else Store(str(authority.issue(name).key_store), "key"),
        ).client_context()
    )


def test_a_session_runs_over_tls_and_outlives_its_connection(run_tls: Run, authority: Authority) -> None:
    async def play(connect: str) -> None:
        async with connected(connect, security=_tls(authority)) as client:
            session_id = client.session_id
            await client.create("/tls", b"x" * 300_000, ephemeral=True)
            cut(client)
            await client.wait_until_connected()
            assert client.session_id == session_id
            assert len((await client.get("/tls"))[0] or b"") == 300_000

    run_tls(play)


def test_a_server_of_another_authority_is_not_spoken_to(run_tls: Run, tmp_path: Path) -> None:
    async def play(connect: str) -> None:
        client = ZooKeeperClient(
            real_runtime(),
            connect,
            session_timeout_ms=6000,
            connection_timeout_ms=1000,
            security=_tls(Authority(tmp_path / "another")),
        )
        with pytest.raises(ZooKeeperTimeout, match="certificate verify failed"):
            await client.start()

    run_tls(play)


def test_tls_where_there_is_none_and_none_where_there_is_are_told(run: Run, run_tls: Run, authority: Authority) -> None:
    async def is_told(connect: str, security: ClientSecurity | None, words: str) -> None:
        client = ZooKeeperClient(
            real_runtime(), connect, session_timeout_ms=6000, connection_timeout_ms=60_000, security=security
        )
        starting = asyncio.create_task(client.start())
        await until(lambda: words in str(client.status()["last_error"]))
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    async def without(connect: str) -> None:
        await is_told(connect, None, "wants TLS")

    async def with_tls(connect: str) -> None:
        await is_told(connect, _tls(authority), "perhaps it speaks no TLS at this port")

    run_tls(without)
    run(with_tls)


def test_a_certificate_is_an_identity(run_tls: Run, authority: Authority) -> None:
    async def play(address: str) -> None:
        async with (
            connected(address, security=_tls(authority, "alice")) as alice,
            connected(address, security=_tls(authority, "mallory")) as mallory,
        ):
            await alice.create("/x509", b"", acl=CREATOR_ALL_ACL)
            ((permissions, scheme, identity),) = (await alice.submit(GetACL("/x509")))[0]
            assert (permissions, scheme) == (ZkPermission.ALL, "x509")
            assert "CN=alice" in identity
            with pytest.raises(NoAuth):
                await mallory.get("/x509")

    run_tls(play)


def test_a_user_proves_itself_by_sasl_on_every_connection(run: Run) -> None:
    async def play(address: str) -> None:
        async with (
            connected(address, security=ClientSecurity(sasl=DigestMd5Login("bob", "secret"))) as bob,
            connected(address, security=ClientSecurity(sasl=DigestMd5Login("eve", "other"))) as eve,
        ):
            await bob.create("/bobs", b"1", acl=CREATOR_ALL_ACL)
            assert (await bob.submit(GetACL("/bobs")))[0] == (ACL(ZkPermission.ALL, "sasl", "bob"),)
            with pytest.raises(NoAuth):
                await eve.set("/bobs", b"2")
            cut(bob)
            assert (await bob.exists("/bobs")) is not None
            assert (await bob.set("/bobs", b"2")).version == 1

    run(play)


@pytest.mark.parametrize(("user", "password"), [("bob", "wrong"), ("nobody", "anything")])
def test_a_wrong_password_is_told_at_once(run: Run, user: str, password: str) -> None:
    async def play(address: str) -> None:
        client = ZooKeeperClient(
            real_runtime(),
            address,
            session_timeout_ms=6000,
            connection_timeout_ms=10_000,
            security=ClientSecurity(sasl=DigestMd5Login(user, password)),
        )
        with pytest.raises(ZooKeeperAuthFailed, match=f"the server refused SASL user {user!r}"):
            await client.start()
        assert client.state is ConnectionState.CLOSED

    run(play)


def test_an_unknown_scheme_is_refused_and_the_client_recovers(run: Run) -> None:
    async def play(connect: str) -> None:
        async with connected(connect) as client:
            told = state_changes(client)
            with pytest.raises(AuthFailed):
                await client.add_auth("no-such-scheme", b"x")
            with pytest.raises(AuthFailed):
                await client.get("/")
            await until(lambda: "after" in told)
            assert told == ["auth failure", "before", "after"]
            assert (client.auth_failures, client.state) == (1, ConnectionState.CONNECTED)
            await client.get("/")

    run(play)


@pytest.mark.apache
def test_credentials_that_stop_being_good_are_tried_until_they_are_good_again(tmp_path: Path) -> None:
    """B12 (KAFKA-5473, KAFKA-7752): the new session comes, whatever it takes, and the hooks run in their order."""

    async def play(ensemble: apache.ZooKeeperEnsemble) -> None:
        async with connected(ensemble.connect, security=ClientSecurity(sasl=DigestMd5Login("bob", "secret"))) as client:
            zk = KafkaZkClient(client.runtime, client, secure=True)
            await zk.create_recursive("/a/b", b"1")
            await client.create("/e", ephemeral=True)
            told = state_changes(client)
            ensemble.kill(1)
            ensemble.sasl_users["bob"] = "changed"
            ensemble.start()
            await until(lambda: told.count("auth failure") >= 2)
            assert told[:3] == ["auth failure", "before", "auth failure"]
            assert "after" not in told
            ensemble.kill(1)
            ensemble.sasl_users["bob"] = "secret"
            ensemble.start()
            await until(lambda: "after" in told)
            assert told[-2:] == ["before", "after"]
            assert (await client.get("/a/b"))[0] == b"1"

    with apache.ZooKeeperEnsemble(tmp_path, sasl_users={"bob": "secret"}) as ensemble:
        asyncio.run(play(ensemble))


def test_a_broker_with_set_acl_protects_what_it_makes(run: Run) -> None:
    async def play(address: str) -> None:
        config = broker_config(
            {
                "zookeeper.connect": address + "/secured",
                "zookeeper.set.acl": "true",
                "barnabas.zookeeper.sasl.username": "bob",
                "barnabas.zookeeper.sasl.password": "secret",
            }
        )
        client = client_of(real_runtime(), config, name="broker 1")
        await client.start()
        zk = KafkaZkClient(client.runtime, client, secure=config.flag("zookeeper.set.acl"))
        try:
            await zk.create_chroot_path_if_not_set()
            await zk.create_top_level_paths()
            await zk.register_controller_and_increment_controller_epoch(1)
            broker = ACL(ZkPermission.ALL, "sasl", "bob")
            for path in ("/", "/brokers/topics", "/config/topics", "/controller", "/controller_epoch"):
                assert set(await zk.get_acl(path)) == {broker, *READ_ACL_UNSAFE}
            for path in ("/config/users", "/config/brokers"):  # what holds secrets is not even read
                assert await zk.get_acl(path) == (broker,)
            async with connected(address + "/secured") as other:
                assert "ids" in await other.children("/brokers")
                for attempt in (
                    other.create("/brokers/ids/2"),
                    other.children("/config/users"),
                    other.delete("/controller"),
                ):
                    with pytest.raises(NoAuth):
                        await attempt
        finally:
            await client.close()

    run(play)
