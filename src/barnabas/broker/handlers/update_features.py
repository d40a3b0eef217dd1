"""UpdateFeatures: changes finalized features (KIP-584). Only the controller answers it."""

from __future__ import annotations

from barnabas.broker.authorize import authorized_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.model.error_texts import text_of
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


async def handle(
    broker: BrokerParts, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    if not authorized_cluster(context, Operation.ALTER):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, text_of(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if not broker.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, text_of(ErrorCode.NOT_CONTROLLER))
    return await broker.controller.update_features(request, context.header.api_version)
