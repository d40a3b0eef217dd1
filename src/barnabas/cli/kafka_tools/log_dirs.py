"""``kafka-log-dirs``: the content of the brokers' log directories (``org.apache.kafka.tools.LogDirsCommand``)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from barnabas.cli.kafka_tools.errors import JavaError, in_future, java_error, told_with_trace
from barnabas.cli.kafka_tools.java import in_hash_order
from barnabas.cli.kafka_tools.json_files import compact
from barnabas.cli.kafka_tools.options import OptionParser
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.cli.kafka_tools.session import client_properties, with_admin
from barnabas.client.descriptions import LogDirDescription
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition

_TERSE: Final = "org.apache.kafka.tools.TerseException"


def main(words: list[str]) -> int:
    try:
        _query(words)
    except JavaError as error:
        if error.name != _TERSE:
            return told_with_trace(error)
        print(error.message, file=sys.stderr)
        return 1
    return 0


def _query(words: list[str]) -> None:
    parser = OptionParser()
    server = parser.takes(
        "bootstrap-server", "REQUIRED: the brokers to ask first.", "The server(s) to use for bootstrapping"
    )
    config_file = parser.takes("command-config", "A file of client properties.", "Admin client property file")
    describe = parser.flag("describe", "Show the log directories.")
    topic_list = parser.takes("topic-list", "Only these topics, t1,t2.", "Topic list", default="")
    broker_list = parser.takes("broker-list", "Only these brokers, 0,1,2.", "Broker list", default="")
    options = parser.read(words, "This tool helps to query log directory usage on the specified brokers.")
    parser.require(options, server, describe)
    properties = client_properties(options.value(config_file), options.value(server), "log-dirs-tool")

    def parts(text: str) -> list[str]:
        return [part for part in text.split(",") if part]

    async def story(admin: ToolAdmin) -> None:
        topics = parts(options.value(topic_list))
        try:
            brokers = [int(part) for part in parts(options.value(broker_list))]
        except ValueError:
            wrong = next(part for part in parts(options.value(broker_list)) if not part.isdigit())
            raise JavaError("java.lang.NumberFormatException", f'For input string: "{wrong}"') from None
        await _show(admin, topics, brokers)

    with_admin(properties, story, call="listNodes")


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, in_hash_order(ids)))


async def _show(admin: ToolAdmin, topics: list[str], asked: list[int]) -> None:
    there = list((await admin.cluster.refresh([])).brokers)
    strangers = [broker for broker in asked if broker not in there]
    if strangers:
        raise JavaError(
            _TERSE,
            f"ERROR: The given brokers do not exist from --broker-list: {_ids(strangers)}. Current existent brokers: "
            f"{_ids(there)}",
        )
    brokers = in_hash_order(asked or there)
    print("Querying brokers for log directories information")
    described: dict[int, list[LogDirDescription]] = {}
    for broker, outcome in (await admin.describe_log_dirs(brokers)).items():
        if isinstance(outcome, KafkaError):
            raise in_future(outcome)
        described[broker] = outcome
    print(f"Received log directory information from brokers {_ids(brokers)}")
    shown = [
        _in_map_order({"broker": broker, "logDirs": _directories(described[broker], topics)}) for broker in brokers
    ]
    print(compact(_in_map_order({"version": 1, "brokers": shown})))


def _in_map_order(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value[name] for name in in_hash_order(value)}


def _directories(directories: list[LogDirDescription], topics: list[str]) -> list[dict[str, Any]]:
    by_path = {directory.path: directory for directory in directories}
    shown: list[dict[str, Any]] = []
    for path in in_hash_order(by_path, sized_for=len(by_path)):
        directory = by_path[path]
        error = None if directory.error is None else java_error(directory.error).name
        shown.append(_in_map_order({"logDir": path, "error": error, "partitions": _replicas(directory, topics)}))
    return shown


def _replicas(directory: LogDirDescription, topics: list[str]) -> list[dict[str, Any]]:
    wanted: list[TopicPartition] = [
        partition for partition in in_hash_order(directory.replicas) if not topics or partition.topic in topics
    ]
    shown: list[dict[str, Any]] = []
    for partition in in_hash_order(wanted):
        replica = directory.replicas[partition]
        shown.append(
            _in_map_order(
                {
                    "partition": str(partition),
                    "size": replica.size,
                    "offsetLag": replica.offset_lag,
                    "isFuture": replica.is_future,
                }
            )
        )
    return shown
