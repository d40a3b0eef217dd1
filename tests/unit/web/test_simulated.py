"""A simulated run in the view: the newest picture is the one that the simulator itself makes of its trace."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from barnabas.sim.run import run_seed
from barnabas.sim.timeline import Picture
from barnabas.web.simulated import history_of


def test_the_view_of_a_run_ends_with_the_simulators_own_picture() -> None:
    outcome = run_seed(7, "all")
    picture = Picture()
    for event in outcome.trace:
        picture.take(event)
    history = history_of(outcome.trace, "a test")
    facts = history.facts
    assert facts["controller"]["epoch"] == picture.controller_epoch
    assert facts.keys() >= {f"partition/{name}" for name in picture.partitions}
    for name, known in picture.partitions.items():
        told = facts[f"partition/{name}"]
        assert (told["leader"], told["leader_epoch"], told["isr"]) == (
            known.leader,
            known.leader_epoch,
            list(known.isr),
        )
        leader = picture.replicas.get((f"broker-{known.leader}", name))
        if leader is not None:
            assert facts[f"offsets/{name}"]["high_watermark"] == leader.high_watermark
    assert history.written > len(picture.partitions)


def test_the_command_writes_a_run_as_one_file(tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    ran = subprocess.run(
        [sys.executable, "-m", "barnabas", "sim", "replay", "7", "--until", "2s", "--view", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith(f"the same in the cluster view: {file}\n")
    history = json.loads(file.read_text().partition('id="history">')[2].partition("</script>")[0])
    assert history["made_by"].startswith("the simulator, seed 7, profile ")
    assert any(name.startswith("partition/") and value["leader"] >= 0 for _, name, value in history["changes"] if name)
