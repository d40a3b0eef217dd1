"""``barnabas sim``: whole clusters under faults on virtual time; a failure is a seed that anyone can replay."""

from __future__ import annotations

import logging
import multiprocessing
import time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from barnabas.cli import sim_plans
from barnabas.cli.output import Format, print_json

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The simulated cluster: faults drawn from a seed.")
console = Console(stderr=True)

_TWICE_EVERY = 100
"""One seed in so many runs twice, to see that a seed is a run."""


def _run(task: tuple[int, str, bool]) -> dict[str, Any]:
    from barnabas.sim.run import run_seed

    logging.disable(logging.CRITICAL)
    seed, profile, twice = task
    outcome = run_seed(seed, profile)
    wrong = [str(each) for each in outcome.violations]
    if twice:
        again = run_seed(seed, profile)
        if again.event_hash != outcome.event_hash:
            wrong.append(f"not deterministic: event hash {outcome.event_hash}, then {again.event_hash}")
    return {
        "seed": seed,
        "good": not wrong,
        "wrong": wrong,
        "event_hash": outcome.event_hash,
        "acknowledged": outcome.acknowledged,
        "faults": len(outcome.plan.actions),
        "virtual_s": round(outcome.virtual_s, 3),
    }


@app.command("run")
def run_command(
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many runs.")] = 20,
    first: Annotated[int, typer.Option("--first", min=0, help="The first seed.")] = 0,
    profile: sim_plans.ProfileOption = "all",
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes at a time.")] = 1,
    output: Annotated[Format, typer.Option("--format", help="Text for people or JSON for programs.")] = Format.text,
) -> None:
    """Runs seeds and prints those that failed. One in a hundred runs twice, and must be the same run again."""
    sim_plans.plan_of(str(first), profile)  # a profile that is none is told at once
    tasks = [(seed, profile, (seed - first) % _TWICE_EVERY == 0) for seed in range(first, first + seeds)]
    begun = time.monotonic()
    outcomes: list[dict[str, Any]] = []
    with (
        multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=50) as pool,
        Progress(
            TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
        ) as progress,
    ):
        bar = progress.add_task("seeds", total=seeds)
        for outcome in pool.imap(_run, tasks):
            outcomes.append(outcome)
            progress.advance(bar)
            if not outcome["good"]:
                progress.console.print(f"[red]seed {outcome['seed']}[/]: {outcome['wrong'][0]}")
    took = time.monotonic() - begun
    failed = [outcome for outcome in outcomes if not outcome["good"]]
    virtual = sum(outcome["virtual_s"] for outcome in outcomes)
    if output is Format.json:
        print_json({"runs": outcomes, "failed": len(failed), "virtual_s": virtual, "wall_s": round(took, 1)})
    else:
        records = sum(outcome["acknowledged"] for outcome in outcomes)
        faults = sum(outcome["faults"] for outcome in outcomes)
        print(
            f"{seeds} seeds, {len(failed)} failed; {records:,} records acknowledged, {faults} faults and repairs; "
            f"{virtual:,.0f} s of virtual time in {took:.0f} s"
        )
        for outcome in failed[:10]:
            print(f"  {sim_plans.again(str(outcome['seed']), profile)}")
    raise typer.Exit(1 if failed else 0)


app.command("replay")(sim_plans.replay)
app.command("shrink")(sim_plans.shrink)
app.command("scenarios")(sim_plans.scenarios)
