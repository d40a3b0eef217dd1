"""How a broker tells the controller of a failed disk: by a znode below `/log_dir_event_notification`.

The controller then sends LeaderAndIsr for all of the broker's replicas; those that the broker answers with
KAFKA_STORAGE_ERROR are offline.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from barnabas.broker.this_node import ThisNode
from barnabas.log.log_dirs import LogDirs
from barnabas.zk.protocol.errors import ZooKeeperError

logger = logging.getLogger(__name__)

PUT_OFF_S: Final = 10.0
"""How long a replica that got no descriptor waits before the controller is made to ask again."""


class LogDirEvents:
    def __init__(self, node: ThisNode, log_dirs: LogDirs, *, migrating: bool) -> None:
        """`migrating`: whether a migration to KRaft is enabled."""
        self._node = node
        self._log_dirs = log_dirs
        self._migrating = migrating
        self._asks_again = False

    def log_dir_failed(self, path: str) -> None:
        """Halts the broker with its last log directory."""
        node = self._node
        if self._migrating:
            # As Apache's does: during a migration controllers are not told of a failed directory (KAFKA-16431).
            node.task_failed("log directories", OSError(f"{path} failed, and a migration to KRaft is enabled"))
        elif not self._log_dirs.online_paths:
            node.task_failed("log directories", OSError(f"{path} failed, and it was the last one"))
        else:
            node.tasks.begin(self._propagate(), "log-dir-event")

    def replica_put_off(self) -> None:
        """The process has no descriptor left for a replica's files; the controller takes the replica for offline."""
        if not self._asks_again and not self._migrating:
            self._asks_again = True
            self._node.tasks.begin(self._ask_again(), "put-off-replicas")

    async def _ask_again(self) -> None:
        await asyncio.sleep(PUT_OFF_S)
        self._asks_again = False
        await self._propagate()

    async def _propagate(self) -> None:
        node = self._node
        while True:
            try:
                await node.zk.propagate_log_dir_event(node.broker_id)
                return
            except ZooKeeperError as error:
                logger.warning("[broker %d] the log dir event is not told: %s", node.broker_id, error)
                await node.pause_for_zookeeper()
