"""The controller removes delegation tokens whose time is up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from controller_world import Play, World, played

from barnabas.zk.kafka.delegation_tokens import TokenInformation
from barnabas.zk.kafka.security_znodes import DelegationTokenChangeNotificationZNode, DelegationTokensZNode
from barnabas.zk.protocol.data import ACL, ZkPermission
from barnabas.zk.protocol.ops import SetACL


@pytest.fixture
def play() -> Callable[[Play], None]:
    return partial(played, delegation_token_expiry_check_interval_ms="20")


def token(made: World, token_id: str, *, expires_ms: int, ends_ms: int = 600_000) -> TokenInformation:
    now_ms = made.runtime.clock.now_ms()
    return TokenInformation(token_id, "User:bob", "User:bob", (), now_ms, now_ms + ends_ms, now_ms + expires_ms)


async def tokens(made: World) -> list[str]:
    return sorted(await (await made.zk()).get_children(DelegationTokensZNode.path))


def test_tokens_go_when_they_expire_or_reach_their_greatest_age(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        zk = await made.zk()
        await zk.create_delegation_token_paths()
        await zk.set_or_create_delegation_token(token(made, "lives", expires_ms=60_000))
        await zk.set_or_create_delegation_token(token(made, "expired", expires_ms=-1))
        await zk.set_or_create_delegation_token(token(made, "old", expires_ms=60_000, ends_ms=-1))
        await zk.create_recursive(f"{DelegationTokensZNode.path}/garbage", b"{")
        made.config["delegation.token.secret.key"] = "secret"
        await made.start(1)
        await made.until(lambda: _are(made, "garbage", "lives"), "the tokens of a failover")
        # From then on it looks every 20 ms.
        await zk.set_or_create_delegation_token(token(made, "later", expires_ms=-1))
        await made.until(lambda: _are(made, "garbage", "lives"), "the token that came later")
        await made.until(lambda: _told(made, b"expired", b"later", b"old"), "each removal is told")
        assert made.controller.is_active

    play(story)


async def _are(made: World, *names: str) -> bool:
    return await tokens(made) == list(names)


async def _told(made: World, *token_ids: bytes) -> bool:
    zk = await made.zk()
    path = DelegationTokenChangeNotificationZNode.path
    found = [(await zk.get_data_and_version(f"{path}/{name}"))[0] for name in await zk.get_children(path)]
    return sorted(filter(None, found)) == list(token_ids)


def test_a_token_that_cannot_be_removed_keeps_no_other(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        zk = await made.zk()
        await zk.create_delegation_token_paths()
        for name in ("a", "b"):
            await zk.set_or_create_delegation_token(token(made, name, expires_ms=-1))
        # "a" cannot be deleted: what is below it would have to go first, and may not.
        await zk.create_recursive(f"{DelegationTokensZNode.path}/a/child")
        kept = ACL(ZkPermission.ALL & ~ZkPermission.DELETE, "world", "anyone")
        await zk.client.handle_requests([SetACL(f"{DelegationTokensZNode.path}/a", (kept,))])
        made.config["delegation.token.secret.key"] = "secret"
        await made.start(1)
        await made.until(lambda: _are(made, "a"), "the other token is removed")
        assert made.controller.is_active

    play(story)


def test_without_a_secret_key_nobody_looks(play: Callable[[Play], None]) -> None:
    async def story(made: World) -> None:
        zk = await made.zk()
        await zk.create_delegation_token_paths()
        await zk.set_or_create_delegation_token(token(made, "expired", expires_ms=-1))
        await made.start(1)
        await made.settled()
        assert await tokens(made) == ["expired"]

    play(story)
