"""What clients of a plan do: they go on when all has healed, and give up in time where brokers soon forget them."""

from __future__ import annotations

from barnabas.sim.draw import draw
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, plan
from barnabas.sim.sender import AFTERWARDS


def test_whoever_writes_writes_a_little_more_when_all_has_healed() -> None:
    """Nobody is there from before the first record to the end."""
    outcome = run_plan(
        plan(
            at(0, "blackout", 7.9),
            at(0.5, "transact", 6, client="teller-1", topic="orders", records=20),
            at(0.5, "produce", 6, client="producer-1", topic="orders", records=0),
            length=8,
            configs={"min.insync.replicas": "2"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.checked["T3"] >= AFTERWARDS
    assert outcome.checked["R7"] >= AFTERWARDS


def test_where_brokers_soon_forget_producers_nobody_sends_a_batch_again_that_late() -> None:
    """And some transaction is open for longer than that."""
    naps, plans = 0, 0
    for drawn in map(draw, range(200)):
        if "producer.id.expiration.check.interval.ms" not in drawn.config:
            continue
        plans += 1
        expires_ms = int(drawn.config["producer.id.expiration.ms"])
        writing = [action for action in drawn.actions if action.name in ("produce", "transact", "work")]
        for action in writing:
            latest_ms = action.whole("delivery_timeout_ms", 120_000) + action.whole("skew_ms", 0)
            assert latest_ms < expires_ms
            assert action.whole("nap_ms", 0) < action.whole("transaction_timeout_ms", 60_000)
            naps += action.whole("nap_ms", 0) > expires_ms
    assert naps >= plans > 10
