"""``kafka-transactions``: lists, describes, finds and aborts transactions
(``org.apache.kafka.tools.TransactionsCommand``)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final, NoReturn

from barnabas.cli.kafka_tools.arguments import Parser, PrintVersion, number
from barnabas.cli.kafka_tools.errors import JavaError, end_with, java_error, java_error_of
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.cli.kafka_tools.session import client_properties, with_admin
from barnabas.client.descriptions import OpenTransaction, ProducerState
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition

_MINUTE_MS: Final = 60_000


def _parser() -> Parser:
    parser = Parser(
        prog="kafka-transactions.sh",
        description="This tool shows the transactional state of producers, and finds and aborts hanging transactions.",
    )
    parser.add_argument("-v", "--version", action=PrintVersion, nargs=0, help="print the version and exit")
    parser.add_argument("--command-config", metavar="FILE", help="a file of client properties")
    parser.add_argument("--bootstrap-server", metavar="host:port", required=True, help="the brokers to ask first")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND", required=True)

    listing = commands.add_parser("list", help="all transactions")
    listing.add_argument(
        "--duration-filter", type=number("Long"), help="only transactions that run longer than this, in ms"
    )

    describe = commands.add_parser("describe", help="the state of a transactional id")
    describe.add_argument("--transactional-id", required=True)

    producers = commands.add_parser("describe-producers", help="the producers of a partition")
    producers.add_argument("--broker-id", type=number("Integer"), help="the replica to ask instead of the leader")
    producers.add_argument("--topic", required=True)
    producers.add_argument("--partition", type=number("Integer"), required=True)

    abort = commands.add_parser("abort", help="abort a hanging transaction")
    abort.add_argument("--topic", required=True)
    abort.add_argument("--partition", type=number("Integer"), required=True)
    abort.add_argument("--start-offset", type=number("Long"), help="where it begins")
    abort.add_argument(
        "--producer-id", type=number("Long"), help="for brokers before 3.0, together with the next two options"
    )
    abort.add_argument("--producer-epoch", type=number("Short"))
    abort.add_argument("--coordinator-epoch", type=number("Integer"))

    hanging = commands.add_parser("find-hanging", help="find open transactions that no coordinator will end")
    hanging.add_argument("--broker-id", type=number("Integer"), help="the broker to look at")
    hanging.add_argument(
        "--max-transaction-timeout",
        type=number("Integer"),
        default=15,
        help="in minutes: younger transactions are left out, as they may still end",
    )
    hanging.add_argument("--topic", help="the topic to look at")
    hanging.add_argument("--partition", type=number("Integer"))
    return parser


def main(words: list[str]) -> int:
    given = _parser().parse(words)
    try:
        properties = client_properties(given.command_config)
    except JavaError as error:
        end_with(
            f"Failed to load admin client properties: {error.message}. Enable debug logging for additional detail."
        )
    properties["bootstrap.servers"] = given.bootstrap_server
    story = {
        "list": _list,
        "describe": _describe,
        "describe-producers": _describe_producers,
        "abort": _abort,
        "find-hanging": _find_hanging,
    }[given.command]
    with_admin(properties, lambda admin: story(admin, given), call=given.command)
    return 0


def _fail(message: str, error: KafkaError) -> NoReturn:
    end_with(f"{message}: {java_error(error).message}. Enable debug logging for additional detail.")


def _print(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    texts = [heads, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(str(row[column])) for row in texts) for column in range(len(heads))]
    for row in texts:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)))


async def _list(admin: ToolAdmin, given: argparse.Namespace) -> None:
    longer = given.duration_filter
    try:
        listed = await admin.list_transactions(longer_than_ms=-1 if longer is None else longer)
    except KafkaError as error:
        _fail("Failed to list transactions", error)
    rows = [
        (listing.transactional_id, listing.coordinator_id, listing.producer_id, listing.state)
        for listing in sorted(listed, key=lambda listing: listing.coordinator_id)
    ]
    _print(("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), rows)


async def _describe(admin: ToolAdmin, given: argparse.Namespace) -> None:
    name = given.transactional_id
    found = (await admin.describe_transactions([name]))[name]
    if isinstance(found, KafkaError):
        if found.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            text = f"DescribeTransactions request for transactionalId `{name}` failed because the ID could not be found"
            end_with(
                f"Failed to describe transaction state of transactional-id `{name}`: {text}. Enable debug logging for "
                "additional detail."
            )
        _fail(f"Failed to describe transaction state of transactional-id `{name}`", found)
    started: object = "None"
    duration: object = "None"
    if found.start_ms >= 0:
        started, duration = found.start_ms, admin.cluster.runtime.clock.now_ms() - found.start_ms
    heads = (
        "CoordinatorId",
        "TransactionalId",
        "ProducerId",
        "ProducerEpoch",
        "TransactionState",
        "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs",
        "TransactionDurationMs",
        "TopicPartitions",
    )
    row = (
        found.coordinator_id,
        name,
        found.producer_id,
        found.producer_epoch,
        found.state,
        found.timeout_ms,
        started,
        duration,
        ",".join(map(str, found.partitions)),
    )
    _print(heads, [row])


async def _producers(
    admin: ToolAdmin, partition: TopicPartition, broker: int | None
) -> list[ProducerState] | KafkaError:
    try:
        return (await admin.describe_producers([partition], broker_id=broker))[partition]
    except KafkaError as error:
        return error


async def _describe_producers(admin: ToolAdmin, given: argparse.Namespace) -> None:
    partition = TopicPartition(given.topic, given.partition)
    found = await _producers(admin, partition, given.broker_id)
    if isinstance(found, KafkaError):
        where = "leader" if given.broker_id is None else f"broker {given.broker_id}"
        _fail(f"Failed to describe producers for partition {partition} on {where}", found)
    heads = (
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    )
    rows = [
        (
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.last_sequence,
            producer.last_timestamp,
            producer.transaction_start_offset if producer.transaction_start_offset >= 0 else "None",
        )
        for producer in found
    ]
    _print(heads, rows)


async def _abort(admin: ToolAdmin, given: argparse.Namespace) -> None:
    partition = TopicPartition(given.topic, given.partition)
    if given.start_offset is None and given.producer_id is None:
        end_with(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    if given.start_offset is None:
        for name in ("producer_epoch", "coordinator_epoch"):
            if getattr(given, name) is None:
                end_with(f"Missing required argument --{name.replace('_', '-')}")
        state = (given.producer_id, given.producer_epoch, max(0, given.coordinator_epoch))
    else:
        found = await _producers(admin, partition, None)
        if isinstance(found, KafkaError):
            _fail(f"Failed to validate producer state for partition {partition}", found)
        opened = next((producer for producer in found if producer.transaction_start_offset == given.start_offset), None)
        if opened is None:
            end_with(
                f"Could not find any open transactions starting at offset {given.start_offset} on partition {partition}"
            )
        state = (opened.producer_id, opened.producer_epoch, max(0, opened.coordinator_epoch))
    producer, epoch, coordinator = state
    try:
        await admin.abort_transaction(OpenTransaction(partition, producer, epoch, coordinator, -1, -1))
    except KafkaError as error:
        _fail(
            f"Failed to abort transaction AbortTransactionSpec(topicPartition={partition}, producerId={producer}, "
            f"producerEpoch={epoch}, coordinatorEpoch={coordinator})",
            error,
        )


async def _find_hanging(admin: ToolAdmin, given: argparse.Namespace) -> None:
    if given.topic is None and given.broker_id is None:
        end_with("The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search")
    if given.partition is not None and given.topic is None:
        end_with("The --partition argument requires --topic to be provided")
    partitions = await _searched(admin, given)
    try:
        found = await admin.find_hanging_transactions(
            partitions, idle_for_ms=given.max_transaction_timeout * _MINUTE_MS, broker_id=given.broker_id
        )
    except KafkaError as error:
        broker = "Optional.empty" if given.broker_id is None else f"Optional[{given.broker_id}]"
        _fail(f"Failed to describe producers for {len(partitions)} partitions on broker {broker}", error)
    now_ms = admin.cluster.runtime.clock.now_ms()
    heads = (
        "Topic",
        "Partition",
        "ProducerId",
        "ProducerEpoch",
        "CoordinatorEpoch",
        "StartOffset",
        "LastTimestamp",
        "Duration(min)",
    )
    rows = [
        (
            transaction.partition.topic,
            transaction.partition.partition,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.coordinator_epoch,
            transaction.start_offset,
            transaction.last_timestamp,
            (now_ms - transaction.last_timestamp) // _MINUTE_MS,
        )
        for transaction in found
    ]
    _print(heads, rows)


async def _searched(admin: ToolAdmin, given: argparse.Namespace) -> list[TopicPartition]:
    if given.partition is not None:
        return [TopicPartition(given.topic, given.partition)]
    metadata = await admin.cluster.refresh(None if given.topic is None else [given.topic])
    found: list[TopicPartition] = []
    for name, topic in metadata.topics.items():
        if given.topic is not None and name != given.topic:
            continue
        if topic.error is not ErrorCode.NONE:
            message = java_error_of(topic.error).message
            end_with(f"Failed to describe 1 topics: {message}. Enable debug logging for additional detail.")
        found += [
            TopicPartition(name, number)
            for number, partition in topic.partitions.items()
            if given.broker_id is None or given.broker_id in partition.replicas
        ]
    return found
