"""``kafka-consumer-groups --reset-offsets``: sets a group's committed offsets in each of Kafka's ways (KIP-122)."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from barnabas.cli.kafka_tools.consumer_group_requests import (
    committed_offsets,
    listed_groups,
    log_offsets,
    partitions_of,
    print_error,
    topic_and_partitions,
)
from barnabas.cli.kafka_tools.consumer_group_words import ConsumerGroupWords
from barnabas.cli.kafka_tools.errors import EXECUTION, RUNTIME, JavaError, at_runtime, illegal_argument, log, wrapped
from barnabas.cli.kafka_tools.java import in_hash_order
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.client.offsets import EARLIEST, LATEST, CommittedOffset
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition

_LOGGER: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

Offsets = dict[TopicPartition, int]


async def reset(admin: ToolAdmin, words: ConsumerGroupWords) -> None:
    names = [listing.group for listing in await listed_groups(admin)] if words.has(words.all_groups) else words.groups
    prepared: dict[str, Offsets] = {}
    for group in in_hash_order(names):
        try:
            state = (await admin.describe_group(group)).state
        except KafkaError as error:
            raise at_runtime(error) from error
        if state not in ("Empty", "Dead"):
            print_error(
                f"Assignments can only be reset if the group '{group}' is inactive, but the current state is {state}."
            )
            prepared[group] = {}
            continue
        offsets = await _prepared(admin, words, group, await _partitions(admin, words, group))
        if words.has(words.execute) and not words.has(words.dry_run):
            await _commit(admin, group, offsets)
        prepared[group] = offsets
    if words.has(words.export):
        print(_as_csv(words, prepared))
    else:
        _print(prepared)


def _print(prepared: Mapping[str, Offsets]) -> None:
    if prepared:
        sys.stdout.write(f"\n{'GROUP':<30} {'TOPIC':<30} {'PARTITION':<10} {'NEW-OFFSET':<15}")
    for group, offsets in prepared.items():
        for partition, offset in offsets.items():
            sys.stdout.write(f"{group:<30} {partition.topic:<30} {partition.partition:<10} {offset:<15}")


def _as_csv(words: ConsumerGroupWords, prepared: Mapping[str, Offsets]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group, offsets in prepared.items():
        for partition, offset in offsets.items():
            row = (partition.topic, partition.partition, offset)
            writer.writerow(row if len(words.groups) == 1 else (group, *row))
    return text.getvalue()


async def _commit(admin: ToolAdmin, group: str, offsets: Offsets) -> None:
    if not offsets:
        return
    try:
        outcomes = await admin.alter_group_offsets(
            group, {partition: CommittedOffset(offset) for partition, offset in offsets.items()}
        )
    except KafkaError as error:
        raise at_runtime(error) from error
    for refusal in outcomes.values():
        if refusal is not None:
            raise at_runtime(refusal)


# which partitions


async def _partitions(admin: ToolAdmin, words: ConsumerGroupWords, group: str) -> list[TopicPartition]:
    if words.has(words.all_topics):
        return list(await committed_offsets(admin, group))
    if words.has(words.topic):
        return await _of_topics(admin, words.options.values(words.topic))
    if not words.has(words.from_file):
        words.parser.usage_and_exit("One of the reset scopes should be defined: --all-topics, --topic.")
    return []


async def _of_topics(admin: ToolAdmin, topics: Iterable[str]) -> list[TopicPartition]:
    whole = [topic for topic in topics if ":" not in topic]
    found = [
        topic_and_partition for topic in topics if ":" in topic for topic_and_partition in topic_and_partitions(topic)
    ]
    for topic in in_hash_order(whole, sized_for=len(whole)):
        try:
            found += await partitions_of(admin, topic)
        except JavaError as error:
            if error.name == EXECUTION:
                raise wrapped(RUNTIME, error) from error
            raise
    return found


# which offsets


async def _prepared(
    admin: ToolAdmin, words: ConsumerGroupWords, group: str, partitions: list[TopicPartition]
) -> Offsets:
    """The new offsets by one of the scenarios, in the order of Kafka's map."""
    if words.has(words.to_offset):
        offset = words.value(words.to_offset)
        offsets = await _in_range(admin, dict.fromkeys(partitions, offset))
    elif words.has(words.to_earliest):
        offsets = await log_offsets(admin, partitions, EARLIEST)
    elif words.has(words.to_latest):
        offsets = await log_offsets(admin, partitions, LATEST)
    elif words.has(words.shift_by):
        offsets = await _in_range(admin, await _shifted(admin, words, group, partitions))
    elif words.has(words.to_datetime):
        offsets = await _at_time(admin, partitions, _timestamp(words.value(words.to_datetime)))
    elif words.has(words.by_duration):
        duration_ms = _duration_ms(words.value(words.by_duration))
        offsets = await _at_time(admin, partitions, admin.cluster.runtime.clock.now_ms() - duration_ms)
    elif words.has(words.from_file):
        offsets = await _planned(admin, words, group)
    elif words.has(words.to_current):
        committed = await committed_offsets(admin, group)
        offsets = {partition: committed[partition].offset for partition in partitions if partition in committed}
        offsets |= await log_offsets(
            admin, [partition for partition in partitions if partition not in committed], LATEST
        )
    else:
        scenarios = ", ".join(map(str, words.scenarios))
        words.parser.usage_and_exit(
            f"Option '{words.reset_offsets}' requires one of the following scenarios: [{scenarios}]"
        )
    return {partition: offsets[partition] for partition in in_hash_order(offsets)}


async def _shifted(
    admin: ToolAdmin, words: ConsumerGroupWords, group: str, partitions: Iterable[TopicPartition]
) -> Offsets:
    committed = await committed_offsets(admin, group)
    shift = words.value(words.shift_by)
    for partition in partitions:
        if partition not in committed:
            raise illegal_argument(
                f"Cannot shift offset for partition {partition} since there is no current committed offset"
            )
    return {partition: committed[partition].offset + shift for partition in partitions}


async def _in_range(admin: ToolAdmin, requested: Offsets) -> Offsets:
    """Moves an offset outside of a partition's log to the nearer end, with a warning."""
    starts = await log_offsets(admin, requested, EARLIEST)
    ends = await log_offsets(admin, requested, LATEST)
    offsets: Offsets = {}
    for partition in in_hash_order(requested):
        offset, start, end = requested[partition], starts[partition], ends[partition]
        if offset > end:
            _warn_of(offset, "higher than latest", partition, end)
        elif offset < start:
            _warn_of(offset, "lower than earliest", partition, start)
        offsets[partition] = min(max(offset, start), end)
    return offsets


def _warn_of(offset: int, how: str, partition: TopicPartition, instead: int) -> None:
    log(
        "WARN",
        f"New offset ({offset}) is {how} offset for topic partition {partition}. Value will be set to {instead}",
        _LOGGER,
    )


async def _at_time(admin: ToolAdmin, partitions: Iterable[TopicPartition], timestamp: int) -> Offsets:
    found = await log_offsets(admin, partitions, timestamp)
    missing = [partition for partition, offset in found.items() if offset == -1]
    for partition in missing:
        print(
            f"\nWarn: Partition {partition.partition} from topic {partition.topic} is empty. "
            "Falling back to latest known offset."
        )
    return found | await log_offsets(admin, missing, LATEST)


def _timestamp(text: str) -> int:
    """``Utils.getDateTime``: ``2024-02-29T12:00:00.000``, in UTC unless a zone is named. Returns milliseconds."""
    failure = "java.text.ParseException"
    _, t, clock = text.partition("T")
    if not t:
        reason = "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
        raise wrapped(RUNTIME, JavaError(failure, reason))
    given = text if re.search(r"[+\-Z]", clock) else text + "Z"
    match = re.fullmatch(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)(Z|[+-]\d\d(?::?\d\d)?)", given)
    try:
        if match is None:
            raise ValueError(given)
        year, month, day, hour, minute, second, millisecond = map(int, match.groups()[:7])
        zone = "+00:00" if match[8] == "Z" else match[8]
        stamp = f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}.{millisecond:03d}{zone}"
        if millisecond > 999:
            raise ValueError(given)
        return round(datetime.fromisoformat(stamp).timestamp() * 1000)
    except ValueError:
        raise wrapped(RUNTIME, JavaError(failure, f'Unparseable date: "{given}"')) from None


_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?", re.IGNORECASE
)


def _duration_ms(text: str) -> int:
    """``Duration.parse``: days to seconds of ISO 8601."""
    match = _DURATION.fullmatch(text)
    parts = match.group(2, 4, 5, 6) if match is not None else (None,)
    if match is None or (match[3] or "").upper() == "T" or all(part is None for part in parts):
        raise JavaError("java.time.format.DateTimeParseException", "Text cannot be parsed to a Duration")
    days, hours, minutes, seconds = (int(part or 0) for part in parts)
    fraction = int(((match[7] or "") + "000")[:3])
    if (match[6] or "").startswith("-"):
        fraction = -fraction
    total = ((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000 + fraction
    return -total if match[1] == "-" else total


async def _planned(admin: ToolAdmin, words: ConsumerGroupWords, group: str) -> Offsets:
    """The group's offsets in the CSV file, moved into the partitions' logs."""
    plan = _plan(words)
    if group not in plan:
        print_error(f"No reset plan for group {group} found")
        return {}
    return await _in_range(admin, plan[group])


def _plan(words: ConsumerGroupWords) -> dict[str, Offsets]:
    path = words.value(words.from_file)
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except FileNotFoundError:
        raise wrapped(RUNTIME, JavaError("java.io.IOException", f"Unable to read file {path}")) from None
    plan: dict[str, Offsets] = {}
    short = len(words.groups) == 1 and (not rows or len(rows[0]) == 3)
    for row in rows:
        try:
            group, topic, partition, offset = [words.groups[0], *row] if short else row
            plan.setdefault(group, {})[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            fields = "topic,partition,offset" if short else "group,topic,partition,offset"
            text = f"{','.join(row)!r} in {path} is not {fields}"
            raise wrapped(RUNTIME, JavaError("java.io.IOException", text)) from None
    return plan
