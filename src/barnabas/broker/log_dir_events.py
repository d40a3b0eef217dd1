"""What the controller is told of this broker's disks: by the znode `/log_dir_event_notification`, which makes it ask.

It sends LeaderAndIsr for all of the broker's replicas, and takes those answered KAFKA_STORAGE_ERROR for offline.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from barnabas.zk.protocol.errors import ZooKeeperError

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

logger = logging.getLogger(__name__)

PUT_OFF_S: Final = 10.0
"""How long a replica for which there was no descriptor waits until the controller is made to ask again."""


class LogDirEvents:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._asks_again = False

    def log_dir_failed(self, path: str) -> None:
        """Halts the broker with its last log directory."""
        broker = self._broker
        if broker.migration is not None:
            # As Apache's does: the controllers are told of no directory that fails meanwhile (KAFKA-16431).
            broker.task_failed("log directories", OSError(f"{path} failed, and a migration to KRaft is enabled"))
        elif not broker.log_dirs.online_paths:
            broker.task_failed("log directories", OSError(f"{path} failed, and it was the last one"))
        else:
            broker.tasks.begin(self._propagate(), "log-dir-event")

    def replica_put_off(self) -> None:
        """The process has no descriptor left for a replica's files, and the controller takes it for offline."""
        if not self._asks_again and self._broker.migration is None:
            self._asks_again = True
            self._broker.tasks.begin(self._ask_again(), "put-off-replicas")

    async def _ask_again(self) -> None:
        await asyncio.sleep(PUT_OFF_S)
        self._asks_again = False
        await self._propagate()

    async def _propagate(self) -> None:
        broker = self._broker
        while True:
            try:
                await broker.zk.propagate_log_dir_event(broker.broker_id)
                return
            except ZooKeeperError as error:
                logger.warning("[broker %d] the log dir event is not told: %s", broker.broker_id, error)
                await broker.pause_for_zookeeper()
