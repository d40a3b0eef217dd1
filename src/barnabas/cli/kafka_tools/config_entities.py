"""``kafka-configs`` for users, clients and IP addresses: client quotas (KIP-546) and SCRAM credentials (KIP-554)."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.cli.kafka_tools.config_words import CLIENTS, IPS, USERS
from barnabas.cli.kafka_tools.errors import EXECUTION, JavaError, check_answer, illegal_argument, java_error_of, wrapped
from barnabas.cli.kafka_tools.java import double, in_hash_order
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.cli.kafka_tools.topic_rules import INVALID_CONFIGURATION
from barnabas.model.errors import ErrorCode
from barnabas.model.java_hash import string_hash
from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

_ENTITY: Final = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
_WORDS: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
_MATCH_EXACT, _MATCH_DEFAULT, _MATCH_SPECIFIED = range(3)

_QUOTAS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
_IP_QUOTAS: Final = ("connection_creation_rate",)

MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS: Final = 4096


class _Quotas(NamedTuple):
    entity: Mapping[str, str | None]
    values: Mapping[str, float]


def _entity_hash(quotas: _Quotas) -> int:
    """``ClientQuotaEntity.hashCode``."""
    total = 0
    for kind, name in quotas.entity.items():
        total += string_hash(kind) ^ (0 if name is None else string_hash(name))
    return (31 + total) & 0xFFFFFFFF


async def _listed(admin: ToolAdmin, types: Sequence[str], names: Sequence[str]) -> list[_Quotas]:
    """The quotas of exactly these entities; a type without a name means all entities of that type."""
    if len(names) > len(types):
        raise illegal_argument("More entity names specified than entity types")
    components = []
    for place, kind in enumerate(types):
        if kind not in _ENTITY:
            raise illegal_argument(f"Unexpected entity type {kind}")
        name = names[place] if place < len(names) else None
        match = _MATCH_SPECIFIED if name is None else _MATCH_EXACT if name else _MATCH_DEFAULT
        components.append(
            DescribeClientQuotasRequest.ComponentData(entity_type=_ENTITY[kind], match_type=match, match=name or None)
        )
    answer = await admin.to_any(DescribeClientQuotasRequest(components=components, strict=True))
    check_answer(answer.error_code, answer.error_message)
    found = [
        _Quotas(
            {part.entity_type: part.entity_name for part in entry.entity},
            {
                value.key: value.value
                for key in in_hash_order([quota.key for quota in entry.values], sized_for=len(entry.values))
                for value in entry.values
                if value.key == key
            },
        )
        for entry in answer.entries or ()
    ]
    order = in_hash_order(range(len(found)), lambda place: _entity_hash(found[place]), sized_for=len(found))
    return [found[place] for place in order]


async def describe_quotas(admin: ToolAdmin, types: Sequence[str], names: Sequence[str]) -> None:
    for quotas in await _listed(admin, types, names):
        parts = [
            f"the default {_WORDS[kind]}" if quotas.entity[kind] is None else f"{_WORDS[kind]} '{quotas.entity[kind]}'"
            for kind in _WORDS
            if kind in quotas.entity
        ]
        values = ", ".join(f"{key}={double(value)}" for key, value in quotas.values.items())
        print(f"Quota configs for {', '.join(parts)} are {values}")


async def describe_scram_users(admin: ToolAdmin, names: Sequence[str]) -> None:
    request = DescribeUserScramCredentialsRequest(
        users=[DescribeUserScramCredentialsRequest.UserName(name=name) for name in names] or None
    )
    answer = await admin.to_controller(request, lambda a: [a.error_code])
    check_answer(answer.error_code, answer.error_message)
    for result in answer.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        if result.error_code:
            error = wrapped(EXECUTION, java_error_of(result.error_code, result.error_message))
            print(
                f"Error retrieving SCRAM credential configs for user-principal '{result.user}': "
                f"{error.simple_name}: {error.message}"
            )
            continue
        mechanisms = {number: name for name, number in MECHANISMS.items()}
        text = ", ".join(
            f"{mechanisms.get(credential_info.mechanism, 'UNKNOWN')}=iterations={credential_info.iterations}"
            for credential_info in result.credential_infos
        )
        print(f"SCRAM credential configs for user-principal '{result.user}' are {text}")


# alter


async def alter(
    admin: ToolAdmin, types: Sequence[str], names: Sequence[str], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    """Changes quotas or SCRAM credentials, never both."""
    scram_added = {key: value for key, value in added.items() if key in MECHANISMS}
    scram_deleted = [key for key in deleted if key in MECHANISMS]
    unknown_added = [key for key in added if key not in MECHANISMS and key not in _QUOTAS]
    unknown_deleted = [key for key in deleted if key not in MECHANISMS and key not in _QUOTAS]
    quotas = [key for key in (*added, *deleted) if key in _QUOTAS]
    if types[0] == CLIENTS or len(types) == 2:
        _refuse(unknown_added + list(scram_added), "Only quota configs can be added for 'clients'", "Set")
        _refuse(unknown_deleted + scram_deleted, "Only quota configs can be deleted for 'clients'", "ArrayBuffer")
    else:
        both = "Only quota and SCRAM credential configs can be {} for 'users'"
        _refuse(unknown_added, both.format("added"), "Set")
        _refuse(unknown_deleted, both.format("deleted"), "ArrayBuffer")
        if scram_added or scram_deleted:
            if "" in names:
                raise illegal_argument(
                    "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
                    "--bootstrap-server."
                )
            if quotas:
                raise illegal_argument(
                    "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using "
                    "--bootstrap-server."
                )
    if quotas:
        await _alter_quotas(admin, types, names, added, deleted)
    else:
        await _alter_scram(admin, names[0], scram_added, scram_deleted)


def _refuse(names: Sequence[str], sentence: str, collection: str) -> None:
    if names:
        raise illegal_argument(
            f"{sentence} using --bootstrap-server. Unexpected config names: {collection}({', '.join(names)})"
        )


async def alter_ip_quotas(
    admin: ToolAdmin, types: Sequence[str], names: Sequence[str], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    unknown = [key for key in (*added, *deleted) if key not in _IP_QUOTAS]
    if unknown:
        raise illegal_argument(
            "Only connection quota configs can be added for 'ips' using --bootstrap-server. Unexpected config names: "
            f"{','.join(unknown)}"
        )
    await _alter_quotas(admin, types, names, added, deleted)


async def _alter_quotas(
    admin: ToolAdmin, types: Sequence[str], names: Sequence[str], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    if len(types) != len(names):
        raise illegal_argument("Exactly one entity name must be specified for every entity type")
    listed = await _listed(admin, types, names)
    old = listed[0].values if listed else {}
    invalid = [key for key in deleted if key not in old]
    if invalid:
        raise JavaError(INVALID_CONFIGURATION, f"Invalid config(s): {','.join(invalid)}")
    operations: list[Any] = []
    for key, text in added.items():
        try:
            operations.append(AlterClientQuotasRequest.OpData(key=key, value=float(text), remove=False))
        except ValueError:
            raise illegal_argument(f"Cannot parse quota configuration value for {key}: {text}") from None
    operations += [AlterClientQuotasRequest.OpData(key=key, value=0.0, remove=True) for key in deleted]
    entity = [
        AlterClientQuotasRequest.EntityData(entity_type=_ENTITY[kind], entity_name=name or None)
        for kind, name in zip(types, names, strict=True)
    ]
    request = AlterClientQuotasRequest(entries=[AlterClientQuotasRequest.EntryData(entity=entity, ops=operations)])
    answer = await admin.to_controller(request, lambda a: [entry.error_code for entry in a.entries])
    for entry in answer.entries:
        check_answer(entry.error_code, entry.error_message)


async def _alter_scram(admin: ToolAdmin, user: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    upsertions = []
    for mechanism, text in added.items():
        iterations, password = scram_credential(mechanism, text)
        salt = secrets.token_bytes(20)
        upsertions.append(
            AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                name=user,
                mechanism=MECHANISMS[mechanism],
                iterations=iterations,
                salt=salt,
                salted_password=hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations),
            )
        )
    request = AlterUserScramCredentialsRequest(
        deletions=[
            AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=user, mechanism=MECHANISMS[mechanism])
            for mechanism in deleted
        ],
        upsertions=upsertions,
    )
    answer = await admin.to_controller(request, lambda a: [result.error_code for result in a.results])
    for result in answer.results:
        check_answer(result.error_code, result.error_message)


def scram_credential(mechanism: str, text: str, *, told_as: str = "") -> tuple[int, str]:
    """Parses ``[iterations=N,]password=P``. Raises `JavaError`, which calls the mechanism `told_as`."""
    match = re.fullmatch(r"(?:iterations=(-?[0-9]*),)?password=(.*)", text)
    if match is None:
        raise illegal_argument(f"Invalid credential property {mechanism.replace('-', '_')}={text}")
    given, password = match.groups()
    iterations = _ITERATIONS if given in (None, "-1") else int(given or 0)
    if iterations < _ITERATIONS:
        raise illegal_argument(
            f"Iterations {iterations} is less than the minimum {_ITERATIONS} required for {told_as or mechanism}"
        )
    return iterations, password
