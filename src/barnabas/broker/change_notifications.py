"""How brokers tell each other through ZooKeeper that something was changed (``ZkNodeChangeNotificationListener``).

A broker that changes a znode also creates a sequential znode, a notification, that names it, below one path for each
kind of change. Every broker watches that path, remembers the last number it has seen, and reads again the znodes that
newer notifications name. Any broker removes old notifications.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from barnabas.broker.this_node import ThisNode
from barnabas.runtime import Condition
from barnabas.zk.client.client import StateChangeHandler, ZNodeChildChangeHandler
from barnabas.zk.kafka.znode_json import sequence_number
from barnabas.zk.protocol.errors import ZooKeeperError

if TYPE_CHECKING:
    from barnabas.zk.kafka.zk_client import KafkaZkClient

logger = logging.getLogger(__name__)

CHANGE_EXPIRATION_MS: Final = 15 * 60 * 1000
_RETRY_MS: Final = 1000


class ChangeNotifications:
    """Follows the changes of one kind. `take_up` gets the content of a notification."""

    def __init__(
        self,
        node: ThisNode,
        path: str,
        sequence_number_prefix: str,
        take_up: Callable[[bytes | None], Awaitable[None]],
        *,
        kind: str,
        zk: KafkaZkClient | None = None,
    ) -> None:
        """`kind` names notifications that cannot be read, in the log; `zk` is a client other than the node's own."""
        self._node = node
        self._zk = node.zk if zk is None else zk
        self._path = path
        self._prefix = sequence_number_prefix
        self._take_up = take_up
        self._kind = kind
        self._last_executed = -1
        self._pending = False
        self._woken = Condition()

    async def startup(self) -> None:
        """Returns when the present notifications are processed; goes on following new ones until the broker ends."""
        zk = self._zk
        zk.register_znode_child_change_handler(ZNodeChildChangeHandler(self._path, self._wake))
        zk.register_state_change_handler(
            StateChangeHandler(f"changes-{self._path}", after_initializing_session=self._wake)
        )
        await self._process()
        self._node.tasks.begin(self._follow(), self._kind.replace(" ", "-"))

    def _wake(self) -> None:
        self._pending = True
        self._woken.notify()

    async def _follow(self) -> None:
        while True:
            while not self._pending:
                await self._woken
            self._pending = False
            try:
                await self._process()
            except ZooKeeperError as error:
                logger.warning("[broker %d] %s is not read yet: %s", self._node.broker_id, self._path, error)
                await self._node.pause(_RETRY_MS)
                self._pending = True

    async def _process(self) -> None:
        zk = self._zk
        names = await zk.get_children(self._path)
        for name in names:
            number = sequence_number(name, self._prefix)
            if number is None or number <= self._last_executed:
                continue
            data, stat = await zk.get_data_and_stat(f"{self._path}/{name}")
            if stat is None:
                self._last_executed = number
                continue
            try:
                await self._take_up(data)
            except Exception as error:
                if isinstance(error, ZooKeeperError) and error.passing:
                    raise
                # As Apache's does with any error: the notification would block all later changes.
                zk.unreadable.skip(self._kind, name, error)
            self._last_executed = number
        await self._purge(names)

    async def _purge(self, names: list[str]) -> None:
        now_ms = self._node.runtime.clock.now_ms()
        for name in names:
            path = f"{self._path}/{name}"
            _, stat = await self._zk.get_data_and_stat(path)
            if stat is None:
                continue
            if now_ms - stat.ctime <= CHANGE_EXPIRATION_MS:
                break
            try:
                await self._zk.delete_path(path, recursive_delete=False)
            except ZooKeeperError as error:
                if error.passing:
                    raise
                logger.warning("[broker %d] %s is not removed: %s", self._node.broker_id, path, error)
