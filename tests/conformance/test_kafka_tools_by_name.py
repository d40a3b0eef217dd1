"""`barnabas kafka-…` beside Apache Kafka's own tools: the same words, the same exit code, the same output.

A table in ``kafka_tool_cases`` is a story, a command a line, that begins on a fresh cluster: our tools play it on one
cluster, Kafka's on another; or both on the same, command by command. Lines that begin with ``! `` are played by ours
alone, for there to be something; those with ``~ `` are played again while a move is in progress.
After ``  <<<`` stands what the command reads from its standard input.
"""

from __future__ import annotations

import concurrent.futures
import json
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apache
import pytest
from cluster import BARNABAS, Cluster, barnabas, running, until
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka_tool_output import Place, normal
from kafka_tools import tool
from our_tools import OurTools

pytestmark = [pytest.mark.long(0), pytest.mark.apache]

TABLES = Path(__file__).with_name("kafka_tool_cases")
CASES = {
    "topics": 76,
    "configs": 84,
    "consumer-groups": 75,
    "offsets-dirs-elections": 72,
    "console": 63,
    "transactions-perf-features": 48,
    "reassign-partitions": 31,
}
"""How many commands each table compares."""
ON_ONE_CLUSTER = {"dump-log": 18}
LIVING = 19
ON_KAFKAS_BROKER = {"acls": 47, "beside-kafka": 32}


class Case(NamedTuple):
    line: str
    compared: bool
    patient: bool
    words: list[str]
    text: str


def cases(table: str) -> list[Case]:
    found = []
    for line in (TABLES / f"{table}.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            command, _, text = line.removeprefix("! ").removeprefix("~ ").partition("  <<<")
            given = text.replace(r"\n", "\n").replace(r"\r", "\r").replace(r"\t", "\t")
            compared, patient = not line.startswith("! "), line.startswith("~ ")
            found.append(Case(line, compared, patient, shlex.split(command), given))
    return found


@pytest.fixture(scope="module")
def ours() -> Iterator[OurTools]:
    tools = OurTools()
    yield tools
    tools.close()


def place_of(cluster: Cluster) -> Place:
    return Place([each["port"] for each in cluster.state["brokers"]], str(cluster.directory))


def by_ours(tools: OurTools, case: Case, place: Place) -> str:
    return normal(tools.call(*place.words(case.words), text=case.text), place)


def by_kafkas(case: Case, place: Place) -> str:
    name, *arguments = place.words(case.words)
    return normal(tool(name.removesuffix(".sh"), *arguments, text=case.text), place)


def played(story: list[Case], act: Callable[[Case], str]) -> list[tuple[str, str]]:
    return [(case.line, settled(case, act) if case.patient else act(case)) for case in story]


def settled(case: Case, act: Callable[[Case], str]) -> str:
    def said() -> str:
        text = act(case)
        return "" if "still in progress" in text else text

    return str(until(said, case.line))


@pytest.mark.parametrize("table", CASES)
def test_our_tools_say_what_kafkas_own_say(table: str, ours: OurTools, tmp_path: Path) -> None:
    story = cases(table)
    with (
        running(tmp_path / "here") as cluster,
        running(tmp_path / "there") as other,
        concurrent.futures.ThreadPoolExecutor() as both,
    ):
        here = both.submit(played, story, lambda case: by_ours(ours, case, place_of(cluster)))
        there = both.submit(played, story, lambda case: by_kafkas(case, place_of(other)))
        pairs = list(zip(here.result(), there.result(), strict=True))
    assert len(pairs) == CASES[table]
    for our, their in pairs:
        assert our == their


def compare(story: list[Case], ours: OurTools, place: Place) -> int:
    """Plays it by both on one cluster; how many commands were compared."""
    compared = 0
    for case in story:
        here = by_ours(ours, case, place)
        if case.compared:
            assert (case.line, here) == (case.line, by_kafkas(case, place))
            compared += 1
        else:
            assert here.startswith("exit 0\n"), here
    return compared


@pytest.mark.parametrize("table", ON_ONE_CLUSTER)
def test_our_tools_say_the_same_of_the_same_files(table: str, ours: OurTools, tmp_path: Path) -> None:
    with running(tmp_path / "cluster") as cluster:
        place = place_of(cluster)
        story = cases(table)
        for each in [case for case in story if not case.compared]:
            assert by_ours(ours, each, place).startswith("exit 0\n"), each
        filled = [
            case._replace(words=[word.replace("{GROUP}", _with_records(cluster)) for word in case.words])
            for case in story
            if case.compared
        ]
        assert compare(filled, ours, place) == ON_ONE_CLUSTER[table]


def _with_records(cluster: Cluster, topic: str = "__consumer_offsets") -> str:
    """The partition of an internal topic that has some."""
    logs = (cluster.directory / "broker-0" / "data").glob(f"{topic}-*/*.log")
    found = [path for path in logs if path.stat().st_size]
    assert len(found) == 1
    return found[0].parent.name


def test_our_tools_say_the_same_of_a_living_group_and_an_open_transaction(ours: OurTools, tmp_path: Path) -> None:
    with running(tmp_path / "cluster") as cluster:
        server = {"bootstrap.servers": cluster.bootstrap}
        made = ours.call(
            "kafka-topics", "--bootstrap-server", cluster.bootstrap, "--create", "--topic", "flights",
            "--replica-assignment", "0:1:2,1:2:0,2:0:1",
        )  # fmt: skip
        assert made.status == 0
        producer = Producer({**server, "transactional.id": "tx"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("flights", b"open", key=b"key", headers=[("h", b"v")], partition=1)
        assert producer.flush(30) == 0
        group = {**server, "group.id": "living", "auto.offset.reset": "latest", "enable.auto.commit": False}
        members = [Consumer({**group, "client.id": f"member-{each}"}) for each in range(2)]
        for member in members:
            member.subscribe(["flights"])
        try:

            def shared() -> bool:
                for member in members:
                    member.poll(0.05)
                return sorted(len(member.assignment()) for member in members) == [1, 2]

            until(shared, "both have partitions")
            for member in members:
                offsets = [TopicPartition(each.topic, each.partition, 0) for each in member.assignment()]
                member.commit(offsets=offsets, asynchronous=False)
            data = cluster.directory / "broker-0" / "data"
            segment = "00000000000000000000.log"
            names = {
                "{TRANSACTIONS}": str(data / _with_records(cluster, "__transaction_state") / segment),
                "{OFFSETS}": str(data / _with_records(cluster) / segment),
            }
            story = [case._replace(words=[names.get(word, word) for word in case.words]) for case in cases("living")]
            assert compare(story, ours, place_of(cluster)) == LIVING
        finally:
            for member in members:
                member.close()
            producer.abort_transaction(30)


@pytest.fixture(scope="module")
def kafkas_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    apache.require()
    config = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
    with apache.ApacheCluster(tmp_path_factory.mktemp("kafka"), heap="256m", config=config) as broker:
        yield Place(list(broker.ports.values()), str(broker.directory))


@pytest.mark.parametrize("table", ON_KAFKAS_BROKER)
def test_our_tools_say_the_same_of_kafkas_broker(table: str, ours: OurTools, kafkas_broker: Place) -> None:
    assert compare(cases(table), ours, kafkas_broker) == ON_KAFKAS_BROKER[table]


def events(printed: str) -> list[dict[str, Any]]:
    """A verifiable client's lines, without what is of the run."""
    of_the_run = ("timestamp", "avg_throughput")
    lines = [json.loads(line) for line in printed.splitlines()]
    return [{name: value for name, value in line.items() if name not in of_the_run} for line in lines]


def test_our_verifiable_clients_say_what_kafkas_say(tmp_path: Path) -> None:
    apache.require()
    with running(tmp_path / "cluster", 1) as cluster:
        server = ("--bootstrap-server", cluster.bootstrap)
        said: dict[str, list[list[dict[str, Any]]]] = {"ours": [], "kafkas": []}
        for whose, topic in (("ours", "numbers-a"), ("kafkas", "numbers-b")):
            barnabas("kafka-topics", *server, "--create", "--topic", topic, "--partitions", "1")
            for name, *options in (
                ("kafka-verifiable-producer", "--max-messages", "20", "--repeating-keys", "3", "--value-prefix", "7"),
                ("kafka-verifiable-consumer", "--max-messages", "20", "--group-id", topic, "--verbose"),
            ):
                run = barnabas if whose == "ours" else apache.tool
                done = run(name, *server, "--topic", topic, *options)
                assert done.returncode == 0, done.stderr
                said[whose].append(events(done.stdout.replace(topic, "numbers")))
    ours, kafkas = said["ours"], said["kafkas"]
    assert ours[0] == kafkas[0]
    assert [each for each in ours[1] if each["name"] not in PIECES] == [
        each for each in kafkas[1] if each["name"] not in PIECES
    ]
    for whole in (ours[1], kafkas[1]):
        assert sum(each["count"] for each in whole if each["name"] == "records_consumed") == 20
        assert [each["offsets"] for each in whole if each["name"] == "offsets_committed"][-1][0]["offset"] == 20


PIECES = ("records_consumed", "offsets_committed")
"""How many records come at once is for the fetches to say."""


def test_a_tool_is_a_command_with_and_without_its_suffix() -> None:
    for name in ("kafka-topics", "kafka-topics.sh"):
        done = barnabas(name, "--version")
        assert (done.returncode, done.stdout) == (0, "3.9.2\n")


def test_a_console_consumer_that_is_to_end_leaves_its_group(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", 1) as cluster:
        server = ("--bootstrap-server", cluster.bootstrap)
        barnabas("kafka-console-producer", *server, "--topic", "lines", text="one\n")
        options = ("--topic", "lines", "--group", "readers", "--from-beginning")
        reading = subprocess.Popen(
            [*BARNABAS, "kafka-console-consumer", *server, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        assert reading.stdout is not None
        assert reading.stdout.readline() == "one\n"
        reading.terminate()
        _, err = reading.communicate(timeout=30)
        assert (reading.returncode, err) == (143, "Processed a total of 1 messages\n")
        described = barnabas("kafka-consumer-groups", *server, "--describe", "--group", "readers")
        assert described.stderr == "\nConsumer group 'readers' has no active members.\n"
        assert described.stdout.split()[9:15] == ["readers", "lines", "0", "1", "1", "0"]
