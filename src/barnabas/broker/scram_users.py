"""The users that may log in by SCRAM: the credentials of ``/config/users`` and of delegation tokens, kept in memory."""

from __future__ import annotations

import logging

from barnabas.broker.delegation_tokens import DelegationTokens
from barnabas.broker.this_node import ThisNode
from barnabas.security.sasl.scram import TokenCredential
from barnabas.security.sasl.scram_credential import ScramCredential, ScramMechanism
from barnabas.zk.kafka.config_znodes import USERS
from barnabas.zk.kafka.znode_json import desanitize

logger = logging.getLogger(__name__)


class BrokerScramUsers:
    """Kafka's ``CredentialProvider``: loaded at start; a user is loaded again when a notification names it."""

    def __init__(self, node: ThisNode, tokens: DelegationTokens) -> None:
        self._node = node
        self._tokens = tokens
        self._credentials: dict[str, dict[ScramMechanism, ScramCredential]] = {}

    async def startup(self) -> None:
        zk = self._node.zk
        names = await zk.get_all_entities_with_config(USERS)
        for name, values in (await zk.get_entities_configs(USERS, names)).items():
            self._take_up(desanitize(name), values)

    async def user_changed(self, entity: str) -> None:
        """`entity` is a user's name as in paths; the user is forgotten when its znode is gone."""
        self._take_up(desanitize(entity), await self._node.zk.get_entity_configs(USERS, entity))

    def _take_up(self, user: str, values: dict[str, str]) -> None:
        found: dict[ScramMechanism, ScramCredential] = {}
        for mechanism in ScramMechanism:
            text = values.get(mechanism.mechanism_name)
            if text is not None:
                try:
                    found[mechanism] = ScramCredential.decode(text)
                except ValueError as error:
                    what = f"{mechanism.mechanism_name} of user {user}"
                    self._node.zk.unreadable.skip("credential", what, error)
        known = self._credentials.pop(user, {})
        if found:
            self._credentials[user] = found
        if known != found:
            names = ", ".join(mechanism.mechanism_name for mechanism in found) or "no mechanism"
            logger.debug("[broker %d] user %s has a credential for %s", self._node.broker_id, user, names)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return self._credentials.get(user, {}).get(mechanism)

    def token_credential(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        return self._tokens.credential(mechanism, token_id)
