"""What small objects need for a while goes back to the system, whatever else is made meanwhile and stays."""

from __future__ import annotations

import subprocess
import sys

import pytest

from barnabas.runtime import memory
from barnabas.runtime.arenas import ARENAS, BUSY_LOOKS, Arenas
from barnabas.wire.kernel import kernel

with_kernel = pytest.mark.skipif(
    memory.heap() is None or kernel is None, reason="there is no kernel, or another malloc"
)

STORY = """
import asyncio, gc
from barnabas.runtime import memory
from barnabas.runtime.arenas import Arenas
from barnabas.wire.kernel import kernel

heap = memory.heap()
stays = []

async def request():
    elements = []
    for _ in range(300):
        await asyncio.sleep(0)
        elements += [[number] for number in range(1000)]

async def others(requests):
    while not all(request.done() for request in requests):
        stays.append({len(stays): object()})
        await asyncio.sleep(0)

async def main():
    Arenas(kernel.arenas).bound()
    began = heap.resident_bytes()
    requests = [asyncio.ensure_future(request()) for _ in range(4)]
    await others(requests)
    assert heap.resident_bytes() > began + (100 << 20)
    del requests
    gc.collect()
    heap.trim()
    grown = (heap.resident_bytes() - began) >> 20
    assert len(stays) > 200 and grown < 20, f"{len(stays)} objects stay, and {grown} MiB"

asyncio.run(main())
"""


@with_kernel
def test_what_stays_among_what_goes_keeps_few_arenas() -> None:
    """Unbounded, 118 MiB stay."""
    subprocess.run([sys.executable, "-c", STORY], check=True, timeout=60)


MIXED = """
import random
from barnabas.wire.kernel import kernel

chance = random.Random(7)
kept = {}
refused = [kernel.arenas(0)]
for number in range(200_000):
    if number % 1_000 == 0:
        refused.append(kernel.arenas(chance.choice((-2, -1, 1, 2))))  # below none as well: some go and none comes
    key = chance.randrange(50_000)
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
assert sum(refused) > 1_000 and 0 in refused[1:], refused
"""


@with_kernel
def test_what_came_from_one_place_is_grown_and_freed_while_new_objects_come_from_the_other() -> None:
    subprocess.run([sys.executable, "-c", MIXED], check=True, timeout=60)


STACKS = """
import sys, threading
from barnabas.wire.kernel import kernel

kernel.arenas(0)
kept = []
while not kernel.arenas(0):
    kept += [[number] for number in range(1000)]

def deep(calls):
    return 0 if not calls else 1 + deep(calls - 1)

sys.setrecursionlimit(20_000)
assert deep(10_000) == 10_000
told = []
threads = [threading.Thread(target=lambda: told.append(deep(500))) for _ in range(20)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert told == [500] * 20
"""


@with_kernel
def test_a_thread_begins_and_calls_go_deep_where_there_is_no_room_for_another_arena() -> None:
    """Python takes the stacks of its frames from where arenas come from: refused, a thread never began."""
    subprocess.run([sys.executable, "-c", STACKS], check=True, timeout=60)


@with_kernel
@pytest.mark.parametrize("option", ["-Xdev", "-Xtracemalloc"])
def test_who_watches_over_memory_still_sees_every_object(option: str) -> None:
    story = "from barnabas.wire.kernel import kernel; kernel.arenas(1); kept = [[n] for n in range(100_000)]"
    subprocess.run([sys.executable, option, "-c", story], check=True, timeout=60)


@with_kernel
def test_the_kernel_takes_one_whole_number() -> None:
    story = """
from barnabas.wire.kernel import kernel
for arguments, error in (((), ValueError), ((1, 2), ValueError), (("1",), TypeError), ((1 << 70,), OverflowError)):
    try:
        kernel.arenas(*arguments)
    except error:
        continue
    raise AssertionError(arguments)
"""
    subprocess.run([sys.executable, "-c", story], check=True, timeout=60)


class Kernel:
    """A kernel's ``arenas`` that refuses one in each look."""

    def __init__(self) -> None:
        self.given = 0
        self.refused = 0

    def __call__(self, more: int) -> int:
        self.given += more
        refused, self.refused = self.refused, 0
        return refused


def test_a_process_that_needs_more_when_it_has_little_to_do_gets_one_arena_a_look() -> None:
    kernel = Kernel()
    bounded = Arenas(kernel)
    bounded.look(busy=False)
    assert kernel.given == 0, "nothing is bounded before the process is ready"
    bounded.bound()
    bounded.look(busy=False)
    assert kernel.given == ARENAS
    kernel.refused = 7
    bounded.look(busy=False)
    bounded.look(busy=False)
    assert kernel.given == ARENAS + 1


def test_a_busy_process_waits_for_its_next_arena() -> None:
    kernel = Kernel()
    bounded = Arenas(kernel)
    bounded.bound()
    for _ in range(BUSY_LOOKS - 1):
        kernel.refused = 1
        bounded.look(busy=True)
    assert kernel.given == ARENAS
    kernel.refused = 1
    bounded.look(busy=True)
    assert kernel.given == ARENAS + 1
