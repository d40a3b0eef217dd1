"""CreateDelegationToken: a credential for workers of the caller, or, with the right to, of another user."""

from __future__ import annotations

from barnabas.broker.authorize import authorized
from barnabas.broker.context import RequestContext
from barnabas.broker.delegation_tokens import requests_allowed
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.security.principal import ANONYMOUS, USER, Principal
from barnabas.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse


async def handle(
    broker: BrokerParts, request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    requester = owner = context.principal
    if request.owner_principal_name:
        if request.owner_principal_type is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "An owner has a type.")  # as Apache's answers it
        owner = Principal(request.owner_principal_type, request.owner_principal_name)
    renewers = [Principal(renewer.principal_type, renewer.principal_name) for renewer in request.renewers]
    try:
        if not requests_allowed(broker.listeners, context):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        if owner != requester and not authorized(context, Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        if any(renewer.principal_type != USER for renewer in renewers):
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        token, mac = await broker.delegation_tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    except KafkaError as error:
        return _refused(error, owner, requester, context)
    response = _response(owner, requester, context)
    response.issue_timestamp_ms = token.issue_timestamp
    response.expiry_timestamp_ms = token.expiry_timestamp
    response.max_timestamp_ms = token.max_timestamp
    response.token_id = token.token_id
    response.hmac = mac
    return response


def _response(owner: Principal, requester: Principal, context: RequestContext) -> CreateDelegationTokenResponse:
    response = CreateDelegationTokenResponse(principal_type=owner.principal_type, principal_name=owner.name)
    if context.version >= 3:
        response.token_requester_principal_type, response.token_requester_principal_name = requester
    return response


def _refused(
    error: KafkaError, owner: Principal, requester: Principal, context: RequestContext
) -> CreateDelegationTokenResponse:
    response = _response(owner, requester, context)
    response.error_code = error.code
    response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = -1
    return response


def failed(
    request: CreateDelegationTokenRequest, error: KafkaError, context: RequestContext
) -> CreateDelegationTokenResponse:
    return _refused(error, ANONYMOUS, ANONYMOUS, context)
