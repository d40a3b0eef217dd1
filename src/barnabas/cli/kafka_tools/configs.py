"""``kafka-configs``: configurations of topics, brokers and their loggers, quotas, and SCRAM credentials.

Source: ``kafka.admin.ConfigCommand``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.cli.kafka_tools.config_words import (
    BROKER_LOGGERS,
    BROKERS,
    CLIENT_METRICS,
    CLIENTS,
    IPS,
    TOPICS,
    USERS,
    ConfigWords,
)
from barnabas.cli.kafka_tools.errors import (
    ILLEGAL_ARGUMENT,
    JavaError,
    check_answer,
    illegal_argument,
    of_futures,
    print_stack_trace,
)
from barnabas.cli.kafka_tools.java import in_hash_order
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.cli.kafka_tools.session import client_properties, with_admin
from barnabas.cli.kafka_tools.topic_rules import INVALID_CONFIGURATION, check_topic_name
from barnabas.model.config import AlterOperation
from barnabas.wire.messages.alter_configs import AlterConfigsRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest
from barnabas.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.wire.messages.list_client_metrics_resources import ListClientMetricsResourcesRequest

_SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
}
_RESOURCES: Final = {TOPICS: 2, BROKERS: 4, BROKER_LOGGERS: 8, CLIENT_METRICS: 16}


class _Entry(NamedTuple):
    name: str
    value: str | None
    source: int
    sensitive: bool
    synonyms: Sequence[tuple[int, str, str | None]]
    """Source, name and value of each."""


def shown(value: object) -> str:
    return "null" if value is None else str(value)


def main(words: list[str]) -> int:
    try:
        return _main(words)
    except JavaError as error:
        if error.name in (ILLEGAL_ARGUMENT, INVALID_CONFIGURATION) or error.name.startswith("joptsimple."):
            print(error.message, file=sys.stderr)
        else:
            print(f"Error while executing config command with args '{' '.join(words)}'", file=sys.stderr)
            print_stack_trace(error)
        return 1


def _main(arguments: list[str]) -> int:
    words = ConfigWords(arguments)
    if words.has(words.zookeeper):
        print("Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.")
        print("Use --bootstrap-server instead to specify a broker to connect to.")
        from barnabas.cli.kafka_tools import configs_by_zookeeper

        configs_by_zookeeper.run(words)
        return 0
    properties = client_properties(words.value(words.config_file))
    if words.has(words.controller):
        raise JavaError(
            "org.apache.kafka.common.errors.UnsupportedEndpointTypeException",
            "--bootstrap-controller reaches KRaft controllers, which Barnabas does not have: use --bootstrap-server.",
        )
    properties["bootstrap.servers"] = words.value(words.server)
    types, names = words.entity_types, words.entity_names
    if words.has(words.alter):
        if len(types) != len(names):
            raise illegal_argument("An entity name must be specified for every entity type")
        with_admin(properties, lambda admin: _alter(admin, words, types, names), call="describeConfigs")
        kind, name = types[0], names[0]
        if name:
            print(f"Completed updating config for {kind[:-1]} {name}.")
        else:
            print(f"Completed updating default config for {kind} in the cluster.")
    else:
        with_admin(properties, lambda admin: _describe(admin, words, types, names), call="describeConfigs")
    return 0


# describe


@of_futures
async def _describe(admin: ToolAdmin, words: ConfigWords, types: list[str], names: list[str]) -> None:
    from barnabas.cli.kafka_tools import config_entities

    kind = types[0]
    if kind in (USERS, CLIENTS):
        await config_entities.describe_quotas(admin, types, names)
        if CLIENTS not in types and "" not in names:
            await config_entities.describe_scram_users(admin, names)
    elif kind == IPS:
        await config_entities.describe_quotas(admin, types, names)
    else:
        describe_all = words.has(words.all)
        for name in names[:1] if names else await _all_names(admin, kind):
            if name == "":
                print(f"Default configs for {kind} in the cluster are:")
            else:
                print(f"{'All' if describe_all else 'Dynamic'} configs for {kind[:-1]} {name} are:")
            for entry in await _entries(admin, kind, name, synonyms=True, describe_all=describe_all):
                synonyms = ", ".join(
                    f"{_SOURCES.get(source, 'UNKNOWN')}:{name}={shown(value)}" for source, name, value in entry.synonyms
                )
                sensitive = str(entry.sensitive).lower()
                print(f"  {entry.name}={shown(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


async def _all_names(admin: ToolAdmin, kind: str) -> list[str]:
    if kind == TOPICS:
        return in_hash_order((await admin.cluster.refresh(None)).topics)
    if kind == CLIENT_METRICS:
        answer = await admin.to_any(ListClientMetricsResourcesRequest())
        check_answer(answer.error_code)
        return [client_metrics_resource.name for client_metrics_resource in answer.client_metrics_resources]
    return [*(str(broker) for broker in (await admin.cluster.refresh([])).brokers), ""]


async def _entries(
    admin: ToolAdmin, kind: str, name: str, *, synonyms: bool = False, describe_all: bool = False
) -> list[_Entry]:
    """The entries that were set dynamically for exactly this resource, or all entries; in the order of their names."""
    only = None
    if kind == TOPICS:
        if name:
            check_topic_name(name)
        only = "DYNAMIC_TOPIC_CONFIG"
    elif kind == BROKERS:
        only = "DYNAMIC_BROKER_CONFIG" if name else "DYNAMIC_DEFAULT_BROKER_CONFIG"
    elif kind == CLIENT_METRICS:
        only = "DYNAMIC_CLIENT_METRICS_CONFIG"
    if kind in (BROKERS, BROKER_LOGGERS) and name and not name.lstrip("+-").isdigit():
        raise illegal_argument(f"The entity name for {kind} must be a valid integer broker id, found: {name}")
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=_RESOURCES[kind], resource_name=name, configuration_keys=None
            )
        ],
        include_synonyms=synonyms,
    )
    result = (await _to_resource(admin, kind, name, request)).results[0]
    check_answer(result.error_code, result.error_message)
    entries = [
        _Entry(
            config.name,
            config.value,
            config.config_source,
            config.is_sensitive,
            [(synonym.source, synonym.name, synonym.value) for synonym in config.synonyms],
        )
        for config in sorted(result.configs, key=lambda config: str(config.name))
    ]
    return [entry for entry in entries if describe_all or only is None or _SOURCES.get(entry.source) == only]


async def _to_resource(admin: ToolAdmin, kind: str, name: str, request: Any) -> Any:
    """A broker's configuration is asked of that broker, any other of any broker."""
    if kind not in (BROKERS, BROKER_LOGGERS) or not name:
        return await admin.to_any(request)
    if int(name) not in (await admin.cluster.refresh([])).brokers:
        raise JavaError("java.util.concurrent.TimeoutException")
    return await admin.to_broker(int(name), request)


# alter


@of_futures
async def _alter(admin: ToolAdmin, words: ConfigWords, types: list[str], names: list[str]) -> None:
    from barnabas.cli.kafka_tools import config_entities

    kind, name = types[0], names[0]
    added, deleted = words.to_add(), words.to_delete()
    if kind in (TOPICS, CLIENT_METRICS):
        _check_deleted(await _entries(admin, kind, name), deleted)
        await _alter_incrementally(admin, kind, name, added, deleted)
    elif kind == BROKERS:
        await _alter_broker(admin, name, added, deleted)
    elif kind == BROKER_LOGGERS:
        known = {entry.name for entry in await _entries(admin, kind, name, synonyms=True)}
        invalid = [key for key in (*deleted, *added) if key not in known]
        if invalid:
            raise JavaError(INVALID_CONFIGURATION, f"Invalid broker logger(s): {','.join(invalid)}")
        await _alter_incrementally(admin, kind, name, added, deleted)
    elif kind in (USERS, CLIENTS):
        await config_entities.alter(admin, types, names, added, deleted)
    else:
        await config_entities.alter_ip_quotas(admin, types, names, added, deleted)


def _check_deleted(old: Sequence[_Entry], deleted: Sequence[str]) -> None:
    known = {entry.name for entry in old}
    invalid = [key for key in deleted if key not in known]
    if invalid:
        raise JavaError(INVALID_CONFIGURATION, f"Invalid config(s): {','.join(invalid)}")


async def _alter_incrementally(
    admin: ToolAdmin, kind: str, name: str, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    changes = [
        *((AlterOperation.SET, key, value) for key, value in added.items()),
        *((AlterOperation.DELETE, key, "") for key in deleted),
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=_RESOURCES[kind],
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsRequest.AlterableConfig(
                        name=key, config_operation=int(operation), value=value
                    )
                    for operation, key, value in changes
                ],
            )
        ]
    )
    _raise_refusal(await _to_resource(admin, kind, name, request))


async def _alter_broker(admin: ToolAdmin, name: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    """Sends the whole configuration with the changes, as brokers before KIP-339 require."""
    old = await _entries(admin, BROKERS, name)
    _check_deleted(old, deleted)
    values = {entry.name: entry.value for entry in old} | dict(added)
    for key in deleted:
        del values[key]
    missing = [key for key, value in values.items() if value is None]
    if missing:
        raise JavaError(
            INVALID_CONFIGURATION,
            "All sensitive broker config entries must be specified for --alter, missing entries: "
            f"Set({', '.join(missing)})",
        )
    request = AlterConfigsRequest(
        resources=[
            AlterConfigsRequest.AlterConfigsResource(
                resource_type=_RESOURCES[BROKERS],
                resource_name=name,
                configs=[AlterConfigsRequest.AlterableConfig(name=key, value=value) for key, value in values.items()],
            )
        ]
    )
    _raise_refusal(await _to_resource(admin, BROKERS, name, request))


def _raise_refusal(answer: Any) -> None:
    for response in answer.responses:
        check_answer(response.error_code, response.error_message)
