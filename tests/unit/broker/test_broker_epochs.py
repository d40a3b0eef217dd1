"""Requests of the controller are meant for one registration of a broker (KIP-380)."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.handlers import leader_and_isr
from barnabas.broker.parts import BrokerParts
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse


def parts_with(**known: Any) -> BrokerParts:
    return BrokerParts(**{field.name: known.get(field.name) for field in fields(BrokerParts)})


def stale_among(registered_epoch: int, *told: int) -> list[int]:
    broker = parts_with(controller=SimpleNamespace(broker_epoch=registered_epoch))
    return [epoch for epoch in told if broker.is_stale(epoch)]


def test_b08_a_request_for_an_earlier_registration_is_stale() -> None:
    assert stale_among(70, 3, 69, 70) == [3, 69]


def test_b09_a_request_for_a_registration_that_is_not_known_yet_is_not_stale() -> None:
    """KAFKA-9839: the controller may hear of a new session before the broker does; -1 is for whoever does not know."""
    assert stale_among(70, 71, 900, -1) == []


def test_a_request_that_waited_for_zookeeper_is_not_obeyed_by_who_has_registered_anew_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    controller = SimpleNamespace(broker_epoch=70)
    obeyed: list[LeaderAndIsrRequest] = []

    async def learn(topics: Any) -> None:
        controller.broker_epoch = 71

    def obey(request: LeaderAndIsrRequest, *, answer_by_topic_id: bool) -> LeaderAndIsrResponse:
        obeyed.append(request)
        return LeaderAndIsrResponse()

    replicas = SimpleNamespace(controller_epoch=1, become_leader_or_follower=obey)
    broker = parts_with(controller=controller, replicas=replicas, topic_configs=SimpleNamespace(learn=learn))
    monkeypatch.setattr(leader_and_isr, "require_cluster", lambda *_: None)
    context: Any = SimpleNamespace(version=7, due=lambda cost: False)
    request = LeaderAndIsrRequest(controller_epoch=1, broker_epoch=70)
    answer = asyncio.run(leader_and_isr.handle(broker, request, context))
    assert (answer.error_code, obeyed) == (ErrorCode.STALE_BROKER_EPOCH, [])
