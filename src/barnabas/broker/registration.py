"""A broker's entry in ZooKeeper, by which the controller knows that it lives."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from barnabas.broker.start_error import BrokerStartError
from barnabas.model.cluster import BrokerInfo
from barnabas.zk.kafka.zk_client import BrokerIdInUse, RegistrationWait

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

logger = logging.getLogger(__name__)

COUNTDOWN_LOG_MS: Final = 5_000
"""How often a broker that waits for an earlier registration says so in its log."""


async def register(broker: Broker, info: BrokerInfo) -> int:
    """Puts `broker` into ZooKeeper and returns its epoch; waits for the registration of a killed predecessor.

    Raises `BrokerStartError` where that one lives on.
    """
    told_ms = -COUNTDOWN_LOG_MS

    def tell(wait: RegistrationWait) -> None:
        nonlocal told_ms
        broker.registration_wait = wait
        if wait.waited_ms - told_ms >= COUNTDOWN_LOG_MS:
            told_ms = wait.waited_ms
            logger.warning(
                "[broker %d] this broker.id is still registered by %s: waiting for that session to end, "
                "at most %d s more",
                broker.broker_id,
                wait.owner,
                wait.remaining_ms // 1000,
            )

    try:
        return await broker.zk.register_broker(
            info, wait_ms=broker.config.number("barnabas.registration.timeout.ms"), on_waiting=tell
        )
    except BrokerIdInUse as error:
        raise BrokerStartError(str(error)) from error
    finally:
        broker.registration_wait = None
