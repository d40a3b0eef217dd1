"""What small objects need for a while goes back to the system, whatever else is made meanwhile and stays."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from barnabas.runtime import memory
from barnabas.wire.kernel import kernel

PLAIN = {name: value for name, value in os.environ.items() if name != "PYTHONMALLOC"}


def run(story: str, *options: str, **environment: str) -> None:
    subprocess.run([sys.executable, *options, "-c", story], check=True, timeout=60, env=PLAIN | environment)


def has_slabs() -> bool:
    if memory.heap() is None or kernel is None:
        return False
    story = "from barnabas.wire.kernel import kernel; raise SystemExit(kernel.slabs(0) < 0)"
    return subprocess.run([sys.executable, "-c", story], check=False, env=PLAIN).returncode == 0


pytestmark = pytest.mark.skipif(not has_slabs(), reason="there is no kernel, or another C library or Python")

STORY = """
import asyncio, gc
from barnabas.runtime import memory
from barnabas.runtime.turns import Turns
from barnabas.wire.kernel import kernel

heap = memory.heap(kernel.slabs)
stays = []
turns = Turns()
turns.mark_passing = kernel.made_for

class Lasting:
    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number

async def request():
    elements = []
    for _ in range(300):
        await asyncio.sleep(0)
        elements += [[number] for number in range(1000)]

async def others(requests):
    while not all(request.done() for request in requests):
        stays.append(Lasting(float(len(stays))))
        await asyncio.sleep(0)

async def main():
    began = heap.resident_bytes()
    requests = [asyncio.ensure_future(request()) for _ in range(4)]
    await others(requests)
    assert heap.resident_bytes() > began + (100 << 20)
    del requests
    gc.collect()
    heap.trim()
    grown = (heap.resident_bytes() - began) >> 10
    assert len(stays) > 200 and grown < 2500, f"{len(stays)} objects stay, and {grown} KiB"

asyncio.run(main())
"""


def test_what_stays_among_what_goes_keeps_no_more_than_its_pages() -> None:
    """In CPython's arenas 118 MiB stay."""
    run(STORY)


def test_what_stays_does_not_lie_among_what_slices_make() -> None:
    """Without slabs of their own for what slices make 5 MiB stay."""
    run(STORY.replace("asyncio.sleep(0)\n        elements", "turns.next(passing=True)\n        elements"))


CODECS = """
from barnabas.runtime import memory
from barnabas.wire.messages import APIS
from barnabas.wire.frames import request_class, response_class
from barnabas.wire.kernel import kernel

heap = memory.heap(kernel.slabs)
classes = [of(key) for key in APIS for of in (request_class, response_class)]

def use(message, version):
    message.decode(message().encode(version), version)

use(classes[0], classes[0].max_version)
heap.trim()
began = heap.resident_bytes()
busy = []
for message in classes:
    for version in range(message.min_version, message.max_version + 1):
        busy += [(number, [number]) for number in range(1_000)]
        use(message, version)
assert heap.resident_bytes() > began + (100 << 20)
busy.clear()
heap.trim()
grown = heap.resident_bytes() - began >> 10
assert grown < 5500, f"{grown} KiB stay"
"""


def test_codecs_lie_apart_from_what_a_busy_time_makes() -> None:
    """Among it they keep 7.4 MiB, and 4.3 by themselves."""
    run(CODECS)


MANY = """
from barnabas.runtime import memory
from barnabas.wire.kernel import kernel

heap = memory.heap(kernel.slabs)

def many():
    assert len([bytes(4000) for _ in range(60_000)]) == 60_000
    heap.trim()
    return heap.resident_bytes()

heap.trim()
began = heap.resident_bytes()
grown = many() - began >> 10
assert grown < 400, f"{grown} KiB stay"
"""


def test_what_is_known_of_slabs_goes_with_them() -> None:
    """Of sixty thousand that are gone 940 KiB would stay."""
    run(MANY)


OF_ALL_SIZES = MANY.replace(
    "assert len([bytes(4000) for _ in range(60_000)]) == 60_000",
    "assert len([[bytes(size) for _ in range(4096 // size)] for _ in range(200) for size in range(64, 4000, 13)])",
)


def test_nothing_is_kept_of_where_slabs_of_a_size_had_room() -> None:
    """Of sixty thousand slabs of all sizes that are gone 700 KiB would stay."""
    run(OF_ALL_SIZES)


FUZZ = """
import random, struct
from barnabas.wire.kernel import kernel

chance = random.Random(int(__import__("sys").argv[1]))
kept = {}

def made(key):
    size = chance.choice((chance.randrange(1, 600), chance.randrange(1, 9000)))
    return random.Random(key).randbytes(size)

def check(key, value):
    expected = random.Random(key).randbytes(len(value[0]))
    assert value[0] == expected
    assert bytes(value[1]) == expected[: len(value[1])]
    assert value[2] == {key: [key] * len(value[2][key])}

for number in range(60_000):
    if number == 2_000:
        assert kernel.slabs(0) >= 0  # what is there came from elsewhere, and is freed and grown from now on
    if number > 2_000:
        kernel.made_for(chance.randrange(3))
    if number % 5_000 == 0 and number:
        kernel.slabs(1)
    key = chance.randrange(4_000)
    value = kept.get(key)
    match chance.randrange(5):
        case 0 if value is None:
            value = made(key)
            kept[key] = [value, bytearray(value[: chance.randrange(len(value))]), {key: [key] * chance.randrange(700)}]
        case 1 if value is not None:
            check(key, value)
            del kept[key]
        case 2 if value is not None:
            value[1] += value[0][len(value[1]) :]
            value[2][key] += [key] * chance.randrange(100)
        case 3 if value is not None:
            del value[1][chance.randrange(len(value[1]) + 1) :]
            del value[2][key][chance.randrange(len(value[2][key]) + 1) :]
        case 4 if value is not None:
            check(key, value)
for key, value in kept.items():
    check(key, value)
assert len(kept) > 500
before = kernel.slabs(1)
assert before > 4 << 20
kept.clear()
assert kernel.slabs(1) < before / 4
"""


@pytest.mark.parametrize("seed", ["1", "2"])
def test_no_object_lies_where_another_one_is(seed: str) -> None:
    subprocess.run([sys.executable, "-c", FUZZ, seed], check=True, timeout=120, env=PLAIN)


def test_objects_come_from_elsewhere_where_the_system_has_no_room_for_more_slabs() -> None:
    run(
        """
import resource
from barnabas.wire.kernel import kernel

def data():
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmData"))

kept = []
resource.setrlimit(resource.RLIMIT_DATA, (data() + (10 << 20), resource.RLIM_INFINITY))
assert kernel.slabs(0) == 0
kept += [[number] for number in range(20_000)]
assert kernel.slabs(0) == 0, "slabs are begun by sixteen megabytes"
resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
kept += [[number] for number in range(20_000)]
assert kernel.slabs(0) > 1 << 20
assert kept == [[number] for number in range(20_000)] * 2
"""
    )


def test_a_process_that_may_not_have_the_addresses_goes_on_without_slabs() -> None:
    run(
        """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, resource.RLIM_INFINITY))
from barnabas.wire.kernel import kernel
assert kernel.slabs(0) == -1
"""
    )


@pytest.mark.parametrize("allocator", ["malloc", "debug", "pymalloc_debug"])
def test_an_allocator_that_somebody_chose_is_left_alone(allocator: str) -> None:
    run("from barnabas.wire.kernel import kernel; assert kernel.slabs(0) == -1", PYTHONMALLOC=allocator)


@pytest.mark.parametrize("option", ["-Xdev", "-Xtracemalloc"])
def test_who_watches_over_memory_is_left_alone(option: str) -> None:
    run("from barnabas.wire.kernel import kernel; assert kernel.slabs(0) == -1", option)


def test_the_kernel_takes_one_whole_number() -> None:
    run(
        """
from barnabas.wire.kernel import kernel
for function in (kernel.slabs, kernel.made_for):
    for arguments, error in (((), ValueError), ((1, 2), ValueError), (("1",), TypeError), ((1 << 70,), OverflowError)):
        try:
            function(*arguments)
        except error:
            continue
        raise AssertionError(arguments)
for what in (-1, 3):
    try:
        kernel.made_for(what)
    except ValueError:
        continue
    raise AssertionError(what)
assert [kernel.made_for(what) for what in (1, 2, 0)] == [0, 1, 2]
"""
    )
