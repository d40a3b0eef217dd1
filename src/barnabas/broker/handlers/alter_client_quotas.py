"""AlterClientQuotas: sets and removes quotas, entity by entity."""

from __future__ import annotations

from barnabas.broker import client_quotas
from barnabas.broker.authorize import authorized_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.model.error_texts import text_of
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse


async def handle(
    broker: BrokerParts, request: AlterClientQuotasRequest, context: RequestContext
) -> AlterClientQuotasResponse:
    if not authorized_cluster(context, Operation.ALTER_CONFIGS):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, text_of(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    entries = []
    for entry in request.entries:
        outcome: KafkaError | None = None
        try:
            await client_quotas.alter(
                broker.zk,
                broker.runtime.network,
                {part.entity_type: part.entity_name for part in entry.entity},
                [(op.key, None if op.remove else op.value) for op in entry.ops],
                validate_only=request.validate_only,
            )
        except KafkaError as error:
            outcome = error.with_traceback(None)
        entries.append(_answered(entry, outcome))
        if context.due():
            await context.turn()
    return AlterClientQuotasResponse(entries=entries)


def _answered(
    entry: AlterClientQuotasRequest.EntryData, error: KafkaError | None
) -> AlterClientQuotasResponse.EntryData:
    return AlterClientQuotasResponse.EntryData(
        0 if error is None else error.code,
        None if error is None else error.message,
        [AlterClientQuotasResponse.EntityData(part.entity_type, part.entity_name) for part in entry.entity],
    )


def failed(request: AlterClientQuotasRequest, error: KafkaError, context: RequestContext) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=[_answered(entry, error) for entry in request.entries])
