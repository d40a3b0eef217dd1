"""A client that has several batches under way gets on when all has healed."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.sim.clients.pipeliner import IN_FLIGHT, Pipeliner
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, plan


def test_a_leader_that_never_takes_as_many_batches_as_may_be_under_way_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    burst = Pipeliner._burst

    async def refused(pipeliner: Pipeliner, *arguments: Any) -> bool:
        *_, fewest = arguments
        return await burst(pipeliner, *arguments) and fewest < IN_FLIGHT

    monkeypatch.setattr(Pipeliner, "_burst", refused)
    monkeypatch.setattr("barnabas.sim.clients.pipeliner.GETS_ON_NS", 4_000_000_000)
    said = {"client": "pipeliner", "topic": "orders", "records": 12, "transactional": True}
    outcome = run_plan(plan(at(0, "pipeline", 4, **said), length=5, configs={"min.insync.replicas": "2"}))
    assert [(each.invariant, each.sentence) for each in outcome.violations] == [
        ("L1", "pipeliner sends 5 batches at once, and never are all taken")
    ]
