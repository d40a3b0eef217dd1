"""``kafka-delete-records``: deletes records below an offset (``org.apache.kafka.tools.DeleteRecordsCommand``)."""

from __future__ import annotations

from typing import Any

from barnabas.cli.kafka_tools.errors import JavaError, java_error, told_with_trace
from barnabas.cli.kafka_tools.java import in_hash_order
from barnabas.cli.kafka_tools.json_files import (
    ADMIN_COMMAND_FAILED,
    ADMIN_OPERATION,
    as_array,
    as_object,
    document_of,
    field,
    integer,
    read_text,
    string,
)
from barnabas.cli.kafka_tools.options import OptionParser
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.cli.kafka_tools.session import client_properties, with_admin
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition


def main(words: list[str]) -> int:
    try:
        _delete(words)
    except JavaError as error:
        return told_with_trace(error)
    return 0


def _delete(words: list[str]) -> None:
    parser = OptionParser()
    server = parser.takes(
        "bootstrap-server", "REQUIRED: the brokers to ask first.", "server(s) to use for bootstrapping"
    )
    file = parser.takes(
        "offset-json-file",
        'REQUIRED: {"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 1}]}',
        "Offset json file path",
    )
    config_file = parser.takes("command-config", "A file of client properties.", "command config property file path")
    options = parser.read(
        words, "This tool helps to delete records of the given partitions down to the specified offset."
    )
    parser.require(options, server, file)
    properties = client_properties(options.value(config_file), options.value(server))
    before = _before(read_text(options.value(file)))

    async def story(admin: ToolAdmin) -> None:
        print("Executing records delete operation")
        outcomes: dict[TopicPartition, Any] = await admin.delete_records(before) if before else {}
        print("Records delete operation completed:")
        for partition in in_hash_order(before):
            outcome = outcomes[partition]
            if isinstance(outcome, KafkaError):
                print(f"partition: {partition}\terror: {java_error(outcome)}")
            else:
                print(f"partition: {partition}\tlow_watermark: {outcome}")

    with_admin(properties, story, call="deleteRecords")


def _before(text: str) -> dict[TopicPartition, int]:
    """Each partition's offset. Raises `JavaError`."""
    document = document_of(text)
    if "partitions" not in document:
        raise JavaError(ADMIN_OPERATION, "Missing partitions field")
    before: dict[TopicPartition, int] = {}
    twice: list[TopicPartition] = []
    for entry in as_array(document["partitions"]):
        item = as_object(entry)
        partition = TopicPartition(string(field(item, "topic")), integer(field(item, "partition")))
        offset = integer(field(item, "offset"), 64)
        if partition in before:
            twice.append(partition)
        before.setdefault(partition, offset)
    if twice:
        names = ",".join(map(str, in_hash_order(twice)))
        raise JavaError(ADMIN_COMMAND_FAILED, f"Offset json file contains duplicate topic partitions: {names}")
    return before
