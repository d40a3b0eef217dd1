"""The epoch of ``/feature`` that a broker tells, whatever comes while it is read."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from barnabas.broker.feature_changes import FeatureChanges
from barnabas.runtime import Tasks


class JustMade:
    """``/feature`` as it is made just behind the answer that it is not there: both come in one piece."""

    def __init__(self) -> None:
        self.features: tuple[dict[str, Any], int] | None = None
        self._handler: Any = None

    def register_znode_change_handler(self, handler: Any) -> None:
        self._handler = handler

    def register_state_change_handler(self, handler: Any) -> None: ...

    async def get_features(self) -> tuple[dict[str, Any], int] | None:
        return self.features

    async def path_exists(self, path: str) -> bool:
        assert path == self._handler.path
        self.features = {}, 7
        self._handler.handle_creation()
        return False


def failed(name: str, error: BaseException) -> None:
    raise AssertionError(name) from error


def test_a_znode_that_is_made_while_it_is_looked_for_is_read() -> None:
    async def play() -> None:
        node: Any = SimpleNamespace(zk=JustMade(), features_epoch=-1, broker_id=1, tasks=Tasks(failed))
        await FeatureChanges(node).startup()
        async with asyncio.timeout(10):
            while node.features_epoch != 7:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await node.tasks.end()

    asyncio.run(play())
