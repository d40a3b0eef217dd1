"""kazoo's recipes against the coordinator, from many threads and sessions at once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from coordinators import Coordinator
from kazoo.client import KazooClient
from kazoo.recipe.cache import TreeCache
from processes import eventually

THREADS = 8


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    directory: Path = tmp_path_factory.mktemp("recipes")
    server = Coordinator(directory)
    try:
        server.up()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="module")
def clients(coordinator: Coordinator) -> list[KazooClient]:
    return [coordinator.client() for _ in range(4)]


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    return f"/{request.node.name}"


def together(work: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """What `work` returned in each of the threads, all at once. One that hangs fails its test and nothing else."""
    outcomes: list[Future[Any]] = [Future() for _ in range(threads)]

    def run(number: int) -> None:
        try:
            outcomes[number].set_result(work(number))
        except BaseException as error:
            outcomes[number].set_exception(error)

    for number in range(threads):
        threading.Thread(target=run, args=(number,), daemon=True).start()
    return [each.result(60) for each in outcomes]


def test_a_lock_has_one_holder(clients: list[KazooClient], path: str) -> None:
    inside = 0
    seen: list[int] = []

    def work(number: int) -> None:
        nonlocal inside
        for _ in range(4):
            with clients[number % 4].Lock(path, f"thread {number}"):
                inside += 1
                seen.append(inside)
                inside -= 1

    together(work)
    assert seen == [1] * (4 * THREADS)


def test_readers_share_what_a_writer_has_alone(clients: list[KazooClient], path: str) -> None:
    readers = [clients[number].ReadLock(path) for number in range(3)]
    writer = clients[3].WriteLock(path)
    assert all(reader.acquire(timeout=60) for reader in readers)
    assert not writer.acquire(blocking=False)
    for reader in readers:
        reader.release()
    assert writer.acquire(timeout=60)
    assert not clients[0].ReadLock(path).acquire(blocking=False)
    writer.release()


def test_a_semaphore_has_as_many_holders_as_it_says(clients: list[KazooClient], path: str) -> None:
    inside = Counter[str]()
    most: list[int] = []
    guard = threading.Lock()

    def work(number: int) -> None:
        with clients[number % 4].Semaphore(path, max_leases=3, identifier=f"thread {number}"):
            with guard:
                inside["now"] += 1
                most.append(inside["now"])
            with guard:
                inside["now"] -= 1

    together(work)
    assert len(most) == THREADS
    assert max(most) <= 3


def test_an_election_elects_each_in_turn(clients: list[KazooClient], path: str) -> None:
    elected: list[int] = []
    together(lambda number: clients[number % 4].Election(path, str(number)).run(elected.append, number))
    assert sorted(elected) == list(range(THREADS))


def test_a_counter_loses_no_step(clients: list[KazooClient], path: str) -> None:
    def work(number: int) -> None:
        counter = clients[number % 4].Counter(path)
        for _ in range(5):
            counter += 1

    together(work)
    assert clients[0].Counter(path).value == 5 * THREADS


def test_a_queue_gives_each_entry_once(clients: list[KazooClient], path: str) -> None:
    together(lambda number: [clients[number % 4].Queue(path).put(b"%d-%d" % (number, each)) for each in range(5)])

    def take(number: int) -> list[bytes]:
        queue = clients[number % 4].Queue(path)
        return list(iter(queue.get, None))

    taken = [entry for entries in together(take) for entry in entries]
    assert sorted(taken) == sorted(b"%d-%d" % (number, each) for number in range(THREADS) for each in range(5))


def test_a_locking_queue_gives_an_entry_to_one_until_it_is_consumed(clients: list[KazooClient], path: str) -> None:
    total = 12
    clients[0].LockingQueue(path).put_all([b"%d" % each for each in range(total)])
    taken: list[bytes] = []

    def take(number: int) -> None:
        queue = clients[number % 4].LockingQueue(path)
        while (entry := queue.get(timeout=2)) is not None:
            taken.append(entry)
            assert queue.consume()

    together(take, 4)
    assert sorted(taken, key=int) == [b"%d" % each for each in range(total)]


@pytest.mark.parametrize("kind", ["Party", "ShallowParty"])
def test_a_party_knows_who_is_there(clients: list[KazooClient], path: str, kind: str) -> None:
    parties = [getattr(client, kind)(path, f"guest-{number}") for number, client in enumerate(clients)]
    together(lambda number: parties[number].join(), 4)
    assert sorted(parties[0]) == [f"guest-{number}" for number in range(4)]
    parties[2].leave()
    eventually(lambda: sorted(parties[0]) == ["guest-0", "guest-1", "guest-3"])


def test_a_set_is_parted_among_all_and_again_when_one_leaves(clients: list[KazooClient], path: str) -> None:
    things = tuple(range(12))
    stop = [threading.Event() for _ in range(3)]
    parts: list[tuple[int, ...]] = [()] * 3

    def work(number: int) -> None:
        partitioner = clients[number].SetPartitioner(path, set=things, time_boundary=0.2, identifier=str(number))
        while not stop[number].is_set():
            if partitioner.release:
                parts[number] = ()
                partitioner.release_set()
            elif partitioner.acquired:
                parts[number] = tuple(sorted(partitioner))
            elif partitioner.allocating:
                partitioner.wait_for_acquire(1)
            assert not partitioner.failed
            stop[number].wait(0.02)
        parts[number] = ()
        partitioner.finish()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: sorted(sum(parts, ())) == list(things) and all(len(part) == 4 for part in parts))
        stop[1].set()
        eventually(lambda: sorted(sum(parts, ())) == list(things) and len(parts[0]) == len(parts[2]) == 6)
    finally:
        for each in stop:
            each.set()
        for thread in threads:
            thread.join(30)


def test_a_tree_cache_follows_the_tree(clients: list[KazooClient], path: str) -> None:
    clients[0].create(f"{path}/a/b", b"1", makepath=True)
    cache = TreeCache(clients[1], path)
    cache.start()
    eventually(lambda: (node := cache.get_data(f"{path}/a/b")) and node.data == b"1")

    def work(number: int) -> None:
        for each in range(10):
            clients[number % 4].create(f"{path}/t{number}/n{each}", b"%d" % each, makepath=True)
        clients[number % 4].delete(f"{path}/t{number}/n0")

    together(work)
    eventually(
        lambda: all(
            cache.get_children(f"{path}/t{number}") == frozenset(f"n{each}" for each in range(1, 10))
            for number in range(THREADS)
        ),
        what="the cache has the whole tree",
    )
    cache.close()


def test_watchers_see_the_last_state(clients: list[KazooClient], path: str) -> None:
    clients[0].create(path, b"0")
    data: list[bytes | None] = []
    children: list[list[str]] = []
    clients[1].DataWatch(path, lambda value, stat: data.append(value))
    clients[2].ChildrenWatch(path, lambda names: children.append(sorted(names)))
    numbers = count(1)

    def work(number: int) -> None:
        clients[number % 4].set(path, b"%d" % next(numbers))
        clients[number % 4].create(f"{path}/c{number}")

    together(work)
    clients[3].set(path, b"last")
    eventually(lambda: data[-1] == b"last")
    eventually(lambda: children[-1] == sorted(f"c{number}" for number in range(THREADS)))


def test_a_barrier_holds_until_it_is_removed(clients: list[KazooClient], path: str) -> None:
    barrier = clients[0].Barrier(path)
    barrier.create()
    assert not clients[1].Barrier(path).wait(0.1)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(client.Barrier(path).wait, 30) for client in clients]
        assert barrier.remove()
        assert all(each.result(30) for each in waiting)


def test_a_double_barrier_lets_all_in_and_out_together(clients: list[KazooClient], path: str) -> None:
    entered: list[int] = []
    left: list[int] = []
    # Who leaves takes away the znode by which kazoo tells the others that they may enter: none does before all are in.
    all_in = threading.Barrier(4)

    def work(number: int) -> None:
        barrier = clients[number].DoubleBarrier(path, 4, str(number))
        barrier.enter()
        entered.append(number)
        all_in.wait(60)
        barrier.leave()
        assert len(entered) == 4
        left.append(number)

    together(work, 4)
    assert sorted(left) == [0, 1, 2, 3]


def test_a_lease_is_one_holders_until_it_ends(clients: list[KazooClient], path: str) -> None:
    from datetime import timedelta

    held = together(lambda n: bool(clients[n].NonBlockingLease(path, timedelta(minutes=5), identifier=str(n))), 4)
    assert sum(held) == 1
    several = f"{path}-several"
    held = together(
        lambda n: bool(clients[n].MultiNonBlockingLease(2, several, timedelta(minutes=5), identifier=str(n))), 4
    )
    assert sum(held) == 2
