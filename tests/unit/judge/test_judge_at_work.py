"""Clients that do not end are named, with where they wait; what a driver does not answer is not waited for twice."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from barnabas.judge.at_work import ClientsAtWork
from barnabas.judge.drivers import process
from barnabas.judge.drivers.process import Driver
from barnabas.judge.following import follow
from barnabas.judge.journal import Notes
from barnabas.judge.workload import Work, observe

_DEAF = """
import sys
print("ready deaf", flush=True)
for line in sys.stdin:
    name, *words = line.split()
    if words == ["flush"]:
        print(name, "done ok", flush=True)
"""


async def waits_for_ever() -> None:
    await asyncio.Event().wait()


async def has_ended() -> None:
    pass


def test_tasks_and_threads_that_do_not_end_are_named_with_where_they_wait() -> None:
    let_go, at_work = threading.Event(), ClientsAtWork(threading.Event())

    def waits_for_an_event() -> None:
        let_go.wait()

    async def both() -> None:
        await at_work.together({"reader-0": waits_for_ever(), "reader-1": has_ended()})

    at_work.begin("ours", lambda: asyncio.run(both()))
    at_work.begin("theirs", waits_for_an_event)
    at_work.begin("quick", lambda: None)
    ours, theirs = at_work.late(0.2)
    assert ours.startswith("reader-0 (in waits_for_ever > Event.wait")
    assert theirs.startswith("theirs (in ")
    assert "waits_for_an_event > Event.wait" in theirs
    let_go.set()
    assert at_work.late(0.2) == [ours]


def test_a_thread_that_is_kept_by_none_of_its_clients_is_named_with_where_it_is() -> None:
    let_go, kept, at_work = threading.Event(), threading.Event(), ClientsAtWork(threading.Event())

    async def keeps_the_thread() -> None:
        kept.set()
        let_go.wait()

    async def client() -> None:
        await asyncio.create_task(keeps_the_thread())

    at_work.begin("ours", lambda: asyncio.run(at_work.together({"reader-0": client()})))
    assert kept.wait(30)
    late = at_work.late(0.1)
    let_go.set()
    assert late[0].startswith("reader-0 (in ")
    assert late[1].startswith("their thread ours (in ")
    assert "keeps_the_thread > Event.wait" in late[1]
    assert at_work.late(30) == []


def test_clients_are_waited_for_all_together() -> None:
    let_go, at_work = threading.Event(), ClientsAtWork(threading.Event())

    def waits_for_an_event() -> None:
        let_go.wait()

    for number in range(5):
        at_work.begin(str(number), waits_for_an_event)
    begun = time.monotonic()
    assert len(at_work.late(0.3)) == 5
    assert time.monotonic() - begun < 1.4
    let_go.set()


def test_a_client_that_fails_stops_the_others() -> None:
    stop = threading.Event()
    at_work = ClientsAtWork(stop)

    async def fails() -> None:
        raise ArithmeticError

    at_work.begin("ours", lambda: asyncio.run(at_work.together({"one": fails(), "two": waits_for_ever()})))
    assert at_work.late(10) == []
    assert stop.is_set()
    assert [type(error) for error in at_work.trouble] == [ArithmeticError]


@pytest.mark.parametrize("client", [observe, follow])
def test_one_that_asks_all_along_and_whom_nobody_answers_ends_when_it_is_told_to(
    client: Callable[[Work, str], Coroutine[Any, Any, None]],
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # it does not listen
        begun = time.monotonic()
        work = Work(
            f"127.0.0.1:{nobody.getsockname()[1]}", Notes({}), {"compaction": "t"}, 200,
            stopping=lambda: time.monotonic() > begun + 0.3, config={"default.api.timeout.ms": "100"},
        )  # fmt: skip
        asyncio.run(asyncio.wait_for(client(work, "it"), 10))


def test_a_driver_s_client_that_was_silent_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver("deaf", [sys.executable, "-c", _DEAF])
    client = driver.client("one", lambda when, words: None, "producer")
    assert client.ask("flush") == ["ok"]
    monkeypatch.setattr(process, "SILENT_S", 0.2)
    assert client.ask("commit") == ["unknown", "over", "SILENT"]
    monkeypatch.setattr(process, "SILENT_S", 30)
    begun = time.monotonic()
    assert client.ask("close") == ["unknown", "over", "SILENT"]
    assert time.monotonic() - begun < 10
    driver.close()
