"""Listeners that come, go and change while the broker runs (KIP-226; Kafka's ``DynamicListenerConfig``).

A listener that stays keeps its connections, its protocol and its own keys, except its stores and limits: for another
protection an operator adds another listener. The inter-broker listener and the address of an open listener cannot
change.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from barnabas.broker.configs import LISTENERS_LIMITS
from barnabas.broker.connections import Connections
from barnabas.broker.listeners import Listeners, listeners_of
from barnabas.broker.protection import require_no_more_than_there_is
from barnabas.broker.socket_server import SocketServer
from barnabas.broker.this_node import ThisNode
from barnabas.model.comma_list import comma_list
from barnabas.model.config import Config
from barnabas.model.errors import ConfigError
from barnabas.security.listener_config import listener_prefix
from barnabas.security.tls.settings import CHANGING_STORES

logger = logging.getLogger(__name__)

_PROTOCOLS: Final = "listener.security.protocol.map"
_ADMIN: Final = "ADMIN"
"""The listener of the admin endpoint, which is not in ``listeners``."""
_CHANGING: Final = CHANGING_STORES | LISTENERS_LIMITS
"""The listener's own keys that may change while it is open."""


class DynamicListeners:
    """The configured listeners of a broker. `host_name` is advertised for one that binds every interface."""

    def __init__(self, node: ThisNode, connections: Connections, host_name: str) -> None:
        """Raises `ConfigError` for a configuration that cannot be used."""
        self._node = node
        self._connections = connections
        self._host_name = host_name
        self._config = node.config
        self.wanted = self.of(node.config)
        """The listeners as they are configured: ports may be 0."""
        self._told: Listeners | None = None

    def of(self, config: Config) -> Listeners:
        wanted = listeners_of(config, self._host_name)
        require_no_more_than_there_is(config, wanted)
        return wanted

    def begin(self, config: Config) -> Listeners:
        """Returns the listeners to open at the start; `config` includes the values in ZooKeeper.

        If these values cannot be used, only the listeners between brokers open, as the file has them: nothing but a
        restart changes those. (Apache opens all in the file, also those closed since.) Raises `ConfigError` if their
        protection cannot be applied.
        """
        try:
            wanted = self.of(config)
        except ConfigError as error:
            logger.error(
                "[broker %d] only the listeners between brokers are opened, until the others are set right: %s",
                self._node.broker_id,
                error,
            )
            config = _between_brokers(config, file=self._config, listeners=self.wanted)
            wanted = self.of(config)
        self._warn_of_others(config, wanted)
        self._config, self.wanted = config, wanted
        self._connections.protected_listener = self.wanted.protected
        return self.wanted

    def _warn_of_others(self, config: Config, wanted: Listeners) -> None:
        """Warns of keys that belong to no listener: after a typing error the right listener lacks their protection."""
        names = [endpoint.listener for endpoint in (*self.wanted.bound, *wanted.bound)]
        names += [_ADMIN, *comma_list(config.text("controller.listener.names"))]
        if config.is_set(_PROTOCOLS):
            names += [entry.partition(":")[0] for entry in comma_list(config.text(_PROTOCOLS))]
        known = tuple(map(listener_prefix, names))
        others = [key for key in config.overrides if key.startswith("listener.name.") and not key.startswith(known)]
        if others:
            logger.warning(
                "[broker %d] no listener has the keys %s, until it is added; those that are open are %s",
                self._node.broker_id,
                ", ".join(sorted(others)),
                ", ".join(endpoint.listener for endpoint in wanted.bound),
            )

    def check(self, config: Config, socket_server: SocketServer) -> Listeners:
        """Returns the listeners that `config` names. Raises `ConfigError` if the open ones cannot change to them
        (``validateReconfiguration``)."""
        wanted = self.of(config)
        after = {endpoint.listener: endpoint for endpoint in wanted.bound}
        for endpoint in self.wanted.bound:
            name = endpoint.listener
            if name not in after:
                continue
            if _lasting(self._config, name) != _lasting(config, name):
                raise ConfigError(
                    f"Configs cannot be updated dynamically for existing listener ListenerName({name}), restart broker "
                    "or create a new listener for update"
                )
            if after[name].security_protocol != endpoint.security_protocol:
                raise ConfigError(f"Security protocol cannot be updated for existing listener ListenerName({name})")
            if (after[name].host, after[name].port) != (endpoint.host, endpoint.port):
                raise ConfigError(
                    f"The address of listener {name} cannot be updated dynamically, restart broker or create a new "
                    "listener for update"
                )
        if (wanted.inter_broker, wanted.control_plane) != (self.wanted.inter_broker, self.wanted.control_plane):
            raise ConfigError("The listeners of brokers and of the controller cannot be updated dynamically")
        socket_server.check(config, wanted)
        return wanted

    async def take_up(self, config: Config, socket_server: SocketServer, tell: Callable[[], Awaitable[None]]) -> None:
        """Opens and closes listeners; awaits `tell` when the cluster has to learn this broker's new addresses.

        Raises `ConfigError` if nothing was changed, and `ZooKeeperError` if it has to be called again.
        """
        node = self._node
        if self._told is None:
            self._told = node.listeners
        self._config, self.wanted = config, self.check(config, socket_server)
        if self.wanted.bound != socket_server.configured:
            await socket_server.become(config, self.wanted)
        node.listeners = socket_server.advertised(self.wanted)
        self._connections.protected_listener = node.listeners.protected
        if node.listeners.advertised != self._told.advertised:
            logger.info(
                "[broker %d] is at %s now",
                node.broker_id,
                ", ".join(str(endpoint) for endpoint in node.listeners.advertised),
            )
            await tell()
        self._told = node.listeners


def _between_brokers(config: Config, *, file: Config, listeners: Listeners) -> Config:
    """`config` with the `listeners` of its `file` that brokers use, and no others."""
    names = (listeners.inter_broker, listeners.control_plane)

    def of_brokers(key: str) -> str:
        return ",".join(endpoint for endpoint in comma_list(file.text(key)) if name_in(endpoint) in names)

    def name_in(endpoint: str) -> str:
        name = endpoint.partition("://")[0]
        return name if name in names else name.upper()

    kept = {key: of_brokers(key) for key in ("listeners", "advertised.listeners")}
    return config.with_overrides({**kept, _PROTOCOLS: file.text(_PROTOCOLS)})


def _lasting(config: Config, listener: str) -> dict[str, str]:
    """A listener's own keys that cannot change while it is open."""
    prefix = listener_prefix(listener)
    return {
        name: text
        for name, text in config.overrides.items()
        if name.startswith(prefix) and name.removeprefix(prefix) not in _CHANGING
    }
