"""``kafka-topics``: create, list, describe, alter and delete topics (``org.apache.kafka.tools.TopicCommand``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.cli.kafka_tools.errors import JavaError, illegal_argument, java_error, log, told_with_trace
from barnabas.cli.kafka_tools.java import in_hash_order
from barnabas.cli.kafka_tools.options import OptionParser, Options, ToolOption, ToolWords, as_set
from barnabas.cli.kafka_tools.requests import Reassignment, ToolAdmin
from barnabas.cli.kafka_tools.session import client_properties, with_admin
from barnabas.cli.kafka_tools.topic_rules import INTERNAL_TOPICS, check_topic_configs, filter_pattern
from barnabas.client.admin import NewTopic
from barnabas.client.metadata import PartitionMetadata, TopicMetadata
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import ZERO_UUID, TopicPartition, Uuid

_LOGGER: Final = "org.apache.kafka.tools.TopicCommand"


class _Words(ToolWords):
    """The options, checked as Kafka's tool checks them."""

    def __init__(self, words: list[str]) -> None:
        parser = self.parser = OptionParser()
        self.server = parser.takes("bootstrap-server", "REQUIRED: the brokers to ask first.", "server to connect to")
        self.config_file = parser.takes(
            "command-config", "A file of client properties.", "command config property file"
        )
        self.list = parser.flag("list", "Name all topics.")
        self.create = parser.flag("create", "Create a topic.")
        self.delete = parser.flag("delete", "Delete topics.")
        self.alter = parser.flag("alter", "Add partitions to topics. Use kafka-configs to alter configurations.")
        self.describe = parser.flag("describe", "Show topics and their partitions.")
        self.topic = parser.takes(
            "topic", "The topic. With --list, --describe, --alter and --delete it may be a regular expression.", "topic"
        )
        self.topic_id = parser.takes("topic-id", "The id of the topic to describe.", "topic-id")
        self.config = parser.takes("config", "A configuration of the new topic; may be repeated.", "name=value")
        self.delete_config = parser.takes("delete-config", "Not supported with --bootstrap-server.", "name")
        self.partitions = parser.takes(
            "partitions",
            "The number of partitions of the topic; by default the cluster's. If it grows, keys go to other partitions "
            "than before.",
            "# of partitions",
            kind="Integer",
        )
        self.replication_factor = parser.takes(
            "replication-factor",
            "The number of replicas of each partition of a new topic; by default the cluster's.",
            "replication factor",
            kind="Integer",
        )
        self.replica_assignment = parser.takes(
            "replica-assignment",
            "The brokers of each partition, in place of --partitions and --replication-factor.",
            "broker_id_for_part1_replica1 : broker_id_for_part1_replica2 , "
            "broker_id_for_part2_replica1 : broker_id_for_part2_replica2 , ...",
        )
        self.under_replicated = parser.flag("under-replicated-partitions", "Show only under-replicated partitions.")
        self.unavailable = parser.flag("unavailable-partitions", "Show only partitions whose leader is not available.")
        self.under_min_isr = parser.flag(
            "under-min-isr-partitions", "Show only partitions with fewer in-sync replicas than min.insync.replicas."
        )
        self.at_min_isr = parser.flag(
            "at-min-isr-partitions", "Show only partitions with exactly min.insync.replicas in-sync replicas."
        )
        self.with_overrides = parser.flag(
            "topics-with-overrides", "Show only topics whose configuration differs from the defaults."
        )
        self.if_exists = parser.flag("if-exists", "No error for a topic that does not exist.")
        self.if_not_exists = parser.flag("if-not-exists", "No error for a topic that exists.")
        self.exclude_internal = parser.flag("exclude-internal", "Leave out internal topics.")
        self.partition_limit = parser.takes(
            "partition-size-limit-per-response",
            "The maximal number of partitions in one answer of a broker.",
            "maximum number of partitions in one response.",
            kind="Integer",
        )
        self.options = parser.parse(words)
        self._check(words, self.options)

    def _check(self, words: list[str], options: Options) -> None:
        parser = self.parser
        actions = (self.alter, self.create, self.describe, self.list, self.delete)
        if not words:
            parser.usage_and_exit("Create, delete, describe, or change a topic.")
        parser.help_or_version(words, options, "This tool helps to create, delete, describe, or change a topic.")
        if sum(map(options.has, actions)) != 1:
            parser.usage_and_exit(
                "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
            )
        self._check_required(options)
        self._check_invalid(options)

    def _check_required(self, options: Options) -> None:
        has, parser = options.has, self.parser
        if not has(self.server):
            raise illegal_argument("--bootstrap-server must be specified")
        if has(self.describe) and has(self.if_exists):
            if not has(self.topic) and not has(self.topic_id):
                parser.usage_and_exit("--topic or --topic-id is required to describe a topic")
            if has(self.topic) and has(self.topic_id):
                print(
                    "Only topic id will be used when both --topic and --topic-id are specified and topicId is not "
                    "Uuid.ZERO_UUID"
                )
        if not has(self.list) and not has(self.describe):
            parser.require(options, self.topic)
        if has(self.alter):
            if has(self.config):
                used = as_set([self.server, self.config])
                parser.usage_and_exit(
                    f'Option combination "[{", ".join(map(str, used))}]" can\'t be used with option "{self.alter}" '
                    "(the kafka-configs CLI supports altering topic configs with a --bootstrap-server option)"
                )
            parser.require(options, self.partitions)

    def _check_invalid(self, options: Options) -> None:
        reports = (self.under_replicated, self.under_min_isr, self.at_min_isr, self.unavailable)
        rules: list[tuple[ToolOption, tuple[ToolOption, ...], tuple[ToolOption, ...]]] = [
            (self.config, (self.alter, self.create), ()),
            (self.delete_config, (self.alter,), (self.server,)),
            (self.partitions, (self.alter, self.create), ()),
            (self.replication_factor, (self.create,), ()),
            (self.replica_assignment, (self.alter, self.create), ()),
        ]
        for option, allowed, added in rules:
            self._only_with(options, option, allowed, added)
        if options.has(self.create):
            self.parser.forbid(options, self.replica_assignment, (self.partitions, self.replication_factor))
        for option in reports:
            self._only_with(options, option, (self.describe,), (self.with_overrides,))
        self._only_with(options, self.with_overrides, (self.describe,), reports)
        self._only_with(options, self.if_exists, (self.alter, self.delete, self.describe), ())
        self._only_with(options, self.if_not_exists, (self.create,), ())
        self._only_with(options, self.exclude_internal, (self.list, self.describe), ())

    def _only_with(
        self, options: Options, option: ToolOption, allowed: tuple[ToolOption, ...], added: tuple[ToolOption, ...]
    ) -> None:
        actions = (self.alter, self.create, self.describe, self.list, self.delete)
        self.parser.forbid(options, option, [*(action for action in actions if action not in allowed), *added])


def main(words: list[str]) -> int:
    try:
        parsed = _Words(words)
        properties = client_properties(parsed.value(parsed.config_file), parsed.value(parsed.server))
    except JavaError as error:
        return told_with_trace(error)
    try:
        _act(parsed, properties)
    except JavaError as error:
        if error.cause is not None and error.message == "Failed to create new KafkaAdminClient":
            return told_with_trace(error)
        print(f"Error while executing topic command : {error.message}")
        log("ERROR", f"{error}\n", _LOGGER)
        return 1
    return 0


def _act(words: _Words, properties: Mapping[str, str]) -> None:
    if words.has(words.create):
        new = _new_topic(words)
        with_admin(properties, lambda admin: _create(admin, words, new), call="createTopics")
    elif words.has(words.alter):
        assignment = _assignment(words)
        _configs(words)
        with_admin(properties, lambda admin: _alter(admin, words, assignment), call="listTopics")
    elif words.has(words.list):
        names = with_admin(properties, lambda admin: _topics(admin, words), call="listTopics")
        print("\n".join(names))
    elif words.has(words.describe):
        with_admin(properties, lambda admin: _describe(admin, words), call="listTopics")
    else:
        with_admin(properties, lambda admin: _delete(admin, words), call="listTopics")


# create


def _configs(words: _Words) -> dict[str, str]:
    pairs = [re.split(r"\s*=\s*", text) for text in words.options.values(words.config)]
    if any(len(pair) != 2 for pair in pairs):
        raise illegal_argument(
            'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
        )
    configs = {name.strip(): value.strip() for name, value in pairs}
    check_topic_configs(configs)
    return configs


def _assignment(words: _Words) -> dict[int, list[int]]:
    """`--replica-assignment` by partition. Raises `JavaError`."""
    text = words.value(words.replica_assignment)
    assignment: dict[int, list[int]] = {}
    for partition, part in enumerate(text.split(",") if text else ()):
        try:
            brokers = [int(broker.strip()) for broker in part.split(":")]
        except ValueError:
            wrong = next(broker.strip() for broker in part.split(":") if not broker.strip().lstrip("+-").isdigit())
            raise JavaError("java.lang.NumberFormatException", f'For input string: "{wrong}"') from None
        twice = in_hash_order([broker for broker in brokers if brokers.count(broker) > 1])
        if twice:
            raise JavaError(
                "org.apache.kafka.server.common.AdminCommandFailedException",
                f"Partition replica lists may not contain duplicate entries: {','.join(map(str, twice))}",
            )
        assignment[partition] = brokers
        if len(brokers) != len(assignment[0]):
            raise JavaError(
                "org.apache.kafka.server.common.AdminOperationException",
                f"Partition {partition} has different replication factor: {brokers}",
            )
    return assignment


def _new_topic(words: _Words) -> NewTopic:
    name = words.value(words.topic)
    partitions = words.value(words.partitions)
    factor = words.value(words.replication_factor)
    assignment = _assignment(words)
    configs = _configs(words)
    if "_" in name or "." in name:
        print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both."
        )
    if factor is not None and not 1 <= factor <= 32767:
        raise illegal_argument("The replication factor must be between 1 and 32767 inclusive")
    if partitions is not None and partitions < 1:
        raise illegal_argument("The partitions must be greater than 0")
    return NewTopic(
        name,
        -1 if partitions is None else partitions,
        -1 if factor is None else factor,
        configs,
        assignment,
    )


async def _create(admin: ToolAdmin, words: _Words, new: NewTopic) -> None:
    error = (await admin.create_topics([new]))[new.name]
    if error is None:
        print(f"Created topic {new.name}.")
    elif error.code is not ErrorCode.TOPIC_ALREADY_EXISTS or not words.has(words.if_not_exists):
        raise java_error(error)


# list, alter, delete


async def _topics(admin: ToolAdmin, words: _Words) -> list[str]:
    """The existing topics that `--topic` names or matches."""
    metadata = await admin.cluster.refresh(None)
    exclude = words.has(words.exclude_internal)
    names = sorted(name for name, topic in metadata.topics.items() if not (exclude and topic.is_internal))
    pattern = words.value(words.topic)
    if pattern is not None:
        matches = filter_pattern(pattern)
        names = [name for name in names if matches.fullmatch(name)]
    return [name for name in names if not (exclude and name in INTERNAL_TOPICS)]


def _ensure_exists(words: _Words, found: list[str]) -> None:
    pattern = words.value(words.topic)
    if pattern and not words.has(words.if_exists) and not found:
        raise illegal_argument(f"Topic 'Optional[{pattern}]' does not exist as expected")


async def _alter(admin: ToolAdmin, words: _Words, assignment: dict[int, list[int]]) -> None:
    names = await _topics(admin, words)
    _ensure_exists(words, names)
    count = words.value(words.partitions)
    wanted: dict[str, tuple[int, list[list[int]] | None]] = {}
    for name in names:
        there = len(admin.cluster.metadata.topics[name].partitions)
        added = [brokers for partition, brokers in assignment.items() if partition >= there] if assignment else None
        wanted[name] = (count, added)
    if wanted:
        await admin.add_partitions(wanted)


async def _delete(admin: ToolAdmin, words: _Words) -> None:
    names = await _topics(admin, words)
    _ensure_exists(words, names)
    for error in (await admin.delete_topics(names)).values() if names else ():
        if error is not None:
            raise java_error(error)


# describe


@dataclass(frozen=True, slots=True)
class _Described:
    topic: TopicMetadata
    configs: dict[str, str]
    """The configurations that are not the default, in the broker's order."""
    min_isr: int
    reassignments: Mapping[TopicPartition, Reassignment]


def _replication_factor(partition: PartitionMetadata, move: Reassignment | None) -> int:
    """The replication factor without the replicas that a move in progress adds."""
    if move is not None and any(replica in (*move.removing, *move.adding) for replica in partition.replicas):
        return len(move.replicas) - len(move.adding)
    return len(partition.replicas)


async def _describe(admin: ToolAdmin, words: _Words) -> None:
    names = await _described_names(admin, words)
    if not names:
        return
    metadata = await admin.cluster.look_up(names)
    for name in names:
        topic = metadata.topics[name]
        if topic.error is not ErrorCode.NONE:
            raise java_error(KafkaError(topic.error))
    configs = await admin.topic_configs(names)
    reassignments = await admin.listed_reassignments(names)
    for name in in_hash_order(names, sized_for=len(names)):
        entries = configs[name]
        min_isr = next((int(entry.value or 1) for entry in entries if entry.name == "min.insync.replicas"), 1)
        own = {entry.name: str(entry.value) for entry in entries if not entry.is_default}
        _print_topic(words, _Described(metadata.topics[name], own, min_isr, reassignments), metadata.brokers)


async def _described_names(admin: ToolAdmin, words: _Words) -> list[str]:
    given = words.value(words.topic_id)
    wanted = _topic_id(given) if given is not None else ZERO_UUID
    if wanted == ZERO_UUID:
        names = await _topics(admin, words)
        _ensure_exists(words, names)
        return names
    metadata = await admin.cluster.refresh(None)
    exclude = words.has(words.exclude_internal)
    found = [
        name
        for name, topic in metadata.topics.items()
        if topic.topic_id == wanted and not (exclude and topic.is_internal)
    ]
    if not found and not words.has(words.if_exists):
        raise illegal_argument(f"TopicId '{wanted}' does not exist as expected")
    return found


def _topic_id(text: str) -> Uuid:
    if len(text) > 24:
        raise illegal_argument(f"Input string with prefix `{text[:24]}` is too long to be decoded as a base64 UUID")
    try:
        return Uuid.parse(text)
    except ValueError:
        import base64
        import binascii

        try:
            size = len(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except (binascii.Error, ValueError):
            raise illegal_argument(f"Illegal base64 character in {text}") from None
        raise illegal_argument(
            f"Input string `{text}` decoded as {size} bytes, which is not equal to the expected 16 bytes of a "
            "base64-encoded UUID"
        ) from None


def _print_topic(words: _Words, described: _Described, live: Mapping[int, object]) -> None:
    topic = described.topic
    reports = (words.unavailable, words.under_replicated, words.under_min_isr, words.at_min_isr)
    show_configs = not words.options.has_any(reports)
    if show_configs and (not words.has(words.with_overrides) or described.configs):
        first = topic.partitions[min(topic.partitions)]
        factor = _replication_factor(first, described.reassignments.get(TopicPartition(topic.name, first.partition)))
        fields = [f"Topic: {topic.name}"]
        if topic.topic_id != ZERO_UUID:
            fields.append(f"TopicId: {topic.topic_id}")
        configs = ",".join(f"{name}={value}" for name, value in described.configs.items())
        fields += [f"PartitionCount: {len(topic.partitions)}", f"ReplicationFactor: {factor}", f"Configs: {configs}"]
        print("\t".join(fields))
    if words.has(words.with_overrides):
        return
    for number in sorted(topic.partitions):
        partition = topic.partitions[number]
        move = described.reassignments.get(TopicPartition(topic.name, number))
        if show_configs or _is_reported(words, partition, move, described.min_isr, live):
            _print_partition(topic.name, partition, move, live)


def _is_reported(
    words: _Words,
    partition: PartitionMetadata,
    move: Reassignment | None,
    min_isr: int,
    live: Mapping[int, object],
) -> bool:
    has_leader = partition.leader in live
    in_sync = len(partition.isr)
    return (
        (words.has(words.under_replicated) and _replication_factor(partition, move) > in_sync)
        or (words.has(words.unavailable) and not has_leader)
        or (words.has(words.under_min_isr) and (not has_leader or in_sync < min_isr))
        or (words.has(words.at_min_isr) and in_sync == min_isr)
    )


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def _print_partition(
    topic: str, partition: PartitionMetadata, move: Reassignment | None, live: Mapping[int, object]
) -> None:
    leader = partition.leader if partition.leader in live else "none"
    fields = [
        f"\tTopic: {topic}",
        f"Partition: {partition.partition}",
        f"Leader: {leader}",
        f"Replicas: {_ids(partition.replicas)}",
        f"Isr: {_ids(partition.isr)}",
    ]
    if move is not None:
        fields += [f"Adding Replicas: {_ids(move.adding)}", f"Removing Replicas: {_ids(move.removing)}"]
    fields += ["Elr: N/A", "LastKnownElr: N/A"]
    print("\t".join(fields))
