"""Delegation tokens (KIP-48, KIP-373): credentials that a user creates for its workers.

A token's id and times are in ZooKeeper for all brokers to see. Its password is the HMAC of the id by
``delegation.token.secret.key``; every broker can compute it, and it is never stored. A broker that changes a token
writes the znode, applies the change itself and notifies the others (``DelegationTokenManagerZk``). The controller
removes expired tokens.
"""

from __future__ import annotations

import base64
import hmac
import logging
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Final

from barnabas.broker.change_notifications import ChangeNotifications
from barnabas.broker.context import RequestContext
from barnabas.broker.listeners import Listeners
from barnabas.broker.this_node import ThisNode
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime import to_its_end
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.sasl.scram import TokenCredential
from barnabas.security.sasl.scram_credential import ITERATIONS_MIN, ScramCredential, ScramMechanism
from barnabas.zk.kafka.delegation_tokens import TokenInformation
from barnabas.zk.kafka.security_znodes import (
    DelegationTokenChangeNotificationSequenceZNode,
    DelegationTokenChangeNotificationZNode,
)

logger = logging.getLogger(__name__)

SALT_BYTES: Final = 20


def requests_allowed(listeners: Listeners, context: RequestContext) -> bool:
    """Whether the caller may make token requests: it is authenticated, and not by a token."""
    connection = context.connection
    protocol = listeners.security_protocol(context.listener)
    return not (
        connection.token_authenticated
        or protocol == "PLAINTEXT"
        or (protocol == "SSL" and context.principal == ANONYMOUS)
    )


class DelegationTokens:
    """The tokens that this broker knows. Without a secret key there are none."""

    def __init__(self, node: ThisNode, secret_key: str) -> None:
        self._node = node
        self._secret = secret_key.encode()
        self._tokens: dict[str, TokenInformation] = {}
        self._ids: dict[bytes, str] = {}
        """Token ids by HMAC."""
        self._credentials: dict[tuple[ScramMechanism, str], ScramCredential] = {}
        """Made when a token is first used: each takes some thousand hashes."""

    @property
    def enabled(self) -> bool:
        return bool(self._secret)

    async def startup(self) -> None:
        if not self.enabled:
            return
        zk = self._node.zk
        await zk.create_delegation_token_paths()
        for token in (await zk.get_delegation_tokens()).values():
            self._take_up(token)
        await ChangeNotifications(
            self._node,
            DelegationTokenChangeNotificationZNode.path,
            DelegationTokenChangeNotificationSequenceZNode.sequence_number_prefix,
            self._token_changed,
            kind="delegation token change",
        ).startup()

    def hmac(self, token_id: str) -> bytes:
        return hmac.digest(self._secret, token_id.encode(), "sha512")

    # Known tokens

    async def _token_changed(self, data: bytes | None) -> None:
        token_id = (data or b"").decode()
        if not token_id or "/" in token_id:
            raise ValueError(f"{token_id!r} is no token's id")
        token = await self._node.zk.get_delegation_token_info(token_id)
        if token is None:
            self._forget(token_id)
        else:
            self._take_up(token)

    def _take_up(self, token: TokenInformation) -> None:
        self._tokens[token.token_id] = token
        self._ids[self.hmac(token.token_id)] = token.token_id

    def _forget(self, token_id: str) -> None:
        if self._tokens.pop(token_id, None) is not None:
            del self._ids[self.hmac(token_id)]
        for mechanism in ScramMechanism:
            self._credentials.pop((mechanism, token_id), None)

    def credential(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        """The credential against which a login by this token is checked; the password is the HMAC in base64."""
        token = self._tokens.get(token_id)
        if token is None:
            return None
        found = self._credentials.get((mechanism, token_id))
        if found is None:
            password = base64.b64encode(self.hmac(token_id)).decode()
            salt = self._node.runtime.entropy.token(SALT_BYTES)
            found = ScramCredential.of_password(mechanism, password, salt, ITERATIONS_MIN)
            self._credentials[mechanism, token_id] = found
        expires_at_ms = min(token.expiry_timestamp, token.max_timestamp)
        return TokenCredential(found, Principal.parse(token.owner), expires_at_ms)

    def all(self) -> list[TokenInformation]:
        return list(self._tokens.values())

    # Requests

    @to_its_end
    async def create(
        self, owner: Principal, requester: Principal, renewers: Sequence[Principal], lifetime_ms: int
    ) -> tuple[TokenInformation, bytes]:
        """A new token and its HMAC; `lifetime_ms` of 0 or less is the longest allowed. Raises `KafkaError`."""
        self._require_enabled()
        config = self._node.config
        longest = config.number("delegation.token.max.lifetime.ms")
        issued = self._node.runtime.clock.now_ms()
        ends = issued + (longest if lifetime_ms <= 0 else min(lifetime_ms, longest))
        token = TokenInformation(
            str(self._node.runtime.entropy.uuid()),
            str(owner),
            str(requester),
            tuple(map(str, renewers)),
            issued,
            ends,
            min(ends, issued + config.number("delegation.token.expiry.time.ms")),
        )
        await self._node.zk.set_or_create_delegation_token(token)
        await self._announce(token)
        logger.info("[broker %d] delegation token %s of %s is made", self._node.broker_id, token.token_id, owner)
        return token, self.hmac(token.token_id)

    @to_its_end
    async def renew(self, principal: Principal, mac: bytes, period_ms: int) -> int:
        """Returns the token's new expiry (ms of the wall clock); a `period_ms` below 0 is the default."""
        token = self._token_of(principal, mac)
        self._require_valid(token)
        if period_ms < 0:
            period_ms = self._node.config.number("delegation.token.expiry.time.ms")
        return await self._ends(token, period_ms)

    @to_its_end
    async def expire(self, principal: Principal, mac: bytes, period_ms: int) -> int:
        """Returns the token's new expiry (ms of the wall clock); a `period_ms` below 0 removes the token at once."""
        token = self._token_of(principal, mac)
        if period_ms < 0:
            await self._node.zk.delete_delegation_token(token.token_id)
            self._forget(token.token_id)
            await self._node.zk.create_token_change_notification(token.token_id)
            logger.info("[broker %d] delegation token %s is removed", self._node.broker_id, token.token_id)
            return self._node.runtime.clock.now_ms()
        self._require_valid(token)
        return await self._ends(token, period_ms)

    async def _ends(self, token: TokenInformation, period_ms: int) -> int:
        ends = min(token.max_timestamp, self._node.runtime.clock.now_ms() + period_ms)
        changed = replace(token, expiry_timestamp=ends)
        # A token that was removed meanwhile is not created again.
        if not await self._node.zk.set_delegation_token(changed):
            self._forget(token.token_id)
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        await self._announce(changed)
        logger.info("[broker %d] delegation token %s ends at %d", self._node.broker_id, token.token_id, ends)
        return ends

    async def _announce(self, token: TokenInformation) -> None:
        self._take_up(token)
        await self._node.zk.create_token_change_notification(token.token_id)

    def _token_of(self, principal: Principal, mac: bytes) -> TokenInformation:
        """The token with this HMAC, if `principal` may change it."""
        self._require_enabled()
        token_id = self._ids.get(mac)
        if token_id is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        token = self._tokens[token_id]
        if str(principal) not in (token.owner, *token.renewers):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        return token

    def _require_enabled(self) -> None:
        if not self.enabled:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def _require_valid(self, token: TokenInformation) -> None:
        if min(token.max_timestamp, token.expiry_timestamp) < self._node.runtime.clock.now_ms():
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def concerns(token: TokenInformation, names: Set[str]) -> bool:
    """Whether one of these principals owns it, requested it or may renew it (``TokenInformation.ownerOrRenewer``)."""
    return not names.isdisjoint((token.owner, token.token_requester, *token.renewers))
