"""The configuration of each topic's logs."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.model.config import Config, topic_config


class LogConfigs:
    """Topics' own values over the broker's defaults. Both may change while the broker runs."""

    def __init__(self, broker: Config) -> None:
        self._broker = broker
        self._values: dict[str, Mapping[str, str]] = {}
        self._of: dict[str, Config] = {}

    def load(self, values: Mapping[str, Mapping[str, str]]) -> None:
        """Loads every topic's own values, before any log exists."""
        self._values.update(values)

    def of(self, topic: str) -> Config:
        config = self._of.get(topic)
        if config is None:
            config = self._of[topic] = topic_config(self._broker, self._values.get(topic, {}))
        return config

    def set_values(self, topic: str, values: Mapping[str, str]) -> None:
        """A topic's own values changed."""
        self._values.pop(topic, None)
        if values:
            self._values[topic] = values
        self._of.pop(topic, None)

    def no_log_left(self, topic: str) -> None:
        """Drops the topic's derived values but keeps its own: a log created later may need them."""
        self._of.pop(topic, None)

    def set_broker(self, broker: Config) -> bool:
        """The broker's configuration changed; returns whether this changes anything for topics."""
        before, self._broker = self._broker, broker
        changed = topic_config(before, {}).overrides != topic_config(broker, {}).overrides
        if changed:
            self._of.clear()
        return changed
