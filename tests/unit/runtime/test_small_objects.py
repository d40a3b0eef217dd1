"""What slices of long work made goes back to the system, whatever else was made meanwhile and stays."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from barnabas.runtime import memory
from barnabas.runtime.small_objects import SmallObjects, small_objects

PLAIN = {name: value for name, value in os.environ.items() if name != "PYTHONMALLOC"}

pytestmark = pytest.mark.skipif(
    memory.heap() is None or small_objects() is None, reason="the C library or the Python is another"
)

STORY = """
import asyncio, gc, random
from barnabas.runtime import memory
from barnabas.runtime.small_objects import small_objects
from barnabas.runtime.turns import Turns

heap = memory.heap()
stays = []

async def request(turns):
    elements = []
    for _ in range(300):
        await turns.next()
        elements += [[number] for number in range(1000)]
    return len(elements)

async def others(requests):
    while not all(each.done() for each in requests):
        stays.append({len(stays): object()})
        await asyncio.sleep(0)

async def main():
    turns = Turns()
    turns.small_objects = small_objects()
    began = heap.resident_bytes()
    requests = [asyncio.ensure_future(request(turns)) for _ in range(4)]
    await others(requests)
    del requests
    gc.collect()
    heap.trim()
    grown = (heap.resident_bytes() - began) >> 20
    assert len(stays) > 1000 and grown < 12, f"{len(stays)} objects stay, and {grown} MiB"

asyncio.run(main())
"""


def test_what_stays_among_what_goes_keeps_no_arena() -> None:
    """Without `small_objects` 119 MiB stay."""
    subprocess.run([sys.executable, "-c", STORY], check=True, timeout=60, env=PLAIN)


MIXED = """
import random
from barnabas.runtime.small_objects import small_objects

found, chance = small_objects(), random.Random(7)
kept = {}
for number in range(200_000):
    chance.choice((found.from_malloc, found.from_arenas))()
    key = chance.randrange(2_000)
    match chance.randrange(4):
        case 0:
            kept[key] = [str(number)] * chance.randrange(100)
        case 1:
            kept.setdefault(key, []).append({number: bytes(chance.randrange(600))})
        case 2:
            kept.pop(key, None)
        case 3:
            kept[key] = bytearray(chance.randrange(600))
            kept[key] += bytes(chance.randrange(600))
            kept[key] = list(kept[key])
found.from_arenas()
"""


def test_what_came_from_one_place_is_grown_and_freed_while_new_objects_come_from_the_other() -> None:
    subprocess.run([sys.executable, "-c", MIXED], check=True, timeout=60, env=PLAIN)


@pytest.mark.parametrize("allocator", ["malloc", "debug", "pymalloc_debug"])
def test_an_allocator_that_somebody_chose_is_left_alone(allocator: str) -> None:
    story = "from barnabas.runtime.small_objects import small_objects; assert small_objects() is None"
    subprocess.run([sys.executable, "-c", story], check=True, timeout=60, env={**PLAIN, "PYTHONMALLOC": allocator})


@pytest.mark.parametrize("option", [["-X", "dev"], ["-X", "tracemalloc"]])
def test_who_watches_over_memory_is_left_alone(option: list[str]) -> None:
    story = "from barnabas.runtime.small_objects import small_objects; assert small_objects() is None"
    subprocess.run([sys.executable, *option, "-c", story], check=True, timeout=60, env=PLAIN)


def test_a_change_is_for_one_slice() -> None:
    """Objects that are made between two slices come from arenas."""
    story = """
import asyncio
from barnabas.runtime.small_objects import SmallObjects
from barnabas.runtime.turns import Turns

class Watched(SmallObjects):
    now = "arenas"
    def from_malloc(self):
        self.now = "malloc"
    def from_arenas(self):
        self.now = "arenas"

async def main():
    turns, found, seen = Turns(), Watched(), []
    turns.small_objects = found

    async def work(name):
        for _ in range(5):
            await turns.next()
            seen.append((name, found.now))

    async def other():
        for _ in range(20):
            seen.append(("other", found.now))
            await asyncio.sleep(0)

    await asyncio.gather(work("a"), other(), work("b"), other())
    assert set(seen) == {("a", "malloc"), ("b", "malloc"), ("other", "arenas")}, seen

from barnabas.runtime.event_loop import fastest_loop
for factory in (None, fastest_loop()):
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
"""
    subprocess.run([sys.executable, "-c", story], check=True, timeout=60, env=PLAIN)


def test_it_can_be_asked_for_here() -> None:
    SmallObjects().from_arenas()
