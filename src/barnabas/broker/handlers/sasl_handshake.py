"""SaslHandshake where it comes too late, or on a listener without SASL; elsewhere `SaslServerAuthenticator` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.context import RequestContext
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker


async def handle(broker: Broker, request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
