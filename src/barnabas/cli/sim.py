"""``barnabas sim``: the whole cluster in one process and in virtual time, with faults drawn from a seed."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from barnabas.cli.output import CommandError, Format, print_json

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The simulated cluster.")


@app.callback()
def _sim() -> None:
    """A noun with verbs."""


@app.command()
def run(
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="One run, by its seed.")] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="So many runs, seeds 0, 1, ..")] = 10,
    first: Annotated[int, typer.Option("--first", min=0, help="The first of --seeds.")] = 0,
    timeline: Annotated[bool, typer.Option("--timeline", help="Print what happened, also of a good run.")] = False,
    output: Annotated[Format, typer.Option("--format", help="Text for people or JSON for programs.")] = Format.text,
) -> None:
    """Run the simulated cluster by seed; exit 1 when a run breaks a promise of the cluster."""
    from barnabas.sim.run import run_seed

    chosen = [seed] if seed is not None else range(first, first + seeds)
    failed: list[int] = []
    begun = time.monotonic()
    for each in chosen:
        outcome = run_seed(each)
        if not outcome.good:
            failed.append(each)
        if output is Format.json:
            print_json(_as_json(each, outcome, timeline))
        else:
            _tell(each, outcome, timeline)
    if output is Format.text and len(chosen) > 1:
        took = time.monotonic() - begun
        print(f"{len(chosen)} runs in {took:.1f} s, {len(failed)} of them bad")
    if failed:
        sys.stdout.flush()
        again = f"`barnabas sim run --seed {failed[0]} --timeline` shows the first again"
        raise CommandError(f"{len(failed)} of {len(chosen)} runs broke a promise (seeds {failed[:10]}): {again}.")


def _as_json(seed: int, outcome: Any, timeline: bool) -> dict[str, Any]:
    return {
        "seed": seed,
        "good": outcome.good,
        "wrong": list(outcome.wrong),
        "event_hash": outcome.event_hash,
        "acknowledged": outcome.acknowledged,
        "virtual_s": outcome.virtual_s,
        **({"timeline": list(outcome.timeline)} if timeline or not outcome.good else {}),
    }


def _tell(seed: int, outcome: Any, timeline: bool) -> None:
    word = "good" if outcome.good else "BAD"
    print(
        f"seed {seed}: {word}, {outcome.acknowledged} records acknowledged in {outcome.virtual_s:.1f} virtual s, "
        f"hash {outcome.event_hash[:16]}"
    )
    if timeline or not outcome.good:
        print(outcome.plan)
        for line in outcome.timeline:
            print(f"  {line}")
    for wrong in outcome.wrong:
        print(f"  wrong: {wrong}")
