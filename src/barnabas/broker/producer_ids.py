"""Producer ids for idempotent producers, taken from blocks that the controller gives out (``RPCProducerIdManager``)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from barnabas.broker.controller_channel import ControllerChannel
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_MS: Final = 60_000


class ProducerIds:
    """Gives each id once. The next block is fetched when the last id of one is gone; all who wait share one request."""

    def __init__(self, broker_id: int, broker_epoch: Callable[[], int], channel: ControllerChannel) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._next = 0
        self._end = 0
        self._fetching: asyncio.Future[None] | None = None

    async def next(self) -> int:
        """Raises a retriable error where the controller gives no block."""
        while self._next >= self._end:
            if self._fetching is not None:
                await asyncio.shield(self._fetching)
                continue
            await self._fetch()
        given = self._next
        self._next += 1
        return given

    async def _fetch(self) -> None:
        fetching: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._fetching = fetching
        try:
            response = await self._channel.send(
                AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch()),
                REQUEST_TIMEOUT_MS,
            )
        finally:
            self._fetching = None
            fetching.set_result(None)
        if response.error_code:
            logger.warning(
                "[broker %d] the controller gives no producer ids: %s",
                self._broker_id,
                ErrorCode(response.error_code).name,
            )
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "Producer ID block could not be fetched from the controller"
            )
        self._next = response.producer_id_start
        self._end = response.producer_id_start + response.producer_id_len
