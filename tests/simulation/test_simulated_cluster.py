"""Whole clusters of the product's own code under faults drawn from a seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barnabas.sim import scenarios
from barnabas.sim.plans.actions import CLIENTS, FAULTS, INVARIANTS
from barnabas.sim.plans.draw import FAULTS_MIN, PROFILES, draw, drawn_from
from barnabas.sim.plans.plan import Plan, TopicPlan
from barnabas.sim.run import run_plan, run_seed
from barnabas.sim.scenarios import at

SOURCES = Path(__file__).parents[2] / "src"


def ran(seeds: int, *, hash_seed: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "sim", "run", "--seeds", str(seeds), "--jobs", "2", "--format", "json"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.long(0)
@pytest.mark.timeout(900)
def test_a_hundred_seeds_hold_and_between_them_meet_every_fault_and_every_invariant() -> None:
    summary = ran(100, hash_seed="1")
    assert summary["failed"] == 0, [
        f"barnabas sim replay {each['seed']}: {each['wrong'][:2]}" for each in summary["runs"] if not each["good"]
    ]
    again = {each["seed"]: each["event_hash"] for each in ran(12, hash_seed="5")["runs"]}
    assert again == {each["seed"]: each["event_hash"] for each in summary["runs"] if each["seed"] < 12}
    struck = [name for name in FAULTS if summary["faults"][name]]
    assert len(struck) >= 35, sorted(set(FAULTS) - set(struck))
    assert [name for name in INVARIANTS if not summary["invariants"][name]] == []
    assert summary["planned_faults"] >= 100 * FAULTS_MIN
    assert summary["acknowledged"] > 10_000


@pytest.mark.long
@pytest.mark.parametrize(
    ("seed", "profile"),
    [
        pytest.param(11, "all", id="a partition that moved was sent by two senders at once"),
        pytest.param(53, "all", id="a broker with a failed directory"),
        pytest.param(25, "all", id="a leader that lost power resumed in its epoch"),
        pytest.param(160, "all", id="a log half made in a failing directory was made again in the next"),
        pytest.param(184, "all", id="a power loss took the log start back and left no leader epochs"),
        pytest.param(507, "all", id="a leader's log began within the batch before which the follower's was cut"),
        pytest.param(640, "all", id="an answer about offsets for an older epoch paused the newer one for good"),
        pytest.param(282, "all", id="a broker registered anew while it read configurations for an older LeaderAndIsr"),
        pytest.param(20031, "all", id="the log of a topic that was made anew meanwhile kept a replica out of the ISR"),
        pytest.param(30285, "all", id="what was cut for damage stayed below the recovery point on disk"),
        pytest.param(30612, "all", id="a segment that recovery had dropped came back after the next loss of power"),
        pytest.param(
            31202, "all", id="the last time index entry of a segment that had been flushed before was never synced"
        ),
        pytest.param(60280, "CTL", id="a topic whose deletion ended while a broker had no session was known for ever"),
        pytest.param(
            91027, "all", id="a topic was made anew while a broker without a session still followed the old one"
        ),
        pytest.param(91010, "all", id="the end of a segment was lost with the power, and the name of the next was not"),
        pytest.param(100504, "all", id="a reassignment was replaced by one without the replica that led by then"),
        pytest.param(130267, "all", id="a reassignment was replaced by one without the last replica in sync"),
        pytest.param(110718, "all", id="a follower differed before what was deleted, where no leader epoch tells it"),
        pytest.param(111418, "all", id="a leader deleted all that a follower differed in before it heard of its end"),
        pytest.param(70474, "all", id="a leader wrote other batches over what it had lost with the power in its epoch"),
        pytest.param(153040, "all", id="segments that retention had deleted came back torn, below the recovery point"),
        pytest.param(170555, "all", id="an epoch that began without a record stayed before batches of an older one"),
        pytest.param(260480, "all", id="a topic that was made anew found the high watermark of the one before"),
        pytest.param(310433, "all", id="a leader took a replica back that was taken out of its ISR"),
        pytest.param(401019, "all", id="a consumer kept what it had read while it waited for metadata"),
        pytest.param(
            421805, "all", id="a follower was told the high watermark with what it had to cut, and never again"
        ),
        pytest.param(422638, "all", id="a coordinator that was killed wrote what its lagging front end had postponed"),
        pytest.param(402645, "all", id="the checkpoint of one failing directory kept a broker from shutting down"),
        pytest.param(402981, "all", id="a broker left that still led a topic which was being deleted"),
        pytest.param(406276, "all", id="a follower had led in an epoch whose beginning it had lost with the power"),
        pytest.param(416096, "all", id="a write behind a lagging front end was not in the coordinator's log"),
        pytest.param(
            409618, "all", id="a leader that had stood still counted a fetch from before its follower's disk rotted"
        ),
        pytest.param(
            528341, "all", id="a leader wrote its ISR after a write that the coordinator did not live to tell"
        ),
        pytest.param(240051, "all", id="a leader wrote its ISR while its registration was on its way"),
        pytest.param(241452, "all", id="a leader without what it lost with the power took a batch again"),
        pytest.param(231053, "all", id="a producer was forgotten at a restart, since its records were all deleted"),
        pytest.param(
            230974, "all", id="a broker was let go as a member of ISRs, since its controller was none by then"
        ),
        pytest.param(230630, "all", id="a copy that had lost its end with the power was elected"),
        pytest.param(210900, "all", id="a producer was forgotten at a restart, since the clock was a day ahead"),
        pytest.param(200074, "all", id="a cut that failed half way left the high watermark beyond the log's end"),
        pytest.param(270116, "all", id="a leader's answers named no epoch, and all that it had was deleted"),
        pytest.param(190298, "all", id="a leader's answer named no epoch, and a follower kept what it never had"),
        pytest.param(
            190511, "all", id="a leader that missed an epoch counted what a follower had cut for the leader between"
        ),
        pytest.param(30545, "all", id="a crash took the log start back and left the leader epochs after it"),
        pytest.param(
            80583, "all", id="what was cut came back with the next power loss, since the cut's fsync had failed"
        ),
        pytest.param(
            80661, "all", id="a leader that had stood still committed on what another had lost with the power"
        ),
        pytest.param(
            90138, "REAS", id="what the controller asked ZooKeeper was still under way when its link was mended"
        ),
        pytest.param(80437, "all", id="a topic was told as deleted while its deletion waited for a reassignment"),
        pytest.param(80313, "all", id="a bit rotted in a log whose clean stop was still marked, so that nobody looked"),
    ],
)
def test_a_run_that_once_failed_holds(seed: int, profile: str) -> None:
    """These plans are from before plans were widened, and `drawn_from` still draws them."""
    outcome = run_plan(drawn_from(seed, profile))
    assert outcome.good, "\n".join(map(str, [*outcome.violations, *outcome.trace]))


def interpreters() -> list[str]:
    """This Python and the others of 3.11 to 3.14 that the machine has, one of each version."""
    minors = [minor for minor in (11, 12, 13, 14) if minor != sys.version_info[1]]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [sys.executable]
    for minor in minors:
        places = [Path(f"/usr/bin/python3.{minor}"), Path(f"/usr/local/bin/python3.{minor}")]
        places += sorted((pyenv / "versions").glob(f"3.{minor}.*/bin/python"))
        found += [str(place) for place in places if place.exists()][:1]
    return found


def with_the_libraries(python: str) -> dict[str, str]:
    """The environment in which `python` finds the sources and the libraries that they import."""
    if python == sys.executable:
        return {**os.environ, "PYTHONPATH": str(SOURCES)}
    version = subprocess.run(
        [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True, check=True
    ).stdout.strip()
    there = Path.home() / ".cache/barnabas" / f"simulated-{version}"
    libraries = {"crc32c": "crc32c", "cramjam": "cramjam", "h11": "h11"}
    if version in ("3.11", "3.12", "3.13"):
        libraries["backports"] = "backports.zstd"
    if not all((there / module).exists() for module in libraries):
        installed = subprocess.run(
            [python, "-m", "pip", "install", "-q", "--upgrade", "--target", str(there), *libraries.values()],
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        if installed.returncode:
            pytest.skip(
                f"{', '.join(libraries.values())} cannot be had for Python {version}: {installed.stderr[-200:]}"
            )
    return {**os.environ, "PYTHONPATH": f"{SOURCES}:{there}"}


def test_a_seed_is_the_same_run_under_any_hash_seed_and_on_every_python_there_is() -> None:
    program = (
        "import logging; logging.disable(50)\nfrom barnabas.sim.run import run_seed; print(run_seed(3).event_hash)"
    )
    hashes = {
        (python, hash_seed): subprocess.run(
            [python, "-c", program],
            env={**with_the_libraries(python), "PYTHONHASHSEED": hash_seed},
            capture_output=True, text=True, check=True, timeout=300,
        ).stdout
        for number, python in enumerate(interpreters())
        for hash_seed in (("0", "4242") if number == 0 else ("77",))
    }  # fmt: skip
    assert len(set(hashes.values())) == 1, hashes


def test_a_controller_may_elect_who_is_gone_until_it_can_hear_what_it_missed_behind_a_lagging_front_end() -> None:
    """The checker's own mistake once: it counted from when the broker had gone, not from when that could be heard."""
    plan = scenarios.plan(
        at(11.0, "zk-expire", node="broker-1"),
        at(14.0, "zk-expire", node="broker-0"),
        at(17.0, "zk-stale", 6, node="controller", lag_ns=1_386_000_000),
        at(17.5, "zk-expire", node="broker-1"),
        at(19.0, "zk-auth-fail", 5, node="broker-0"),
        length=20,
        more_topics=(TopicPlan("payments", 1, 3, {"min.insync.replicas": "1"}),),
        configs={"min.insync.replicas": "2"},
    )
    outcome = run_plan(replace(plan, seed=3))
    assert outcome.good, list(map(str, outcome.violations))


def test_different_seeds_are_different_runs() -> None:
    assert run_seed(1).event_hash != run_seed(2).event_hash


def test_a_plan_read_from_a_file_is_the_plan_that_was_written() -> None:
    for seed in range(200):
        plan = draw(seed)
        assert Plan.loads(plan.dumps()) == plan
        assert len({each.number for each in plan.actions}) == len(plan.actions)


def test_every_plan_has_twenty_faults_and_six_clients() -> None:
    for profile in ("all", *PROFILES):
        for seed in range(20):
            plan = draw(seed, profile)
            assert sum(1 for each in plan.actions if each.name in FAULTS) >= FAULTS_MIN
            assert sum(1 for each in plan.actions if each.name in CLIENTS) >= 6
