"""``barnabas transaction``: lists open transactions, and ends hanging ones (KIP-664)."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

from barnabas.cli.command import Argument, CommandGroup, Option
from barnabas.cli.connect import with_admin, with_cluster
from barnabas.cli.group_reset import duration_ms
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.outcomes import as_json, fail, parse_partitions, partitions_of, sorted_out
from barnabas.cli.output import Bad, CommandError, Exit, Format, UsageError, complain, print_json, print_table, say
from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.client.descriptions import OpenTransaction, TransactionDescription
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition

app = CommandGroup("Transactions: list open and hanging ones, and end them.")

_UNENDED: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
_MAX_TIMEOUT_MINUTES: Final = 15


@app.command("list")
def list_(
    states: Annotated[
        list[str] | None, Option("--state", metavar="STATE", help="Ongoing, CompleteCommit, ..; may be repeated.")
    ] = None,
    producers: Annotated[
        list[int] | None, Option("--producer-id", metavar="ID", help="Only these producers; may be repeated.")
    ] = None,
    longer_than: Annotated[
        str | None, Option("--longer-than", metavar="PT1M", help="Only transactions open for longer, as PT1M or 1m.")
    ] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """List transactional ids, their producers and states, from every coordinator."""
    longer_than_ms = -1 if longer_than is None else duration_ms(longer_than, "--longer-than")

    try:
        listed = with_admin(
            at,
            lambda admin: admin.list_transactions(
                states=states or (), producer_ids=producers or (), longer_than_ms=longer_than_ms
            ),
        )
    except KafkaError as error:
        if error.code is not ErrorCode.INVALID_REQUEST:
            raise
        raise UsageError(f"--state: {error}.") from None
    if output is Format.json:
        print_json([listing._asdict() for listing in listed])
    else:
        print_table(["transactional-id", "coordinator", "producer-id", "state"], listed)


@app.command("describe")
def describe(
    ids: Annotated[list[str], Argument(metavar="ID..", help="Transactional ids.", complete="transactional-id")],
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Show transactional ids: producer, state, when the transaction began, and its partitions."""
    outcomes = with_admin(at, lambda admin: admin.describe_transactions(ids))
    now_ms = time.time_ns() // 1_000_000
    found, failed = sorted_out(outcomes)
    rows = [_described(transaction, now_ms) for transaction in found.values()]
    if output is Format.json:
        print_json([*rows, *({"transactional_id": name, **as_json(error)} for name, error in failed.items())])
    elif rows:
        heads = ["transactional_id", "coordinator", "producer_id", "epoch", "state", "timeout_ms", "open_ms"]
        print_table(
            [*(head.replace("_", "-") for head in heads), "partitions"],
            [[*(row[head] for head in heads), ", ".join(row["partitions"]) or None] for row in rows],
        )
    fail(failed)


def _described(transaction: TransactionDescription, now_ms: int) -> dict[str, Any]:
    began = transaction.start_ms if transaction.start_ms >= 0 and transaction.state in _UNENDED else None
    return {
        "transactional_id": transaction.transactional_id,
        "coordinator": transaction.coordinator_id,
        "producer_id": transaction.producer_id,
        "epoch": transaction.producer_epoch,
        "state": transaction.state,
        "timeout_ms": transaction.timeout_ms,
        "started": began,
        "open_ms": None if began is None else max(0, now_ms - began),
        "partitions": [str(partition) for partition in transaction.partitions],
    }


@app.command("abort")
def abort(
    id: Annotated[
        str | None,
        Argument(metavar="ID", help="The transactional id whose producer is fenced.", complete="transactional-id"),
    ] = None,
    partition: Annotated[
        str | None,
        Option(
            "-p",
            "--partition",
            metavar="TOPIC-N",
            help="In place of ID: the partition with a hanging transaction.",
            complete="partition",
        ),
    ] = None,
    start_offset: Annotated[
        int | None, Option("--start-offset", metavar="N", help="With --partition: the first offset of the transaction.")
    ] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Abort a transaction by its id, which also fences its producer; or, if no coordinator knows it, in one
    partition."""
    if (id is None) == (partition is None) or (partition is None) != (start_offset is None):
        raise UsageError("Name a transactional id, or --partition TOPIC-N and --start-offset N.")
    if partition is not None:
        try:
            where = TopicPartition.from_dir_name(partition)
        except ValueError as error:
            raise UsageError(f"--partition: {error}: use TOPIC-N.") from None
        ended = with_admin(at, lambda admin: _abort_in(admin, where, start_offset or 0))
        told: dict[str, Any] = {"partition": str(where), "start_offset": start_offset, "producer_id": ended.producer_id}
        sentence = f"aborted the transaction of producer {ended.producer_id} in {where}"
    else:
        before = with_admin(at, lambda admin: _fence(admin, id or ""))
        told = {"transactional_id": id, "state": before.state, "producer_id": before.producer_id}
        what = "aborted" if before.state == "Ongoing" else f"was {before.state}"
        sentence = f"{id}: {what}, and its producer is fenced"
    say(output, told, sentence)


async def _fence(admin: Admin, transactional_id: str) -> TransactionDescription:
    before = (await admin.describe_transactions([transactional_id]))[transactional_id]
    if isinstance(before, KafkaError):
        if before.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise before
        known = "`barnabas transaction list` shows the ids"
        raise CommandError(f"No coordinator knows the transactional id {transactional_id}: {known}.")
    await admin.fence_producer(transactional_id)
    return before


async def _abort_in(admin: Admin, partition: TopicPartition, start_offset: int) -> OpenTransaction:
    opened = await admin.open_transactions(await partitions_of(admin.cluster, [partition]))
    found = next((transaction for transaction in opened if transaction.start_offset == start_offset), None)
    if found is None:
        begun = ", ".join(str(transaction.start_offset) for transaction in opened)
        known = f"open transactions begin at {begun}" if opened else "no transaction is open"
        raise CommandError(f"No transaction of {partition} begins at offset {start_offset}: {known}.")
    await admin.abort_transaction(found)
    return found


@app.command("find-hanging")
def find_hanging(
    topics: Annotated[
        list[str] | None,
        Argument(metavar="TOPIC[:0,2]..", help="Topics, or partitions of them; all by default.", complete="topic"),
    ] = None,
    max_timeout: Annotated[
        int,
        Option(
            "--max-transaction-timeout",
            metavar="MINUTES",
            min=0,
            help="The brokers' transaction.max.timeout.ms: a transaction with a record since then is not hanging.",
        ),
    ] = _MAX_TIMEOUT_MINUTES,
    broker: Annotated[
        int | None,
        Option(
            "--broker",
            metavar="ID",
            help="Ask this broker about its replicas, instead of the leaders.",
            complete="broker",
        ),
    ] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Find hanging transactions: no coordinator will end them, and read_committed readers wait for them; exit 1 if
    any."""
    words = parse_partitions(topics) if topics else None

    async def story(cluster: ClusterClient) -> list[OpenTransaction]:
        partitions = await partitions_of(cluster, words, internal=True)
        if broker is not None:
            partitions = [partition for partition in partitions if _is_replica(cluster, partition, broker)]
        return await Admin(cluster).find_hanging_transactions(
            partitions, idle_for_ms=max_timeout * 60_000, broker_id=broker
        )

    found = with_cluster(at, story)
    now_ms = time.time_ns() // 1_000_000
    if output is Format.json:
        print_json([{**transaction._asdict(), "partition": str(transaction.partition)} for transaction in found])
    elif found:
        print_table(
            ["partition", "producer-id", "epoch", "coordinator-epoch", "start-offset", "minutes"],
            [
                [
                    Bad(transaction.partition),
                    transaction.producer_id,
                    transaction.producer_epoch,
                    transaction.coordinator_epoch,
                    transaction.start_offset,
                    (now_ms - transaction.last_timestamp) // 60_000,
                ]
                for transaction in found
            ],
        )
    else:
        print("no transaction hangs")
    for transaction in found:
        where = f"--partition {transaction.partition} --start-offset {transaction.start_offset}"
        complain(f"{transaction.partition}: a transaction hangs; `barnabas transaction abort {where}` ends it.")
    if found:
        raise Exit(1)


def _is_replica(cluster: ClusterClient, partition: TopicPartition, broker_id: int) -> bool:
    return broker_id in cluster.metadata.topics[partition.topic].partitions[partition.partition].replicas
