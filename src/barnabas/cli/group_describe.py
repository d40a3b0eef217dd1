"""``barnabas group describe``: a group's members, and its lag in records and in time; once, or every two seconds."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Final, NamedTuple

from barnabas.cli.command import Argument, Option
from barnabas.cli.connect import with_cluster
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.outcomes import sorted_out
from barnabas.cli.output import CommandError, Format, print_json, print_table
from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.client.descriptions import GroupDescription, MemberDescription
from barnabas.client.offsets import (
    FIRST_BATCH_VERSION,
    LATEST,
    CommittedOffset,
    ListedOffset,
    first_batch_request,
    read_first_timestamp,
)
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition

WATCH_INTERVAL_S: Final = 2.0
_CLEAR: Final = "\x1b[H\x1b[2J"


class _Seen(NamedTuple):
    described: GroupDescription
    committed: Mapping[TopicPartition, CommittedOffset]
    ends: Mapping[TopicPartition, ListedOffset]
    oldest_ms: Mapping[TopicPartition, int]
    """The timestamp of the first uncommitted record of each partition, where it is known."""
    at_ms: int


def describe(
    group: Annotated[str, Argument(metavar="GROUP", complete="group")],
    watch: Annotated[
        bool, Option("--watch", help="Show it again every two seconds, until the command is interrupted.")
    ] = False,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Show a group's state, members and their partitions, committed offsets and lag in records and time."""

    async def story(cluster: ClusterClient) -> None:
        times: dict[tuple[TopicPartition, int], int] = {}
        interrupted = asyncio.Event()
        if watch:
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
        while True:
            seen = await _seen(cluster, group, times)
            if watch and output is not Format.json and sys.stdout.isatty():
                print(_CLEAR, end="")
            _show(group, seen, output)
            sys.stdout.flush()
            if not watch:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(interrupted.wait(), WATCH_INTERVAL_S)
            if interrupted.is_set():
                return
            if output is not Format.json and not sys.stdout.isatty():
                print()

    with_cluster(at, story)


async def _seen(cluster: ClusterClient, group: str, times: dict[tuple[TopicPartition, int], int]) -> _Seen:
    """One look at the group. `times` caches records' timestamps, which never change, by partition and offset."""
    admin = Admin(cluster)
    described = await admin.describe_group(group)
    if not described.exists:
        raise CommandError(f"There is no group {group}: `barnabas group list` shows the groups.")
    committed = await admin.committed_offsets(group)
    owned = [partition for member in described.members for partition in member.assignment]
    ends, _ = sorted_out(await admin.list_offsets(dict.fromkeys([*committed, *owned], LATEST)))
    oldest_ms: dict[TopicPartition, int] = {}
    for partition, (offset, *_) in committed.items():
        if partition in ends and offset < ends[partition].offset:
            found = times.get((partition, offset)) or await _timestamp_at(cluster, partition, offset)
            if found is not None:
                times[partition, offset] = oldest_ms[partition] = found
    return _Seen(described, committed, ends, oldest_ms, time.time_ns() // 1_000_000)


async def _timestamp_at(cluster: ClusterClient, partition: TopicPartition, offset: int) -> int | None:
    """A record's timestamp; None if the record is deleted, or the partition's leader does not answer now."""
    request = first_batch_request(partition, offset)
    try:
        return read_first_timestamp(await cluster.ask(await cluster.leader(partition), request, FIRST_BATCH_VERSION))
    except (OSError, KafkaError):
        return None


def _show(group: str, seen: _Seen, output: Format) -> None:
    described = seen.described
    offsets = _offsets(seen)
    members = [_member(member) for member in described.members]
    if output is Format.json:
        print_json(
            {
                "group": group,
                "state": described.state,
                "assignor": described.assignor,
                "coordinator": described.coordinator.broker_id,
                "members": members,
                "offsets": offsets,
            }
        )
        return
    assignor = f", assigned by {described.assignor}" if described.assignor else ""
    coordinator = described.coordinator
    print(f"group {group}: {described.state}, {len(members)} members{assignor}, coordinator {coordinator.broker_id}")
    if offsets:
        heads = ["topic", "partition", "committed", "end", "lag", "behind_s", "client_id", "host"]
        print_table(
            [head.replace("_", "-") for head in heads], [[offset[name] for name in heads] for offset in offsets]
        )
    if members:
        print()
        print_table(
            ["member", "client-id", "host", "partitions"],
            [
                [member["member_id"], member["client_id"], member["host"], ", ".join(member["assignment"]) or None]
                for member in members
            ],
        )


def _member(member: MemberDescription) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "assignment": [str(partition) for partition in member.assignment],
    }


def _offsets(seen: _Seen) -> list[dict[str, Any]]:
    """A row for each partition that a member owns or the group has committed an offset of."""
    owners = {partition: member for member in seen.described.members for partition in member.assignment}
    rows = []
    for partition in sorted({*seen.committed, *owners}):
        offset = seen.committed[partition].offset if partition in seen.committed else None
        end = seen.ends[partition].offset if partition in seen.ends else None
        lag = None if offset is None or end is None else max(0, end - offset)
        oldest_ms = seen.oldest_ms.get(partition)
        owner = owners.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": offset,
                "end": end,
                "lag": lag,
                "behind_s": 0.0 if lag == 0 else None if oldest_ms is None else max(0, seen.at_ms - oldest_ms) / 1000,
                "member_id": None if owner is None else owner.member_id,
                "client_id": None if owner is None else owner.client_id,
                "host": None if owner is None else owner.host,
            }
        )
    return rows
