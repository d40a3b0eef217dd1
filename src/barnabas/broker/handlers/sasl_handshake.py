"""SaslHandshake that comes too late, or on a listener without SASL; else `SaslServerAuthenticator` answers."""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


async def handle(broker: BrokerParts, request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
