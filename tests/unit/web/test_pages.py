"""What the pages keep to themselves."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.web.pages import SECRETS, messages, znodes
from barnabas.web.views import NotSeen


def test_records_are_not_shown_where_acls_say_who_may_read() -> None:
    broker: Any = SimpleNamespace(acls=object())
    with pytest.raises(NotSeen) as refused:
        asyncio.run(messages(broker, {"topic": "t"}))
    assert refused.value.status == 403


@pytest.mark.parametrize("path", [f"{each}/anna" for each in SECRETS])
def test_what_logs_somebody_in_is_hidden(path: str) -> None:
    numbers = dict.fromkeys(("version", "czxid", "mzxid", "ephemeral_owner", "num_children", "data_length"), 0)

    async def znode(path: str) -> tuple[bytes, Any, list[str]]:
        return b"salt and stored key", SimpleNamespace(**numbers), []

    broker: Any = SimpleNamespace(znode=znode)
    told = asyncio.run(znodes(broker, {"path": path}))
    assert told["data"] is None
    assert "stored key" not in str(told)
    assert asyncio.run(znodes(broker, {"path": "/brokers"}))["data"] == "salt and stored key"
