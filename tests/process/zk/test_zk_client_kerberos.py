"""A client logs in to a real ZooKeeper by GSSAPI, in a realm of the test's own (``make kerberos``)."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kerberos_realm import MARKS, REALM, Realm, kerberized_zookeeper, kerberos_realm
from zk_plays import connected, cut, state_changes, until

from barnabas.model.config import broker_config
from barnabas.runtime.real import real_runtime
from barnabas.zk.client.client import (
    ClientSecurity,
    ConnectionState,
    ZooKeeperAuthFailed,
    ZooKeeperClient,
)
from barnabas.zk.client.config import security_of
from barnabas.zk.protocol.data import ACL, CREATOR_ALL_ACL, ZkPermission
from barnabas.zk.protocol.errors import ZooKeeperError
from barnabas.zk.protocol.ops import GetACL

pytestmark = MARKS
KAFKA = "kafka/localhost"


@pytest.fixture
def realm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Realm]:
    with kerberos_realm(tmp_path, monkeypatch) as found:
        yield found


def security(jaas: str, **more: str) -> ClientSecurity:
    return security_of(broker_config({"barnabas.zookeeper.sasl.jaas.config": jaas, **more}))


def test_a_client_is_its_principal_on_every_connection_and_in_every_session(realm: Realm) -> None:
    """Its tickets end after seconds, and are taken again by the key; those of the system are not touched."""
    key_tab = realm.add(KAFKA, "kafka", "-maxlife", '"6 seconds"')
    alice = realm.add("alice", "alice")
    realm.take_tickets("alice", alice)

    async def play(address: str) -> None:
        async with connected(address, security=security(realm.by_key(KAFKA, key_tab))) as client:
            begun = time.monotonic()
            await client.create("/hers", b"1", acl=CREATOR_ALL_ACL)
            mine = (ACL(ZkPermission.ALL, "sasl", f"{KAFKA}@{REALM}"),)
            assert (await client.submit(GetACL("/hers")))[0] == mine
            version = 0
            while time.monotonic() < begun + 13:
                cut(client)
                await client.wait_until_connected()
                version += 1
                assert (await client.set("/hers", b"2")).version == version
            client._session.password = bytes(16)  # the server knows no such session
            cut(client)
            await until(lambda: client.expires == 1 and client.state is ConnectionState.CONNECTED)
            assert (await client.set("/hers", b"3")).version == version + 1
        cache = "useTicketCache=true"
        module = f"com.sun.security.auth.module.Krb5LoginModule required {cache};"
        async with connected(address, security=security(module)) as client:
            await client.create("/of-alice", b"", acl=CREATOR_ALL_ACL)
            assert (await client.submit(GetACL("/of-alice")))[0] == (ACL(ZkPermission.ALL, "sasl", f"alice@{REALM}"),)

    with kerberized_zookeeper(realm) as address:
        asyncio.run(play(address))


def test_what_kerberos_does_not_like_is_said(realm: Realm) -> None:
    key_tab = realm.add(KAFKA, "kafka")
    stale = realm.add("stale", "stale")
    realm.change_key("stale")
    by_key = realm.by_key(KAFKA, key_tab)
    module = by_key.partition(" useKeyTab")[0]
    cases: list[tuple[str, dict[str, str], str]] = [
        (
            realm.by_key("nobody", key_tab),
            {},
            "nobody@EXAMPLE.COM, key tab .*kafka: the file is not there, or has no key",
        ),
        (realm.by_key("stale", stale), {}, "stale@EXAMPLE.COM, key tab .*stale: Decrypt integrity check failed"),
        (realm.by_key(KAFKA, realm.directory / "none"), {}, "key tab .*none: the file is not there"),
        (f"{module} useTicketCache=true;", {}, "whoever is there, ticket cache of the system: No Kerberos credentials"),
        (
            f'{module} useTicketCache=true ticketCache="{realm.directory}/other" principal="alice@{REALM}";',
            {},
            f"alice@{REALM}, ticket cache {realm.directory}/other: ",
        ),
        (
            by_key,
            {"barnabas.zookeeper.sasl.client.username": "other"},
            "towards other@.*not found in Kerberos database",
        ),
        (by_key, {"barnabas.zookeeper.server.realm": "B.COM"}, "towards zookeeper/localhost@B.COM"),
    ]

    async def refused(address: str, jaas: str, more: dict[str, str], said: str) -> None:
        client = ZooKeeperClient(
            real_runtime(),
            address,
            session_timeout_ms=6000,
            connection_timeout_ms=20_000,
            security=security(jaas, **more),
        )
        with pytest.raises(ZooKeeperAuthFailed, match=said):
            await client.start()

    async def play(address: str) -> None:
        for jaas, more, said in cases:
            await refused(address, jaas, more, said)
        realm.stop()
        other = realm.by_key(KAFKA, key_tab).replace("useKeyTab", "doNotPrompt=true useKeyTab")
        await refused(
            address, other, {"barnabas.zookeeper.server.principal": "another/one"}, "towards another@one by .*: "
        )

    with kerberized_zookeeper(realm) as address:
        asyncio.run(play(address))


def test_a_centre_that_does_not_answer_holds_nobody_else_up(realm: Realm) -> None:
    key_tab = realm.add(KAFKA, "kafka")

    async def play(address: str) -> None:
        realm.stop()
        with socket.create_server(("127.0.0.1", realm.port)) as silent:
            client = ZooKeeperClient(
                real_runtime(),
                address,
                session_timeout_ms=6000,
                connection_timeout_ms=60_000,
                security=security(realm.by_key(KAFKA, key_tab)),
            )
            starting = asyncio.get_running_loop().create_task(client.start())
            loop = asyncio.get_running_loop()
            asked, _ = await loop.run_in_executor(None, silent.accept)
            turns = 0
            while turns < 100:  # the loop is free while the centre is asked
                await asyncio.sleep(0)
                turns += 1
                assert not starting.done()
            asked.close()
        with pytest.raises(ZooKeeperAuthFailed, match="Cannot contact any KDC"):
            await starting

    with kerberized_zookeeper(realm) as address:
        asyncio.run(play(address))


def test_tickets_that_are_gone_are_asked_for_until_they_are_there_again(realm: Realm) -> None:
    alice = realm.add("alice", "alice")
    realm.take_tickets("alice", alice)
    module = f'com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true principal="alice@{REALM}";'

    async def play(address: str) -> None:
        async with connected(address, security=security(module)) as client:
            told = state_changes(client)
            realm.destroy_tickets()
            cut(client)
            await until(lambda: told.count("auth failure") >= 2)
            assert "after" not in told
            with pytest.raises(ZooKeeperError):
                await client.get("/")
            realm.take_tickets("alice", alice)
            await until(lambda: "after" in told)
            await client.get("/")

    with kerberized_zookeeper(realm) as address:
        asyncio.run(play(address))
