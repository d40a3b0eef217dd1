"""One listener's protection: what it takes to make its connections, from the broker's configuration.

Values with the listener's prefix win (``listener.name.<listener>.ssl.keystore.location``). What can change while the
broker runs is what Kafka lets change: the stores. New connections are made with new ones, those that are open stay.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Final

from barnabas.broker.connection import BrokerConnection, ConnectionLimits
from barnabas.broker.guarded_connection import GuardedConnection, SaslConnection
from barnabas.model.cluster import Endpoint
from barnabas.model.config import Config, broker_definitions
from barnabas.runtime.tls_transport import TlsTransport
from barnabas.security.listener_config import listener_prefix, of_listener, of_mechanism
from barnabas.security.sasl.exchange import SaslMechanism
from barnabas.security.sasl.offered import offered_mechanisms
from barnabas.security.tls.principal_mapping import SslPrincipalMapper
from barnabas.security.tls.settings import TlsSettings, tls_settings

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

logger = logging.getLogger(__name__)

_SSL_NAMES: Final = tuple(name for name in broker_definitions() if name.startswith("ssl."))


def tls_of_listener(config: Config, endpoint: Endpoint) -> TlsSettings:
    """The TLS settings of a listener. Raises `ConfigError`.

    ``ssl.client.auth`` without the listener's prefix counts on SSL listeners alone (``ChannelBuilders``).
    """
    prefix = listener_prefix(endpoint.listener)
    own = of_listener(config, endpoint.listener)
    values = {name: own.joined(name) for name in _SSL_NAMES}
    for kind in ("keystore", "truststore"):
        if not own.is_set(f"ssl.{kind}.type"):
            values[f"ssl.{kind}.type"] = ""  # the default is JKS; the first bytes know better
    if endpoint.security_protocol == "SASL_SSL" and not config.is_set(f"{prefix}ssl.client.auth"):
        values["ssl.client.auth"] = "none"
    return tls_settings(values)


class ListenerGate:
    """Raises `ConfigError` for a configuration that cannot be kept."""

    def __init__(self, broker: Broker, endpoint: Endpoint, config: Config) -> None:
        self.broker = broker
        self.name = endpoint.listener
        self.security_protocol = endpoint.security_protocol
        own = of_listener(config, endpoint.listener)
        self.tls: ssl.SSLContext | None = None
        self.tls_settings: TlsSettings | None = None
        self.principal_mapper = SslPrincipalMapper(own.text("ssl.principal.mapping.rules"))
        self.mechanisms: dict[str, SaslMechanism] = {}
        self.max_reauth_ms: dict[str, int] = {}
        self.max_token_bytes = own.number("sasl.server.max.receive.size")
        self.authentication_timeout_ms = own.number("barnabas.authentication.timeout.ms")
        self.failed_authentication_delay_ms = own.number("connection.failed.authentication.delay.ms")
        if endpoint.security_protocol.endswith("SSL"):
            self.take_tls(tls_of_listener(config, endpoint))
        if endpoint.security_protocol.startswith("SASL"):
            self.mechanisms = offered_mechanisms(config, self.name, broker.scram_users, broker.runtime)
            self.max_reauth_ms = {
                mechanism: of_mechanism(config, self.name, mechanism).number("connections.max.reauth.ms")
                for mechanism in self.mechanisms
            }

    @property
    def authenticates(self) -> bool:
        """Whether everybody who gets in has proved who it is."""
        settings = self.tls_settings
        return bool(self.mechanisms) or (settings is not None and settings.client_auth == "required")

    def take_tls(self, settings: TlsSettings) -> None:
        self.tls = settings.server_context()
        self.tls_settings = settings

    def accept(self, limits: ConnectionLimits) -> asyncio.BaseProtocol:
        """The protocol of a new connection."""
        if self.security_protocol == "PLAINTEXT":
            return BrokerConnection(self.broker, self.broker.router, self.name, self.broker.authorizer, limits)
        connection = SaslConnection(self, limits) if self.mechanisms else GuardedConnection(self, limits)
        return connection if self.tls is None else TlsTransport(connection, self.tls)
