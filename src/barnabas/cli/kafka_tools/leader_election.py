"""``kafka-leader-election``: preferred and unclean elections (``org.apache.kafka.tools.LeaderElectionCommand``)."""

from __future__ import annotations

from typing import Final

from barnabas.cli.kafka_tools.errors import RUNTIME, JavaError, at_runtime, java_error, told_with_trace, wrapped
from barnabas.cli.kafka_tools.java import in_hash_order
from barnabas.cli.kafka_tools.json_files import (
    ADMIN_COMMAND_FAILED,
    ADMIN_OPERATION,
    MAPPING_EXCEPTION,
    as_array,
    as_object,
    field,
    integer,
    parsed,
    read_text,
    string,
)
from barnabas.cli.kafka_tools.options import OptionParser, Options
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.cli.kafka_tools.session import client_properties, with_admin
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import ElectionType

_TIMEOUT_MS: Final = 30_000


class _Words:
    def __init__(self, words: list[str]) -> None:
        parser = self.parser = OptionParser()
        self.server = parser.takes("bootstrap-server", "The brokers to ask first. REQUIRED.", "host:port")
        self.config_file = parser.takes("admin.config", "A file of client properties.", "config file")
        self.file = parser.takes(
            "path-to-json-file",
            'The partitions: {"partitions": [{"topic": "foo", "partition": 1}]}',
            "Path to JSON file",
        )
        self.topic = parser.takes("topic", "The topic of the one partition.", "topic name")
        self.partition = parser.takes(
            "partition", "The number of the one partition. REQUIRED with --topic.", "partition id", kind="Integer"
        )
        self.all = parser.flag("all-topic-partitions", "All partitions that need an election.")
        self.election = parser.takes(
            "election-type",
            "preferred: elect the first replica of the assignment. unclean: elect a replica that is not in sync, for "
            "partitions without a leader. REQUIRED.",
            "election type",
            kind="[PREFERRED,UNCLEAN]",
        )
        self.options = parser.read(
            words,
            "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported "
            "are preferred replicas and unclean replicas.",
        )
        self._check(self.options)

    def _check(self, options: Options) -> None:
        missing = [option for option in (self.server, self.election) if not options.has(option)]
        if missing:
            names = ", ".join(option.names[0] for option in missing)
            raise _failed(f"Missing required option(s): {names}")
        exclusive = (self.topic, self.all, self.file)
        if sum(map(options.has, exclusive)) != 1:
            names = ", ".join(option.names[0] for option in exclusive)
            raise _failed(f"One and only one of the following options is required: {names}")
        if options.has(self.topic) and not options.has(self.partition):
            raise _failed("Missing required option(s): partition")
        if not options.has(self.topic) and options.has(self.partition):
            raise _failed("Option partition is only allowed if topic is used")

    @property
    def election_type(self) -> ElectionType:
        return ElectionType[self.options.value(self.election)]

    def partitions(self) -> list[TopicPartition] | None:
        """None for all partitions."""
        if self.options.has(self.file):
            return _from_file(self.options.value(self.file))
        if self.options.has(self.topic):
            return [TopicPartition(self.options.value(self.topic), self.options.value(self.partition))]
        return None


def _failed(message: str) -> JavaError:
    return JavaError(ADMIN_COMMAND_FAILED, message)


def main(arguments: list[str]) -> int:
    try:
        words = _Words(arguments)
        kind = words.election_type
        partitions = words.partitions()
        options = words.options
        properties = client_properties(options.value(words.config_file), options.value(words.server))
        properties.setdefault("default.api.timeout.ms", str(_TIMEOUT_MS))
        properties.setdefault("request.timeout.ms", str(_TIMEOUT_MS // 2))
        with_admin(properties, lambda admin: _elect(admin, kind, partitions), call="electLeaders")
    except JavaError as error:
        return told_with_trace(error)
    return 0


def _from_file(path: str) -> list[TopicPartition]:
    try:
        document = parsed(read_text(path))
    except JavaError as error:
        raise wrapped(RUNTIME, error) from error
    if document is None:
        raise JavaError(ADMIN_OPERATION, "Replica election data is empty")
    found: list[TopicPartition] = []
    try:
        if "partitions" not in as_object(document):
            raise JavaError(ADMIN_OPERATION, 'Replica election data is missing "partitions" field')
        for entry in as_array(document["partitions"]):
            item = as_object(entry)
            found.append(TopicPartition(string(field(item, "topic")), integer(field(item, "partition"))))
    except JavaError as error:
        if error.name == MAPPING_EXCEPTION:
            raise wrapped(RUNTIME, error) from error
        raise
    twice = in_hash_order([partition for partition in found if found.count(partition) > 1])
    if twice:
        names = ", ".join(map(str, twice))
        raise JavaError(ADMIN_OPERATION, f"Replica election data contains duplicate partitions: [{names}]")
    return found


async def _elect(admin: ToolAdmin, kind: ElectionType, partitions: list[TopicPartition] | None) -> None:
    try:
        outcomes = await admin.elect_leaders(partitions, kind)
    except KafkaError as error:
        if error.code is ErrorCode.REQUEST_TIMED_OUT:
            print("Timeout waiting for election results")
            raise _failed("Timeout waiting for election results") from error
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            print("Not authorized to perform leader election")
            raise _failed("Not authorized to perform leader election") from error
        raise at_runtime(error) from error
    ordered = in_hash_order(outcomes)
    elected = [partition for partition in ordered if outcomes[partition] is None]
    failed: dict[TopicPartition, KafkaError] = {}
    noop: list[TopicPartition] = []
    for partition in ordered:
        error_of = outcomes[partition]
        if error_of is not None and error_of.code is ErrorCode.ELECTION_NOT_NEEDED:
            noop.append(partition)
        elif error_of is not None:
            failed[partition] = error_of
    if elected:
        names = ", ".join(map(str, elected))
        print(f"Successfully completed leader election ({kind.name}) for partitions {names}")
    if noop:
        print(f"Valid replica already elected for partitions {', '.join(map(str, noop))}")
    if failed:
        for partition, reason in failed.items():
            print(f"Error completing leader election ({kind.name}) for partition: {partition}: {java_error(reason)}")
        raise _failed(f"{len(failed)} replica(s) could not be elected")
