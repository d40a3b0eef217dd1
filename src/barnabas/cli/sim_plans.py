"""``barnabas sim replay|shrink|scenarios``: shows a run, shrinks a failing one, plays scenes written by hand."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console

from barnabas.cli.command import Argument, Option
from barnabas.cli.options import OutputFormat
from barnabas.cli.output import CommandError, Exit, Format, UsageError, print_json, print_table

if TYPE_CHECKING:
    from barnabas.sim.plans.plan import Plan
    from barnabas.sim.run import Outcome

console = Console(stderr=True)

RunArgument = Annotated[str, Argument(metavar="SEED|FILE", help="A seed, or a file with a plan.")]
ProfileOption = Annotated[str, Option("--profile", help="The profile from which the seed's plan is drawn.")]
HtmlOption = Annotated[
    Path | None, Option("--html", help="Also write the timeline as an HTML page that can be stepped through.")
]
FormatOption = OutputFormat


def plan_of(run: str, profile: str) -> Plan:
    """Draws the plan of a seed, or reads it from a file. Raises `UsageError`."""
    from barnabas.sim.plans.draw import PROFILES, draw
    from barnabas.sim.plans.plan import Plan

    if profile not in ("all", *PROFILES):
        raise UsageError(f"there is no profile {profile}; the profiles are all, {', '.join(PROFILES)}.")
    if run.isascii() and run.isdigit():
        return draw(int(run), profile)
    try:
        text = Path(run).read_text()
    except OSError as error:
        raise UsageError(f"{run} is neither a seed nor a file that can be read ({error.strerror}).") from None
    try:
        return Plan.loads(text)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{run} holds no plan: {error!r}. `barnabas sim shrink` writes one.") from None


def again(run: str, profile: str) -> str:
    """The command that replays a run."""
    drawn = f" --profile {profile}" if run.isdigit() and profile != "all" else ""
    return f"barnabas sim replay {run}{drawn}"


def nanoseconds(text: str) -> int:
    """Converts ``812ms``, ``3.5s``, ``200us`` to nanoseconds. Raises `UsageError`."""
    for unit, length in (("ms", 1e6), ("us", 1e3), ("ns", 1), ("s", 1e9)):
        number = text.removesuffix(unit)
        if number != text:
            try:
                return round(float(number) * length)
            except ValueError:
                break
    raise UsageError(f"{text!r} is not a time: write a number and s, ms, us or ns, as in 812ms.")


def _write_page(path: Path, outcome: Outcome, command: str, title: str = "", story: str = "") -> None:
    from barnabas.sim.timeline import page

    try:
        path.write_text(page(outcome.plan, outcome.trace, outcome.violations, command, title, story))
    except OSError as error:
        raise CommandError(f"the page cannot be written to {path} ({error.strerror}).") from None


def _write_view(path: Path, outcome: Outcome) -> None:
    from barnabas.web.assets import exported
    from barnabas.web.simulated import history_of

    made_by = f"the simulator, seed {outcome.plan.seed}, profile {outcome.plan.profile}"
    try:
        path.write_bytes(b"".join(exported(history_of(outcome.trace, made_by))))
    except OSError as error:
        raise CommandError(f"the view cannot be written to {path} ({error.strerror}).") from None


def _as_json(outcome: Outcome, command: str) -> dict[str, Any]:
    return {
        "seed": outcome.plan.seed,
        "profile": outcome.plan.profile,
        "good": outcome.good,
        "violations": [violation.as_json() for violation in outcome.violations],
        "excused": [violation.as_json() for violation in outcome.excused],
        "event_hash": outcome.event_hash,
        "acknowledged": outcome.acknowledged,
        "virtual_s": round(outcome.virtual_s, 3),
        "command": command,
        "plan": outcome.plan.as_json(),
        "trace": [event.as_json() for event in outcome.trace],
    }


def replay(
    run: RunArgument,
    profile: ProfileOption = "all",
    until: Annotated[
        str,
        Option(
            "--until", help="Stop at this time, such as 812ms or 3.5s, and show the cluster then; nothing is judged."
        ),
    ] = "",
    html: HtmlOption = None,
    view: Annotated[
        Path | None,
        Option("--view", metavar="FILE", help="Also write the run in the form of the cluster view: one HTML file."),
    ] = None,
    output: FormatOption = Format.text,
) -> None:
    """Replay one run and show it: the plan, a timeline with a lane for each broker, and the violated invariants."""
    from barnabas.sim.run import run_plan
    from barnabas.sim.timeline import picture_at, report, told

    logging.disable(logging.CRITICAL)
    plan = plan_of(run, profile)
    until_ns = nanoseconds(until) if until else None
    command = again(run, profile)
    outcome = run_plan(plan, until_ns=until_ns)
    if html is not None:
        _write_page(html, outcome, command)
    if view is not None:
        _write_view(view, outcome)
    if output is Format.json:
        print_json(_as_json(outcome, command))
    else:
        print(report(plan, outcome.trace, outcome.violations, command))
        if until_ns is not None:
            print(f"\nat {until}:\n{told(picture_at(outcome.trace, until_ns), plan)}")
        elif outcome.good:
            print(f"\n{outcome.acknowledged} records acknowledged; event hash {outcome.event_hash}; everything held")
        for violation in outcome.excused:
            print(f"excused  {violation}")
        if html is not None:
            print(f"the same as a page: {html}")
        if view is not None:
            print(f"the same in the cluster view: {view}")
    raise Exit(0 if outcome.good else 1)


def shrink(
    run: RunArgument,
    profile: ProfileOption = "all",
    invariant: Annotated[
        str, Option("--invariant", help="The invariant that must stay violated; by default the first one.")
    ] = "",
    cpu_seconds: Annotated[float, Option("--cpu-seconds", min=1, help="The CPU seconds to spend.")] = 300,
    into: Annotated[Path | None, Option("--out", help="The file for the small plan.")] = None,
    html: HtmlOption = None,
    output: FormatOption = Format.text,
) -> None:
    """Make a failing run small: drop, simplify and shorten the actions of its plan while the same invariant is
    violated."""
    from barnabas.sim.run import run_plan
    from barnabas.sim.shrink import shrink as shrink_plan
    from barnabas.sim.timeline import report

    logging.disable(logging.CRITICAL)
    plan = plan_of(run, profile)
    began = time.process_time()
    broken = list(dict.fromkeys(violation.invariant for violation in run_plan(plan).violations))
    if not broken:
        raise CommandError(f"everything holds in {run}: there is nothing to shrink.")
    if invariant and invariant not in broken:
        raise CommandError(f"{invariant} holds in {run}; what breaks is {', '.join(broken)}.")
    invariant = invariant or broken[0]

    def step(smaller: Plan, runs: int) -> None:
        console.print(f"{runs:>4} runs  {len(smaller.actions):>3} actions  {smaller.length_ns / 1e9:.0f} s")

    shrunk = shrink_plan(
        plan,
        invariant,
        lambda candidate: run_plan(candidate).violations,
        more=lambda: time.process_time() - began < cpu_seconds,
        on_step=step,
    )
    took = time.process_time() - began
    path = into or Path(f"{plan.profile}-{plan.seed}-{invariant}.json")
    path.write_text(shrunk.plan.dumps() + "\n")
    outcome = run_plan(shrunk.plan)
    command = again(str(path), "all")
    if html is not None:
        _write_page(html, outcome, command)
    if output is Format.json:
        print_json({"file": str(path), "runs": shrunk.runs, "cpu_s": round(took, 1), **_as_json(outcome, command)})
    else:
        print(report(shrunk.plan, outcome.trace, outcome.violations, command))
        print(
            f"\n{len(plan.actions)} actions became {len(shrunk.plan.actions)} in {shrunk.runs} runs, {took:.0f} CPU s"
            + ("" if shrunk.finished else "; time ran out, so more may be possible")
        )


def scenarios(
    names: Annotated[list[str] | None, Argument(metavar="[NAME]...", help="All by default.")] = None,
    html: Annotated[Path | None, Option("--html", help="The directory for an HTML page of each scene.")] = None,
    output: FormatOption = Format.text,
) -> None:
    """Play scenes written by hand: failovers, zombies, truncations. Each must end as its description says."""
    from barnabas.sim.scenarios import SCENARIOS, play
    from barnabas.sim.timeline import report

    logging.disable(logging.CRITICAL)
    unknown = [name for name in names or () if name not in SCENARIOS]
    if unknown:
        raise UsageError(f"there is no scenario {', '.join(unknown)}; there are {', '.join(SCENARIOS)}.")
    played = []
    for name in names or SCENARIOS:
        scenario = SCENARIOS[name]
        outcome, unmet = play(scenario)
        command = f"barnabas sim scenarios {name}"
        played.append((scenario, outcome, unmet))
        if html is not None:
            html.mkdir(parents=True, exist_ok=True)
            _write_page(html / f"{name}.html", outcome, command, scenario.title, scenario.story)
        if output is Format.text and (names or unmet):
            print(f"{scenario.title}\n\n{scenario.story}\n")
            print(report(outcome.plan, outcome.trace, outcome.violations, command))
            print("\n" + ("\n".join(f"NOT AS TOLD  {expectation}" for expectation in unmet) or "as told") + "\n")
    failed = [scenario.name for scenario, _, unmet in played if unmet]
    if output is Format.json:
        print_json(
            {
                "scenarios": [
                    {
                        "name": scenario.name,
                        "good": not unmet,
                        "unmet": unmet,
                        "violations": [violation.as_json() for violation in outcome.violations],
                        "virtual_s": round(outcome.virtual_s, 3),
                    }
                    for scenario, outcome, unmet in played
                ]
            }
        )
    elif not names:
        print_table(
            ["scenario", "", "what it tells"],
            [(scenario.name, "failed" if unmet else "ok", scenario.title) for scenario, _, unmet in played],
        )
        print("\nbarnabas sim scenarios NAME shows one with its timeline; --html DIR writes pages.")
    raise Exit(1 if failed else 0)
