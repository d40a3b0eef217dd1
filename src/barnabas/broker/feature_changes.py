"""The features that the controller finalized, and their epoch (Kafka's ``FinalizedFeatureChangeListener``)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.runtime import Condition
from barnabas.zk.client.client import StateChangeHandler, ZNodeChangeHandler
from barnabas.zk.kafka.znodes import FeatureZNode
from barnabas.zk.protocol.errors import ZooKeeperError

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

logger = logging.getLogger(__name__)


async def follow_features(broker: Broker) -> None:
    """Keeps the epoch of ``/feature``, which ApiVersions tells; does not end."""
    woken = Condition()
    stale = True

    def wake() -> None:
        nonlocal stale
        stale = True
        woken.notify()

    zk = broker.zk
    zk.register_znode_change_handler(ZNodeChangeHandler(FeatureZNode.path, wake, wake, wake))
    # A new session has none of the old one's watches.
    zk.register_state_change_handler(StateChangeHandler("features", after_initializing_session=wake))
    while True:
        while not stale:
            await woken
        stale = False
        try:
            known = await zk.get_features()
            broker.features_epoch = -1 if known is None else known[1]
            if known is None and await zk.path_exists(FeatureZNode.path):
                stale = True  # made a moment ago, or unreadable
                await broker.pause_for_zookeeper()
        except ZooKeeperError as error:
            logger.debug("[broker %d] features are not read: %s", broker.broker_id, error)
            await broker.pause_for_zookeeper()
            stale = True
