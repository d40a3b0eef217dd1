"""UpdateMetadata: the controller tells every broker who lives and who leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.authorize import require_cluster
from barnabas.broker.context import RequestContext
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode
from barnabas.replica.metadata_cache import MetadataUpdate
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker


async def handle(broker: Broker, request: UpdateMetadataRequest, context: RequestContext) -> UpdateMetadataResponse:
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
        # Where another request came between two slices, what it said is not in this update: it is made anew.
        if update.before is broker.metadata.image and not broker.is_stale(
            request.broker_epoch, request.is_k_raft_controller
        ):
            return UpdateMetadataResponse(error_code=broker.update_metadata(request, update))
