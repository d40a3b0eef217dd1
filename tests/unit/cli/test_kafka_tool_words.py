"""How Kafka's tools read their words and print their numbers."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from barnabas.cli.connect import COMMAND_CONFIG
from barnabas.cli.kafka_tools import link
from barnabas.cli.kafka_tools.console_producer import LineReader
from barnabas.cli.kafka_tools.errors import JavaError, ToolExit
from barnabas.cli.kafka_tools.java import double, in_hash_order
from barnabas.cli.kafka_tools.names import TOOLS, run_kafka_tool
from barnabas.cli.kafka_tools.options import OptionError, OptionParser
from barnabas.cli.output import CommandError
from barnabas.model.ids import TopicPartition

ASKING = {
    "kafka-acls": "--list",
    "kafka-broker-api-versions": "",
    "kafka-configs": "--describe --entity-type topics",
    "kafka-console-consumer": "--topic t",
    "kafka-console-producer": "--topic t",
    "kafka-consumer-groups": "--list",
    "kafka-consumer-perf-test": "--topic t --messages 1",
    "kafka-delete-records": "--offset-json-file {plan}",
    "kafka-features": "describe",
    "kafka-get-offsets": "",
    "kafka-leader-election": "--election-type preferred --all-topic-partitions",
    "kafka-log-dirs": "--describe",
    "kafka-producer-perf-test": "--topic t --num-records 1 --record-size 1 --throughput 1 "
    "--producer-props bootstrap.servers={at}",
    "kafka-reassign-partitions": "--list",
    "kafka-topics": "--list",
    "kafka-transactions": "list",
    "kafka-verifiable-consumer": "--topic t --group-id g",
    "kafka-verifiable-producer": "--topic t --max-messages 1",
}
WITHOUT = {"kafka-dump-log": "asks nobody", "kafka-delegation-tokens": "demands a file"}


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool not in WITHOUT])
def test_a_tool_that_is_given_no_file_of_properties_takes_the_environments(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plan, profile = tmp_path / "plan.json", tmp_path / "client.properties"
    plan.write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": 0}], "version": 1}')
    profile.write_text("security.protocol=NONSENSE\n")
    monkeypatch.setenv(COMMAND_CONFIG, str(profile))
    at = "127.0.0.1:1"
    words = ASKING[tool].format(plan=plan, at=at).split()
    server = [] if tool == "kafka-producer-perf-test" else ["--bootstrap-server", at]
    with contextlib.suppress(JavaError, ToolExit):
        run_kafka_tool(tool, [*server, *words])
    told = capfd.readouterr()
    # A tool that says no more than this has read it as well.
    assert "NONSENSE" in told.out + told.err or told.err == "Failed to create new KafkaAdminClient\n"


def test_an_option_takes_its_argument_after_a_blank_or_an_equals_sign() -> None:
    parser = OptionParser()
    topic = parser.takes("topic", "")
    for words in (["--topic", "a"], ["--topic=a"], ["-topic", "a"]):
        assert parser.parse(words).value(topic) == "a"
    assert parser.parse(["--topic", "--list"]).value(topic) == "--list"
    assert parser.parse(["--topic="]).value(topic) == ""


def test_a_repeated_option_has_several_values_and_no_single_one() -> None:
    parser = OptionParser()
    topic = parser.takes("topic", "")
    options = parser.parse(["--topic", "a", "--topic", "b"])
    assert options.values(topic) == ["a", "b"]
    with pytest.raises(OptionError, match="multiple arguments for option topic"):
        options.value(topic)


def test_an_abbreviation_is_taken_only_where_the_tool_allows_it_and_it_is_unique() -> None:
    parser = OptionParser(abbreviations=True)
    topic, _ = parser.takes("topic", ""), parser.takes("topic-id", "")
    group = parser.takes("group", "")
    assert parser.parse(["--gr", "g"]).value(group) == "g"
    assert parser.parse(["--topic", "t"]).value(topic) == "t"
    with pytest.raises(OptionError, match="top is not a recognized option"):
        parser.parse(["--top", "t"])
    with pytest.raises(OptionError, match="vers is not a recognized option"):
        OptionParser().parse(["--vers"])


def test_an_option_that_may_stand_alone_takes_no_option_for_its_argument() -> None:
    parser = OptionParser()
    state = parser.takes("state", "", optional=True)
    listing = parser.flag("list", "")
    options = parser.parse(["--state", "--list"])
    assert options.has(state)
    assert options.value(state) is None
    assert options.has(listing)
    assert parser.parse(["--state", "stable"]).value(state) == "stable"


def test_an_option_is_taken_only_beside_those_it_belongs_to() -> None:
    parser = OptionParser()
    describe, listing = parser.flag("describe", ""), parser.flag("list", "")
    members = parser.flag("members", "", available_if=(describe,))
    state = parser.takes("state", "", optional=True, available_if=(describe, listing))
    assert parser.parse(["--describe", "--members"]).has(members)
    assert parser.parse(["--state", "--list"]).has(state)
    for words, told in ((["--members", "--list"], r"\[members\]"), (["--state"], r"\[state\]")):
        with pytest.raises(OptionError, match=rf"Option\(s\) {told} are unavailable given other options"):
            parser.parse(words)


def test_missing_and_unreadable_arguments_are_told_in_joptsimples_words() -> None:
    parser = OptionParser()
    count = parser.takes("count", "", kind="Integer")
    with pytest.raises(OptionError, match="Option count requires an argument"):
        parser.parse(["--count"])
    for text in ("x", "1.5", "2147483648"):
        with pytest.raises(OptionError, match=f"Cannot parse argument '{text}' of option count"):
            parser.parse(["--count", text]).value(count)


def test_the_help_is_in_two_columns_of_eighty_characters(capsys: pytest.CaptureFixture[str]) -> None:
    parser = OptionParser()
    parser.takes("bootstrap-server", "The brokers to ask first, and more of them if need be.", "server to connect to")
    with pytest.raises(ToolExit):
        parser.usage_and_exit("No.")
    message, *lines = capsys.readouterr().err.splitlines()
    assert message == "No."
    assert max(map(len, lines)) <= 80
    assert lines[2].startswith("--bootstrap-server <String: server to    The brokers to ask first")
    assert lines[3].startswith("  connect to>")


def test_the_order_of_a_hash_map_is_javas() -> None:
    assert in_hash_order(["version", "brokers"]) == ["brokers", "version"]
    assert in_hash_order([TopicPartition("flights", each) for each in range(3)])[0] == TopicPartition("flights", 0)
    assert in_hash_order([17, 1, 16]) == [16, 17, 1]
    assert in_hash_order(range(13)) == list(range(13))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"), (1024.0, "1024.0"), (0.5, "0.5"), (0.001, "0.001"), (0.0001, "1.0E-4"), (1e7, "1.0E7"),
        (12345678.0, "1.2345678E7"), (9999999.0, "9999999.0"), (1e300, "1.0E300"), (-2.5e-5, "-2.5E-5"),
        (float("nan"), "NaN"), (float("-inf"), "-Infinity"),
    ],
)  # fmt: skip
def test_a_double_is_printed_as_java_prints_it(value: float, text: str) -> None:
    assert double(value) == text


def test_a_line_is_taken_apart_as_its_properties_say() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "key.separator": ":", "null.marker": "NULL"})
    line = reader.read("h1:v1,h2:NULL\tk:v:w")
    assert (line.key, line.value, line.headers) == (b"k", b"v:w", (("h1", b"v1"), ("h2", None)))
    assert reader.read("NULL\tNULL:NULL").value is None
    with pytest.raises(JavaError, match="No key separator found on line number 3: 'h:v\tkey'"):
        reader.read("h:v\tkey")


def test_separators_of_a_line_that_are_the_same_are_refused() -> None:
    with pytest.raises(JavaError, match=r"headers\.delimiter and headers\.separator may not be equal"):
        LineReader({"headers.delimiter": ","})


def test_the_names_are_put_on_path_and_nothing_is_overwritten(tmp_path: Path) -> None:
    assert link.main(["link", str(tmp_path)]) == 0
    assert link.main(["link", str(tmp_path)]) == 0
    assert {each.name.removesuffix(".sh") for each in tmp_path.iterdir()} == set(TOOLS)
    said = subprocess.run(
        ["kafka-topics.sh", "--version"], env={**os.environ, "PATH": str(tmp_path)}, capture_output=True
    )
    assert said.stdout == b"3.9.2\n"
    (tmp_path / "kafka-topics.sh").write_text("#!/bin/sh\nKafka's own\n")
    with pytest.raises(CommandError, match="is not a script of this command"):
        link.main(["link", str(tmp_path)])
