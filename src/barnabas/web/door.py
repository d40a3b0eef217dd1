"""The admin endpoint's protection, configured like that of any other listener of the broker.

The listener's name is ``ADMIN``: ``listener.security.protocol.map`` gives its protocol, by default PLAINTEXT, and
``listener.name.admin.`` is the prefix of the keys for its stores, mechanisms and users. Over TLS a certificate may
identify the user. With SASL the HTTP request identifies the user: a name and password (``Basic``, RFC 7617) go through
the same PLAIN or SCRAM exchange as a client's, a token (``Bearer``, RFC 6750) through OAUTHBEARER's. ACLs apply to an
identified user: reading needs DESCRIBE on the cluster, configurations DESCRIBE_CONFIGS, a topic's records READ on the
topic.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.broker.authorize import audit
from barnabas.broker.listener_gate import ListenerGate
from barnabas.broker.listeners import security_protocol_of
from barnabas.broker.server import Broker
from barnabas.model.acl import CLUSTER_NAME, Operation, ResourceType
from barnabas.model.cluster import Endpoint
from barnabas.model.errors import ConfigError
from barnabas.runtime import SparingLog
from barnabas.runtime.sparing_log import VARYING
from barnabas.security.listener_config import listener_prefix
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.sasl import oauthbearer, plain
from barnabas.security.sasl.exchange import SaslMechanism, SaslRefused
from barnabas.security.sasl.login import SaslLogin, Tokens
from barnabas.security.sasl.scram_credential import MECHANISMS as SCRAM
from barnabas.security.tls.names import subject_of
from barnabas.security.tls.principal_mapping import NoMatchingRule

logger = logging.getLogger(__name__)

LISTENER: Final = "ADMIN"
KNOWN_FOR_S: Final = 60.0
"""How long a connection's successful login stays valid before it is checked again."""
_TAKEN: Final = (plain.MECHANISM, *SCRAM, oauthbearer.MECHANISM)

Right = tuple[Operation, ResourceType, str]
DESCRIBE_CLUSTER: Final = (Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
DESCRIBE_CONFIGS: Final = (Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)


class Onlooker(NamedTuple):
    """The user of a request, and its host; the user has a name if the listener demands one."""

    principal: Principal
    host: str


class AdminDoor:
    """The protection of the listener. Raises `ConfigError` for a configuration that it does not support."""

    def __init__(self, broker: Broker, host: str, port: int) -> None:
        config = broker.config
        protocol = security_protocol_of(config, LISTENER)
        prefix = listener_prefix(LISTENER)
        if any(endpoint.listener == LISTENER for endpoint in broker.listeners.bound):
            raise ConfigError(
                f"listeners has {LISTENER}, which is the name of barnabas.admin.listener: choose another."
            )
        guards = next((key for key in sorted(config.overrides) if key.startswith(prefix)), None)
        if protocol == "PLAINTEXT" and guards is not None:
            raise ConfigError(
                f"{guards} is set, but listener.security.protocol.map has no protocol for {LISTENER}: "
                "the endpoint would be unprotected. Add ADMIN:SSL or ADMIN:SASL_SSL."
            )
        self._broker = broker
        self.gate = ListenerGate(broker, broker.scram_users, Endpoint(LISTENER, host, port, protocol), config)
        for name in self.gate.mechanisms:
            if name not in _TAKEN:
                raise ConfigError(
                    f"sasl.enabled.mechanisms has {name} for {LISTENER}: HTTP carries a password or a token, "
                    f"so it allows {', '.join(_TAKEN)}. Set {prefix}sasl.enabled.mechanisms."
                )
        self._open_at = 0.0
        self._refusals = SparingLog(logger, logging.INFO)

    async def startup(self) -> None:
        """Loads the users. It must be awaited before the endpoint accepts connections."""
        if self.gate.mechanisms:
            await self._broker.scram_users.startup()
        self._broker.socket_server.gates[LISTENER] = self.gate  # so that its stores change with the others'

    @property
    def scheme(self) -> str:
        return "http" if self.gate.tls is None else "https"

    @property
    def asks(self) -> bool:
        """Whether a request must identify its user."""
        return bool(self.gate.mechanisms)

    @property
    def challenge(self) -> str:
        """The value of ``WWW-Authenticate``."""
        by_token = [*self.gate.mechanisms] == [oauthbearer.MECHANISM]
        return "Bearer" if by_token else 'Basic realm="barnabas", charset="UTF-8"'

    def of_certificate(self, certificate: bytes | None) -> Principal:
        """The user of a TLS certificate. Raises `ValueError` if the certificate names no user."""
        if certificate is None or self.asks:
            return ANONYMOUS
        try:
            return Principal("User", self.gate.principal_mapper.name_of(subject_of(certificate)))
        except NoMatchingRule as error:
            raise ValueError(str(error)) from None

    async def log_in(self, authorization: str, peer: str) -> Principal | None:
        """The user that the value of an ``Authorization`` header proves; None if it proves none.

        After a failed login the next one has to wait: so guessing takes long, and costs the broker little.
        """
        clock = asyncio.get_running_loop().time
        while (wait_s := self._open_at - clock()) > 0:  # noqa: ASYNC110 (who was first may have failed meanwhile)
            await asyncio.sleep(wait_s)
        reason = "it has neither a name and password nor a token"
        for mechanism, tokens in self._attempts(authorization):
            server = mechanism.begin()
            try:
                answer = b""
                while server.authenticated is None:
                    answer = await server.evaluate(tokens.send(answer) if answer else next(tokens))
            except (SaslRefused, StopIteration) as refusal:
                reason = getattr(refusal, "reason", "the exchange was incomplete")
            else:
                return server.authenticated.principal
        self._open_at = clock() + self.gate.failed_authentication_delay_ms / 1000
        self._refusals.log(
            VARYING.sub("", reason),
            "[broker %d] %s cannot log in at %s: %s",
            *(self._broker.broker_id, peer, LISTENER, reason),
        )
        return None

    def _attempts(self, authorization: str) -> Iterator[tuple[SaslMechanism, Tokens]]:
        scheme, _, shown = authorization.partition(" ")
        kind = scheme.lower()
        for name, mechanism in self.gate.mechanisms.items():
            if name == oauthbearer.MECHANISM:
                if kind == "bearer":
                    yield mechanism, oauthbearer.client_tokens(shown.strip(), {})
            elif kind == "basic":
                user, password = _name_and_password(shown)
                yield mechanism, SaslLogin(name, user, password).tokens(self._broker.runtime.entropy.token(20).hex())

    @property
    def knows_readers(self) -> bool:
        return self.gate.authenticates

    def allows(self, reader: Onlooker, right: Right, asked: str) -> bool:
        """Whether ACLs give `reader` the `right`. A listener that does not identify its readers allows everything."""
        if not self.gate.authenticates:
            return True
        operation, kind, name = right
        allowed = self._broker.authorizer.allows(reader.principal, reader.host, operation, kind, name)
        if not allowed:
            resource = f"{kind.words}:LITERAL:{name}"
            audit.info(
                "Principal = %s is Denied Operation = %s from host = %s on resource = %s for request = %s",
                *(reader.principal, operation.words, reader.host, resource, asked),
            )
        return allowed


def _name_and_password(shown: str) -> tuple[str, str]:
    """Name and password of a ``Basic`` header; both empty if they cannot be decoded."""
    try:
        user, _, password = base64.b64decode(shown.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return "", ""
    return user, password
