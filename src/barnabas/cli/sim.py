"""``barnabas sim``: whole simulated clusters under faults, in virtual time. A failure is a seed that anyone can
replay."""

from __future__ import annotations

import gc
import itertools
import logging
import multiprocessing
import signal
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from barnabas.cli import sim_plans
from barnabas.cli.command import CommandGroup, Option
from barnabas.cli.options import OutputFormat
from barnabas.cli.output import Exit, Format, print_json
from barnabas.sim.plans.actions import ADMINISTRATION, CLIENTS, FAULTS, INVARIANTS

app = CommandGroup("Simulate clusters under faults that are drawn from a seed.")
console = Console(stderr=True)

_RUNS_A_PROCESS = 5
"""A run leaves some 20 MB of garbage, so a process ends after this many runs."""
_TWICE_EVERY = 100
"""One seed in this many runs twice, to check that a seed always gives the same run."""


def _run(task: tuple[int, str, bool]) -> dict[str, Any]:
    from barnabas.sim.run import run_seed

    logging.disable(logging.CRITICAL)
    seed, profile, twice = task
    begun = time.process_time()
    outcome = run_seed(seed, profile)
    took = time.process_time() - begun
    wrong = [str(violation) for violation in outcome.violations]
    if twice:
        again = run_seed(seed, profile)
        if again.event_hash != outcome.event_hash:
            wrong.append(f"not deterministic: event hash {outcome.event_hash}, then {again.event_hash}")
    return {
        "seed": seed,
        "profile": outcome.plan.profile,
        "good": not wrong,
        "wrong": wrong,
        "excused": len(outcome.excused),
        "event_hash": outcome.event_hash,
        "acknowledged": outcome.acknowledged,
        "planned_faults": sum(1 for action in outcome.plan.actions if action.name in FAULTS),
        "virtual_s": round(outcome.virtual_s, 3),
        "cpu_s": round(took, 3),
        "faults": dict(outcome.faults),
        "checked": dict(outcome.checked),
        "operations": dict(outcome.operations),
        "events": dict(outcome.events),
        "waived": dict(outcome.waived),
    }


def _tasks(first: int, seeds: int, profile: str, forever: bool) -> Iterator[tuple[int, str, bool]]:
    numbers = itertools.count(first) if forever else range(first, first + seeds)
    return ((seed, profile, (seed - first) % _TWICE_EVERY == 0) for seed in numbers)


@app.command("run")
def run_command(
    seeds: Annotated[int, Option("--seeds", min=1, help="How many runs.")] = 20,
    first: Annotated[int, Option("--first", min=0, help="The first seed.")] = 0,
    profile: sim_plans.ProfileOption = "all",
    jobs: Annotated[int, Option("--jobs", min=1, help="The number of processes at a time.")] = 1,
    forever: Annotated[bool, Option("--forever", help="Run seeds until Ctrl-C.")] = False,
    output: OutputFormat = Format.text,
) -> None:
    """Run seeds and print those that failed. One seed in a hundred runs twice and must give the same run.

    The summary counts how often each kind of fault struck and how often each invariant was evaluated.
    """
    sim_plans.plan_of(str(first), profile)  # an unknown profile is refused at once
    begun = time.monotonic()
    outcomes: list[dict[str, Any]] = []
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["barnabas.sim.run"])
    with (
        processes.Pool(jobs, _begin, maxtasksperchild=_RUNS_A_PROCESS) as pool,
        Progress(
            TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
        ) as progress,
    ):
        bar = progress.add_task("seeds", total=None if forever else seeds)
        window: deque[Any] = deque()
        tasks = _tasks(first, seeds, profile, forever)
        try:
            for task in itertools.islice(tasks, 4 * jobs):
                window.append(pool.apply_async(_run, (task,)))
            while window:
                outcome = window.popleft().get()
                window.extend(pool.apply_async(_run, (task,)) for task in itertools.islice(tasks, 1))
                outcomes.append(outcome)
                progress.advance(bar)
                if not outcome["good"]:
                    told = f"[red]seed {outcome['seed']}[/] {outcome['profile']}: {escape(outcome['wrong'][0])}"
                    progress.console.print(told)
        except KeyboardInterrupt:
            pool.terminate()
    failed = [outcome for outcome in outcomes if not outcome["good"]]
    summary = _summary(outcomes, time.monotonic() - begun)
    if output is Format.json:
        print_json({**summary, "runs": outcomes})
    else:
        _tell(summary)
        for outcome in failed[:10]:
            print(f"  {sim_plans.again(str(outcome['seed']), profile)}")
    raise Exit(1 if failed else 0)


def _begin() -> None:
    """Prepares a worker. Ctrl-C is for the parent, which then reports the results so far. The collector is off: it
    would take a tenth of the time, and the process's end frees its garbage."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()


def _summary(outcomes: list[dict[str, Any]], wall_s: float) -> dict[str, Any]:
    def total(name: str, keys: Iterable[str]) -> dict[str, int]:
        counted = Counter(dict.fromkeys(keys, 0))
        for outcome in outcomes:
            counted.update(outcome[name])
        return dict(counted)

    cpu_s = sum(outcome["cpu_s"] for outcome in outcomes)
    virtual_s = sum(outcome["virtual_s"] for outcome in outcomes)
    return {
        "seeds": len(outcomes),
        "failed": sum(1 for outcome in outcomes if not outcome["good"]),
        "excused": sum(outcome["excused"] for outcome in outcomes),
        "acknowledged": sum(outcome["acknowledged"] for outcome in outcomes),
        "planned_faults": sum(outcome["planned_faults"] for outcome in outcomes),
        "virtual_s": round(virtual_s, 1),
        "cpu_s": round(cpu_s, 1),
        "wall_s": round(wall_s, 1),
        "virtual_s_per_cpu_s": round(virtual_s / cpu_s, 1) if cpu_s else 0.0,
        "profiles": dict(sorted(Counter(outcome["profile"] for outcome in outcomes).items())),
        "faults": total("faults", FAULTS),
        "operations": total("operations", [*CLIENTS, *ADMINISTRATION]),
        "invariants": total("checked", INVARIANTS),
        "events": total("events", ()),
        "waived": total("waived", ()),
    }


def _tell(summary: dict[str, Any]) -> None:
    print(
        f"{summary['seeds']} seeds, {summary['failed']} failed; {summary['acknowledged']:,} records acknowledged, "
        f"{summary['planned_faults']:,} faults planned; {summary['virtual_s']:,.0f} s of virtual time in "
        f"{summary['cpu_s']:.0f} s of CPU ({summary['virtual_s_per_cpu_s']:.0f} to 1), {summary['wall_s']:.0f} s"
    )
    excused = summary["excused"]
    if excused:
        print(
            f"{excused} losses that ZooKeeper mode allows (every copy in sync had lost power, or an unclean election)"
        )
    told = (
        f"{name} {count / max(1, summary['invariants'].get(name, 0)):.2%}" for name, count in summary["waived"].items()
    )
    print(f"share of each invariant's evaluations that were excused: {', '.join(told) or 'none'}")
    for name, words in (
        ("faults", "faults that struck"),
        ("events", "events at which a fault struck"),
        ("operations", "clients and administrators"),
        ("invariants", "invariants, and how often each was evaluated"),
    ):
        counted = summary[name]
        missing = [key for key, count in counted.items() if not count]
        print(f"\n{words}: {len(counted) - len(missing)} of {len(counted)} kinds")
        cells = [f"{key} {count:,}" for key, count in counted.items() if count]
        width = max((len(cell) for cell in cells), default=0) + 3
        columns = max(1, 110 // width)
        for at in range(0, len(cells), columns):
            print("  " + "".join(cell.ljust(width) for cell in cells[at : at + columns]).rstrip())
        if missing:
            print(f"  never: {', '.join(missing)}")


app.command("replay")(sim_plans.replay)
app.command("shrink")(sim_plans.shrink)
app.command("scenarios")(sim_plans.scenarios)
