"""SaslAuthenticate on a connection that needs no authentication (any more); else `SaslServerAuthenticator` answers."""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


async def handle(
    broker: BrokerParts, request: SaslAuthenticateRequest, context: RequestContext
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
