"""A run in which something turns for ever ends all the same, and names it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from barnabas.sim.plans.chance import Chance, EventHash
from barnabas.sim.world.loop import SimLoop
from barnabas.sim.world.standstill import Standstill, no_standstill


async def never_waits() -> None:
    while True:
        with contextlib.suppress(Exception):
            turns()


def turns() -> None:
    for _ in range(1_000):
        pass


async def turns_over() -> None:
    """It waits, but for nothing that takes time."""
    while True:
        done = asyncio.get_running_loop().create_future()
        done.get_loop().call_soon(done.set_result, None)
        await done


@pytest.mark.parametrize(
    ("story", "named"), [(never_waits, "in .*later > never_waits"), (turns_over, "in ")], ids=["step", "steps"]
)
def test_what_turns_for_ever_is_ended_and_named(
    monkeypatch: pytest.MonkeyPatch, story: Callable[[], Awaitable[None]], named: str
) -> None:
    monkeypatch.setattr("barnabas.sim.world.loop.no_standstill", lambda now_ns: no_standstill(now_ns, 0.05))
    loop = SimLoop(Chance(1, "still").stream("loop"), EventHash())

    async def later() -> None:
        await asyncio.sleep(1.5)
        await story()

    with pytest.raises(Standstill, match=f"time stands still at 1.500000 s, {named}"):
        loop.run_until_complete(later())


def test_who_uses_cpu_while_time_goes_on_is_left_alone() -> None:
    now_ns = 0
    with no_standstill(lambda: now_ns, 0.01):
        for _ in range(200):
            now_ns += 1
            turns()
