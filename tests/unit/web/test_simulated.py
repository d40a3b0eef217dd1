"""A simulated run in the view: the newest picture is the one that the simulator itself makes of its trace."""

from __future__ import annotations

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
