"""What a server needed for a while goes back to the system."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from barnabas.runtime import memory
from barnabas.wire.kernel import kernel

STORY = """
import asyncio, os
from barnabas.runtime import memory

memory.INTERVAL_S = 0.01
memory.REST = 0
heap = memory.heap()
began = heap.resident_bytes()

async def main():
    giving_back = asyncio.create_task(memory.give_memory_back(heap))
    await asyncio.sleep(0)
    large, between = [], []
    for _ in range(2000):
        large.append(os.urandom(100_000))
        between.append(bytes(2000))  # what is freed has something in use above it
    large.clear()
    assert heap.resident_bytes() > began + (150 << 20), "the heap keeps it"
    while heap.resident_bytes() > began + (50 << 20):
        await asyncio.sleep(0.01)
    giving_back.cancel()

asyncio.run(main())
"""


@pytest.mark.skipif(memory.heap() is None, reason="the C library is not glibc 2.33 or later")
def test_what_was_freed_in_the_midst_of_the_heap_goes_back() -> None:
    subprocess.run([sys.executable, "-c", STORY], check=True, timeout=60)


WITHOUT_DESCRIPTORS = STORY.replace(
    "    large.clear()\n",
    """
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    await asyncio.sleep(0.1)  # it looks in vain, if it opens a file for it
    large.clear()
""",
).replace("import asyncio, os", "import asyncio, os, resource")


@pytest.mark.skipif(memory.heap() is None, reason="the C library is not glibc 2.33 or later")
def test_it_goes_back_where_connections_have_taken_all_descriptors() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_DESCRIPTORS], check=True, timeout=60)


A_LITTLE = """
import asyncio, gc, os
from barnabas.runtime import memory

memory.INTERVAL_S = 0.05
memory.BUSY = 1.0  # it has little to do
heap = memory.heap()

class Kept:
    pass

async def main():
    kept = Kept()
    kept.itself, kept.large, between = kept, [], []
    for _ in range(30):
        kept.large.append(os.urandom(100_000))
        between.append(bytes(2000))
    in_use = heap.resident_bytes()
    giving_back = asyncio.create_task(memory.give_memory_back(heap))
    await asyncio.sleep(0)
    del kept
    while heap.resident_bytes() > in_use - (2 << 20):
        await asyncio.sleep(0.05)
    giving_back.cancel()

asyncio.run(main())
"""


@pytest.mark.skipif(memory.heap() is None, reason="the C library is not glibc 2.33 or later")
def test_a_process_that_has_little_to_do_keeps_no_few_megabytes_either() -> None:
    subprocess.run([sys.executable, "-c", A_LITTLE], check=True, timeout=60)


FREE_LISTS = """
import asyncio, gc
from barnabas.runtime import memory
from barnabas.wire.kernel import kernel

memory.INTERVAL_S = 0.05
memory.BUSY = 2.0  # it has little to do, however long it waits for that
heap = memory.heap(kernel.slabs)
if kernel.slabs(0) < 0:
    raise SystemExit  # somebody else watches over the memory
gc.disable()  # nobody else looks at the oldest generation
PAGES = 800

async def main():
    pairs, between = [], []
    for number in range(PAGES):
        pairs.append((number, between))
        between += [bytes(31) for _ in range(63)]  # blocks as large as that of a pair: a page
    in_use = heap.resident_bytes()
    pairs.clear()
    between.clear()
    giving_back = asyncio.create_task(memory.give_memory_back(heap))
    while heap.resident_bytes() > in_use - PAGES * 4096 * 0.9:
        await asyncio.sleep(0.05)
    giving_back.cancel()

asyncio.run(main())
"""


@pytest.mark.skipif(
    memory.heap() is None or kernel is None, reason="the C library is not glibc 2.33 or later, or no kernel"
)
def test_a_process_that_has_gone_quiet_keeps_no_page_for_a_tuple_that_waits_for_the_next() -> None:
    subprocess.run([sys.executable, "-c", FREE_LISTS], check=True, timeout=60)


STARVED = """
import os, signal, sys, time
from barnabas.runtime import memory

heap = memory.heap()
core = min(os.sched_getaffinity(0))
other = os.fork()
os.sched_setaffinity(0, {core})
if not other:
    signal.alarm(60)
    while True:
        pass
try:
    wanted, had = heap.wanted_s(), time.process_time()
    while time.process_time() < had + 0.5:
        pass
    assert heap.wanted_s() - wanted > 0.75, "it waited for as much again"
finally:
    os.kill(other, signal.SIGKILL)
"""


@pytest.mark.skipif(
    memory.heap() is None or not os.path.exists("/proc/self/schedstat"),
    reason="the C library is not glibc 2.33 or later, or the kernel does not tell who waited",
)
def test_a_process_that_waits_for_its_core_is_not_taken_for_idle() -> None:
    subprocess.run([sys.executable, "-c", STARVED], check=True, timeout=120)


AFTERWARDS = """
import asyncio, os
from barnabas.runtime import memory

memory.INTERVAL_S = 0.01
memory.REST = 0
heap = memory.heap()

async def until(fact):
    while not fact():
        await asyncio.sleep(0.01)

async def main():
    large, between = [], []
    giving_back = asyncio.create_task(memory.give_memory_back(heap))
    await asyncio.sleep(0)
    began = heap.resident_bytes()
    for _ in range(2000):
        large.append(os.urandom(100_000))
        between.append(bytes(2000))
    brief = [os.urandom(100_000) for _ in range(1000)]
    brief_in_use = heap.resident_bytes()
    brief.clear()
    await until(lambda: heap.resident_bytes() < brief_in_use - (50 << 20))  # looked at while the others are in use
    large.clear()
    await until(lambda: heap.resident_bytes() < began + (50 << 20))
    giving_back.cancel()

asyncio.run(main())
"""

IN_A_CYCLE = """
import asyncio, gc
from barnabas.runtime import memory

memory.INTERVAL_S = 0.01
memory.REST = 0
heap = memory.heap()

class Kept:
    pass

async def main():
    giving_back = asyncio.create_task(memory.give_memory_back(heap))
    await asyncio.sleep(0)
    began = heap.resident_bytes()
    kept = Kept()
    kept.itself, kept.objects = kept, [[number] for number in range(500_000)]
    gc.collect()  # the oldest generation has it now
    del kept
    assert heap.resident_bytes() > began + (20 << 20)
    while heap.resident_bytes() > began + (10 << 20):
        await asyncio.sleep(0.01)
    giving_back.cancel()

asyncio.run(main())
"""


WORKING = "memory.BUSY = -1  # it always works\nmemory.LOOKED_AT_MAX = 1_000_000\nheap ="


@pytest.mark.skipif(memory.heap() is None, reason="the C library is not glibc 2.33 or later")
@pytest.mark.parametrize(
    "story",
    [AFTERWARDS, IN_A_CYCLE, IN_A_CYCLE.replace("heap =", WORKING)],
    ids=["in use at the last look", "in a cycle", "in a cycle, while it works and has few objects"],
)
def test_what_nobody_needs_any_more_goes_back(story: str) -> None:
    subprocess.run([sys.executable, "-c", story], check=True, timeout=60)


WHILE_IT_WORKS = """
import asyncio, os, time
from barnabas.runtime import memory

memory.INTERVAL_S = 0.05
memory.BUSY = 0.04  # of a core that may be others' as well
memory.LOOKED_AT_MAX = 0
memory.REST = 0
heap = memory.heap()

async def main():
    trims = []
    heap.trim = lambda: trims.append(None)
    giving_back = asyncio.create_task(memory.give_memory_back(heap))
    await asyncio.sleep(0)
    large = [os.urandom(100_000) for _ in range(500)]
    ends = time.process_time() + 0.5
    while time.process_time() < ends:  # it is larger, and works
        sum(range(1000))
        await asyncio.sleep(0)
    assert not trims
    while not trims:  # it has gone quiet
        await asyncio.sleep(0.05)
    giving_back.cancel()

asyncio.run(main())
"""


@pytest.mark.skipif(memory.heap() is None, reason="the C library is not glibc 2.33 or later")
def test_a_process_that_works_is_left_alone_until_it_has_gone_quiet() -> None:
    subprocess.run([sys.executable, "-c", WHILE_IT_WORKS], check=True, timeout=60)


WASTED_WHILE_IT_WORKS = """
import asyncio, gc, os
from barnabas.runtime import memory

memory.INTERVAL_S = 0.05
memory.BUSY = -1  # it always works
memory.LOOKED_AT_MAX = 0
heap = memory.heap()

async def main():
    collections = []
    gc.callbacks.append(lambda phase, info: collections.append(info["generation"]))
    giving_back = asyncio.create_task(memory.give_memory_back(heap))
    await asyncio.sleep(0)
    large, between = [], []
    for _ in range(2000):
        large.append(os.urandom(100_000))
        between.append(bytes(2000))
    in_use = heap.resident_bytes()
    large.clear()
    while heap.resident_bytes() > in_use - (150 << 20):
        await asyncio.sleep(0.05)
    assert 2 not in collections, "the collector takes long; that is left for later"
    giving_back.cancel()

asyncio.run(main())
"""


@pytest.mark.skipif(memory.heap() is None, reason="the C library is not glibc 2.33 or later")
def test_a_process_that_works_gives_back_what_is_a_third_of_it() -> None:
    subprocess.run([sys.executable, "-c", WASTED_WHILE_IT_WORKS], check=True, timeout=60)


ON_A_BUSY_MACHINE = """
import asyncio, os, time
from barnabas.runtime import memory

memory.INTERVAL_S = 0.02
heap = memory.heap()

async def main():
    trims = []

    def trim():
        trims.append(None)
        time.sleep(0.5)  # others have the cores

    heap.trim = trim
    giving_back = asyncio.create_task(memory.give_memory_back(heap))
    await asyncio.sleep(0)
    large = []
    for already in range(2):
        large.append([os.urandom(100_000) for _ in range(500)])
        while len(trims) == already:
            await asyncio.sleep(0.02)
    giving_back.cancel()

asyncio.run(asyncio.wait_for(main(), 40))
"""


@pytest.mark.skipif(memory.heap() is None, reason="the C library is not glibc 2.33 or later")
def test_it_rests_for_what_it_took_and_not_for_what_others_did() -> None:
    subprocess.run([sys.executable, "-c", ON_A_BUSY_MACHINE], check=True, timeout=60)
