"""ExpireDelegationToken: the owner or a renewer lets a token expire sooner, or at once."""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.delegation_tokens import requests_allowed
from barnabas.broker.parts import BrokerParts
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


async def handle(
    broker: BrokerParts, request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    try:
        if not requests_allowed(broker.listeners, context):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        ends = await broker.delegation_tokens.expire(
            context.principal, bytes(request.hmac), request.expiry_time_period_ms
        )
    except KafkaError as error:
        return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=ends)
