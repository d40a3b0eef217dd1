"""Producer ids for the whole cluster: each block is given out once (KIP-730)."""

from __future__ import annotations

from typing import Final

from barnabas.controller import events
from barnabas.controller.reign import Reign
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znode_json import ZNodeError
from barnabas.zk.kafka.znodes import ProducerIdBlockZNode, ProducerIdsBlock

PRODUCER_ID_BLOCK_SIZE: Final = 1_000
PRODUCER_ID_MAX: Final = (1 << 63) - 1


async def process_allocate_producer_ids(reign: Reign, event: events.AllocateProducerIds) -> ProducerIdsBlock:
    registered_epoch = reign.context.broker_epoch(event.broker_id)
    if registered_epoch is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {event.broker_id} is not registered.")
    if registered_epoch != event.broker_epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    return await new_producer_id_block(reign.zk, event.broker_id)


async def new_producer_id_block(zk: KafkaZkClient, broker_id: int) -> ProducerIdsBlock:
    """The block after the last one that any broker took (``ZkProducerIdManager.getNewProducerIdBlock``).

    Raises `KafkaError` if that is not known.
    """
    while True:
        data, version = await zk.get_data_and_version(ProducerIdBlockZNode.path)
        try:
            first = ProducerIdBlockZNode.decode(data).last_producer_id + 1 if data else 0
        except ZNodeError as error:
            # Starting again from 0 would give out ids for the second time.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
        if first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids have been given out.")
        block = ProducerIdsBlock(broker_id, first, PRODUCER_ID_BLOCK_SIZE)
        written, _ = await zk.conditional_update_path(
            ProducerIdBlockZNode.path, ProducerIdBlockZNode.encode(block), version
        )
        if written:
            return block
