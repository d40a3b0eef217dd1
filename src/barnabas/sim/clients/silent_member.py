"""A member of a group that joins and sends heartbeats, and never asks for its assignment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from barnabas.client.cluster import ClusterClient
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest

REBALANCE_TIMEOUT_MS: Final = 8_000
_VERSION: Final = 1


class SilentMember:
    """The others wait for its SyncGroup until the rebalance times out, and then go on without it (KAFKA-12890)."""

    def __init__(self, cluster: ClusterClient, group: str, topic: str) -> None:
        self._cluster = cluster
        self._group = group
        self._topic = topic

    async def stay(self, is_over: Callable[[], bool]) -> None:
        """Until `is_over`, or until the group has removed it."""
        coordinator = await self._cluster.coordinator(self._group)
        subscription = ConsumerProtocolSubscription(topics=[self._topic])
        join = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=6_000,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(
                    name="range", metadata=_VERSION.to_bytes(2, "big") + subscription.encode(_VERSION)
                )
            ],
        )
        answer: Any = await coordinator.send(join, timeout_ms=30_000)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            join.member_id = answer.member_id
            answer = await coordinator.send(join, timeout_ms=30_000)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        while not is_over():
            await asyncio.sleep(1)
            heartbeat = HeartbeatRequest(
                group_id=self._group, generation_id=answer.generation_id, member_id=answer.member_id
            )
            beaten: Any = await coordinator.send(heartbeat, timeout_ms=30_000)
            if beaten.error_code:
                raise KafkaError(ErrorCode(beaten.error_code))
