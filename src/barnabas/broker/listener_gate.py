"""One listener's protection: TLS and SASL for its connections, from the broker's configuration.

Values with the listener's prefix win (``listener.name.<listener>.ssl.keystore.location``). As in Kafka, only the stores
can change while the broker runs. New connections use new stores; open connections stay.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Final

from barnabas.broker.connection import BrokerConnection
from barnabas.broker.framed_connection import ConnectionLimits
from barnabas.broker.guarded_connection import GuardedConnection, SaslConnection
from barnabas.broker.request_channel import RequestChannel
from barnabas.broker.this_node import ThisNode
from barnabas.model.cluster import Endpoint
from barnabas.model.config import Config, broker_definitions
from barnabas.model.errors import ConfigError
from barnabas.runtime.tls_transport import TlsTransport
from barnabas.security.listener_config import listener_prefix, of_listener, of_mechanism
from barnabas.security.sasl.exchange import SaslMechanism
from barnabas.security.sasl.offered import offered_mechanisms
from barnabas.security.sasl.scram import ScramUsers
from barnabas.security.tls.changes import check_change, check_understanding
from barnabas.security.tls.principal_mapping import SslPrincipalMapper
from barnabas.security.tls.settings import TlsSettings, tls_settings

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
    values["ssl.crl.enable"] = own.joined("barnabas.ssl.crl.enable")
    return tls_settings(values)


class ListenerGate:
    """One listener's TLS and SASL. Raises `ConfigError` for a configuration that it cannot honour."""

    def __init__(self, node: ThisNode, scram_users: ScramUsers, endpoint: Endpoint, config: Config) -> None:
        self._node = node
        self.clock = node.runtime.clock
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
        self._endpoint = endpoint
        self._for_brokers = endpoint.listener == node.listeners.inter_broker
        if endpoint.security_protocol.endswith("SSL"):
            try:
                settings = tls_of_listener(config, endpoint).read()
                self._take_tls(settings)
                if self._for_brokers:
                    check_understanding(settings, settings)
            except ConfigError as error:
                raise ConfigError(f"Listener {self.name}: {error}") from None
        if endpoint.security_protocol.startswith("SASL"):
            self.mechanisms = offered_mechanisms(config, self.name, scram_users, node.runtime)
            self.max_reauth_ms = {
                mechanism: of_mechanism(config, self.name, mechanism).number("connections.max.reauth.ms")
                for mechanism in self.mechanisms
            }

    @property
    def authenticates(self) -> bool:
        """Whether every client that is admitted has authenticated."""
        settings = self.tls_settings
        return bool(self.mechanisms) or (settings is not None and settings.client_auth == "required")

    def _take_tls(self, settings: TlsSettings) -> None:
        self.tls = settings.server_context()
        self.tls_settings = settings

    def check(self, config: Config) -> TlsSettings | None:
        """Returns the listener's TLS settings in `config`, with the stores' present contents; None if nothing changed.

        Raises `ConfigError` if they may not replace the present settings.
        """
        old = self.tls_settings
        if old is None:
            return None
        new = tls_of_listener(config, self._endpoint).read()
        if new == old:
            return None
        own = of_listener(config, self.name)
        check_change(
            old,
            new,
            subject_may_change=own.flag("ssl.allow.dn.changes"),
            names_may_change=own.flag("ssl.allow.san.changes"),
        )
        new.server_context()
        if self._for_brokers:
            check_understanding(old, new)
            check_understanding(new, old)
        return new

    def reconfigure(self, config: Config) -> bool:
        """Uses changed stores for new connections; returns whether any changed. Raises `ConfigError` as `check`."""
        new = self.check(config)
        if new is None:
            return False
        self._take_tls(new)
        logger.info("[broker %d] listener %s has new stores", self._node.broker_id, self.name)
        return True

    def accept(self, channel: RequestChannel, limits: ConnectionLimits) -> asyncio.BaseProtocol:
        """The protocol object of a new connection."""
        if self.security_protocol == "PLAINTEXT":
            return BrokerConnection(channel, self.name, limits)
        connection = (SaslConnection if self.mechanisms else GuardedConnection)(self, channel, limits)
        return connection if self.tls is None else TlsTransport(connection, self.tls, self.clock)
