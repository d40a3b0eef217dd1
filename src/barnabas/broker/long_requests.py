"""Requests and answers that may be long: how large they may be, and how they are served in slices.

A request of a megabyte may have a hundred thousand elements. It is decoded, answered and its answer encoded in slices,
between which the loop does its other work (`barnabas.runtime.turns`). It may have at most `ELEMENTS` elements, whatever
its size: an element, decoded and answered, takes a few hundred bytes of objects, and some steps are not sliced.
(Kafka's own bound, since 4.4, is a million in each array.) Requests between brokers have an entry for each partition of
the cluster, and may have ten times as many. The memory of all long requests together is bounded, too: large ones are
answered one after the other (`Turns`), and wait as bytes until then. The controller's requests do not wait for others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from typing import Any, Final

from barnabas.broker.context import BETWEEN_BROKERS, Disconnect, Pending, RequestContext, is_answer
from barnabas.broker.parts import BrokerParts
from barnabas.runtime.doors import Bytes
from barnabas.runtime.turns import Turns
from barnabas.wire.api import ApiKey
from barnabas.wire.errors import WireError
from barnabas.wire.frames import encode_response_in_turns

logger = logging.getLogger(__name__)

LONG_BYTES: Final = 2 * 1024
"""Shorter requests are decoded at once: they have some 680 elements at most, which takes a millisecond."""
ELEMENTS: Final = 100_000
ELEMENTS_BETWEEN_BROKERS: Final = 1_000_000
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""The limit without records; the fetch's own limit bounds those."""

ANSWERED_IN_KIND: Final = frozenset(
    (
        *(ApiKey.API_VERSIONS, ApiKey.HEARTBEAT, ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP, ApiKey.FIND_COORDINATOR),
        *(ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH),
        *(ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN),
    )
)
"""Their answers are about as long as the requests: the answer to a short request is written at once."""


class LongRequests:
    """The turns that the long requests of one broker share."""

    __slots__ = ("turns",)

    def __init__(self) -> None:
        self.turns = Turns()

    def turn(self, context: RequestContext) -> asyncio.Future[None]:
        urgent = context.header.api_key in BETWEEN_BROKERS
        return self.turns.next(context, urgent=urgent, passing=not urgent)

    async def serve(
        self, broker: BrokerParts, context: RequestContext, decoding: Generator[None, None, Any]
    ) -> list[Bytes]:
        """Decodes the rest of a partly decoded request, and answers it."""
        context.route.response_class.compile_encoder_in_turns(context.version)
        self.turns.begin(context)
        try:
            while True:
                await self.turn(context)
                try:
                    next(decoding)
                except StopIteration as end:
                    context.request = end.value[0]
                    break
                except WireError as error:
                    raise Disconnect(f"its {context.api_name} request cannot be read ({error})") from None
            return await self.answer(context, context.route.handle(broker, context.request, context), long=True)
        finally:
            self.turns.end(context)

    async def answer(self, context: RequestContext, handled: Any, *, long: bool = False) -> list[Bytes]:
        """The parts of the answer's frame; empty if there is no answer. A `long` request's answer may be long too."""
        self.turns.begin(context)
        try:
            try:
                response = handled if is_answer(handled, context.route.response_class) else await handled
                if type(response) is Pending:
                    response = await response.answered()
            except Exception as error:
                response = context.connection.failed(context, error)
            context.connection.charge(context, response)
            if response is None:
                return []
            if type(response) is bytes:
                return [response]
            if long:  # counting its errors goes over all of it
                await self.turn(context)
            context.connection.told(context, response)
            return await self._encoded(context, response)
        finally:
            self.turns.end(context)

    async def _encoded(self, context: RequestContext, response: Any) -> list[Bytes]:
        encoding = encode_response_in_turns(response, context.version, context.header.correlation_id)
        try:
            while True:
                written = next(encoding)
                if written > ANSWER_BYTES_MAX:
                    raise Disconnect(f"the answer to its {context.api_name} is longer than {ANSWER_BYTES_MAX} bytes")
                await self.turn(context)
        except StopIteration as end:
            parts: list[Bytes] = end.value
            return parts
        except WireError as failure:
            logger.exception("cannot encode a response to %s", context.api_name)
            raise Disconnect(f"the response to its {context.api_name} cannot be written ({failure})") from failure


def elements_allowed(api_key: int) -> int:
    """How many elements, in all its arrays together, a request may have."""
    return ELEMENTS_BETWEEN_BROKERS if api_key in BETWEEN_BROKERS else ELEMENTS
