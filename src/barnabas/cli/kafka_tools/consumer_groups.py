"""``kafka-consumer-groups``: list, describe, delete groups and reset or delete their offsets.

Source: ``org.apache.kafka.tools.consumer.group.ConsumerGroupCommand``. Like Kafka's, the tool exits with 0 even after
an error, and its rows begin, but do not end, with a newline.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.cli.kafka_tools.consumer_group_requests import (
    TYPES,
    Listing,
    committed_offsets,
    listed_groups,
    log_offsets,
    partitions_of,
    print_error,
    topic_and_partitions,
)
from barnabas.cli.kafka_tools.consumer_group_reset import reset
from barnabas.cli.kafka_tools.consumer_group_words import ConsumerGroupWords
from barnabas.cli.kafka_tools.errors import (
    EXECUTION,
    ILLEGAL_ARGUMENT,
    RUNTIME,
    JavaError,
    illegal_argument,
    in_future,
    java_error,
    of_futures,
    wrapped,
)
from barnabas.cli.kafka_tools.java import in_hash_order
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.cli.kafka_tools.session import client_properties, with_admin
from barnabas.client.descriptions import GroupDescription
from barnabas.client.offsets import LATEST, CommittedOffset
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition

_STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
)
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


class _Row(NamedTuple):
    """One line of ``--describe``; None is shown as ``-``."""

    group: str
    topic: str | None
    partition: int | None
    offset: int | None
    end: int | None
    lag: int | None
    member: str | None
    host: str | None
    client: str | None


def dash(value: object) -> str:
    return "-" if value is None else str(value)


def main(arguments: list[str]) -> int:
    words = ConsumerGroupWords(arguments)
    try:
        properties = _properties(words)
        properties["bootstrap.servers"] = words.value(words.server)
        with_admin(properties, lambda admin: _act(admin, words), call="findCoordinator", timeout_ms=words.timeout_ms)
    except JavaError as error:
        if error.name == ILLEGAL_ARGUMENT:
            words.parser.usage_and_exit(error.message)
        print_error(f"Executing consumer group command failed due to {error.message}", error)
    return 0


def _properties(words: ConsumerGroupWords) -> dict[str, str]:
    try:
        return client_properties(words.value(words.config_file))
    except JavaError as error:
        raise wrapped(RUNTIME, error) from error


async def _act(admin: ToolAdmin, words: ConsumerGroupWords) -> None:
    if words.has(words.list):
        await _list(admin, words)
    elif words.has(words.describe):
        await _describe(admin, words)
    elif words.has(words.delete):
        await _delete(admin, words)
    elif words.has(words.reset_offsets):
        await reset(admin, words)
    else:
        await _delete_offsets(admin, words)


# list


def _parsed(text: str | None, valid: Sequence[str], what: str, valid_what: str) -> list[str]:
    if not text:
        return []
    by_name = {name.lower(): name for name in valid}
    asked = [word.strip().lower() for word in text.split(",")]
    if any(name not in by_name for name in asked):
        raise illegal_argument(f"Invalid {what} list '{text}'. Valid {valid_what} are: {', '.join(valid)}")
    return list(dict.fromkeys(by_name[name] for name in asked))


async def _list(admin: ToolAdmin, words: ConsumerGroupWords) -> None:
    with_type, with_state = words.has(words.type), words.has(words.state)
    if not with_type and not with_state:
        for listing in await listed_groups(admin):
            print(listing.group)
        return
    given = words.value(words.type)
    types = _parsed(given and given.lower(), TYPES, "types", "types")
    states = _parsed(words.value(words.state), _STATES, "state", "states")
    groups = await listed_groups(admin, states, types)
    width = max([15, *(len(group.group) for group in groups)]) + 10
    for row in [Listing("GROUP", "TYPE", "STATE"), *groups]:
        line = f"{row.group:<{width}}"
        if with_type:
            line += f" {row.type:<20}"
        if with_state:
            line += f" {row.state:<20}"
        print(line)


# describe


@of_futures
async def _described(admin: ToolAdmin, groups: Iterable[str]) -> list[GroupDescription]:
    found = [await admin.describe_group(group) for group in dict.fromkeys(groups)]
    return sorted(found, key=lambda group: group.group)


async def _describe(admin: ToolAdmin, words: ConsumerGroupWords) -> None:
    names = [listing.group for listing in await listed_groups(admin)] if words.has(words.all_groups) else words.groups
    groups = await _described(admin, names)
    if words.has(words.members):
        for group in groups:
            _print_members(group, verbose=words.has(words.verbose))
    elif words.has(words.state):
        for group in groups:
            _print_state(group)
    else:
        rows = {group.group: await _offset_rows(admin, group) for group in groups}
        for group in groups:
            if _has_something(group, len(rows[group.group])):
                _print_offsets(rows[group.group])


def _has_something(group: GroupDescription, rows: int) -> bool:
    """Prints a warning about the group's state, if any. Returns whether the group has anything to show."""
    if group.state == "Dead":
        print_error(f"Consumer group '{group.group}' does not exist.")
    elif group.state == "Empty":
        _warn(f"\nConsumer group '{group.group}' has no active members.")
    elif group.state in _REBALANCING:
        _warn(f"\nWarning: Consumer group '{group.group}' is rebalancing.")
    elif group.state != "Stable":
        raise JavaError(
            "org.apache.kafka.common.KafkaException",
            f"Expected a valid consumer group state, but found '{group.state}'.",
        )
    return group.state != "Dead" and rows > 0


def _warn(text: str) -> None:
    sys.stdout.flush()
    print(text, file=sys.stderr)


async def _offset_rows(admin: ToolAdmin, group: GroupDescription) -> list[_Row]:
    committed = await committed_offsets(admin, group.group)
    rows: list[_Row] = []
    assigned: set[TopicPartition] = set()
    members = [member for member in group.members if member.assignment]
    for member in sorted(members, key=lambda member: -len(member.assignment)):
        assigned.update(member.assignment)
        rows += await _rows_of(
            admin, group.group, member.assignment, committed, member.member_id, member.host, member.client_id
        )
    rest = [partition for partition in committed if partition not in assigned]
    if rest:
        rows += await _rows_of(admin, group.group, rest, committed, "-", "-", "-")
    return rows


async def _rows_of(
    admin: ToolAdmin,
    group: str,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, CommittedOffset],
    *consumer: str,
) -> list[_Row]:
    ends = await log_offsets(admin, sorted(partitions, key=lambda partition: partition.partition), LATEST)
    member, host, client = consumer
    rows: list[_Row] = []
    for partition, end in ends.items():
        at = committed.get(partition)
        offset = None if at is None else at.offset
        lag = None if offset is None or offset == -1 else end - offset
        rows.append(_Row(group, partition.topic, partition.partition, offset, end, lag, member, host, client))
    return rows


def _print_offsets(rows: Sequence[_Row]) -> None:
    def width(text: Callable[[_Row], object]) -> int:
        return max(15, *(len(dash(text(row))) for row in rows))

    groups, topics = width(lambda row: row.group), width(lambda row: row.topic)
    members, hosts = width(lambda row: row.member), width(lambda row: row.host)
    heads = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST")
    for row in [(*heads, "CLIENT-ID"), *rows]:
        group, topic, partition, offset, end, lag, member, host, client = map(dash, row)
        sys.stdout.write(
            f"\n{group:<{groups}} {topic:<{topics}} {partition:<10} {offset:<15} {end:<15} {lag:<15} "
            f"{member:<{members}} {host:<{hosts}} {client}"
        )


def _print_members(group: GroupDescription, *, verbose: bool) -> None:
    widths = [15, 15, 17, 15, 15]
    rows: list[list[str]] = []
    for member in group.members:
        names = [group.group, member.member_id, member.instance_id or "", member.host, member.client_id]
        rows.append([*names, str(len(member.assignment)), _assignment(member.assignment)])
    static = False
    if _has_something(group, len(rows)):
        widths = [max(width, *(len(row[place]) for row in rows)) for place, width in enumerate(widths)]
        static = any(member.instance_id for member in group.members)
    heads = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
    for place, row in enumerate([heads, *rows]):
        *_, assignment = row
        columns = [f"{text:<{width}}" for text, width in zip(row, [*widths, 15], strict=False)]
        if not static:
            del columns[heads.index("GROUP-INSTANCE-ID")]
        line = " ".join(columns) + " " + (assignment if verbose else "")
        print(line if place else "\n" + line)


def _assignment(partitions: Iterable[TopicPartition]) -> str:
    topics: dict[str, list[str]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(str(partition.partition))
    return ", ".join(sorted(f"({','.join(sorted(numbers))})" for numbers in topics.values())) or "-"


def _print_state(group: GroupDescription) -> None:
    if not _has_something(group, 1):
        return
    node = group.coordinator
    coordinator = f"{node.host}:{node.port}  ({node.broker_id})"
    width = max(25, len(coordinator))
    rows = [
        ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"),
        (group.group, coordinator, group.assignor, group.state, str(len(group.members))),
    ]
    for name, at, assignor, state, members in rows:
        sys.stdout.write(f"\n{name:<{width}} {at:<25} {assignor:<20} {state:<15} {members}")
    print()


# delete


async def _delete(admin: ToolAdmin, words: ConsumerGroupWords) -> None:
    names = [listing.group for listing in await listed_groups(admin)] if words.has(words.all_groups) else words.groups
    failed: dict[str, JavaError] = {}
    deleted: list[str] = []
    for group in in_hash_order(names):
        try:
            await admin.delete_group(group)
            deleted.append(group)
        except KafkaError as error:
            failed[group] = in_future(error)
    if not failed:
        print(f"Deletion of requested consumer groups ('{', '.join(deleted)}') was successful.")
        return
    print_error("Deletion of some consumer groups failed:")
    for group, reason in failed.items():
        print(f"* Group '{group}' could not be deleted due to: {reason}")
    if deleted:
        together = "'".join(deleted)
        print(f"\nThese consumer groups were deleted successfully: '{together}', '")


# delete offsets


_TOP_LEVEL: Final[dict[ErrorCode, str]] = {
    ErrorCode.INVALID_GROUP_ID: "'{}' is not valid.",
    ErrorCode.GROUP_ID_NOT_FOUND: "'{}' does not exist.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Access to '{}' is not authorized.",
    ErrorCode.NON_EMPTY_GROUP: "Deleting offsets of a consumer group '{}' is forbidden if the group is not empty.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Encounter some partition level error, see the follow-up details:",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Encounter some partition level error, see the follow-up details:",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "Encounter some partition level error, see the follow-up details:",
}


async def _delete_offsets(admin: ToolAdmin, words: ConsumerGroupWords) -> None:
    group = words.value(words.group)
    topics = words.options.values(words.topic)
    outcomes: dict[TopicPartition, str | None] = {}
    partitions: list[TopicPartition] = []
    for topic in topics:
        try:
            partitions += topic_and_partitions(topic) if ":" in topic else await partitions_of(admin, topic)
        except JavaError as error:
            if error.name != EXECUTION:
                raise
            outcomes[TopicPartition(topic, -1)] = error.message
    first: KafkaError | None = None
    try:
        for partition, refusal in (await admin.delete_group_offsets(group, partitions)).items():
            outcomes[partition] = None if refusal is None else str(java_error(refusal))
            first = first or refusal
    except KafkaError as error:
        first = error
        outcomes |= dict.fromkeys(partitions, str(java_error(error)))
    if first is None:
        print(f"Request succeed for deleting offsets with topic {', '.join(topics)} group {group}")
    else:
        print_error(_TOP_LEVEL.get(first.code, f"Encounter some unknown error: {first.code.name}").format(group))
    sys.stdout.write(f"\n{'TOPIC':<30} {'PARTITION':<15} {'STATUS':<15}")
    for partition in sorted(outcomes, key=lambda partition: f"{partition.topic}{partition.partition}"):
        text = outcomes[partition]
        status = "Successful" if text is None else f"Error: :{text}"
        number = partition.partition if partition.partition >= 0 else "Not Provided"
        sys.stdout.write(f"{partition.topic:<30} {number!s:<15} {status:<15}")
