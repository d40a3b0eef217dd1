"""A stopping broker first asks the controller to move its leaderships (``KafkaServer.controlledShutdown``).

Each wait has a limit, since ZooKeeper and the controller may be stopping at the same moment and never answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from barnabas.broker.this_node import ThisNode
from barnabas.client.connection import Connection
from barnabas.model.cluster import Endpoint
from barnabas.model.errors import ErrorCode
from barnabas.runtime import within
from barnabas.wire.errors import WireError
from barnabas.wire.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.zk.client.client import ConnectionState
from barnabas.zk.protocol.errors import ZooKeeperError

logger = logging.getLogger(__name__)


Connect = Callable[[Endpoint, str, int], Connection]


async def hand_over_leadership(node: ThisNode, broker_epoch: Callable[[], int], connect: Connect) -> None:
    """Asks the controller to move leaders away, ``controlled.shutdown.max.retries`` times; then the broker stops even
    if it still leads. A broker that registers again meanwhile has another `broker_epoch`."""
    config = node.config
    retries = config.number("controlled.shutdown.max.retries")
    for attempt in range(1, retries + 1):
        if node.zk.client.state is not ConnectionState.CONNECTED:
            # Only ZooKeeper knows who the controller is, and asking it would wait until it comes back.
            logger.warning("[broker %d] stopping without a hand-over: ZooKeeper does not answer", node.broker_id)
            return
        try:
            if await _ask(node, broker_epoch(), connect):
                return
        except (OSError, WireError, ZooKeeperError) as error:
            logger.warning("[broker %d] controlled shutdown, attempt %d: %s", node.broker_id, attempt, error)
        if attempt < retries:
            await node.pause(config.number("controlled.shutdown.retry.backoff.ms"))
    logger.warning("[broker %d] proceeding to an unclean hand-over: controlled shutdown failed", node.broker_id)


async def _ask(node: ThisNode, broker_epoch: int, connect: Connect) -> bool:
    """Whether the controller has moved all leaders. Raises ``OSError``, `WireError` or `ZooKeeperError`."""
    endpoint = await _controller_within(node, node.config.number("zookeeper.session.timeout.ms"))
    if endpoint is None:
        logger.warning("[broker %d] controlled shutdown: there is no controller now", node.broker_id)
        return False
    connect_timeout_ms = node.config.number("controller.socket.timeout.ms")
    connection = connect(endpoint, str(node.broker_id), connect_timeout_ms)
    try:
        await connection.connect()
        response = await connection.send(
            ControlledShutdownRequest(broker_id=node.broker_id, broker_epoch=broker_epoch),
            node.metadata_version.controlled_shutdown_version,
            node.config.number("request.timeout.ms"),
        )
    finally:
        connection.abort()
    remaining = [f"{partition.topic_name}-{partition.partition_index}" for partition in response.remaining_partitions]
    if response.error_code or remaining:
        logger.warning(
            "[broker %d] controlled shutdown: %s, still leading %s",
            node.broker_id,
            ErrorCode(response.error_code).name,
            ", ".join(remaining) or "nothing",
        )
        return False
    return True


async def _controller_within(node: ThisNode, timeout_ms: int) -> Endpoint | None:
    """The controller's address. A ZooKeeper request waits for a lost connection; this one for `timeout_ms` at most."""
    asking = asyncio.get_running_loop().create_task(_controller(node), name="controlled-shutdown")
    try:
        if not await within(asking, timeout_ms):
            raise TimeoutError(f"ZooKeeper did not say within {timeout_ms} ms who the controller is")
        return asking.result()
    finally:
        asking.cancel()


async def _controller(node: ThisNode) -> Endpoint | None:
    controller_id = await node.zk.get_controller_id()
    controller = None if controller_id is None else await node.zk.get_broker(controller_id)
    return None if controller is None else controller.endpoint(node.listeners.inter_broker)
