"""Topics' configuration, from ZooKeeper to the logs that are kept by it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.model.config import Config, refused_values, topic_config, topic_definitions
from barnabas.zk.kafka.config_znodes import TOPICS
from barnabas.zk.protocol.errors import ZooKeeperError

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

logger = logging.getLogger(__name__)


class TopicConfigs:
    """Gives the logs of this broker the configuration that ZooKeeper has of their topics."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def of_all(self) -> dict[str, Config]:
        """Every topic's that has values of its own, by name."""
        zk = self._broker.zk
        await zk.catch_up()
        topics = await zk.get_all_entities_with_config(TOPICS)
        configs = await zk.get_entities_configs(TOPICS, topics)
        return {topic: self._stored(topic, values) for topic, values in configs.items()}

    async def learn(self, topics: Iterable[str]) -> None:
        """Reads the configuration of topics that this broker holds nothing of yet, before it makes their logs.

        A controller does not repeat a LeaderAndIsr that failed, so this is tried until ZooKeeper answers. The server
        that this broker is connected to may not have what the controller's had, and nobody tells of it later: it
        catches up first. Kafka reads at once, and keeps the defaults then.
        """
        broker = self._broker
        unknown = [topic for topic in dict.fromkeys(topics) if not broker.log_dirs.holds_topic(topic)]
        while unknown:
            try:
                await broker.zk.catch_up()
                configs = await broker.zk.get_entities_configs(TOPICS, unknown)
            except ZooKeeperError as error:
                logger.warning("[broker %d] topic configurations are not read yet: %s", broker.broker_id, error)
                await broker.pause_for_zookeeper()
            else:
                for topic, values in configs.items():
                    broker.log_dirs.update_topic_config(topic, self._stored(topic, values))
                return

    def changed(self, topic: str, values: Mapping[str, str]) -> None:
        """A topic's own values changed. Turning unclean election on is also the controller's business."""
        broker = self._broker
        broker.log_dirs.update_topic_config(topic, self._stored(topic, values))
        if broker.controller.is_active and values.get("unclean.leader.election.enable", "").lower() == "true":
            broker.controller.enable_topic_unclean_leader_election(topic)

    def _stored(self, topic: str, values: Mapping[str, str]) -> Config:
        """A topic's configuration as ZooKeeper has it; a value that cannot be used counts as not set."""
        broker = self._broker
        refused = refused_values(topic_definitions(), values)
        for error in refused.values():
            broker.zk.unreadable.skip("configuration", f"topic {topic}", error)
        return topic_config(broker.config, {name: text for name, text in values.items() if name not in refused})
