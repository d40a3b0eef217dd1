"""Topics' configuration, from ZooKeeper to the topics' logs."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from barnabas.broker.this_node import ThisNode
from barnabas.log.log_dirs import LogDirs
from barnabas.model.config import refused_values, topic_definitions
from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.zk.kafka.config_znodes import TOPICS
from barnabas.zk.protocol.errors import ZooKeeperError

logger = logging.getLogger(__name__)


class TopicConfigs:
    """Gives the logs of this broker their topics' configuration in ZooKeeper."""

    def __init__(self, node: ThisNode, log_dirs: LogDirs) -> None:
        self._node = node
        self._log_dirs = log_dirs

    async def of_all(self) -> dict[str, dict[str, str]]:
        """The own values of every topic that has any."""
        zk = self._node.zk
        await zk.catch_up()
        topics = await zk.get_all_entities_with_config(TOPICS)
        configs = await zk.get_entities_configs(TOPICS, topics)
        return {topic: self._usable(topic, values) for topic, values in configs.items()}

    async def learn(self, topics: Mapping[str, Uuid]) -> None:
        """Reads the configuration of topics, by their ids, before this broker makes its first logs of them. A broker
        that was away while a topic was deleted and recreated may still have logs of the earlier topic.

        A controller does not repeat a LeaderAndIsr that failed, so this is tried until ZooKeeper answers. This broker's
        ZooKeeper server may lag behind the controller's, and no notification follows later: the server catches up
        first. Kafka reads at once, and then keeps the defaults.
        """
        node, log_dirs = self._node, self._log_dirs
        unknown = [topic for topic, topic_id in topics.items() if not self._is_known(topic, topic_id)]
        while unknown:
            try:
                await node.zk.catch_up()
                configs = await node.zk.get_entities_configs(TOPICS, unknown)
            except ZooKeeperError as error:
                logger.warning("[broker %d] topic configurations are not read yet: %s", node.broker_id, error)
                await node.pause_for_zookeeper()
            else:
                for topic, values in configs.items():
                    log_dirs.update_topic_config(topic, self._usable(topic, values))
                return

    def _is_known(self, topic: str, topic_id: Uuid) -> bool:
        logs = self._log_dirs.logs_of(topic)
        return any(topic_id == ZERO_UUID or log.topic_id in (None, topic_id) for log in logs)

    def changed(self, topic: str, values: Mapping[str, str]) -> None:
        """A topic's own values changed."""
        self._log_dirs.update_topic_config(topic, self._usable(topic, values))

    def _usable(self, topic: str, values: Mapping[str, str]) -> dict[str, str]:
        """A topic's values in ZooKeeper; a value that cannot be used counts as not set."""
        refused = refused_values(topic_definitions(), values)
        for error in refused.values():
            self._node.zk.unreadable.skip("configuration", f"topic {topic}", error)
        return {name: text for name, text in values.items() if name not in refused}
