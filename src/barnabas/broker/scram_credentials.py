"""Users' SCRAM credentials in ZooKeeper (KIP-554): salted keys that passwords are checked against, never a password."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.broker.passing import telling
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime.turns import SLICE
from barnabas.runtime.unreadable import Skip
from barnabas.security.sasl.scram_credential import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
)
from barnabas.zk.kafka.config_znodes import USERS
from barnabas.zk.kafka.requests import over_where_another_writes
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znode_json import desanitize, is_entity_name, sanitize

MECHANISMS: Final = {int(mechanism): mechanism for mechanism in ScramMechanism}


@dataclass(frozen=True, slots=True)
class CredentialChange:
    """A credential to be set, or to be deleted."""

    user: str
    mechanism: int
    iterations: int = ITERATIONS_MIN
    salt: bytes = b""
    salted_password: bytes = b""
    delete: bool = False

    def refusal(self) -> KafkaError | None:
        """Why the change is wrong in itself."""
        if not self.user:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        if not is_entity_name(self.user):
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Credentials of a user '{self.user}' cannot be kept")
        if self.mechanism not in MECHANISMS:
            return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if self.iterations > ITERATIONS_MAX:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        if self.iterations < ITERATIONS_MIN:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if not self.delete and not self.salted_password:  # an empty password would admit everybody
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salted password must not be empty")
        return None


async def alter(zk: KafkaZkClient, changes: Sequence[CredentialChange]) -> dict[str, KafkaError | None]:
    """Applies all changes of a user or none of them; returns each user's error."""
    outcomes: dict[str, KafkaError | None] = {}
    for number, change in enumerate(changes, 1):
        if not number % SLICE:
            await asyncio.sleep(0)
        refusal = change.refusal()
        if refusal is not None:
            outcomes[change.user] = refusal
    often = Counter((change.user, change.mechanism) for change in changes if change.user not in outcomes)
    for (user, _), times in often.items():
        if times > 1:
            outcomes[user] = KafkaError(
                ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
            )
    by_user: dict[str, list[CredentialChange]] = {}
    for number, change in enumerate(changes, 1):
        if not number % SLICE:
            await asyncio.sleep(0)
        if change.user not in outcomes:
            by_user.setdefault(change.user, []).append(change)
    for user, of_user in by_user.items():
        try:
            await _alter_user(zk, user, of_user)
            outcomes[user] = None
        except KafkaError as error:
            outcomes[user] = error.with_traceback(None)
    return outcomes


@telling(ErrorCode.NOT_CONTROLLER)
@over_where_another_writes
async def _alter_user(zk: KafkaZkClient, user: str, changes: Sequence[CredentialChange]) -> None:
    config, version = await zk.get_entity_configs_and_version(USERS, sanitize(user))
    for change in changes:
        mechanism = ScramMechanism(change.mechanism)
        if not change.delete:
            credential = ScramCredential.of(mechanism, change.salt, change.salted_password, change.iterations)
            config[mechanism.mechanism_name] = credential.encode()
        elif config.pop(mechanism.mechanism_name, None) is None:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    await zk.change_client_entity_configs(USERS, sanitize(user), config, version)


async def describe_all(zk: KafkaZkClient) -> dict[str, list[tuple[ScramMechanism, int]]]:
    """Mechanism and iterations of every user that has a credential, by name."""
    names = await zk.get_all_entities_with_config(USERS)
    configs = await zk.get_entities_configs(USERS, names)
    found = {desanitize(name): _credentials(configs[name], name, zk.unreadable.skip) for name in names}
    return {user: found[user] for user in sorted(found) if found[user]}


@telling(ErrorCode.REQUEST_TIMED_OUT)
async def describe(zk: KafkaZkClient, user: str) -> list[tuple[ScramMechanism, int]]:
    """Mechanism and iterations of the user's credentials; none if there is no such user."""
    if not user or not is_entity_name(user):
        return []
    return _credentials(await zk.get_entity_configs(USERS, sanitize(user)), user, zk.unreadable.skip)


def existing(user: str, found: list[tuple[ScramMechanism, int]]) -> list[tuple[ScramMechanism, int]]:
    """The credentials found for a user. Raises RESOURCE_NOT_FOUND if there are none."""
    if not user:
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty")
    if not found:
        raise KafkaError(
            ErrorCode.RESOURCE_NOT_FOUND, f"Attempt to describe a user credential that does not exist: {user}"
        )
    return found


def _credentials(config: dict[str, str], user: str, skip: Skip) -> list[tuple[ScramMechanism, int]]:
    """The mechanisms and iterations of the credentials that can be read."""
    found = []
    for mechanism in ScramMechanism:
        if mechanism.mechanism_name in config:
            try:
                credential = ScramCredential.decode(config[mechanism.mechanism_name])
            except ValueError:
                skip("credential", f"{mechanism.mechanism_name} of user {user}", "it is no SCRAM credential")
            else:
                found.append((mechanism, credential.iterations))
    return found
