"""``kafka-broker-api-versions``: which requests each broker answers (``kafka.admin.BrokerApiVersionsCommand``)."""

from __future__ import annotations

import importlib
from typing import Final

from barnabas.cli.kafka_tools.errors import java_error
from barnabas.cli.kafka_tools.options import OptionParser
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.cli.kafka_tools.session import client_properties, with_admin
from barnabas.client.descriptions import VersionRange
from barnabas.model.errors import KafkaError
from barnabas.wire.api import ApiKey

_BETWEEN_CONTROLLERS: Final = frozenset(
    {
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.UPDATE_RAFT_VOTER,
    }
)
"""No broker has these APIs, and Kafka's tool does not list them as missing."""


def main(words: list[str]) -> int:
    parser = OptionParser()
    config_file = parser.takes("command-config", "A file of client properties.", "command config property file")
    server = parser.takes(
        "bootstrap-server", "REQUIRED: the brokers to ask first.", "server(s) to use for bootstrapping"
    )
    options = parser.read(words, "This tool helps to retrieve broker version information.")
    parser.require(options, server)
    properties = client_properties(options.value(config_file), options.value(server))
    with_admin(properties, _show, call="metadata")
    return 0


async def _show(admin: ToolAdmin) -> None:
    nodes = (await admin.cluster.refresh(None)).brokers
    for broker_id, outcome in (await admin.api_versions(nodes)).items():
        node = nodes[broker_id]
        name = f"{node.host}:{node.port} (id: {broker_id} rack: {node.rack or 'null'})"
        if isinstance(outcome, KafkaError):
            print(f"{name} -> ERROR: {java_error(outcome)}")
            continue
        texts = {key: _supported(key, found) for key, found in outcome.apis.items()}
        for key in ApiKey:
            if key not in texts and key not in _BETWEEN_CONTROLLERS:
                texts[key] = f"{_name(key)}({int(key)}): UNSUPPORTED"
        lines = ",\n\t".join(texts[key] for key in sorted(texts))
        print(f"{name} -> (\n\t{lines}\n)")


def _name(key: ApiKey) -> str:
    return key.name.title().replace("_", "")


def _supported(number: int, found: VersionRange) -> str:
    low, high = found
    versions = str(low) if low == high else f"{low} to {high}"
    if number not in ApiKey.__members__.values():
        return f"UNKNOWN({number}): {versions}"
    key = ApiKey(number)
    module = importlib.import_module(f"barnabas.wire.messages.{key.name.lower()}")
    request = getattr(module, f"{_name(key)}Request")
    if request.max_version < low:
        usable = "unusable: node too new"
    elif high < request.min_version:
        usable = "unusable: node too old"
    else:
        usable = f"usable: {min(request.max_version, high)}"
    return f"{_name(key)}({number}): {versions} [{usable}]"
