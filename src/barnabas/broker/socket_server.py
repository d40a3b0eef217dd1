"""Where a broker listens: a listening socket and a gate for each listener (Kafka's ``SocketServer``)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from barnabas.broker.framed_connection import ConnectionLimits
from barnabas.broker.listener_gate import ListenerGate
from barnabas.broker.listeners import Listeners
from barnabas.broker.request_channel import RequestChannel
from barnabas.broker.scram_users import BrokerScramUsers
from barnabas.broker.start_error import BrokerStartError
from barnabas.broker.this_node import ThisNode
from barnabas.model.cluster import Endpoint, is_loopback
from barnabas.model.config import Config
from barnabas.model.errors import ConfigError
from barnabas.runtime import Listener
from barnabas.security.authorizer import AllowAll

logger = logging.getLogger(__name__)


class _Open(NamedTuple):
    """A listener, as it was configured."""

    endpoint: Endpoint
    socket: Listener


class SocketServer:
    """Opens and closes listeners. Raises `ConfigError` for a listener's configuration that it cannot honour."""

    def __init__(self, node: ThisNode, channel: RequestChannel, scram_users: BrokerScramUsers) -> None:
        self._node = node
        self._channel = channel
        self._scram_users = scram_users
        self._open: dict[str, _Open] = {}
        self.gates = {
            endpoint.listener: ListenerGate(node, scram_users, endpoint, node.config)
            for endpoint in node.listeners.bound
        }
        """By the listener's name."""

    async def listen(self) -> Listeners:
        """Opens the sockets; returns the listeners with their real ports. Raises `BrokerStartError`."""
        listeners = self._node.listeners
        for endpoint in listeners.bound:
            try:
                await self._listen(endpoint, self.gates[endpoint.listener])
            except OSError as error:
                raise BrokerStartError(
                    f"Cannot listen on {endpoint}: {error.strerror or error}. "
                    "Choose another address in listeners, or stop what uses this one."
                ) from error
        return self.advertised(listeners)

    async def _listen(self, endpoint: Endpoint, gate: ListenerGate) -> None:
        """Raises ``OSError``."""
        node, channel = self._node, self._channel
        limits = ConnectionLimits.of(node.config, channel.memory)
        socket = await node.runtime.network.listen(lambda: gate.accept(channel, limits), endpoint.host, endpoint.port)
        self._open[endpoint.listener] = _Open(endpoint, socket)
        self.gates[endpoint.listener] = gate
        if not is_loopback(endpoint.host) and type(channel.authorizer) is AllowAll and not gate.authenticates:
            logger.warning(
                "[broker %d] %s can be reached over the network, and nothing protects it: whoever does may read, "
                "write and delete everything",
                node.broker_id,
                replace(endpoint, port=socket.port),
            )

    @property
    def configured(self) -> tuple[Endpoint, ...]:
        """The open listeners, as they were configured."""
        return tuple(listener.endpoint for listener in self._open.values())

    def advertised(self, wanted: Listeners) -> Listeners:
        """`wanted` with the real ports, without listeners that are not open."""
        open_now = replace(
            wanted,
            bound=tuple(endpoint for endpoint in wanted.bound if endpoint.listener in self._open),
            advertised=tuple(endpoint for endpoint in wanted.advertised if endpoint.listener in self._open),
        )
        return open_now.advertise_bound({name: listener.socket.port for name, listener in self._open.items()})

    async def become(self, config: Config, wanted: Listeners) -> None:
        """Closes the listeners that are not `wanted`, with their connections, and opens the new ones. A listener that
        cannot be opened is logged, and tried again at the next change. Raises `ConfigError`."""
        broker_id = self._node.broker_id
        names = {endpoint.listener for endpoint in wanted.bound}
        for name in [listener for listener in self._open if listener not in names]:
            self._open.pop(name).socket.close()
            del self.gates[name]
            closed = [connection for connection in self._channel.connections if connection.listener == name]
            for connection in closed:
                connection.close()
            logger.info("[broker %d] closed listener %s and %d connections", broker_id, name, len(closed))
        for endpoint in wanted.bound:
            if endpoint.listener in self._open:
                continue
            gate = ListenerGate(self._node, self._scram_users, endpoint, config)
            if gate.mechanisms:
                await self._scram_users.startup()
            try:
                await self._listen(endpoint, gate)
            except OSError as error:
                logger.error("[broker %d] cannot listen on %s: %s", broker_id, endpoint, error.strerror or error)
            else:
                logger.info("[broker %d] listens on %s as well", broker_id, endpoint)

    def check(self, config: Config, wanted: Listeners) -> None:
        """Raises `ConfigError` if a new listener cannot be made, or an open one cannot use the stores that `config`
        names."""
        for endpoint in wanted.bound:
            gate = self.gates.get(endpoint.listener)
            if gate is None:
                ListenerGate(self._node, self._scram_users, endpoint, config)
                continue
            try:
                gate.check(config)
            except ConfigError as error:
                raise ConfigError(f"Validation of dynamic config update of SSLFactory failed: {error}") from None

    def take_stores(self, config: Config, taken: Callable[[], None]) -> None:
        """Applies listeners' changed certificates and trust stores; bad ones are ignored, and the old ones stay.

        `taken` is called after each change, and may raise `ConfigError`.
        """
        for gate in self.gates.values():
            try:
                if gate.reconfigure(config):
                    taken()
            except ConfigError as error:
                logger.error(
                    "[broker %d] listener %s keeps its stores: %s",
                    self._node.broker_id,
                    gate.name,
                    error.in_kafkas_words,
                )

    def close(self) -> None:
        for listener in self._open.values():
            listener.socket.close()
