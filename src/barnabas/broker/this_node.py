"""A broker as each of its parts knows it: its id, its configuration, its doors, and its picture of the cluster.

A part is made with a `ThisNode` and with the other parts that it uses, by name; no part knows the `Broker` that puts
them together (`barnabas.broker.server`). A request's handler gets a `BrokerParts`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from barnabas.broker.configs import BrokerConfigLayers
from barnabas.broker.listeners import Listeners
from barnabas.model.config import Config
from barnabas.model.metadata_version import metadata_version_of
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.runtime import Runtime, Tasks
from barnabas.zk.kafka.zk_client import KafkaZkClient, RegistrationWait

logger = logging.getLogger(__name__)

ZOOKEEPER_RETRY_MS: Final = 500


class ThisNode:
    """`failed` is set when the broker cannot go on; `tasks` are its background stories, whose failure sets it."""

    listeners: Listeners
    """The open listeners; before they are open, the configured ones."""

    def __init__(self, runtime: Runtime, config: Config) -> None:
        self.runtime = runtime
        self.config = config
        """The configuration, including the values in ZooKeeper: another object after each change."""
        self.config_layers = BrokerConfigLayers(config)
        self.metadata_version = metadata_version_of(config)
        self.broker_id = config.number("broker.id")
        """-1 until a broker without an id has been given one (``broker.id.generation.enable``)."""
        self.cluster_id = ""
        self.features_epoch = -1
        self.metadata = MetadataCache()
        self.registration_wait: RegistrationWait | None = None
        """The registration that a starting broker waits for; None when it does not wait."""
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.tasks = Tasks(self.task_failed)
        self._zk: KafkaZkClient | None = None

    @property
    def zk(self) -> KafkaZkClient:
        """Set once the broker has connected to ZooKeeper, before any part begins."""
        assert self._zk is not None
        return self._zk

    def task_failed(self, name: str, error: BaseException) -> None:
        """A background task ended unexpectedly: the broker stops, which is better than one that lacks a part."""
        if not self.failed.done():
            logger.critical("[broker %d] halting: %s failed: %r", self.broker_id, name, error)
            self.failed.set_result(error)

    async def pause(self, milliseconds: float) -> None:
        await asyncio.sleep(milliseconds / 1000)

    async def pause_for_zookeeper(self) -> None:
        """Waits before a ZooKeeper request that was not answered is sent again."""
        await self.pause(ZOOKEEPER_RETRY_MS)
