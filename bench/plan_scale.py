# ruff: noqa: TID251 -- a bench reads the real clock
"""What it costs to plan reads of many records, by made metadata: ``python bench/plan_scale.py 1000000000 10000 [SVG]``.

The pure part of what a driver does before any task begins, over topics of up to so many partitions, one of which has
half of all records. No broker and no Spark is asked; CPU is this process's own. With SVG, a file's name, it is drawn.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from barnabas.model.ids import TopicPartition, Uuid
from barnabas.spark.jobs.archive import RECORDS_PER_COMMIT, Ahead, portions
from barnabas.spark.jobs.commits import Commit, Covered, PartitionLife, coverage
from barnabas.spark.plan import OffsetRange, admitted, by_topic, cut, offsets_from_json, offsets_to_json

TOPIC_ID = Uuid(bytes(15) + b"t")
TRIGGER = 1_000_000
"""``maxOffsetsPerTrigger`` of the stream."""


def main(records: int = 1_000_000_000, partitions_max: int = 10_000, svg: str = "") -> None:
    lines: dict[str, list[tuple[int, float]]] = {}
    print(f"{records:,} records, half of them in one partition")
    print(f"{'partitions':>10} {'what':<58} {'CPU s':>7}")
    partitions = partitions_max
    while partitions >= 10:
        for name, what, took in planned(records, partitions):
            print(f"{partitions:>10,} {what:<58} {took:7.3f}", flush=True)
            lines.setdefault(name, []).append((partitions, took))
        partitions //= 10
    if svg:
        draw(svg, records, lines)


def planned(records: int, partitions: int) -> list[tuple[str, str, float]]:
    ends = {TopicPartition("t", number): records // 2 // (partitions - 1) for number in range(1, partitions)}
    ends[TopicPartition("t", 0)] = records - sum(ends.values())
    ranges = [OffsetRange(*partition, 0, end, topic_id=TOPIC_ID) for partition, end in sorted(ends.items())]
    pieces, batch = timed(lambda: cut(ranges, min_partitions=2 * partitions))
    assert sum(piece.size for piece in pieces) == records
    largest = max(piece.size for piece in pieces)
    told = [
        ("a batch", f"a batch with minPartitions={2 * partitions}: {len(pieces)} tasks of up to {largest:,}", batch)
    ]

    def trigger() -> Any:
        starts = dict.fromkeys(ends, 0)
        chosen = admitted(starts, ends, TRIGGER)
        written = json.dumps(offsets_to_json(by_topic(chosen, dict.fromkeys(ends, TOPIC_ID))))
        return offsets_from_json(json.loads(written))

    offsets, stream = timed(trigger)
    assert sum(offsets["t"].next_offsets.values()) == TRIGGER
    told.append(("a micro-batch", f"a micro-batch of {TRIGGER:,} with its offset written and read", stream))
    lives = {partition: PartitionLife("t", str(TOPIC_ID), partition.partition) for partition in ends}
    ahead = [Ahead(lives[partition], 0, end) for partition, end in sorted(ends.items())]
    parts, job = timed(lambda: [list(part) for part in portions(ahead, RECORDS_PER_COMMIT)])
    told.append(("land's commits", f"land or archive in {len(parts)} commits", job))
    commits = [
        Commit(number, 0, "", tuple(Covered(*piece.source, piece.start, piece.end) for piece in part), ())
        for number, part in enumerate(parts, 1)
    ]
    found, audited = timed(lambda: coverage(commits))
    assert not any(source.gaps or source.overlaps for source in found)
    told.append(
        ("the proof of coverage", f"coverage of {sum(len(commit.covered) for commit in commits):,} ranges", audited)
    )
    return told


def timed(act: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.process_time()
    done = act()
    return done, time.process_time() - begun


def draw(svg: str, records: int, lines: dict[str, list[tuple[int, float]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context({"font.family": "sans-serif", "svg.fonttype": "none", "svg.hashsalt": "barnabas"}):
        figure, axis = pyplot.subplots(figsize=(7.2, 4.0), layout="constrained", facecolor="white")
        for (name, points), marker in zip(lines.items(), "os^D", strict=True):
            axis.loglog(*zip(*points, strict=True), marker=marker, label=name)
        axis.set_title(f"Planning {records:,} records", loc="left")
        axis.set_xlabel("partitions")
        axis.set_ylabel("CPU seconds of the driver")
        axis.grid(color="#dddddd", linewidth=0.6)
        axis.legend(frameon=False)
        figure.savefig(svg, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:4])
