"""How this broker connects to others: by the listener's protocol, with its own key store and login.

The protocol comes from this broker's own configuration of the listener, never from another broker or a znode, so that
none of these can downgrade a connection to plain text.
"""

from __future__ import annotations

import ssl

from barnabas.broker.listener_gate import tls_of_listener
from barnabas.client.connection import CONNECT_TIMEOUT_MS, REQUEST_TIMEOUT_MS, Connection
from barnabas.model.cluster import Endpoint
from barnabas.model.config import Config
from barnabas.runtime import Runtime
from barnabas.security.sasl.login import Login
from barnabas.security.sasl.offered import BETWEEN_BROKERS, WITH_CONTROLLERS, login_of_broker


class InterBrokerAccess:
    """Connections to listeners: `endpoints` are this broker's own, `controllers` that of the KRaft controllers.

    Raises `ConfigError`.
    """

    def __init__(
        self, runtime: Runtime, config: Config, endpoints: tuple[Endpoint, ...], controllers: Endpoint | None = None
    ) -> None:
        self._runtime = runtime
        self._tls: dict[str, ssl.SSLContext | None] = {}
        self._logins: dict[str, Login | None] = {}
        for endpoint in endpoints if controllers is None else (*endpoints, controllers):
            sasl = endpoint.security_protocol.startswith("SASL")
            mechanism = WITH_CONTROLLERS if endpoint is controllers else BETWEEN_BROKERS
            self._logins[endpoint.listener] = login_of_broker(config, endpoint.listener, mechanism) if sasl else None
            tls = endpoint.security_protocol.endswith("SSL")
            self._tls[endpoint.listener] = tls_of_listener(config, endpoint).client_context() if tls else None

    def connection(self, endpoint: Endpoint, client_id: str, timeout_ms: int | None = None) -> Connection:
        """A connection that is not connected yet; `connect` authenticates as well.

        `timeout_ms` limits connecting, and each answer.
        """
        return Connection(
            self._runtime,
            endpoint.host,
            endpoint.port,
            client_id,
            tls=self._tls[endpoint.listener],
            login=self._logins[endpoint.listener],
            connect_timeout_ms=CONNECT_TIMEOUT_MS if timeout_ms is None else timeout_ms,
            request_timeout_ms=REQUEST_TIMEOUT_MS if timeout_ms is None else timeout_ms,
        )
