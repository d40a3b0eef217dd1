"""Forwards requests that a KRaft controller decides, in the name of the client that sent them to this broker (KIP-590).

Clients do not reach a KRaft controller. The broker puts their request into an Envelope, with their principal and
address, and passes the answer back unchanged (``ForwardingManager``). While a broker is the controller nothing is
forwarded: clients learn from the metadata which broker it is.
"""

from __future__ import annotations

from copy import copy
from functools import wraps
from ipaddress import ip_address
from typing import Any, Final

from barnabas.broker.configs import ConfigResourceType
from barnabas.broker.context import Disconnect, Handle, RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.api import ApiKey
from barnabas.wire.frames import decode_response, encode_request
from barnabas.wire.messages.default_principal_data import DefaultPrincipalData
from barnabas.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

FORWARDED: Final = frozenset(
    {
        *(ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.ELECT_LEADERS),
        *(ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.UPDATE_FEATURES),
        *(ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.LIST_PARTITION_REASSIGNMENTS),
        *(ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS),
        *(ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN),
    }
)
"""The requests that only a KRaft controller answers, once there is one (``ApiKeys.forwardable``)."""
_CONFIGURATION: Final = (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)
_PRINCIPAL_VERSION: Final = 0


def forwarding(handle: Handle) -> Handle:
    """`handle`, except that a KRaft controller answers if there is one."""

    @wraps(handle)
    async def answer(broker: BrokerParts, request: Any, context: RequestContext) -> Any:
        if not broker.metadata.image.is_kraft_controller:
            return await handle(broker, request, context)
        if context.header.api_key in _CONFIGURATION:
            return await _configuration(handle, broker, request, context)
        return await _by_controller(broker, request, context)

    return answer


async def _configuration(handle: Handle, broker: BrokerParts, request: Any, context: RequestContext) -> Any:
    """Does the part that only this broker can do: it sets its loggers and validates its own configuration. The
    controller knows neither (``ConfigAdminManager.preprocess``)."""
    loggers, own = (
        [resource for resource in request.resources if resource.resource_type == resource_type]
        for resource_type in (ConfigResourceType.BROKER_LOGGER, ConfigResourceType.BROKER)
    )
    if not loggers and not own:
        return await _by_controller(broker, request, context)
    tried = copy(request)
    tried.resources, tried.validate_only = own, True
    answer = await handle(broker, tried, context)
    answer.responses = [response for response in answer.responses if response.error_code]
    tried.resources, tried.validate_only = loggers, request.validate_only
    answer.responses += (await handle(broker, tried, context)).responses
    answered = {(response.resource_type, response.resource_name) for response in answer.responses}
    asked = copy(request)
    asked.resources = [
        resource for resource in request.resources if (resource.resource_type, resource.resource_name) not in answered
    ]
    if asked.resources:
        answer.responses += (await _by_controller(broker, asked, context)).responses
    return answer


async def _by_controller(broker: BrokerParts, request: Any, context: RequestContext) -> Any:
    """Raises `KafkaError`, and `Disconnect` when the client has to learn the controller's versions anew."""
    header, connection = context.header, context.connection
    frame = b"".join(encode_request(request, header.api_version, header.correlation_id, header.client_id))
    principal = DefaultPrincipalData(*context.principal, connection.token_authenticated)
    envelope = EnvelopeRequest(
        frame[4:],  # without its size
        _PRINCIPAL_VERSION.to_bytes(2, "big") + principal.encode(_PRINCIPAL_VERSION),
        ip_address(connection.peer_host).packed,
    )
    timeout_ms = broker.config.number("request.timeout.ms")
    answer: EnvelopeResponse = await broker.forwarding_channel.send(envelope, timeout_ms)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        raise Disconnect
    if answer.error_code or answer.response_data is None:
        # A failed envelope is this broker's fault, such as a missing right; not the client's.
        code = ErrorCode(answer.error_code).name
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The controller refused the broker's envelope: {code}.")
    _, response = decode_response(context.route.response_class, header.api_version, answer.response_data)
    return response
