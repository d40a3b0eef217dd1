"""The drivers of the Java client and of franz-go: what they write down, and what they say when nobody answers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest
from test_judge_run import addresses

from barnabas.client import TopicPartition, blocking
from barnabas.judge import proxy as faults
from barnabas.judge.check import check
from barnabas.judge.drivers.clients import consume, transact, write
from barnabas.judge.drivers.copier import copy
from barnabas.judge.drivers.process import Driver, DriverError
from barnabas.judge.drivers.programs import PROGRAMS, DriverUnavailable
from barnabas.judge.history import Op, Status
from barnabas.judge.journal import Notes
from barnabas.judge.proxy import Proxy
from barnabas.judge.run import RunError, started
from barnabas.judge.workload import Work
from barnabas.judge.workloads import LIST_APPEND, REGISTERS
from barnabas.testing import KafkaCluster

PATIENCE_S = 120


@pytest.fixture(scope="module", params=list(PROGRAMS))
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """Skipped where the machine cannot have it; with ``CI=true`` that is a failure."""
    try:
        made = Driver(request.param, PROGRAMS[request.param]())
    except DriverUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    yield made
    made.close()


def test_what_clients_of_a_driver_do_is_written_down_and_judged(kafka_cluster: KafkaCluster, driver: Driver) -> None:
    for topic in ("registers", "transfers"):
        kafka_cluster.create_topic(topic, partitions=2, replication_factor=3)
    notes = Notes({"registers": {}, "transfers": {}}, {"transaction.version": "1"})
    stop = threading.Event()
    proxy = Proxy(addresses(kafka_cluster.bootstrap))
    work = Work(proxy.bootstrap, notes, {REGISTERS: "registers", LIST_APPEND: "transfers"}, 2, stopping=stop.is_set)
    tasks = [
        partial(write, work, driver, "writer"),
        partial(transact, work, driver, "transactor"),
        partial(consume, work, driver, "reader", "registers", "readers", "read_uncommitted"),
        partial(consume, work, driver, "committed", "transfers", "committed", "read_committed"),
        partial(copy, work, driver, "copier", "copiers"),
    ]
    threads = [threading.Thread(target=each) for each in tasks]
    wanted = {Op.SEND, Op.COMMIT, Op.ABORT, Op.READ, Op.ASSIGN, Op.FETCH_OFFSET, Op.COMMIT_OFFSET}
    for broker in proxy.ports:
        proxy.strike(broker, faults.CUT_AFTER_REQUEST)
    for each in threads:
        each.start()
    deadline = time.monotonic() + PATIENCE_S
    try:
        while True:
            history = notes.history()
            done = {Op(each) for each in set(history.op[history.status == Status.OK].tolist())}
            copied = {
                Op(each)
                for each in history.op[(history.txn >= 0) & (history.status == Status.OK)].tolist()
                if each in (Op.READ, Op.COMMIT_OFFSET)
            }
            if wanted <= done and proxy.struck[faults.CUT_AFTER_REQUEST] and copied == {Op.READ, Op.COMMIT_OFFSET}:
                break
            assert time.monotonic() < deadline, f"no {', '.join(each.word for each in wanted - done)}"
            stop.wait(0.2)
    finally:
        stop.set()
        for each in threads:
            each.join(PATIENCE_S)
        proxy.close()
    history = notes.history()
    verdict = check(history)
    assert verdict.good, [each.examples for each in verdict.anomalies]
    assert set(verdict.drivers) == {driver.version}
    assert driver.version.startswith(driver.name)
    assert not (history.status == Status.FAILED).any()


def test_what_a_client_gives_up_is_unknown(kafka_cluster: KafkaCluster, driver: Driver) -> None:
    kafka_cluster.create_topic("t", partitions=1, replication_factor=3)
    proxy = Proxy(addresses(kafka_cluster.bootstrap))
    heard: list[list[str]] = []
    client = driver.client("c", lambda when, words: heard.append(words), "transactor", proxy.bootstrap, "id", 20_000)
    assert client.ask("init") == ["ok"]
    assert client.ask("begin") == ["ok"]
    client.tell("send", "t", 0, "-", 7)
    assert client.ask("flush") == ["ok"]
    assert heard == [["sent", "7", "ok", "0"]]
    for broker in proxy.ports:
        proxy.strike(broker, faults.CUT_ANSWERS)
    assert client.ask("commit")[:1] == ["unknown"]
    proxy.close()


def test_who_commits_for_a_group_tells_the_leader_epoch_of_what_it_read(
    kafka_cluster: KafkaCluster, driver: Driver
) -> None:
    """Who goes on there knows a leader that was paused meanwhile by it (KIP-320), and believes none of its answers."""
    topic, group = f"epochs-{driver.name}", f"group-{driver.name}"
    kafka_cluster.create_topic(topic, partitions=1, replication_factor=3)
    writer = driver.client("w", lambda when, words: None, "producer", kafka_cluster.bootstrap, "all")
    writer.tell("send", topic, 0, "-", 7)
    assert writer.ask("close") == ["ok"]
    heard: list[str] = []

    def hear(_: int, words: list[str]) -> None:
        heard.append(" ".join(words))
        if words == ["assigning"]:
            reader.tell("go")

    for wanted in (f"read {topic} 0 0 - 7", f"assigned {topic} 0 1"):
        reader = driver.client("r", hear, "consumer", kafka_cluster.bootstrap, group, topic, "read_committed")
        deadline = time.monotonic() + PATIENCE_S
        while wanted not in heard:
            assert reader.ask("poll", 200) == ["ok"]
            assert time.monotonic() < deadline, heard
        assert reader.ask("commit-offsets") == ["ok"]
        assert f"committed {topic} 0 1 ok" in heard
        assert reader.ask("close") == ["ok"]
        with blocking.connect(kafka_cluster.bootstrap) as cluster:
            told = cluster.admin.committed_offsets(group)[TopicPartition(topic, 0)]
        assert (told.offset, told.leader_epoch) == (1, 0)


def test_a_driver_that_the_machine_cannot_have_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    told: list[str] = []
    with ExitStack() as running:
        assert started(list(PROGRAMS), running, told=told.append) == []
        assert told == [
            "without the driver java: Apache Kafka needs Java: neither JAVA_HOME nor PATH has one",
            "without the driver franz-go: go is not on PATH",
        ]
        with pytest.raises(RunError, match="no driver franz-go: go is not on PATH"):
            started(["franz-go"], running)


def test_a_driver_that_ends_is_no_fault_of_the_broker(driver: Driver) -> None:
    """The last one: the driver is of no use after it."""
    client = driver.client("c", lambda when, words: None, "transactor", "localhost:1", "id", 20_000)
    driver.kill()
    with pytest.raises(DriverError, match=f"the driver {driver.name} has ended"):
        client.ask("init")
