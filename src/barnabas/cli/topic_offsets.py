"""``barnabas topic offsets`` and ``topic trim``: partitions' first and last offsets, and deleting records."""

from __future__ import annotations

import time
from typing import Annotated, Any

from barnabas.cli.command import Argument, Option
from barnabas.cli.connect import with_cluster
from barnabas.cli.formats import parse_time
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.outcomes import as_json, fail, parse_partitions, partitions_of, sorted_out
from barnabas.cli.output import Format, UsageError, print_json, print_table
from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, READ_COMMITTED, READ_UNCOMMITTED, ListedOffset
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition

_PLACES = {"earliest": EARLIEST, "latest": LATEST, "max-timestamp": MAX_TIMESTAMP}

Outcomes = dict[TopicPartition, ListedOffset | KafkaError]
Partitions = Annotated[
    list[str], Argument(metavar="TOPIC[:0,2]..", help="Topics, or partitions of them.", complete="topic")
]


def offsets(
    topics: Annotated[
        list[str] | None,
        Argument(metavar="TOPIC[:0,2]..", help="Topics, or partitions of them; all by default.", complete="topic"),
    ] = None,
    when: Annotated[
        str | None,
        Option(
            "--at",
            metavar="TIME",
            help="earliest, latest, max-timestamp, or a time (2026-01-31T12:00:00, ms, -1h30m): the first record from "
            "then on.",
        ),
    ] = None,
    committed: Annotated[
        bool,
        Option("--committed", help="Show the end for read_committed readers: the start of the first open transaction."),
    ] = False,
    internal: Annotated[bool, Option("-i", "--internal", help="Internal topics too.")] = False,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Show the first and the last offset of partitions, or the offset at a time."""
    words = parse_partitions(topics) if topics else None
    asked = {"start": EARLIEST, "end": LATEST} if when is None else {"offset": _timestamp(when)}
    isolation = READ_COMMITTED if committed else READ_UNCOMMITTED

    async def story(cluster: ClusterClient) -> tuple[list[TopicPartition], dict[str, Outcomes]]:
        wanted = await partitions_of(cluster, words, internal=internal)
        admin = Admin(cluster)
        return wanted, {
            name: await admin.list_offsets(dict.fromkeys(wanted, timestamp), isolation_level=isolation)
            for name, timestamp in asked.items()
        }

    partitions, listed = with_cluster(at, story)
    failed = {partition: error for outcomes in listed.values() for partition, error in sorted_out(outcomes)[1].items()}
    rows = [
        _row(partition, {name: outcomes[partition] for name, outcomes in listed.items()}) for partition in partitions
    ]
    if output is Format.json:
        print_json(rows)
    else:
        names = ["topic", "partition", *listed, *(["records"] if when is None else ["timestamp"])]
        print_table(names, [[row.get(name) for name in names] for row in rows])
    fail(failed)


def _timestamp(when: str) -> int:
    if when in _PLACES:
        return _PLACES[when]
    try:
        return parse_time(when, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise UsageError(f"--at: {error}, or earliest, latest, max-timestamp.") from None


def _row(partition: TopicPartition, outcomes: dict[str, ListedOffset | KafkaError]) -> dict[str, Any]:
    """A partition's row, with None if there is no such record, or no leader answers."""
    row: dict[str, Any] = {"topic": partition.topic, "partition": partition.partition}
    for name, outcome in outcomes.items():
        if isinstance(outcome, KafkaError):
            row |= {name: None, **as_json(outcome)}
        else:
            row[name] = outcome.offset if outcome.offset >= 0 else None
            if name == "offset":
                row["timestamp"] = outcome.timestamp if outcome.timestamp >= 0 else None
    if row.get("start") is not None and row.get("end") is not None:
        row["records"] = row["end"] - row["start"]
    return row


def trim(
    topics: Partitions,
    before: Annotated[
        str,
        Option(
            "--before",
            metavar="N|TIME|end",
            help="An offset, or a time: 2026-01-31T12:00:00 or -7d; `end` deletes all records.",
        ),
    ],
    execute: Annotated[
        bool, Option("--execute", help="Delete the records; without it the new offsets are only shown.")
    ] = False,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Delete the records before an offset or a time (Kafka's delete-records). Nothing is deleted without --execute."""
    words = parse_partitions(topics)
    is_offset = before.isascii() and before.isdigit()
    moment = None if is_offset else LATEST if before == "end" else _trim_time(before)

    async def story(cluster: ClusterClient) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int | KafkaError]]:
        wanted = await partitions_of(cluster, words)
        admin = Admin(cluster)
        starts = await admin.list_offsets(dict.fromkeys(wanted, EARLIEST))
        ends = await admin.list_offsets(dict.fromkeys(wanted, LATEST))
        found = ends if moment is None else await admin.list_offsets(dict.fromkeys(wanted, moment))
        offset = int(before) if is_offset else None
        targets = {partition: _target(partition, offset, found[partition], ends[partition]) for partition in wanted}
        possible, failed = sorted_out(targets)
        outcomes = await admin.delete_records(possible) if execute else dict[TopicPartition, int | KafkaError](possible)
        return {partition: listed.offset for partition, listed in sorted_out(starts)[0].items()}, {**outcomes, **failed}

    first, outcomes = with_cluster(at, story)
    done, failed = sorted_out(outcomes)
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "start": first.get(partition),
            "new_start": done.get(partition),
            **({} if partition in done else as_json(failed[partition])),
        }
        for partition in outcomes
    ]
    if output is Format.json:
        print_json({"executed": execute, "partitions": rows})
    else:
        names = ["topic", "partition", "start", "new_start"]
        print_table([*names[:-1], "new-start"], [[row[name] for name in names] for row in rows])
        if not execute:
            print("nothing was deleted: --execute deletes the records before these offsets")
    fail(failed)


def _target(
    partition: TopicPartition, offset: int | None, found: ListedOffset | KafkaError, end: ListedOffset | KafkaError
) -> int | KafkaError:
    """The offset before which records are deleted: the named one, the one found for a time, or the end."""
    if isinstance(end, KafkaError):
        return end
    if offset is not None:
        past = KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition} ends at {end.offset}, before {offset}")
        return offset if offset <= end.offset else past
    if isinstance(found, KafkaError):
        return found
    return found.offset if found.offset >= 0 else end.offset  # all records are older than the time


def _trim_time(before: str) -> int:
    try:
        return parse_time(before, time.time_ns() // 1_000_000)
    except ValueError:
        raise UsageError(f"--before {before}: expected an offset, 2026-01-31T12:00:00, -7d, or end.") from None
