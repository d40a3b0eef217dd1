"""Requests of the controller are meant for one registration of a broker (KIP-380)."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

from barnabas.broker.parts import BrokerParts


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
