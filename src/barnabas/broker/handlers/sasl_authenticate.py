"""SaslAuthenticate where nothing is to be proved (any more); elsewhere `SaslServerAuthenticator` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.context import RequestContext
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker


async def handle(broker: Broker, request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
