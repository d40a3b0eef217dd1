"""What the pages keep to themselves."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.security.principal import ANONYMOUS
from barnabas.web.door import Onlooker
from barnabas.web.endpoint import MESSAGES_PATH, AdminEndpoint
from barnabas.web.pages import SECRETS, znodes


def test_records_are_not_shown_where_acls_say_who_may_read_and_nobody_is_known() -> None:
    broker: Any = SimpleNamespace(acls=object())
    nobody: Any = None
    refusal = AdminEndpoint(broker, nobody).refusal(MESSAGES_PATH, {"topic": "t"}, Onlooker(ANONYMOUS, "127.0.0.1"))
    assert refusal == (
        "This cluster has ACLs, and this page does not know its reader's name: read the records by a consumer."
    )


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
