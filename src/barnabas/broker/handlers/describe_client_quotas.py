"""DescribeClientQuotas: the quotas of users, clients and addresses that a filter matches."""

from __future__ import annotations

from barnabas.broker import client_quotas
from barnabas.broker.authorize import authorized_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse


async def handle(
    broker: BrokerParts, request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    if not authorized_cluster(context, Operation.DESCRIBE_CONFIGS):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    components = client_quotas.components_of(
        (component.entity_type, component.match_type, component.match) for component in request.components
    )
    found = await client_quotas.describe(broker.zk, components, strict=request.strict)
    return DescribeClientQuotasResponse(
        error_message="",
        entries=[
            DescribeClientQuotasResponse.EntryData(
                [DescribeClientQuotasResponse.EntityData(kind, name) for kind, name in entity.items()],
                [DescribeClientQuotasResponse.ValueData(key, value) for key, value in quotas.items()],
            )
            for entity, quotas in found
        ],
    )


def failed(
    request: DescribeClientQuotasRequest, error: KafkaError, context: RequestContext
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
