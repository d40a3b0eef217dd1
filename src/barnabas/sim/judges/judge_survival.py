"""What clients were told holds in the end. Acknowledged records are there and no others (R7, R8, R10, C13, T1), and a
reader was given every record that its position passed (G4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from barnabas.sim.plans.plan import RESULTS

if TYPE_CHECKING:
    from barnabas.sim.judges.checkers import Checkers

Place: TypeAlias = tuple[str, int]
"""A partition and an offset in it."""


def acknowledged_survive(checkers: Checkers, found: dict[Place, bytes], starts: dict[str, int]) -> None:
    """R7, T1 and Jepsen's rules: no record is lost, moved, doubled, reordered or invented."""
    world, history, losses = checkers.world, checkers.history, checkers.logs.losses
    repeated, mistaken = checkers.logs.sequences.repeated, checkers.logs.sequences.mistaken
    places: dict[bytes, list[Place]] = {}
    for place, value in found.items():
        places.setdefault(value, []).append(place)
    for value, sent in history.sent.items():
        if sent.answered != "acknowledged" or sent.acks != -1 or sent.sent_ns <= checkers.gone_ns(sent.topic):
            continue
        world.check("R7")
        partition = f"{sent.topic}-{sent.partition}"
        at = places.get(value, [])
        start = starts.get(partition, 0)
        short, since_ns, until_ns = value[:40], sent.sent_ns, sent.answered_ns
        excused = losses.may_be_lost(partition, sent.offset, since_ns=since_ns, until_ns=until_ns)
        excused = excused or (value in mistaken and since_ns >= mistaken[value])
        if excused:
            world.waive("R7")
        judged = world.excuse if excused else world.violated
        if not at and sent.topic in checkers.compacted:
            continue  # the cleaner's watch knows whether it may be gone
        if not at and (sent.offset < start if sent.offset >= 0 else start > 0):
            continue
        if not at:
            judged("R7", f"{short!r} was acknowledged at {partition}@{sent.offset} and is lost", partition)
        elif sent.offset >= 0 and (partition, sent.offset) not in at:
            judged("R7", f"{short!r} was acknowledged at {partition}@{sent.offset} and is at {at}", partition)
        may_differ = partition in repeated or losses.may_be_lost(partition, since_ns=since_ns, until_ns=until_ns)
        if sent.idempotent and len(at) > 1 and not may_differ:
            world.check("T1")
            world.violated("T1", f"{short!r} is there more than once: {at}", partition)
    last: dict[tuple[str, str], int] = {}
    for (partition, offset), value in found.items():
        known = history.sent.get(value)
        if known is None:
            topic = partition.rpartition("-")[0]
            if value != b"after all" and topic != RESULTS and (value or topic not in checkers.compacted):
                world.violated("R10", f"{value[:40]!r} at {partition}@{offset} was never sent", partition)
            continue
        world.check("C13")
        if known.answered == "acknowledged" and known.answered_ns < checkers.ensemble.deleted_ns.get(known.topic, -1):
            world.violated("C13", f"{value[:40]!r} of the deleted topic is at {partition}@{offset}", partition)
        if known.answered.startswith("refused"):
            world.violated("R8", f"{value[:40]!r} was refused and is at {partition}@{offset}", partition)
        if known.idempotent:
            world.check("T1")
            key = known.client, partition
            if known.answered != "acknowledged":
                continue  # given up, and perhaps appended all the same when later ones were
            may_be_lost = losses.may_be_lost(partition, since_ns=known.sent_ns, until_ns=known.answered_ns)
            if last.get(key, -1) >= known.number and not may_be_lost and partition not in repeated:
                sentence = f"record {known.number} of {known.client} at {partition}@{offset} after {last[key]}"
                world.violated("T1", sentence, partition)
            last[key] = known.number


def reads_stay(checkers: Checkers, found: dict[Place, bytes], starts: dict[str, int]) -> None:
    """R10: a record that a consumer was given is still there, unchanged."""
    for (partition, offset), (value, at_ns) in checkers.history.read.items():
        topic = partition.rpartition("-")[0]
        if offset < starts.get(partition, 1 << 62) or checkers.was_of_the_topic_before(topic, at_ns):
            continue
        checkers.world.check("R10")
        if checkers.logs.losses.may_be_lost(partition, offset, until_ns=at_ns):
            checkers.world.waive("R10")
            continue
        if (partition, offset) not in found and topic in checkers.compacted:
            continue
        if found.get((partition, offset)) != value:
            now = found.get((partition, offset))
            checkers.world.violated(
                "R10",
                f"{partition}@{offset} was read as {value[:40]!r} and is {now if now is None else now[:40]!r}",
                partition,
            )


def nothing_is_skipped(checkers: Checkers, found: dict[Place, bytes]) -> None:
    """G4: a consumer was given every record that its position passed, and a group every record below its committed
    offset."""
    history, by_partition = checkers.history, dict[str, list[int]]()
    for partition, offset in sorted(found):
        by_partition.setdefault(partition, []).append(offset)
    promises = [
        (f"{client} went", partition, passed, history.given.get((client, partition), {}))
        for (client, partition), ranges in sorted(history.passed.items())
        for passed in ranges
    ]
    promises += [
        (
            f"group {group} committed",
            partition,
            (0, offset, told_ns),
            history.given_to_groups.get((group, partition), {}),
        )
        for (group, partition), (offset, told_ns) in sorted(history.commits.items())
        if checkers.gone_ns(partition.rpartition("-")[0]) < 0  # in a topic made again a group goes on where it was
    ]
    for who, partition, (begin, end, told_ns), given in promises:
        if checkers.was_of_the_topic_before(partition.rpartition("-")[0], told_ns):
            continue
        checkers.world.check("G4")
        begin = max(begin, checkers.logs.deleted_to(partition))
        skipped = [
            place
            for place in by_partition.get(partition, [])
            if begin <= place < end and place not in given and (partition, place) not in checkers.cleaner.taken_at
        ]  # what one replica's cleaner took is with another still
        if skipped and all(checkers.logs.losses.may_be_lost(partition, place, until_ns=told_ns) for place in skipped):
            checkers.world.waive("G4")  # it was given, or passed, what lay there before
        elif skipped:
            sentence = f"{who} to {end} in {partition} and was not given {skipped[:5]}"
            checkers.world.violated("G4", sentence, partition)
