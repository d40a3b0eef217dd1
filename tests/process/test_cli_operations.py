"""What an operator asks of a cluster, by the commands: offsets, groups, transactions, directories, versions, speed."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import functools
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cluster import BARNABAS, Cluster, barnabas, running, until

from barnabas.cli.app import run
from barnabas.client.admin import Admin, ResourceType
from barnabas.client.cluster import ClusterClient
from barnabas.client.produce_requests import produce_request, read_produce
from barnabas.client.transactions import TransactionalProducer
from barnabas.model.config import AlterOperation
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import real_runtime
from barnabas.wire.records import Record, build_batch

SMALL = ("offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1")


class Said(NamedTuple):
    code: int
    stdout: str
    stderr: str


class Operator:
    """Runs commands on a cluster, in this process: what Python takes to start would be most of these tests."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._made: Counter[str] = Counter()

    def says(self, *words: str, expect: int = 0) -> Said:
        out = io.TextIOWrapper(io.BytesIO(), write_through=True)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as err:
            code = run([*words, "-b", self.cluster.bootstrap])
        said = Said(code, out.buffer.getvalue().decode(), err.getvalue())  # type: ignore[attr-defined]
        assert code == expect, (words, said)
        return said

    def json(self, *words: str, expect: int = 0) -> Any:
        return json.loads(self.says(*words, "--format", "json", expect=expect).stdout)

    def rows(self, *words: str) -> list[list[str]]:
        """A table's rows."""
        return [re.split(r"  +", line) for line in self.says(*words).stdout.splitlines()[1:]]

    def complaint(self, *words: str, expect: int = 1) -> str:
        done = self.says(*words, expect=expect)
        (line,) = done.stderr.splitlines()
        assert line.startswith("barnabas: ")
        return line.removeprefix("barnabas: ")

    def topic(self, name: str, records: int, partitions: int = 2) -> str:
        """A topic whose first partition has so many records; named `name`, and otherwise where a test is run again."""
        self._made[name] += 1
        if self._made[name] > 1:
            name = f"{name}-{self._made[name]}"
        self.says("topic", "create", name, "-p", str(partitions), "-r", "3")
        if records:
            lines = self.cluster.directory / f"{name}.txt"
            lines.write_text("".join(f"{number}\n" for number in range(records)))
            self.says("produce", "-t", name, "-p", "0", "--file", str(lines))
        return name

    def play(self, story: Callable[[Admin], Awaitable[None]]) -> None:
        async def played() -> None:
            client = ClusterClient(real_runtime(), self.cluster.bootstrap)
            try:
                await story(Admin(client))
            finally:
                await client.close()

        asyncio.run(played())


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with running(tmp_path_factory.mktemp("operations"), 3, *SMALL) as cluster:
        yield Operator(cluster)


def committed(operator: Operator, group: str, topic: str) -> dict[int, int]:
    described = operator.json("group", "describe", group)
    return {each["partition"]: each["committed"] for each in described["offsets"] if each["topic"] == topic}


def test_offsets_are_shown_by_partition_and_at_a_time(operator: Operator) -> None:
    topic = operator.topic("shown", 5)
    assert operator.rows("topic", "offsets", topic) == [[topic, "0", "0", "5", "5"], [topic, "1", "0", "0", "0"]]
    youngest, nothing = operator.json("topic", "offsets", topic, "--at", "max-timestamp")
    assert youngest["offset"] is not None
    assert nothing == {"topic": topic, "partition": 1, "offset": None, "timestamp": None}
    assert operator.json("topic", "offsets", f"{topic}:0", "--at", "-1h")[0]["offset"] == 0
    assert operator.json("topic", "offsets", f"{topic}:0", "--at", "2999-01-01T00:00:00")[0]["offset"] is None
    assert "no partition 7: it has 0 to 1" in operator.complaint("topic", "offsets", f"{topic}:7")
    assert "barnabas topic list" in operator.complaint("topic", "offsets", "nothing-like-it")


def test_records_are_trimmed_only_when_it_is_asked_for(operator: Operator) -> None:
    topic = operator.topic("trimmed", 5)
    assert "nothing was deleted" in operator.says("topic", "trim", f"{topic}:0", "--before", "3").stdout
    assert operator.json("topic", "offsets", f"{topic}:0")[0]["start"] == 0
    done = operator.json("topic", "trim", topic, "--before", "3", "--execute", expect=1)
    assert [each["new_start"] for each in done["partitions"]] == [3, None]
    assert done["partitions"][1]["error"] == "OFFSET_OUT_OF_RANGE"
    assert operator.json("topic", "trim", topic, "--before", "-1d", "--execute")["partitions"][0]["new_start"] == 3
    assert operator.json("topic", "trim", topic, "--before", "end", "--execute")["partitions"][0]["new_start"] == 5
    assert operator.json("topic", "offsets", f"{topic}:0")[0]["start"] == 5


@pytest.mark.parametrize(
    ("way", "offset"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 9),
        (["--to-current"], 6),
        (["--to-offset", "4"], 4),
        (["--to-offset", "99"], 9),
        (["--shift-by", "-2"], 4),
        (["--shift-by", "100"], 9),
        (["--by-duration", "PT1H"], 0),
        (["--to-datetime", "2999-01-01T00:00:00"], 9),
    ],
)
def test_a_group_goes_on_where_it_is_told_to(operator: Operator, way: list[str], offset: int) -> None:
    name = "way" + re.sub(r"\W+", "-", "".join(way))
    topic = operator.topic(name, 9, partitions=1)
    operator.says("consume", "-t", topic, "-g", name, "-n", "6")
    shown = operator.json("group", "reset", name, "-t", topic, *way)
    assert [(each["committed"], each["offset"]) for each in shown["offsets"]] == [(6, offset)]
    assert committed(operator, name, topic) == {0: 6}, "it was only shown"
    operator.says("group", "reset", name, "--all-topics", *way, "--execute")
    assert committed(operator, name, topic) == {0: offset}
    read = operator.says("consume", "-t", topic, "-g", name, "-e").stdout
    assert read.splitlines() == [str(number) for number in range(offset, 9)]


def test_a_group_that_nobody_has_heard_of_is_not_reset(operator: Operator) -> None:
    said = operator.complaint("group", "reset", "mistyped", "--all-topics", "--to-earliest", "--execute")
    assert said == "group mistyped has committed nothing (GROUP_ID_NOT_FOUND)."


def test_a_plan_that_was_exported_brings_groups_back(operator: Operator, tmp_path: Path) -> None:
    topic = operator.topic("planned", 5)
    for group, offset in (("plan-a", "2"), ("plan-b", "3")):
        operator.says("group", "reset", group, "-t", f"{topic}:0", "--to-offset", offset, "--execute")
    exported = operator.says("group", "reset", "plan-a", "plan-b", "--all-topics", "--to-current", "--export").stdout
    assert list(csv.reader(exported.splitlines())) == [["plan-a", topic, "0", "2"], ["plan-b", topic, "0", "3"]]
    (tmp_path / "plan.csv").write_text(exported)
    operator.says("group", "reset", "plan-a", "plan-b", "--all-topics", "--to-latest", "--execute")
    operator.says("group", "reset", "plan-a", "plan-b", "--from-file", str(tmp_path / "plan.csv"), "--execute")
    assert (committed(operator, "plan-a", topic), committed(operator, "plan-b", topic)) == ({0: 2}, {0: 3})
    (tmp_path / "plan.csv").write_text("no,plan\n")
    assert "is neither topic,partition,offset nor group,topic" in operator.complaint(
        *("group", "reset", "plan-a", "--from-file", str(tmp_path / "plan.csv")), expect=2
    )


def test_a_group_with_members_is_described_with_their_partitions_and_left_alone(operator: Operator) -> None:
    topic = operator.topic("busy", 3)
    words = [sys.executable, "-m", "barnabas", "consume", "-t", topic, "-g", "busy", "-b", operator.cluster.bootstrap]
    # What a shell has begun in the background ignores Ctrl-C, and so do its children.
    heeds = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=heeds) as member:
        try:
            assert member.stdout is not None
            for _ in range(3):
                member.stdout.readline()
            until(lambda: committed(operator, "busy", topic).get(0) == 3, "the commit")
            described = operator.json("group", "describe", "busy")
            assert described["state"] == "Stable"
            assert described["assignor"] == "range"
            (only,) = described["members"]
            assert only["assignment"] == [f"{topic}-0", f"{topic}-1"]
            assert [(each["partition"], each["lag"]) for each in described["offsets"]] == [(0, 0), (1, None)]
            assert {each["client_id"] for each in described["offsets"]} == {only["client_id"]}
            said = operator.complaint("group", "reset", "busy", "--all-topics", "--to-earliest", "--execute")
            assert said == "group busy is Stable: stop its members first (NON_EMPTY_GROUP)."
            assert "GROUP_SUBSCRIBED_TO_TOPIC" in operator.complaint(
                "group", "delete-offsets", "busy", "-t", f"{topic}:0"
            )
        finally:
            member.send_signal(signal.SIGINT)
    assert operator.json("group", "describe", "busy")["state"] == "Empty", "it has left"
    assert "deleted busy-0" in operator.says("group", "delete-offsets", "busy", "-t", f"{topic}:0").stdout
    assert "There is no group busy" in operator.complaint("group", "describe", "busy"), "nothing is left of it"


@pytest.mark.parametrize(
    "words",
    [["consume", "-t"], ["consume", "-g", "read", "-t"], ["kafka-console-consumer", "--from-beginning", "--topic"]],
    ids=("alone", "group", "kafka-console-consumer"),
)
def test_a_consumer_whose_reader_has_gone_ends_although_no_record_comes(operator: Operator, words: list[str]) -> None:
    topic = operator.topic("head", 3)
    command = [*BARNABAS, *words, topic, "--bootstrap-server", operator.cluster.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consuming:
        assert consuming.stdout is not None
        assert consuming.stderr is not None
        try:
            assert [consuming.stdout.readline() for _ in range(3)] == [b"0\n", b"1\n", b"2\n"]
            consuming.stdout.close()
            assert (consuming.wait(30), consuming.stderr.read()) == (0, b"")
        finally:
            consuming.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_member_that_is_told_to_stop_leaves_its_group(operator: Operator, number: signal.Signals) -> None:
    topic = operator.topic("stopped", 1)
    words = [*BARNABAS, "consume", "-t", topic, "-g", topic, "-b", operator.cluster.bootstrap]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as member:
        assert member.stdout is not None
        assert member.stdout.readline() == "0\n"
        member.send_signal(number)
        assert (member.communicate(timeout=30), member.returncode) == (("", ""), 128 + number)
    assert operator.json("group", "describe", topic)["state"] == "Empty", "its session lasts for 45 seconds"


@pytest.mark.parametrize(
    "words",
    [["describe", "nobody"], ["delete-offsets", "nobody", "-t", "shown"]],
)
def test_a_group_that_is_not_there_is_an_error_that_says_so(operator: Operator, words: list[str]) -> None:
    assert operator.complaint("group", *words) == ("There is no group nobody: `barnabas group list` shows the groups.")


def test_the_cluster_its_directories_and_its_versions_are_told(operator: Operator) -> None:
    info = operator.json("cluster", "info")
    assert [each["id"] for each in info["brokers"]] == [0, 1, 2]
    assert [each["id"] for each in info["brokers"] if each["controller"]] == [info["controller"]]
    topic = operator.topic("kept", 4, partitions=1)
    found = operator.json("log", "dirs", "-t", topic)
    assert [each["broker"] for each in found] == [0, 1, 2]
    assert len({each["replicas"][0]["size"] for each in found}) == 1
    assert {Path(each["directory"]).parent.name for each in found} == {"broker-0", "broker-1", "broker-2"}
    assert len(operator.rows("log", "dirs", "-r", "-t", topic)) == 3
    assert "broker 9" in operator.complaint("log", "dirs", "--broker", "9")
    versions = {each["broker"]: each["apis"] for each in operator.json("api-versions")}
    assert versions[0] == versions[1] == versions[2]
    assert {"key": 0, "name": "Produce", "lowest": 0, "highest": 11} in versions[0]
    assert "not supported" in operator.complaint("features", "--upgrade", "no.such.feature=1")


def test_a_transaction_is_listed_described_and_ended(operator: Operator) -> None:
    topic = operator.topic("paid", 0)

    async def story(admin: Admin) -> None:
        producer = TransactionalProducer(admin.cluster, "payments")
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.append(topic, b"open", partition=1)
        await producer.flush()

    operator.play(story)
    assert ["payments", "Ongoing"] in [
        [each["transactional_id"], each["state"]] for each in operator.json("transaction", "list", "--state", "Ongoing")
    ]
    assert operator.json("transaction", "list", "--longer-than", "1h") == []
    (described,) = operator.json("transaction", "describe", "payments")
    assert described["partitions"] == [f"{topic}-1"]
    assert operator.json("topic", "offsets", f"{topic}:1", "--committed")[0]["end"] == 0
    assert operator.says("transaction", "abort", "payments").stdout == "payments: aborted, and its producer is fenced\n"
    assert operator.json("topic", "offsets", f"{topic}:1", "--committed")[0]["end"] == 2, "the record and its marker"
    assert "barnabas transaction list" in operator.complaint("transaction", "abort", "nobody")
    assert "TRANSACTIONAL_ID_NOT_FOUND" in operator.complaint("transaction", "describe", "nobody")
    assert "knows no transaction state Lost" in operator.complaint("transaction", "list", "--state", "Lost", expect=2)


def test_a_transaction_that_hangs_is_found_and_ended_in_its_partition(operator: Operator) -> None:
    topic = operator.topic("stuck", 0, partitions=1)
    where = TopicPartition(topic, 0)

    async def story(admin: Admin) -> None:
        # The coordinator was not told of the partition, and brokers do not ask, as those before 3.6 (KIP-890).
        name = "transaction.partition.verification.enable"
        await admin.alter_configs(ResourceType.BROKER, "", [(AlterOperation.SET, name, "false")])
        identity = await admin.fence_producer("lost")
        batch = build_batch(
            [Record(0, admin.cluster.runtime.clock.now_ms(), None, b"hangs")],
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=0,
            is_transactional=True,
        )
        connection = await admin.cluster.leader(where)
        while True:
            sent = await connection.send(produce_request([(where, batch)], transactional_id="lost"))
            if (answer := read_produce(sent)[where]).acknowledged:
                break
            # The leader hears of the setting when its session's watch tells it.
            assert answer.error is ErrorCode.TRANSACTION_ABORTABLE
        await admin.alter_configs(ResourceType.BROKER, "", [(AlterOperation.DELETE, name, None)])

    operator.play(story)
    assert operator.json("transaction", "find-hanging", topic) == [], "it may have begun a moment ago"
    now = ("--max-transaction-timeout", "0")
    (hanging,) = operator.json("transaction", "find-hanging", topic, *now, expect=1)
    assert (hanging["partition"], hanging["start_offset"]) == ("stuck-0", 0)
    told = operator.complaint("transaction", "find-hanging", *now)
    command = re.search(r"`barnabas (.*)`", told)
    assert command is not None
    assert "begins at offset 5" in operator.complaint("transaction", "abort", "-p", "stuck-0", "--start-offset", "5")
    operator.says(*command[1].split())
    assert operator.says("transaction", "find-hanging", *now).stdout == "no transaction hangs\n"
    assert operator.json("topic", "offsets", topic, "--committed")[0]["end"] == 2


def test_a_record_that_too_few_replicas_would_have_is_refused_with_the_brokers_reason(operator: Operator) -> None:
    operator.says("topic", "create", "thin", "--replica-assignment", "0:2", "-c", "min.insync.replicas=2")
    lines = operator.cluster.directory / "thin.txt"
    lines.write_text("1\n")
    where = ("--dir", str(operator.cluster.directory))
    operator.cluster.stop(2)
    try:
        until(lambda: operator.json("partition", "list", "thin")[0]["isr"] == [0], "the ISR without broker 2")
        said = operator.complaint("produce", "-t", "thin", "--file", str(lines), "-X", "message.timeout.ms=3000")
        assert said == (
            "1 records were not acknowledged: thin-0: not acknowledged within 3000 ms; the last attempt: "
            "NOT_ENOUGH_REPLICAS: fewer replicas are in sync than min.insync.replicas asks for; "
            "`barnabas topic describe` shows which are missing."
        )
        status = barnabas("status", *where, "--format", "json")
        assert status.returncode == 1
        told = json.loads(status.stdout)
        assert (told["under_min_isr"], told["offline"]) == (["thin-0"], [])
        assert "thin-0" in told["under_replicated"]
        shown = barnabas("status", *where).stdout
        row = r"^thin-0 +0 +0,2 +0 +2 +under-replicated, under min\.insync\.replicas$"
        assert re.search(row, shown, re.MULTILINE), shown
    finally:
        operator.cluster.up()
    until(lambda: operator.json("partition", "list", "thin")[0]["isr"] == [0, 2], "broker 2 in the ISR again")


def test_a_partition_that_there_is_not_is_told_before_a_record_is_read(operator: Operator) -> None:
    topic = operator.topic("narrow", 0)
    for partition in ("2", "-1"):
        assert operator.complaint("produce", "-t", topic, "-p", partition) == (
            f"{topic} has no partition {partition}: it has 0 to 1."
        )


def test_a_line_that_is_piped_is_sent_while_the_next_one_is_waited_for(operator: Operator) -> None:
    topic = operator.topic("piped", 0, partitions=1)
    words = [sys.executable, "-m", "barnabas", "produce", "-t", topic, "-b", operator.cluster.bootstrap]
    with subprocess.Popen(words, stdin=subprocess.PIPE, text=True) as producer:
        assert producer.stdin is not None
        for number in (1, 2):
            producer.stdin.write(f"{number}\n")
            producer.stdin.flush()
            until(lambda end=number: operator.json("topic", "offsets", topic)[0]["end"] == end, f"record {number}")
        producer.stdin.write("the rest")
    assert producer.returncode == 0
    assert operator.says("consume", "-t", topic, "-e").stdout == "1\n2\nthe rest\n"


def test_speed_is_measured_by_records_that_are_there_afterwards(operator: Operator) -> None:
    topic = operator.topic("fast", 0, partitions=1)
    produced = operator.json("perf", "produce", "-t", topic, "-n", "500", "--size", "50")
    assert produced["records"] == 500
    assert 0 < produced["p50_ms"] <= produced["p99_ms"] <= produced["max_ms"]
    assert operator.json("perf", "consume", "-t", topic)["records"] == 500
    assert operator.json("perf", "consume", "-t", topic, "-n", "70")["records"] == 70
    assert operator.json("perf", "latency", "-t", topic, "-n", "5")["records"] == 5
    assert operator.json("topic", "offsets", topic)[0]["end"] == 505


def test_a_table_has_colours_on_a_terminal_and_nowhere_else(operator: Operator) -> None:
    words = [sys.executable, "-m", "barnabas", "cluster", "info", "-b", operator.cluster.bootstrap]

    def on_a_terminal(**environment: str) -> str:
        ours, theirs = pty.openpty()
        subprocess.run(words, stdout=theirs, check=True, env={**os.environ, "TERM": "xterm", **environment})
        os.close(theirs)
        shown = os.read(ours, 65536).decode()
        os.close(ours)
        return shown

    assert "\x1b[1;36mBROKER" in on_a_terminal()
    assert "\x1b" not in on_a_terminal(NO_COLOR="1")
    assert "\x1b" not in operator.says("cluster", "info").stdout
