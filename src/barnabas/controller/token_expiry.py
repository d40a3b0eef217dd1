"""The controller removes delegation tokens that have expired (``DelegationTokenManager.expireTokens``).

If the brokers have a ``delegation.token.secret.key``, the controller checks at its election and then every
``delegation.token.expiry.check.interval.ms``; the other brokers learn of each removal by a notification.
"""

from __future__ import annotations

import logging

from barnabas.controller import events
from barnabas.controller.reign import Reign
from barnabas.model.config import Config
from barnabas.zk.kafka.security_znodes import DelegationTokensZNode
from barnabas.zk.kafka.znode_json import ZNodeError
from barnabas.zk.protocol.errors import SessionExpired, ZooKeeperError

logger = logging.getLogger(__name__)


def token_secret(config: Config) -> str:
    """The secret for tokens' HMACs; empty if there are no tokens."""
    return config.text("delegation.token.secret.key") or config.text("delegation.token.master.key")


async def process_delegation_token_expiry(reign: Reign, event: events.DelegationTokenExpiry) -> None:
    reign.schedule(event, reign.config().number("delegation.token.expiry.check.interval.ms"))
    # A failure here is no reason to resign: an expired token is refused in any case.
    try:
        token_ids = await reign.zk.get_children(DelegationTokensZNode.path)
    except SessionExpired:
        raise
    except ZooKeeperError as error:
        logger.warning("expired delegation tokens are not removed, trying again later: %s", error)
        return
    for token_id in token_ids:
        try:
            await _expire(reign, token_id)
        except SessionExpired:
            raise
        except ZNodeError as error:
            logger.warning("a delegation token can not be read, and stays: %s", error)
        except ZooKeeperError as error:
            logger.warning("delegation token %s is not removed, trying again later: %s", token_id, error)


async def _expire(reign: Reign, token_id: str) -> None:
    token = await reign.zk.get_delegation_token_info(token_id)
    now_ms = reign.runtime.clock.now_ms()
    if token is not None and min(token.max_timestamp, token.expiry_timestamp) < now_ms:
        logger.info("delegation token %s of %s expired", token_id, token.owner)
        await reign.zk.delete_delegation_token(token_id)
        await reign.zk.create_token_change_notification(token_id)
