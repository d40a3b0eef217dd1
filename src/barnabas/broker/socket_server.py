"""Where a broker is spoken to: a listening socket and a gate for each listener (Kafka's ``SocketServer``)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.framed_connection import ConnectionLimits
from barnabas.broker.listener_gate import ListenerGate
from barnabas.broker.listeners import Listeners
from barnabas.broker.start_error import BrokerStartError
from barnabas.model.cluster import is_loopback
from barnabas.model.config import Config
from barnabas.model.errors import ConfigError
from barnabas.runtime import Listener

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

logger = logging.getLogger(__name__)


class SocketServer:
    """Raises `ConfigError` for a listener's configuration that cannot be kept."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sockets: list[Listener] = []
        self.gates = {each.listener: ListenerGate(broker, each, broker.config) for each in broker.listeners.bound}
        """By the listener's name."""

    async def listen(self) -> Listeners:
        """Opens the sockets; the listeners, with the ports that they really got. Raises `BrokerStartError`."""
        broker = self._broker
        limits = ConnectionLimits(broker.config.number("socket.request.max.bytes"), broker.request_memory)
        ports: dict[str, int] = {}
        for endpoint in broker.listeners.bound:
            name = endpoint.listener
            try:
                socket = await broker.runtime.network.listen(
                    lambda gate=self.gates[name]: gate.accept(limits),  # type: ignore[misc]
                    endpoint.host,
                    endpoint.port,
                )
            except OSError as error:
                raise BrokerStartError(
                    f"Cannot listen on {endpoint}: {error.strerror or error}. "
                    "Choose another address in listeners, or stop what uses this one."
                ) from error
            self._sockets.append(socket)
            ports[name] = socket.port
        listeners = broker.listeners.advertise_bound(ports)
        for endpoint in listeners.bound:
            protected = broker.acls is not None or self.gates[endpoint.listener].authenticates
            if not is_loopback(endpoint.host) and not protected:
                logger.warning(
                    "[broker %d] %s can be reached over the network, and nothing protects it: whoever does may read, "
                    "write and delete everything",
                    broker.broker_id,
                    endpoint,
                )
        return listeners

    def check_stores(self, config: Config) -> None:
        """Raises `ConfigError` where listeners could not take up the stores that `config` names."""
        for gate in self.gates.values():
            try:
                gate.check(config)
            except ConfigError as error:
                raise ConfigError(f"Validation of dynamic config update of SSLFactory failed: {error}") from None

    def take_stores(self, config: Config, taken: Callable[[], None]) -> None:
        """Listeners' certificates and whom they trust, where these changed; else it keeps what it has.

        `taken` is called after each change, and may raise `ConfigError`.
        """
        for gate in self.gates.values():
            try:
                if gate.reconfigure(config):
                    taken()
            except ConfigError as error:
                logger.error(
                    "[broker %d] listener %s keeps its stores: %s",
                    self._broker.broker_id,
                    gate.name,
                    error.in_kafkas_words,
                )

    def close(self) -> None:
        for socket in self._sockets:
            socket.close()
