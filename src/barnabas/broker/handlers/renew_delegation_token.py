"""RenewDelegationToken: the owner or a renewer prolongs a token, up to its maximum lifetime."""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.delegation_tokens import requests_allowed
from barnabas.broker.parts import BrokerParts
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


async def handle(
    broker: BrokerParts, request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    try:
        if not requests_allowed(broker.listeners, context):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        ends = await broker.delegation_tokens.renew(context.principal, bytes(request.hmac), request.renew_period_ms)
    except KafkaError as error:
        return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=ends)
