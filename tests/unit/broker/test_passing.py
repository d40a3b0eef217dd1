"""What clients are told of trouble with ZooKeeper."""

from __future__ import annotations

import pytest

from barnabas.broker.passing import passing
from barnabas.model.errors import ErrorCode
from barnabas.zk.protocol.errors import MarshallingError


@pytest.mark.parametrize(("path", "place"), [("/config/topics/t", " at /config/topics/t"), (None, "")])
def test_what_is_too_long_to_be_stored_is_named_where_one_znode_is_meant(path: str | None, place: str) -> None:
    told = passing(MarshallingError(path), ErrorCode.REQUEST_TIMED_OUT)
    assert told is not None
    assert told.code is ErrorCode.INVALID_REQUEST
    assert str(told).startswith(f"What would be stored{place} is longer")
