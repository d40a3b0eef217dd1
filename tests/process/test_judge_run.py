"""``barnabas judge run``: its clients, its nemesis and its proxy on clusters that live."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import barnabas, until

from barnabas.cli.app import run as command
from barnabas.client import NewTopic, TopicPartition, connect
from barnabas.judge import proxy as faults
from barnabas.judge.check import check
from barnabas.judge.clusters import JudgedClusterError, LocalBrokers, ScriptBrokers
from barnabas.judge.coordination import ZOOKEEPER_FAULTS
from barnabas.judge.history import BEFORE_KIP_890, Op, read, write
from barnabas.judge.made import made
from barnabas.judge.nemesis import ELECT
from barnabas.judge.peers import PEER_FAULTS, sender
from barnabas.judge.proxy import Proxy
from barnabas.judge.run import RunPlan, run
from barnabas.model.errors import ErrorCode
from barnabas.testing import KafkaCluster
from barnabas.wire.api import ApiKey
from barnabas.wire.frames import encode_request
from barnabas.wire.messages.fetch import FetchRequest

pytestmark = pytest.mark.long(3)


def encode(request: FetchRequest, version: int, client_id: str | None) -> bytes:
    return b"".join(encode_request(request, version, 1, client_id))[4:]


def addresses(bootstrap: str) -> dict[int, tuple[str, int]]:
    async def ask() -> dict[int, tuple[str, int]]:
        async with connect(bootstrap) as cluster:
            return {each.broker_id: (each.host, each.port) for each in (await cluster.refresh([])).brokers.values()}

    return asyncio.run(ask())


@pytest.fixture
def proxy(kafka_cluster: KafkaCluster) -> Iterator[Proxy]:
    made = Proxy(addresses(kafka_cluster.bootstrap))
    yield made
    made.close()


async def produced(bootstrap: str, topic: str, values: range, timeout_ms: int = 60_000) -> list[int]:
    """The offsets of the values that were acknowledged."""
    async with connect(bootstrap) as cluster:
        producer = cluster.producer(delivery_timeout_ms=timeout_ms, request_timeout_ms=3_000)
        return [(await producer.send(topic, str(each).encode(), partition=0)).offset for each in values]


async def consumed(bootstrap: str, topic: str, count: int) -> list[int]:
    async with connect(bootstrap) as cluster:
        consumer = cluster.consumer(topic, auto_offset_reset="earliest")
        found: list[int] = []
        while len(found) < count:
            found += [int(each.value or b"") for each in await consumer.poll(30_000)]
        return found + [int(each.value or b"") for each in await consumer.poll(500)]


async def read_one(bootstrap: str, topic: str) -> None:
    async with connect(bootstrap) as cluster:
        consumer = cluster.consumer(topic, auto_offset_reset="earliest")
        while not await consumer.poll(30_000):
            pass


def test_brokers_are_where_the_proxy_says(proxy: Proxy) -> None:
    assert {port for _, port in addresses(proxy.bootstrap).values()} == set(proxy.ports.values())

    async def coordinator() -> tuple[str, int]:
        async with connect(proxy.bootstrap) as cluster:
            found = await cluster.coordinator("group")
            return found.host, found.port

    assert asyncio.run(coordinator())[1] in proxy.ports.values()


def test_a_client_that_asks_in_a_version_of_the_future_is_answered_by_its_broker(proxy: Proxy) -> None:
    frame = struct.pack(">hhih1sB", ApiKey.API_VERSIONS, 99, 7, 1, b"c", 0)
    with socket.create_connection(("127.0.0.1", next(iter(proxy.ports.values()))), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        assert struct.unpack(">iih", connection.recv(10, socket.MSG_WAITALL))[1:] == (7, ErrorCode.UNSUPPORTED_VERSION)


def test_an_answer_that_is_cut_off_after_its_request_leaves_the_record_there_once(
    kafka_cluster: KafkaCluster, proxy: Proxy
) -> None:
    kafka_cluster.create_topic("t", partitions=1, replication_factor=3)
    for broker in proxy.ports:
        proxy.strike(broker, faults.CUT_AFTER_REQUEST)
    offsets = asyncio.run(produced(proxy.bootstrap, "t", range(50)))
    assert offsets == list(range(50))
    assert proxy.struck[faults.CUT_AFTER_REQUEST] > 0
    assert asyncio.run(consumed(kafka_cluster.bootstrap, "t", 50)) == list(range(50))


@pytest.mark.parametrize("fault", [faults.CUT, faults.CUT_REQUESTS, faults.CUT_ANSWERS])
def test_a_record_waits_behind_a_cut_until_it_is_healed(kafka_cluster: KafkaCluster, proxy: Proxy, fault: str) -> None:
    kafka_cluster.create_topic("t", partitions=1, replication_factor=3)
    asyncio.run(produced(proxy.bootstrap, "t", range(1)))

    async def across() -> list[int]:
        loop = asyncio.get_running_loop()
        for broker in proxy.ports:
            await loop.run_in_executor(None, proxy.strike, broker, fault)
        sending = asyncio.ensure_future(produced(proxy.bootstrap, "t", range(1, 2)))
        done, _ = await asyncio.wait([sending], timeout=1)
        assert not done
        for broker in proxy.ports:
            await loop.run_in_executor(None, proxy.heal, broker)
        return await sending

    assert asyncio.run(across()) == [1]
    assert asyncio.run(consumed(kafka_cluster.bootstrap, "t", 2)) == [0, 1]


def test_a_run_under_network_faults_is_judged_and_finds_nothing(kafka_cluster: KafkaCluster, tmp_path: Path) -> None:
    outcome = run(RunPlan(kafka_cluster.bootstrap, 0.1, [faults.CUT_AFTER_REQUEST], clients=1, partitions=2))
    write(outcome.history, tmp_path / "history.parquet")
    verdict = check(read(tmp_path / "history.parquet"))
    assert verdict.good, [each.examples for each in verdict.anomalies]
    assert not outcome.unsettled
    assert sum(outcome.struck.values()) >= 1
    # On a machine that stands still for seconds there may be no transaction; records there are.
    assert {"lost-write", "duplicate", "internal-gap"}.isdisjoint(verdict.unjudged), verdict.unjudged


def test_preferred_leaders_are_elected_again(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t", partitions=1, replication_factor=3)
    partition = kafka_cluster.partition("t", 0)
    first = partition.replicas[0]
    first.kill()
    partition.wait(not_leader=first)
    first.start()
    partition.wait(isr=partition.replicas, not_leader=first)
    outcome = run(RunPlan(kafka_cluster.bootstrap, 0.2, [ELECT], clients=1, partitions=2))
    assert outcome.struck[ELECT] > 0
    assert partition.leader == first


def test_every_end_txn_that_came_late_is_in_the_history_by_its_transactional_id(kafka_cluster: KafkaCluster) -> None:
    outcome = run(RunPlan(kafka_cluster.bootstrap, 0.3, [faults.DELAY_END_TXN], clients=2, partitions=2))
    names = [outcome.history.names[number] for number in outcome.history.name[outcome.history.rows(Op.NEMESIS)]]
    held = [name.removeprefix("delay-end-txn:") for name in names if name.startswith("delay-end-txn:")]
    assert len(held) == outcome.met[faults.DELAY_END_TXN] > 0
    assert set(held) <= {each.transactional_id for each in outcome.history.context.clients}
    assert set(held) <= set(outcome.history.context.facts[BEFORE_KIP_890].split(","))  # our clients are from before it
    verdict = check(outcome.history)
    assert verdict.good, [each.examples for each in verdict.anomalies]


def test_between_brokers_a_cut_has_two_directions_and_a_one_way_cut_one(tmp_path: Path) -> None:
    with made("barnabas", tmp_path, PEER_FAULTS) as (brokers, peers, _):
        assert peers is not None
        follower = _follower_of_a_new(brokers.bootstrap, "t")
        asyncio.run(produced(brokers.bootstrap, "t", range(1)))

        peers.strike(follower, faults.CUT_REQUESTS)  # what the follower asks of its leader gets through
        assert asyncio.run(produced(brokers.bootstrap, "t", range(1, 2))) == [1]
        peers.heal(follower)

        async def across() -> list[int]:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, peers.strike, follower, faults.CUT)
            sending = asyncio.ensure_future(produced(brokers.bootstrap, "t", range(2, 3)))
            done, _ = await asyncio.wait([sending], timeout=2)
            assert not done, "the leader has an answer from a follower that is cut off"
            await loop.run_in_executor(None, peers.heal, follower)
            return await sending

        assert asyncio.run(across()) == [2]
        assert addresses(brokers.bootstrap).keys() == {0, 1, 2}


def test_a_produce_that_another_connection_overtakes_is_there_once_and_in_its_place(
    kafka_cluster: KafkaCluster, proxy: Proxy
) -> None:
    kafka_cluster.create_topic("t", partitions=1, replication_factor=3)
    for broker in proxy.ports:
        proxy.strike(broker, faults.REORDER)
    offsets = asyncio.run(produced(proxy.bootstrap, "t", range(60)))
    assert offsets == list(range(60))
    assert proxy.struck[faults.REORDER] > 0
    assert asyncio.run(consumed(kafka_cluster.bootstrap, "t", 60)) == list(range(60))


def test_a_broker_whose_link_to_zookeeper_is_cut_loses_its_session_and_others_lead(tmp_path: Path) -> None:
    with made("barnabas", tmp_path, ZOOKEEPER_FAULTS) as (brokers, _, zookeeper):
        assert zookeeper is not None

        def leader(bootstrap: str) -> int:
            async def ask() -> int:
                async with connect(bootstrap) as cluster:
                    return (await cluster.refresh(["t"])).leader(TopicPartition("t", 0))

            return asyncio.run(ask())

        _follower_of_a_new(brokers.bootstrap, "t")
        first = leader(brokers.bootstrap)
        # Nobody tells the broker that is cut off of another leader: the others are asked.
        others = [place for broker, place in addresses(brokers.bootstrap).items() if broker != first]
        zookeeper.strike(first, faults.CUT)
        until(
            lambda: leader(",".join(f"{host}:{port}" for host, port in others)) not in (first, -1),
            "another leader",
            120,
        )
        zookeeper.heal(first)
        until(lambda: addresses(brokers.bootstrap).keys() == {0, 1, 2}, "its broker to come back", 120)


def test_a_broker_whose_disk_is_full_ends_and_nothing_is_lost_when_it_is_started(tmp_path: Path) -> None:
    with made("barnabas", tmp_path) as (brokers, _, _):
        leader = (_follower_of_a_new(brokers.bootstrap, "t") - 1) % 3
        assert asyncio.run(produced(brokers.bootstrap, "t", range(5))) == list(range(5))
        brokers.fill_disk(leader)
        assert asyncio.run(produced(brokers.bootstrap, "t", range(5, 10))) == list(range(5, 10))
        brokers.kill(leader)
        brokers.start(leader)
        assert asyncio.run(consumed(brokers.bootstrap, "t", 10)) == list(range(10))


def _follower_of_a_new(bootstrap: str, topic: str) -> int:
    """One follower of a new topic's only partition."""

    async def make() -> int:
        async with connect(bootstrap) as cluster:
            await cluster.admin.create_topics([NewTopic(topic, partitions=1, replication_factor=3)])
            leads = await cluster.leader(TopicPartition(topic, 0))
            brokers = (await cluster.refresh([])).brokers.values()
            leader = next(each.broker_id for each in brokers if (each.host, each.port) == (leads.host, leads.port))
            return (leader + 1) % 3

    return asyncio.run(make())


@pytest.mark.parametrize(
    ("frame", "broker"),
    [
        (encode(FetchRequest(), 12, "broker-17-fetcher-0"), 17),
        (encode(FetchRequest(), 12, "2"), 2),
        (encode(FetchRequest(), 12, "broker-1"), 1),
        (encode(FetchRequest(), 12, "rdkafka"), None),
        (encode(FetchRequest(), 12, "broker-x"), None),
        (encode(FetchRequest(), 12, None), None),
        (b"\0\1", None),
        (b"", None),
    ],
)
def test_a_broker_is_known_by_its_client_id(frame: bytes, broker: int | None) -> None:
    assert sender(frame) == broker


def test_brokers_that_up_has_started_are_killed_paused_and_started_again(tmp_path: Path) -> None:
    place = str(tmp_path / "c")
    assert barnabas("up", "-n", "1", "--dir", place).returncode == 0
    try:
        brokers = LocalBrokers(place)
        assert list(brokers.ids) == [0]
        brokers.pause(0)
        brokers.resume(0)
        brokers.kill(0)
        brokers.kill(0)  # it has ended: nothing is left to be killed
        brokers.start(0)
        assert addresses(brokers.bootstrap).keys() == {0}
        brokers.shutdown(0)
    finally:
        barnabas("down", "--kill", "--dir", place)


def test_a_run_that_is_interrupted_tells_its_verdict(kafka_cluster: KafkaCluster, tmp_path: Path) -> None:
    history = tmp_path / "history.parquet"
    words = [
        "--driver",
        "barnabas.client,librdkafka",
        "--workload",
        "registers",
        "--nemesis",
        "none",
        "--clients",
        "1",
        "--history",
        str(history),
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "barnabas", "judge", "run", "-b", kafka_cluster.bootstrap, *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as judging:  # fmt: skip
        assert judging.stderr is not None
        topic = next(said[1] for line in judging.stderr if (said := re.search(r"topics (\S+),", line)))
        asyncio.run(read_one(kafka_cluster.bootstrap, topic))
        os.killpg(judging.pid, signal.SIGINT)  # as a terminal does it, to the clients' programs as well
        said, told = judging.communicate(timeout=120)
    assert judging.returncode == 0, told
    assert "interrupted: the history up to now is judged" in told
    assert "\n0 anomalies, " in said, said
    assert read(history).op.size > 0


async def delete_everything(bootstrap: str, topic: str) -> None:
    async with connect(bootstrap) as cluster:
        deleted = await cluster.admin.delete_records({TopicPartition(topic, 0): -1})
    assert isinstance(deleted[TopicPartition(topic, 0)], int), deleted


@pytest.mark.parametrize("loses", [True, False])
def test_of_a_cluster_that_loses_records_the_logs_stay_with_the_history(loses: bool, tmp_path: Path) -> None:
    """Somebody deletes records behind the judge's back."""
    history, place = tmp_path / "h.parquet", tmp_path / "made"
    place.mkdir()
    words = f"--driver librdkafka --workload registers --nemesis none --clients 1 --partitions 1 --history {history}"
    with subprocess.Popen(
        [sys.executable, "-m", "barnabas", "judge", "run", "--make", "barnabas", *words.split()],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(place)},
    ) as judging:  # fmt: skip
        assert judging.stderr is not None
        topic = next(said[1] for line in judging.stderr if (said := re.search(r"topics (\S+),", line)))
        (properties,) = place.glob("*/broker-0/server.properties")
        listener = re.search(r"listeners=PLAINTEXT://(\S+)", properties.read_text())
        assert listener is not None
        asyncio.run(read_one(listener[1], topic))
        if loses:
            asyncio.run(delete_everything(listener[1], topic))
        judging.send_signal(signal.SIGINT)
        said, told = judging.communicate(timeout=120)
    logs = {log.name: log.read_text() for log in (tmp_path / "h.logs").glob("*")}
    assert not list(place.iterdir())
    if loses:
        assert judging.returncode == 1, told
        assert "lost-write" in said
        assert f"the brokers' logs: {tmp_path / 'h.logs'}" in told
        assert logs.keys() == {"broker-0.log", "broker-1.log", "broker-2.log", "zookeeper.log"}
        assert all(logs.values())
    else:
        assert judging.returncode == 0, told
        assert not logs


def test_of_a_cluster_whose_run_ends_with_an_error_the_logs_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ["--make", "barnabas", "--driver", "java", "--history", str(tmp_path / "h.parquet")]
    assert command(["judge", "run", *words]) == 2
    told = capsys.readouterr().err
    assert "there is no driver java" in told
    assert f"the brokers' logs: {tmp_path / 'h.logs'}" in told
    assert (tmp_path / "h.logs" / "broker-2.log").stat().st_size


def test_a_script_is_told_what_to_do_and_its_failure_is_told(tmp_path: Path) -> None:
    script, said = tmp_path / "s", tmp_path / "said"
    script.write_text(
        f'#!/bin/sh\n[ "$1" = brokers ] && echo 4 7 && exit\necho "$@" >> {said}\n'
        '[ "$1" = start ] && echo "no such broker" >&2 && exit 3\nexit 0\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    brokers = ScriptBrokers(script, "localhost:9092")
    assert list(brokers.ids) == [4, 7]
    brokers.kill(4)
    brokers.pause(7)
    with pytest.raises(JudgedClusterError, match="start 4: no such broker"):
        brokers.start(4)
    assert said.read_text().splitlines() == ["kill 4", "pause 7", "start 4"]


def test_what_clients_saw_until_a_broker_did_not_start_is_judged(kafka_cluster: KafkaCluster, tmp_path: Path) -> None:
    script = tmp_path / "s"
    script.write_text(
        '#!/bin/sh\n[ "$1" = brokers ] && echo 0 && exit\n[ "$1" = start ] && echo "no disk" >&2 && exit 3\nexit 0\n'
    )
    script.chmod(0o755)
    brokers = ScriptBrokers(script, kafka_cluster.bootstrap)
    plan = RunPlan(kafka_cluster.bootstrap, 10, ["kill"], brokers, clients=1, partitions=2, held_s=(1, 1), start_s=1)
    outcome = run(plan)
    assert "no disk" in outcome.disobeyed
    assert any("the faults ended before their time" in line for line in outcome.told())
    verdict = check(outcome.history)
    assert verdict.good, [each.examples for each in verdict.anomalies]
    assert outcome.history.op.size > 0


def test_where_no_cluster_is_there_is_no_history(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = str(tmp_path / "none")
    assert command(["judge", "run", "--nemesis", "kill", "--dir", place]) == 2
    assert "there is no cluster in" in capsys.readouterr().err
    assert command(["judge", "run", "--nemesis", "earthquake", "--dir", place]) == 2
    assert "--nemesis has no fault earthquake" in capsys.readouterr().err
    assert command(["judge", "run", "--workload", "mining", "--dir", place]) == 2
    assert "--workload has no mining: it takes all, registers, list-append, bank, " in capsys.readouterr().err
    assert command(["judge", "run", "--nemesis", "kill", "-b", "localhost:1"]) == 2
    assert "--script" in capsys.readouterr().err
    assert command(["judge", "run", "--nemesis", "peers", "-b", "localhost:1"]) == 2
    assert "need --make" in capsys.readouterr().err
    assert command(["judge", "run", "--nemesis", "zookeeper", "--make", "kraft"]) == 2
    assert "kraft has no ZooKeeper" in capsys.readouterr().err
    assert command(["judge", "run", "--make", "redpanda"]) == 2
    assert "there is no kind of cluster redpanda" in capsys.readouterr().err
