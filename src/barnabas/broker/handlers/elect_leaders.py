"""ElectLeaders: the controller elects preferred leaders, or unclean ones where asked (KIP-460)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.authorize import Operation, require_cluster
from barnabas.broker.context import RequestContext
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker


async def handle(broker: Broker, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    require_cluster(context, Operation.ALTER)
    return await broker.controller.elect_leaders(request)
