"""Delegation tokens on two brokers that share a coordinator."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from turns import until

from barnabas.broker import change_notifications
from barnabas.broker.delegation_tokens import DelegationTokens, concerns, requests_allowed
from barnabas.broker.passing import passing
from barnabas.broker.server import Broker
from barnabas.model.config import broker_config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime.real import real_runtime
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.sasl.scram import Scram, client_tokens
from barnabas.security.sasl.scram_credential import ScramCredential, ScramMechanism
from barnabas.zk.client.config import client_of
from barnabas.zk.kafka.config_znodes import USERS
from barnabas.zk.kafka.delegation_tokens import TokenInformation
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znodes import ControllerEpochZNode, ControllerZNode
from barnabas.zk.protocol.errors import MarshallingError, SessionExpired
from barnabas.zk.server.server import CoordinatorServer

ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "carol"))
DAY_MS = 86_400_000
Story = Callable[[Broker, Broker], Awaitable[None]]


@contextlib.asynccontextmanager
async def brokers(directory: Path, **config: str) -> AsyncIterator[tuple[Broker, Broker]]:
    """Two that have a session, and nothing else."""
    server = CoordinatorServer(real_runtime(), host="127.0.0.1", port=0, data_dir=str(directory), fsync=False)
    await server.start()
    made = []
    for broker_id in ("1", "2"):
        values = {"broker.id": broker_id, "zookeeper.connect": f"127.0.0.1:{server.port}"}
        values |= {name.replace("_", "."): value for name, value in config.items()}
        broker = Broker(real_runtime(), broker_config(values))
        session = client_of(broker.runtime, broker.config, name=broker_id)
        await session.start()
        broker._client, broker._zk = session, KafkaZkClient(broker.runtime, session)
        made.append(broker)
    try:
        yield made[0], made[1]
    finally:
        for broker in made:
            await broker.tasks.end()
            await broker._client.close()  # type: ignore[union-attr]
        await server.close()


def play(directory: Path, story: Story, **config: str) -> None:
    async def run() -> None:
        async with brokers(directory, **config) as (first, second), asyncio.timeout(60):
            await story(first, second)

    asyncio.run(run())


def refusal(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


async def login(broker: Broker, token_id: str, mac: bytes) -> Principal:
    mechanism = ScramMechanism.SCRAM_SHA_256
    server = Scram(mechanism, broker.scram_users, broker.runtime.clock, lambda: "nonce").begin()
    password = base64.b64encode(mac).decode()
    tokens = client_tokens(mechanism, token_id, password, "client", token_authenticated=True)
    final = tokens.send(await server.evaluate(next(tokens)))
    with contextlib.suppress(StopIteration):
        tokens.send(await server.evaluate(final))
    assert server.authenticated is not None
    assert server.authenticated.token_authenticated
    return server.authenticated.principal


def test_a_token_made_at_one_broker_is_used_renewed_and_removed_at_the_other(tmp_path: Path) -> None:
    async def story(first: Broker, second: Broker) -> None:
        for broker in (first, second):
            await broker.delegation_tokens.startup()
        token, mac = await first.delegation_tokens.create(ALICE, BOB, [CAROL], -1)
        assert mac == hmac.new(b"secret", token.token_id.encode(), hashlib.sha512).digest()
        assert token.max_timestamp - token.issue_timestamp == 7 * DAY_MS
        assert token.expiry_timestamp - token.issue_timestamp == DAY_MS
        there = second.delegation_tokens
        await until(there.all)
        assert (there.all(), there.hmac(token.token_id)) == ([token], mac)
        assert await login(second, token.token_id, mac) == ALICE
        with pytest.raises(ValueError, match="invalid credentials"):
            await login(second, token.token_id, bytes(64))
        ends = await there.renew(CAROL, mac, 2 * DAY_MS)
        assert ends > token.expiry_timestamp
        await until(lambda: [each.expiry_timestamp for each in first.delegation_tokens.all()] == [ends])
        assert await there.renew(ALICE, mac, 100 * DAY_MS) == token.max_timestamp
        await first.delegation_tokens.expire(ALICE, mac, -1)
        await until(lambda: not there.all())
        with pytest.raises(ValueError, match="invalid credentials"):
            await login(second, token.token_id, mac)
        with pytest.raises(KafkaError) as error:
            await there.renew(ALICE, mac, -1)
        assert refusal(error) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    play(tmp_path, story, delegation_token_secret_key="secret")


def test_a_token_that_zookeeper_would_not_take_costs_its_maker_an_error_and_nobody_a_connection(tmp_path: Path) -> None:
    async def story(first: Broker, second: Broker) -> None:
        await first.delegation_tokens.startup()
        renewers = [Principal("User", f"renewer-{number}") for number in range(100_000)]
        with pytest.raises(MarshallingError) as refused:
            await first.delegation_tokens.create(ALICE, ALICE, renewers, -1)
        told = passing(refused.value, ErrorCode.REQUEST_TIMED_OUT)
        assert told is not None
        assert told.code is ErrorCode.INVALID_REQUEST
        assert "jute.maxbuffer" in str(told)
        token, _ = await first.delegation_tokens.create(ALICE, ALICE, renewers[:1_000], -1)
        assert len(token.renewers) == 1_000
        assert first.zk.client.disconnects == 0

    play(tmp_path, story, delegation_token_secret_key="secret")


@pytest.mark.parametrize(
    ("protocol", "principal", "by_token", "allowed"),
    [
        ("SASL_SSL", ALICE, False, True),
        ("SASL_PLAINTEXT", ALICE, True, False),  # a token makes and prolongs no tokens
        ("SSL", ALICE, False, True),
        ("SSL", ANONYMOUS, False, False),
        ("PLAINTEXT", ANONYMOUS, False, False),
    ],
)
def test_who_has_proved_itself_and_not_by_a_token_may_ask_for_tokens(
    protocol: str, principal: Principal, by_token: bool, allowed: bool
) -> None:
    listeners: Any = SimpleNamespace(security_protocol=lambda listener: protocol)
    connection = SimpleNamespace(token_authenticated=by_token)
    context: Any = SimpleNamespace(connection=connection, principal=principal, listener="L")
    assert requests_allowed(listeners, context) is allowed


def test_tokens_are_found_at_the_start(tmp_path: Path) -> None:
    async def story(first: Broker, second: Broker) -> None:
        await first.delegation_tokens.startup()
        token, mac = await first.delegation_tokens.create(ALICE, ALICE, [], 1000)
        assert token.max_timestamp == token.expiry_timestamp == token.issue_timestamp + 1000
        await second.delegation_tokens.startup()
        assert second.delegation_tokens.all() == [token]
        assert second.delegation_tokens.hmac(token.token_id) == mac

    play(tmp_path, story, delegation_token_master_key="the key's older name")


def test_who_may_change_a_token_and_until_when(tmp_path: Path) -> None:
    async def story(first: Broker, second: Broker) -> None:
        tokens = first.delegation_tokens
        await tokens.startup()
        token, mac = await tokens.create(ALICE, BOB, [CAROL], -1)
        for change in (tokens.renew, tokens.expire):
            # Who asked for it may know of it, and not change it.
            with pytest.raises(KafkaError) as error:
                await change(BOB, mac, 1)
            assert refusal(error) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
            with pytest.raises(KafkaError) as error:
                await change(ALICE, mac[:-1], 1)
            assert refusal(error) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert await tokens.expire(CAROL, mac, 0) <= first.runtime.clock.now_ms()
        await until(lambda: all(each.expiry_timestamp < first.runtime.clock.now_ms() for each in tokens.all()))
        with pytest.raises(ValueError, match="invalid credentials"):
            await login(first, token.token_id, mac)
        for change in (tokens.renew, tokens.expire):
            with pytest.raises(KafkaError) as error:
                await change(ALICE, mac, 1)
            assert refusal(error) == ErrorCode.DELEGATION_TOKEN_EXPIRED
        assert concerns(token, {str(BOB)})
        assert not concerns(token, {"Group:alice"})
        await tokens.expire(ALICE, mac, -1)
        assert await first.zk.get_delegation_token_info(token.token_id) is None

    play(tmp_path, story, delegation_token_secret_key="secret")


def test_a_renewal_brings_no_removed_token_back(tmp_path: Path) -> None:
    async def story(first: Broker, second: Broker) -> None:
        await first.delegation_tokens.startup()
        token, mac = await first.delegation_tokens.create(ALICE, ALICE, [], -1)
        await second.zk.delete_delegation_token(token.token_id)
        with pytest.raises(KafkaError) as error:
            await first.delegation_tokens.renew(ALICE, mac, -1)
        assert refusal(error) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert await first.zk.get_delegation_token_info(token.token_id) is None

    play(tmp_path, story, delegation_token_secret_key="secret")


def test_without_a_secret_there_are_no_tokens(tmp_path: Path) -> None:
    async def story(first: Broker, second: Broker) -> None:
        tokens: DelegationTokens = first.delegation_tokens
        await tokens.startup()
        assert not await first.zk.path_exists("/delegation_token")
        for asked in (tokens.create(ALICE, ALICE, [], 1), tokens.renew(ALICE, b"", 1), tokens.expire(ALICE, b"", -1)):
            with pytest.raises(KafkaError) as error:
                await asked
            assert refusal(error) == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

    play(tmp_path, story)


def test_a_users_password_changes_while_brokers_run(tmp_path: Path) -> None:
    mechanism = ScramMechanism.SCRAM_SHA_512
    old, new = (ScramCredential.of_password(mechanism, each, b"salt", 4096) for each in ("old", "new"))

    async def story(first: Broker, second: Broker) -> None:
        zk = second.zk
        await zk.create_top_level_paths()
        await zk.create_recursive(ControllerZNode.path, ControllerZNode.encode(1, 1))
        await zk.create_recursive(ControllerEpochZNode.path, ControllerEpochZNode.encode(1))
        await zk.set_or_create_entity_configs(USERS, "a%2Fb", {"SCRAM-SHA-512": old.encode(), "SCRAM-SHA-256": "junk"})
        await first.scram_users.startup()
        await first.config_changes.startup()
        users = first.scram_users
        assert users.credential(mechanism, "a/b") == old
        assert users.credential(ScramMechanism.SCRAM_SHA_256, "a/b") is None
        await zk.set_or_create_entity_configs(USERS, "a%2Fb", {"SCRAM-SHA-512": new.encode()})
        await zk.create_config_change_notification(f"{USERS}/a%2Fb")
        await until(lambda: users.credential(mechanism, "a/b") == new)
        await zk.set_or_create_entity_configs(USERS, "a%2Fb", {})
        await zk.create_config_change_notification(f"{USERS}/a%2Fb")
        await until(lambda: users.credential(mechanism, "a/b") is None)

    play(tmp_path, story)


def test_a_change_is_taken_up_that_zookeeper_was_lost_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (ScramCredential.of_password(ScramMechanism.SCRAM_SHA_512, each, b"salt", 4096) for each in ("a", "b"))
    reads = KafkaZkClient.get_data_and_stat
    lost: list[str] = []

    async def lost_once(self: KafkaZkClient, path: str) -> Any:
        if path.startswith("/config/changes/") and not lost:
            lost.append(path)
            raise SessionExpired
        return await reads(self, path)

    async def story(first: Broker, second: Broker) -> None:
        await second.zk.create_top_level_paths()
        await second.zk.create_recursive(ControllerZNode.path, ControllerZNode.encode(1, 1))
        await second.zk.create_recursive(ControllerEpochZNode.path, ControllerEpochZNode.encode(1))
        await second.zk.set_or_create_entity_configs(USERS, "bob", {"SCRAM-SHA-512": old.encode()})
        await first.scram_users.startup()
        await first.config_changes.startup()
        monkeypatch.setattr(KafkaZkClient, "get_data_and_stat", lost_once)
        await second.zk.set_or_create_entity_configs(USERS, "bob", {"SCRAM-SHA-512": new.encode()})
        await second.zk.create_config_change_notification(f"{USERS}/bob")
        await until(lambda: first.scram_users.credential(ScramMechanism.SCRAM_SHA_512, "bob") == new)
        assert lost

    monkeypatch.setattr(change_notifications, "_RETRY_MS", 1)
    play(tmp_path, story)


class Name(str):
    """Counts how often it is compared."""

    __slots__ = ()
    times = 0

    def __eq__(self, other: object) -> bool:
        Name.times += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_a_token_that_many_may_renew_is_not_compared_with_each_who_is_asked_for() -> None:
    renewers = tuple(Name(f"User:renewer-{number}") for number in range(1_000))
    token = TokenInformation("id", "User:owner", "User:owner", renewers, 0, 1, 1)
    Name.times = 0
    assert not concerns(token, {f"User:{number}" for number in range(1_000)})
    assert Name.times < 10
    assert concerns(token, {"User:renewer-999"})
