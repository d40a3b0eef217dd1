"""Requests and answers that may be long: how large they may be, and how they are served in slices.

A request of a megabyte may have a hundred thousand elements. It is decoded, answered and its answer encoded in slices
between which the loop does what else there is to do (`barnabas.runtime.turns`). It may have no more than `ELEMENTS`,
whatever its size: an element, decoded and answered, takes a few hundred bytes of objects, and here and there one step
goes over all of them. (Kafka's own bound, since 4.4, is a million in each array.) Requests of brokers to each other
have an entry for each partition of the cluster, and ten times the room. Of requests with more than `HUGE` elements at
most `HUGE_AT_A_TIME` are under way, and others wait as bytes, but not behind one that takes longer than `HUGE_S`. The
controller's requests wait for nobody else's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator
from typing import Any, Final

from barnabas.broker.context import BETWEEN_BROKERS, Disconnect, Pending, RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.runtime.doors import Bytes
from barnabas.runtime.turns import Lane, Turns
from barnabas.wire.api import ApiKey
from barnabas.wire.errors import WireError
from barnabas.wire.frames import encode_response_in_turns
from barnabas.wire.source import TURN

logger = logging.getLogger(__name__)

LONG_BYTES: Final = 8 * 1024
"""Shorter requests are decoded in one go: they have some 2,700 elements at most, which takes a few milliseconds."""
ELEMENTS: Final = 100_000
ELEMENTS_BETWEEN_BROKERS: Final = 1_000_000
HUGE: Final = 10_000
HUGE_AT_A_TIME: Final = 1
HUGE_S: Final = 5.0
"""How long one keeps others from beginning: it may be a fetch that waits for minutes."""
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Without records, which are read into an answer within the request's own limit."""

ANSWERED_IN_KIND: Final = frozenset(
    (
        *(ApiKey.API_VERSIONS, ApiKey.HEARTBEAT, ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP, ApiKey.FIND_COORDINATOR),
        *(ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH),
        *(ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN),
    )
)
"""Their answers are about as long as they are: one to a short request is written in one go."""


class _Place:
    """A place in a lane, for `HUGE_S` at most."""

    __slots__ = ("_lane", "_timer")

    def __init__(self, lane: Lane) -> None:
        self._lane: Lane | None = lane
        self._timer = asyncio.get_running_loop().call_later(HUGE_S, self.leave)

    def leave(self) -> None:
        lane, self._lane = self._lane, None
        if lane is not None:
            self._timer.cancel()
            lane.leave()


class LongRequests:
    """The turns and lanes that the long requests of one broker share."""

    __slots__ = ("_huge", "turns")

    def __init__(self) -> None:
        self.turns = Turns()
        self._huge = Lane(HUGE_AT_A_TIME)

    async def serve(
        self, broker: BrokerParts, context: RequestContext, decoding: Generator[None, None, Any]
    ) -> list[Bytes]:
        """Decodes the rest of a request that has begun to be decoded, and has it answered."""
        context.route.response_class.compile_encoder_in_turns(context.version)
        urgent = context.header.api_key in BETWEEN_BROKERS
        place: _Place | None = None
        try:
            elements = TURN
            while True:
                await self.turns.next(urgent=urgent, passing=not urgent)
                try:
                    next(decoding)
                except StopIteration as end:
                    context.request = end.value[0]
                    break
                except WireError as error:
                    raise Disconnect(f"its {context.api_name} request cannot be read ({error})") from None
                elements += TURN
                if elements > HUGE and place is None and not urgent:
                    await self._huge.enter()
                    place = _Place(self._huge)
            return await self.answer(context, context.route.handle(broker, context.request, context), long=True)
        finally:
            if place is not None:
                place.leave()

    async def answer(
        self, context: RequestContext, handled: Coroutine[Any, Any, Any], *, long: bool = False
    ) -> list[Bytes]:
        """The parts of the answer's frame; empty where there is no answer. That to a `long` request may be so, too."""
        try:
            response = await handled
            if type(response) is Pending:
                response = await response.answered()
        except Exception as error:
            response = context.connection.failed(context, error)
        context.connection.charge(context, response)
        if response is None:
            return []
        if type(response) is bytes:
            return [response]
        urgent = context.header.api_key in BETWEEN_BROKERS
        if long:  # whoever counts its errors goes over all of it
            await self.turns.next(urgent=urgent, passing=not urgent)
        context.connection.told(context, response)
        encoding = encode_response_in_turns(response, context.version, context.header.correlation_id)
        try:
            while True:
                written = next(encoding)
                if written > ANSWER_BYTES_MAX:
                    raise Disconnect(f"the answer to its {context.api_name} is longer than {ANSWER_BYTES_MAX} bytes")
                await self.turns.next(urgent=urgent, passing=not urgent)
        except StopIteration as end:
            parts: list[Bytes] = end.value
            return parts
        except WireError as failure:
            logger.exception("cannot encode a response to %s", context.api_name)
            raise Disconnect(f"the response to its {context.api_name} cannot be written ({failure})") from failure


def elements_allowed(api_key: int) -> int:
    """How many elements, in all its arrays together, a request may have."""
    return ELEMENTS_BETWEEN_BROKERS if api_key in BETWEEN_BROKERS else ELEMENTS
