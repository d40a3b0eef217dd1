"""DescribeDelegationToken: the tokens of the caller, and those of others that it has the right to see."""

from __future__ import annotations

from barnabas.broker.authorize import authorized
from barnabas.broker.context import RequestContext
from barnabas.broker.delegation_tokens import concerns, requests_allowed
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.security.principal import Principal
from barnabas.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from barnabas.zk.kafka.delegation_tokens import TokenInformation

Described = DescribeDelegationTokenResponse.DescribedDelegationToken
Renewer = DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer


async def handle(
    broker: BrokerParts, request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    if not requests_allowed(broker.listeners, context):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not broker.delegation_tokens.enabled:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {str(Principal(owner.principal_type, owner.principal_name)) for owner in request.owners}
        if not owners:
            return DescribeDelegationTokenResponse()

    def wanted(token: TokenInformation) -> bool:
        if owners is not None and not concerns(token, owners):
            return False
        return (
            concerns(token, {str(context.principal)})
            or authorized(context, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
            or authorized(context, Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
        )

    tokens = []
    for token in broker.delegation_tokens.all():
        if wanted(token):
            tokens.append(_described(token, broker.delegation_tokens.hmac(token.token_id), context))
        if context.due(1 + len(token.renewers)):
            await context.turn()
    return DescribeDelegationTokenResponse(tokens=tokens)


def _described(token: TokenInformation, mac: bytes, context: RequestContext) -> Described:
    owner, requester = Principal.parse(token.owner), Principal.parse(token.token_requester)
    described = Described(
        principal_type=owner.principal_type,
        principal_name=owner.name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiry_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=mac,
        renewers=[Renewer(*Principal.parse(renewer)) for renewer in token.renewers],
    )
    if context.version >= 3:
        described.token_requester_principal_type, described.token_requester_principal_name = requester
    return described
