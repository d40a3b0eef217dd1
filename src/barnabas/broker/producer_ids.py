"""Producer ids for idempotent producers, taken from blocks that the controller gives out (``RPCProducerIdManager``).

With ``inter.broker.protocol.version`` below 3.0 each broker takes its blocks from ZooKeeper (``ZkProducerIdManager``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from barnabas.broker.controller_channel import ControllerChannel
from barnabas.controller.producer_ids import new_producer_id_block
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znodes import ProducerIdsBlock
from barnabas.zk.protocol.errors import ZooKeeperError

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_MS: Final = 60_000
_PRODUCER_IDS: Final = 1 << 63

FetchBlock = Callable[[], Awaitable[ProducerIdsBlock]]
"""Gets the next block. Raises a retriable `KafkaError` if there is none now."""


def ids_from_controller(broker_id: int, broker_epoch: Callable[[], int], channel: ControllerChannel) -> FetchBlock:
    async def fetch() -> ProducerIdsBlock:
        response = await channel.send(
            AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch()), REQUEST_TIMEOUT_MS
        )
        if response.error_code:
            logger.warning(
                "[broker %d] the controller gives no producer ids: %s", broker_id, ErrorCode(response.error_code).name
            )
            raise _not_now("from the controller")
        return ProducerIdsBlock(broker_id, response.producer_id_start, response.producer_id_len)

    return fetch


def ids_from_zookeeper(broker_id: int, zk: KafkaZkClient) -> FetchBlock:
    async def fetch() -> ProducerIdsBlock:
        try:
            return await new_producer_id_block(zk, broker_id)
        except ZooKeeperError as error:
            logger.warning("[broker %d] ZooKeeper gives no producer ids: %s", broker_id, error)
            raise _not_now("from ZooKeeper") from error

    return fetch


def _not_now(whence: str) -> KafkaError:
    return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"Producer ID block could not be fetched {whence}")


class ProducerIds:
    """Gives each id once. When the last id of a block is used, the next block is fetched; all who wait share one
    request.

    A block that is empty, or does not begin after the last one, is refused (``RPCProducerIdManager``).
    """

    def __init__(self, fetch_block: FetchBlock) -> None:
        self._fetch_block = fetch_block
        self._next = 0
        self._end = 0
        self._fetching: asyncio.Future[None] | None = None

    async def next(self) -> int:
        """Returns the next id. Raises a retriable error if the controller gives no block."""
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
            block = await self._fetch_block()
            if block.first_producer_id < self._end or not 0 < block.size <= _PRODUCER_IDS - block.first_producer_id:
                # An empty block would be asked for again at once; ids given out once belong to other producers.
                logger.error("a block of producer ids is not taken: %s, after ids below %d", block, self._end)
                raise _not_now("that begins behind the last one")
        finally:
            self._fetching = None
            fetching.set_result(None)
        self._next = block.first_producer_id
        self._end = block.last_producer_id + 1
