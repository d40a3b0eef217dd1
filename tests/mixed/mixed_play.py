"""Clients, faults at whoever holds a role, and what is wrong afterwards, in a cluster of both kinds of brokers.

What Kafka's brokers write beside ours is compared with `RECORDED`, what they write among themselves under the same
faults: complaints of any kind, and all that the controller and the state changes tell.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

from apaches_words import stories
from mixed_brokers import APACHES, BothKinds
from mixed_cells import Cells, all_cells
from mixed_replicas import differing, lags, verified
from mixed_state import state

from barnabas.judge.check import check
from barnabas.judge.clusters import JudgedClusterError
from barnabas.judge.history import write
from barnabas.judge.nemesis import PROCESS_FAULTS
from barnabas.judge.report import text
from barnabas.judge.run import RunError, RunPlan, run
from barnabas.judge.workloads import BANK, LIST_APPEND, REGISTERS

HELD_S = (0.5, 4.0)
"""A broker that was killed, or is paused, is away until its session is over in any case (`BothKinds`)."""
REST_S = (0.5, 1.5)
WORKLOADS = (REGISTERS, LIST_APPEND, BANK)
"""Replicas of what is compacted, or deleted from the front, may differ in their files."""
RECORDED = Path(__file__).with_name("kafka_among_itself.txt")
EXPLAINED = Path(__file__).with_name("kafka_beside_ours.txt")
"""What was looked at, and is no fault of ours; with the reasons."""


def told(line: str) -> None:
    print(line, flush=True)


class Outcome(NamedTuple):
    wrong: list[str]
    """No client or operator may see it."""
    unheard: list[str]
    """What Kafka's brokers wrote, and have not written among themselves as long as that was recorded."""


def recorded() -> set[str]:
    return set(RECORDED.read_text().splitlines()) if RECORDED.exists() else set()


def explained() -> set[str]:
    return {line for line in EXPLAINED.read_text().splitlines() if line and not line.startswith("#")}


def play(brokers: BothKinds, directory: Path, minutes: float, seed: int, *, every: bool = False) -> Outcome:
    """What there is to say after `minutes` of load and faults; with `every`, a cell that was not struck is wrong, too.

    The next fault comes as soon as the cluster is whole again. Where all brokers are Kafka's, what they write is
    recorded.
    """
    cells = Cells(brokers, random.Random(seed))
    plan = RunPlan(brokers.bootstrap, minutes, PROCESS_FAULTS, brokers, clients=1, seed=seed, aim=cells.aim, told=told)
    plan.workloads, plan.held_s, plan.rest_s = WORKLOADS, HELD_S, REST_S
    try:
        outcome = run(plan)
        write(outcome.history, directory / "history.parquet")
        cells.wait_until_whole()
    except (RunError, JudgedClusterError) as error:
        error.add_note(state(brokers))
        raise
    if outcome.unsettled:
        told(state(brokers))
    verdict = check(outcome.history)
    told("\n".join(text(verdict)))
    wrong = [f"{each.anomaly}: {each.count}" for each in verdict.anomalies]
    wrong += [f"did not come to rest: {each}" for each in outcome.unsettled]
    wrong += [outcome.disobeyed] if outcome.disobeyed else []
    compared, unlike = differing(brokers)
    wrong += unlike
    told(f"{compared} batches compared in the replicas' files, {len(unlike)} places differ")
    for report in verified(brokers):
        told(f"kafka-replica-verification: {report}")
        wrong += [f"kafka-replica-verification: {report}"] if lags([report]) != [0] else []
    for (role, kind, fault), count in sorted(cells.struck.items()):
        told(f"{count:4} times  {fault:<8} {role} of {kind}")
    said = stories(brokers.apache.directory)
    if {brokers.kind(each) for each in brokers.ids} == {APACHES}:
        RECORDED.write_text("".join(f"{line}\n" for line in sorted(said | recorded())))
    unheard = sorted(said - recorded() - explained())
    told(f"Kafka's brokers wrote {len(said)} messages, {len(unheard)} of which none wrote in a cluster of its own:")
    for line in unheard:
        told(f"  {line}")
    struck = sum(cells.struck.values())
    slowest_s = max(cells.whole_after_s, default=0.0)
    told(f"{struck} faults in {len(cells.struck)} of {len(all_cells())} cells, one in {cells.each_s():.1f} s")
    told(f"whole again within {slowest_s:.1f} s")
    wrong += [] if struck else ["nothing was struck"]
    wrong += [f"not struck: {' '.join(cell)}" for cell in cells.missing()] if every else []
    return Outcome(wrong, unheard)
