"""What clients are told of single records: a record is what its sender gave (R22), and a lookup by time finds it
(R23)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.client.offsets import MAX_TIMESTAMP, ListedOffset
from barnabas.log.log import Log
from barnabas.model.ids import TopicPartition
from barnabas.sim.clients.history import History
from barnabas.sim.judges.watch_logs import LogWatch
from barnabas.sim.plans.chance import Chance
from barnabas.sim.world.node import EPOCH_MS
from barnabas.sim.world.world import World, leading_logs
from barnabas.wire.records import LOG_APPEND_TIME, Record, parse_header, records_of

LOOKUPS: Final = 3
"""Of each partition."""


class Moment(NamedTuple):
    """When a record of a log was made, in milliseconds since the epoch."""

    offset: int
    timestamp: int


def is_as_sent(world: World, history: History, logs: LogWatch, partition: str, record: Record) -> None:
    """R22: key, headers and timestamp are the sender's; the timestamp is the batch's where the broker stamps it."""
    sent = history.sent.get(record.value or b"")
    if sent is None:
        return
    world.check("R22")
    for what, given, wanted in (("key", record.key, sent.key), ("headers", tuple(record.headers), tuple(sent.headers))):
        if given != wanted:
            sentence = f"the {what} of {sent.client} {sent.number} at {partition}@{record.offset} is {given!r}"
            world.violated("R22", f"{sentence}, and {wanted!r} was sent", partition)
    stamps = logs.stamps_at(partition, record.offset) if partition in logs.stamped else []
    if partition in logs.stamped and not stamps:
        return  # every broker with a copy is dead, and no other one knows the timestamp
    right = {sent.timestamp if stamp is None else EPOCH_MS + stamp for stamp in stamps or [None]}
    if record.timestamp not in right and -1 not in right:
        world.violated(
            "R22", f"{sent.client} {sent.number} at {partition}@{record.offset} has the timestamp {record.timestamp}; "
            f"{' or '.join(map(str, sorted(right)))} is right", partition,
        )  # fmt: skip


def moments_of(world: World, log: Log, name: str) -> list[Moment]:
    """The timestamp of every record that is there, end markers of transactions among them, as lookups see them."""
    found: list[Moment] = []
    with world.nodes[name].disk.as_it_is():
        for segment in log.segments:
            for batch in segment.batches():
                data = memoryview(segment.read_batch(batch))
                header = parse_header(data)
                stamped = header.attributes & LOG_APPEND_TIME
                for record in records_of(data, 0, len(data)):
                    if record.offset >= log.log_start_offset:
                        found.append(Moment(record.offset, header.max_timestamp if stamped else record.timestamp))
    return found


async def lookups_are_right(world: World, cluster: ClusterClient, topics: Iterable[str]) -> None:
    """R23, at the quiet end of a run: lookups by a record's timestamp, by a millisecond later, by a time before all
    records, and for the latest record."""
    chance, admin = Chance(world.seed, "lookups"), Admin(cluster)
    known = {partition: moments_of(world, log, name) for partition, (name, log) in leading_logs(world, topics).items()}
    known = {place: moments for place, moments in known.items() if any(each.timestamp >= 0 for each in moments)}
    timed = {place: [each for each in moments if each.timestamp >= 0] for place, moments in sorted(known.items())}
    asked = [
        {place: chance.one_of(moments).timestamp + (number == 1) for place, moments in timed.items()}
        for number in range(LOOKUPS)
    ] + [dict.fromkeys(timed, 0)]
    answers = [await admin.list_offsets(timestamps) for timestamps in asked]
    latest = await admin.list_offsets(dict.fromkeys(known, MAX_TIMESTAMP))
    now = leading_logs(world, topics)
    for partition, moments in known.items():
        if partition not in now or moments_of(world, now[partition][1], now[partition][0]) != moments:
            world.check("R23")
            world.waive("R23")  # the cleaner or retention was at it, or leadership moves
            continue
        for timestamps, answer in zip(asked, answers, strict=True):
            _is_right(world, partition, timestamps[partition], answer[partition], moments)
        _is_latest(world, partition, latest[partition], moments)


def _is_right(world: World, each: TopicPartition, timestamp: int, answer: object, moments: list[Moment]) -> None:
    right = next((moment for moment in moments if moment.timestamp >= timestamp), Moment(-1, -1))
    world.check("R23")
    if not isinstance(answer, ListedOffset) or (answer.offset, answer.timestamp) != right:
        world.violated(
            "R23", f"the first record of {each} that is not before {timestamp} is {right}, and the answer is {answer}",
            str(each),
        )  # fmt: skip


def _is_latest(world: World, each: TopicPartition, answer: object, moments: list[Moment]) -> None:
    right = max(moment.timestamp for moment in moments)
    told = Moment(answer.offset, answer.timestamp) if isinstance(answer, ListedOffset) else None
    world.check("R23")
    if told is not None and told.offset < moments[0].offset and told.timestamp >= right:
        world.waive("R23")  # deleted, and in a segment that is there: Apache Kafka looks at these too
    elif told is None or told.timestamp != right or told not in moments:
        world.violated("R23", f"the latest timestamp of {each} is {right}, and the answer is {answer}", str(each))
