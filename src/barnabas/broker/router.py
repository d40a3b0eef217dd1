"""From an API key to the handler that answers it, and to the response that says a handler failed.

A handler is a module of `barnabas.broker.handlers` with ``async def handle(broker, request, context)``, where `broker`
is its `BrokerParts`; a plain function may return the response itself. Where the response has no error code of its own
at the top, the module also makes the answer to a failed request (``failed(request, error, context)``). ApiVersions
offers exactly the requests in this table.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from barnabas.broker.context import RequestContext, Route
from barnabas.broker.forwarding import FORWARDED, forwarding
from barnabas.broker.repeated_fetch import RepeatedFetches
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.api import SUPPORTED, ApiKey
from barnabas.wire.frames import request_class, response_class
from barnabas.wire.messages.api_versions import ApiVersionsResponse

_UNHANDLED: Final = (ApiKey.ENVELOPE, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)
HANDLED: Final[tuple[ApiKey, ...]] = tuple(key for key in SUPPORTED if key not in _UNHANDLED)
"""The requests that have a handler: ``handlers/<the key's name in lower case>.py``."""


class Router:
    """The table. `routes` is looked up by the number in the request's header."""

    __slots__ = ("_unsupported", "api_versions", "repeated_fetches", "routes")

    def __init__(self) -> None:
        self.routes: dict[int, Route] = {}
        for key in HANDLED:
            module = importlib.import_module(f"barnabas.broker.handlers.{key.name.lower()}")
            min_version, max_version = SUPPORTED[key]
            request = request_class(key)
            name: str = request.__name__.removesuffix("Request")
            self.routes[int(key)] = Route(
                name,
                min_version,
                max_version,
                request,
                forwarding(module.handle) if key in FORWARDED else module.handle,
                response_class(key),
                getattr(module, "failed", None),
                getattr(module, "PIPELINED", False),
            )
        self.api_versions = [
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=route.min_version, max_version=route.max_version)
            for key, route in sorted(self.routes.items())
        ]
        self.repeated_fetches = RepeatedFetches(self.routes[int(ApiKey.FETCH)])
        self._unsupported: Any = None

    def unsupported_version(self) -> Any:
        """The answer to ApiVersions in a version that is not offered; it is written in version 0 (KIP-511)."""
        if self._unsupported is None:
            key = int(ApiKey.API_VERSIONS)
            route = self.routes[key]
            self._unsupported = ApiVersionsResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                api_keys=[
                    ApiVersionsResponse.ApiVersion(
                        api_key=key, min_version=route.min_version, max_version=route.max_version
                    )
                ],
            )
        return self._unsupported


def failure_response(context: RequestContext, error: KafkaError) -> Any:
    """The response that carries `error`, or None if no such response exists."""
    route = context.route
    if route.failed is not None:
        return route.failed(context.request, error, context)
    response = route.response_class()
    if not hasattr(response, "error_code"):
        return None
    response.error_code = error.code
    if hasattr(response, "error_message"):
        response.error_message = error.message
    return response
