"""The features that the controller finalized, and their epoch (Kafka's ``FinalizedFeatureChangeListener``)."""

from __future__ import annotations

import logging

from barnabas.broker.this_node import ThisNode
from barnabas.runtime import Condition
from barnabas.zk.client.client import StateChangeHandler, ZNodeChangeHandler
from barnabas.zk.kafka.znodes import FeatureZNode
from barnabas.zk.protocol.errors import ZooKeeperError

logger = logging.getLogger(__name__)


class FeatureChanges:
    """Keeps the epoch of ``/feature``, which ApiVersions tells."""

    def __init__(self, node: ThisNode) -> None:
        self._node = node
        self._woken = Condition()
        self._stale = True

    async def startup(self) -> None:
        """Returns when ``/feature`` has been read, so that no client is told an older epoch."""
        zk = self._node.zk
        zk.register_znode_change_handler(ZNodeChangeHandler(FeatureZNode.path, self._wake, self._wake, self._wake))
        # A new session has none of the old one's watches.
        zk.register_state_change_handler(StateChangeHandler("features", after_initializing_session=self._wake))
        while not await self._read():
            await self._node.pause_for_zookeeper()
        self._node.tasks.begin(self._follow(), "features")

    def _wake(self) -> None:
        self._stale = True
        self._woken.notify()

    async def _read(self) -> bool:
        """Whether ZooKeeper answered."""
        node = self._node
        self._stale = False
        try:
            known = await node.zk.get_features()
            node.features_epoch = -1 if known is None else known[1]
            # Created a moment ago, or unreadable. If it is absent, its watch may have fired together with the answer.
            if known is None and await node.zk.path_exists(FeatureZNode.path):
                self._stale = True
        except ZooKeeperError as error:
            logger.debug("[broker %d] features are not read: %s", node.broker_id, error)
            self._stale = True
            return False
        return True

    async def _follow(self) -> None:
        """Reads ``/feature`` again whenever it changes; does not end."""
        while True:
            while not self._stale:
                await self._woken
            if not await self._read() or self._stale:
                await self._node.pause_for_zookeeper()
