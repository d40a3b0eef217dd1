"""A broker's entry in ZooKeeper, by which the controller knows that the broker lives."""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.start_error import BrokerStartError
from barnabas.broker.this_node import ThisNode
from barnabas.model.cluster import BrokerInfo
from barnabas.zk.kafka.zk_client import BrokerIdInUse, RegistrationWait

logger = logging.getLogger(__name__)

COUNTDOWN_LOG_MS: Final = 5_000
"""How often a broker that waits for an earlier registration logs it."""


async def register(node: ThisNode, info: BrokerInfo) -> int:
    """Registers the broker in ZooKeeper and returns its epoch; waits for a killed predecessor's registration.

    Raises `BrokerStartError` if the predecessor is still alive, or another broker has this one's address.
    """
    await _require_own_endpoints(node, info)
    told_ms = -COUNTDOWN_LOG_MS

    def tell(wait: RegistrationWait) -> None:
        nonlocal told_ms
        node.registration_wait = wait
        if wait.waited_ms - told_ms >= COUNTDOWN_LOG_MS:
            told_ms = wait.waited_ms
            logger.warning(
                "[broker %d] this broker.id is still registered by %s: waiting for that session to end, "
                "at most %d s more",
                node.broker_id,
                wait.owner,
                wait.remaining_ms // 1000,
            )

    try:
        return await node.zk.register_broker(
            info, wait_ms=node.config.number("barnabas.registration.timeout.ms"), on_waiting=tell
        )
    except BrokerIdInUse as error:
        raise BrokerStartError(str(error)) from error
    finally:
        node.registration_wait = None


async def _require_own_endpoints(node: ThisNode, info: BrokerInfo) -> None:
    """Refuses an address in use: clients would take two brokers for one (``KafkaServer.createBrokerInfo``)."""
    own = {(endpoint.host, endpoint.port) for endpoint in info.endpoints}
    for other in await node.zk.get_all_brokers_in_cluster():
        shared = sorted(own.intersection((endpoint.host, endpoint.port) for endpoint in other.endpoints))
        if shared and other.broker_id != info.broker_id:
            raise BrokerStartError(
                f"Broker {other.broker_id} is registered at {', '.join(f'{host}:{port}' for host, port in shared)}, "
                "which is this one's advertised.listeners too: give each its own."
            )
