"""``barnabas group reset``: shows the offsets that groups would get, in each of Kafka's ways (KIP-122), and commits
them on request."""

from __future__ import annotations

import csv
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, NamedTuple

from barnabas.cli.command import Argument, Option
from barnabas.cli.connect import with_cluster
from barnabas.cli.formats import parse_time
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.outcomes import as_json, fail, parse_partitions, partitions_of, sorted_out
from barnabas.cli.output import CommandError, Format, UsageError, complain, print_json, print_table
from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.client.offsets import EARLIEST, LATEST, CommittedOffset
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition

Offsets = dict[TopicPartition, int]
Plan = dict[str, Offsets]
"""By group."""

_INACTIVE: Final = ("Empty", "Dead")
_DURATION: Final = re.compile(r"P?(?:(\d+)D)?T?(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Way:
    """How the new offsets are computed. Exactly one way must be given."""

    to_earliest: Annotated[bool, Option("--to-earliest", help="To the first record of each partition.")] = False
    to_latest: Annotated[bool, Option("--to-latest", help="To the end.")] = False
    to_current: Annotated[
        bool, Option("--to-current", help="To the committed offset; to the end where there is none.")
    ] = False
    to_offset: Annotated[int | None, Option("--to-offset", metavar="N", help="To an offset.")] = None
    to_datetime: Annotated[
        str | None,
        Option("--to-datetime", metavar="TIME", help="To a time: 2026-01-31T12:00:00, milliseconds, or -1h30m."),
    ] = None
    by_duration: Annotated[
        str | None, Option("--by-duration", metavar="PT1H", help="To a time before now, as an ISO 8601 duration.")
    ] = None
    shift_by: Annotated[int | None, Option("--shift-by", metavar="N", help="Forward by N records; back with -N.")] = (
        None
    )
    from_file: Annotated[
        str | None,
        Option(
            "--from-file", metavar="FILE", help="To the offsets in a file that --export wrote: topic,partition,offset."
        ),
    ] = None

    def check(self) -> None:
        """Raises `UsageError` unless exactly one is given."""
        names = [field.name for field in fields(self)]
        if sum(getattr(self, name) not in (None, False) for name in names) != 1:
            ways = ", ".join(f"--{name.replace('_', '-')}" for name in names)
            raise UsageError(f"Say where the groups shall go on: one of {ways}.")

    def moment(self, now_ms: int) -> int | None:
        """The timestamp to reset to, in ms; None if the way is not a time. Raises `UsageError`."""
        if self.by_duration is not None:
            return now_ms - duration_ms(self.by_duration, "--by-duration")
        if self.to_datetime is None:
            return None
        try:
            return parse_time(self.to_datetime, now_ms)
        except ValueError as error:
            raise UsageError(f"--to-datetime: {error}.") from None


@dataclass(frozen=True, slots=True)
class Scope:
    """The groups and partitions to reset."""

    groups: Annotated[
        list[str] | None, Argument(metavar="GROUP..", help="The groups; they must have no members.", complete="group")
    ] = None
    all_groups: Annotated[bool, Option("--all-groups", help="Every group.")] = False
    topics: Annotated[
        list[str] | None,
        Option(
            "-t",
            "--topic",
            metavar="TOPIC[:0,2]",
            help="A topic or some of its partitions; may be repeated.",
            complete="topic",
        ),
    ] = None
    all_topics: Annotated[bool, Option("--all-topics", help="All topics that the group has committed offsets of.")] = (
        False
    )

    def check(self, *, from_file: bool) -> None:
        if bool(self.groups) == self.all_groups:
            raise UsageError("Name the groups, or all of them by --all-groups.")
        if from_file and (self.topics or self.all_topics):
            raise UsageError("--from-file names the partitions itself: leave out --topic and --all-topics.")
        if not from_file and bool(self.topics) == self.all_topics:
            raise UsageError("Name topics by --topic, or take all with committed offsets by --all-topics.")


_NOWHERE: Final = Way()
_NOTHING: Final = Scope()


class Planned(NamedTuple):
    """The new offsets, the old ones, and warnings."""

    offsets: Offsets
    committed: Mapping[TopicPartition, CommittedOffset]
    remarks: list[str]


def duration_ms(text: str, option: str) -> int:
    """``PT1H30M`` or ``1h30m``, in milliseconds. Raises `UsageError`."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise UsageError(f"{option} {text}: expected an ISO 8601 duration such as PT1H30M or P1D, or 1h30m.")
    days, hours, minutes, seconds = (float(group or 0) for group in match.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def reset(
    scope: Scope = _NOTHING,
    way: Way = _NOWHERE,
    execute: Annotated[
        bool, Option("--execute", help="Commit the new offsets; without it they are only shown.")
    ] = False,
    export: Annotated[bool, Option("--export", help="Print the offsets as CSV, for --from-file.")] = False,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Set the offsets at which groups without members go on reading. Nothing changes without --execute."""
    way.check()
    scope.check(from_file=way.from_file is not None)
    moment = way.moment(time.time_ns() // 1_000_000)
    words = None if scope.all_topics else parse_partitions(scope.topics or ())

    async def story(cluster: ClusterClient) -> tuple[dict[str, Planned | KafkaError], dict[str, KafkaError]]:
        admin = Admin(cluster)
        names = [listing.group for listing in await admin.list_groups()] if scope.all_groups else scope.groups or []
        file = None if way.from_file is None else read_plan(way.from_file, names)
        wanted = None if words is None else await partitions_of(cluster, words)
        plans: dict[str, Planned | KafkaError] = {}
        for name in names:
            try:
                given = None if file is None else file.get(name, {})
                planned = await _planned(admin, name, way, moment, wanted, given)
                if scope.groups and scope.all_topics and not planned.committed:
                    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {name} has committed nothing")
                plans[name] = planned
            except KafkaError as error:
                plans[name] = error
        return plans, await _committed(admin, sorted_out(plans)[0]) if execute else {}

    plans, refused = with_cluster(at, story)
    done, failed = sorted_out(plans)
    for planned in done.values():
        for remark in planned.remarks:
            complain(remark)
    _tell(plans, done, refused, execute=execute, export=export, output=output)
    fail({**failed, **refused})


async def _committed(admin: Admin, plans: Mapping[str, Planned]) -> dict[str, KafkaError]:
    """Commits the plans. Returns the errors by group and partition."""
    refused: dict[str, KafkaError] = {}
    for name, planned in plans.items():
        wished = {partition: CommittedOffset(offset) for partition, offset in planned.offsets.items()}
        outcomes = await admin.alter_group_offsets(name, wished) if wished else {}
        refused.update((f"group {name}, {partition}", error) for partition, error in sorted_out(outcomes)[1].items())
    return refused


async def _planned(
    admin: Admin,
    group: str,
    way: Way,
    moment: int | None,
    wanted: Sequence[TopicPartition] | None,
    file: Offsets | None,
) -> Planned:
    state = (await admin.describe_group(group)).state
    if state not in _INACTIVE:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {group} is {state}: stop its members first")
    committed = await admin.committed_offsets(group)
    partitions = list(file) if file is not None else list(committed) if wanted is None else list(wanted)
    remarks: list[str] = []
    if way.to_current:
        offsets = {partition: committed[partition].offset for partition in partitions if partition in committed}
        offsets |= await _listed(admin, [partition for partition in partitions if partition not in committed], LATEST)
    elif way.to_earliest or way.to_latest:
        offsets = await _listed(admin, partitions, EARLIEST if way.to_earliest else LATEST)
    elif moment is not None:
        offsets = await _listed(admin, partitions, moment)
        younger = [partition for partition, offset in offsets.items() if offset < 0]
        remarks += [f"{partition} has no record from that time or later: its end is taken." for partition in younger]
        offsets |= await _listed(admin, younger, LATEST)
    else:
        if file is not None:
            offsets = file
        elif way.to_offset is not None:
            offsets = dict.fromkeys(partitions, way.to_offset)
        else:
            absent = [partition for partition in partitions if partition not in committed]
            remarks += [f"group {group} has no committed offset of {partition}: it gets none." for partition in absent]
            offsets = {
                partition: committed[partition].offset + (way.shift_by or 0)
                for partition in partitions
                if partition in committed
            }
        offsets = await _within(admin, offsets, remarks)
    return Planned({partition: offsets[partition] for partition in sorted(offsets)}, committed, remarks)


async def _within(admin: Admin, offsets: Offsets, remarks: list[str]) -> Offsets:
    """Moves offsets outside of the log to its nearer end, each with a warning."""
    starts, ends = await _listed(admin, offsets, EARLIEST), await _listed(admin, offsets, LATEST)
    for partition, offset in offsets.items():
        if not starts[partition] <= offset <= ends[partition]:
            nearer = starts[partition] if offset < starts[partition] else ends[partition]
            remarks.append(
                f"{partition} has the offsets {starts[partition]} to {ends[partition]}: {nearer} is taken for {offset}."
            )
    return {partition: min(max(offset, starts[partition]), ends[partition]) for partition, offset in offsets.items()}


async def _listed(admin: Admin, partitions: Sequence[TopicPartition] | Offsets, timestamp: int) -> Offsets:
    """Each partition's offset for a timestamp. Raises the first partition's `KafkaError`."""
    found, failed = sorted_out(await admin.list_offsets(dict.fromkeys(partitions, timestamp)))
    for error in failed.values():
        raise error
    return {partition: listed.offset for partition, listed in found.items()}


def read_plan(path: str, groups: Sequence[str]) -> Plan:
    """Reads a file that ``--export`` wrote, here or in Kafka's tool. Raises `CommandError`."""
    plan: Plan = {}
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except OSError as error:
        raise CommandError(
            f"{path} cannot be read ({error.strerror}). It must be a file that --export wrote."
        ) from None
    for row in rows:
        try:
            group, topic, partition, offset = row if len(row) == 4 else [groups[0], *row]
            plan.setdefault(group, {})[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise CommandError(
                f"{path}: {','.join(row)!r} is neither topic,partition,offset nor group,topic,partition,offset.", 2
            ) from None
        if len(row) == 3 and len(groups) != 1:
            raise CommandError(f"{path} names no group, so give exactly one on the command line.", 2)
    return plan


def _tell(
    plans: Mapping[str, Planned | KafkaError],
    done: Mapping[str, Planned],
    refused: Mapping[str, KafkaError],
    *,
    execute: bool,
    export: bool,
    output: Format,
) -> None:
    rows = [
        (group, partition, offset) for group, planned in done.items() for partition, offset in planned.offsets.items()
    ]
    if export:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        for group, partition, offset in rows:
            writer.writerow(([] if len(plans) == 1 else [group]) + [partition.topic, partition.partition, offset])
        return
    told: list[dict[str, Any]] = []
    for group, partition, offset in rows:
        before = done[group].committed.get(partition)
        error = refused.get(f"group {group}, {partition}")
        told.append(
            {
                "group": group,
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": None if before is None else before.offset,
                "offset": offset,
                **({} if error is None else as_json(error)),
            }
        )
    if output is Format.json:
        failed = [{"group": group, **as_json(error)} for group, error in sorted_out(plans)[1].items()]
        print_json({"executed": execute, "offsets": told, "failed": failed})
        return
    if told:
        heads = ["group", "topic", "partition", "committed", "offset"]
        print_table([*heads[:-1], "new-offset"], [[row[name] for name in heads] for row in told])
    if not execute and told:
        print("nothing was changed: --execute commits these offsets")
