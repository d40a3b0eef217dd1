"""UpdateMetadata: the controller tells every broker the live brokers and the leaders."""

from __future__ import annotations

from barnabas.broker.authorize import require_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode
from barnabas.replica.metadata_cache import MetadataUpdate
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


async def handle(
    broker: BrokerParts, request: UpdateMetadataRequest, context: RequestContext
) -> UpdateMetadataResponse:
    require_cluster(context, Operation.CLUSTER_ACTION)
    while True:
        if broker.is_stale(request.broker_epoch, request.is_k_raft_controller):
            return UpdateMetadataResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        updating = broker.metadata.updating(request)
        try:
            while True:
                next(updating)
                await context.turn()
        except StopIteration as end:
            update: MetadataUpdate = end.value
        # If another request came between two slices, this update lacks its changes: it is made anew.
        if update.before is broker.metadata.image and not broker.is_stale(
            request.broker_epoch, request.is_k_raft_controller
        ):
            return UpdateMetadataResponse(error_code=_take_up(broker, request, update))


def _take_up(broker: BrokerParts, request: UpdateMetadataRequest, update: MetadataUpdate) -> ErrorCode:
    code = broker.replicas.maybe_update_metadata_cache(request, update)
    if not code:
        broker.topics.changed.notify()
        broker.coordinators.partitions_deleted(update.deleted)
    return code
