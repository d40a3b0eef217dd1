"""ApiVersions: which requests this broker answers, in which versions."""

from __future__ import annotations

import re
from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_CLIENT_INFORMATION: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


async def handle(broker: BrokerParts, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.version >= 3:
        for text in (request.client_software_name, request.client_software_version):
            if _CLIENT_INFORMATION.match(text) is None:
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=broker.api_versions,
        finalized_features_epoch=broker.features_epoch,
        zk_migration_ready=broker.migration is not None,
    )
