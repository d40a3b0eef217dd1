"""Reassignments as plain values, without a cluster: the file, its moves and throttles, and a proposed assignment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from barnabas.broker.placement import assign_replicas
from barnabas.cli.kafka_tools.errors import JavaError
from barnabas.cli.kafka_tools.java import in_hash_order
from barnabas.cli.kafka_tools.json_files import (
    ADMIN_COMMAND_FAILED,
    ADMIN_OPERATION,
    as_array,
    as_object,
    check_version,
    document_of,
    integer,
    listed,
    string,
)
from barnabas.cli.kafka_tools.json_files import field as field_of
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Entropy

ANY: Final = "any"

Assignment = dict[TopicPartition, list[int]]


class ShownReplica(NamedTuple):
    """A replica on a broker. Replicas are printed in the order of these fields."""

    broker: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


@dataclass(frozen=True)
class ReassignmentPlan:
    """The file's content: each mention of a partition with its replicas, and the log directories other than ``any``."""

    partitions: list[tuple[TopicPartition, list[int]]] = field(default_factory=list)
    directories: dict[ShownReplica, str] = field(default_factory=dict)


class Move(NamedTuple):
    sources: Sequence[int]
    destinations: Sequence[int]


def _failed(message: str) -> JavaError:
    return JavaError(ADMIN_COMMAND_FAILED, message)


def _twice(items: Sequence[Any]) -> list[Any]:
    return in_hash_order([entry for entry in items if items.count(entry) > 1])


def _in_brackets(items: Iterable[Any]) -> str:
    return "[" + ", ".join(map(str, items)) + "]"


def parsed_plan(text: str) -> ReassignmentPlan:
    """Raises `JavaError`."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise JavaError(ADMIN_OPERATION, f"com.fasterxml.jackson.core.JsonParseException: {error}") from None
    check_version(document)
    plan = ReassignmentPlan()
    for entry in as_array(document.get("partitions", [])):
        item = as_object(entry)
        partition = TopicPartition(string(field_of(item, "topic")), integer(field_of(item, "partition")))
        replicas = listed(field_of(item, "replicas"), integer)
        directories = listed(item["log_dirs"], string) if "log_dirs" in item else [ANY] * len(replicas)
        if len(replicas) != len(directories):
            raise _failed(
                f"Size of replicas list {_in_brackets(replicas)} is different from size of log dirs list "
                f"{_in_brackets(directories)} for partition {partition}"
            )
        plan.partitions.append((partition, replicas))
        for broker, directory in zip(replicas, directories, strict=True):
            if directory != ANY:
                plan.directories[ShownReplica(broker, *partition)] = directory
    return plan


def executable_plan(plan: ReassignmentPlan) -> Assignment:
    """Parses a plan and checks it. Raises `JavaError` for a plan that no cluster can carry out."""
    if not plan.partitions:
        raise _failed("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in plan.partitions):
        raise _failed("Partition replica list cannot be empty")
    partitions = _twice([partition for partition, _ in plan.partitions])
    if partitions:
        names = ",".join(map(str, partitions))
        raise _failed(f"Partition reassignment contains duplicate topic partitions: {names}")
    wrong = [(partition, _twice(replicas)) for partition, replicas in plan.partitions if _twice(replicas)]
    if wrong:
        text = ". ".join(
            f"{partition} contains multiple entries for {','.join(map(str, twice))}" for partition, twice in wrong
        )
        raise _failed(f"Partition replica lists may not contain duplicate entries: {text}")
    return dict(plan.partitions)


def parsed_topics(text: str, broker_list: str) -> tuple[list[int], list[str]]:
    """Parses the brokers and the topics of ``--generate``. Raises `JavaError`."""
    try:
        brokers = [int(broker) for broker in broker_list.split(",")]
    except ValueError:
        wrong = next(part for part in broker_list.split(",") if not part.lstrip("+-").isdigit())
        raise JavaError("java.lang.NumberFormatException", f'For input string: "{wrong}"') from None
    if _twice(brokers):
        raise _failed(f"Broker list contains duplicate entries: {_in_brackets(_twice(brokers))}")
    document = document_of(text)
    topics = [string(field_of(as_object(entry), "topic")) for entry in as_array(document.get("topics", []))]
    if _twice(topics):
        raise _failed(f"List of topics to reassign contains duplicate entries: {_in_brackets(_twice(topics))}")
    return brokers, topics


def reassignment_json(assignment: Assignment) -> str:
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": assignment[partition],
            "log_dirs": [ANY] * len(assignment[partition]),
        }
        for partition in sorted(assignment)
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"), ensure_ascii=False)


# moves and their throttles


def moves(
    under_way: Mapping[TopicPartition, tuple[Sequence[int], Sequence[int], Sequence[int]]],
    targets: Assignment,
    current: Assignment,
) -> dict[TopicPartition, Move]:
    """Each partition's move: moves in progress and those of the new plan."""
    found = {
        partition: Move([broker for broker in replicas if broker not in adding], list(adding))
        for partition, (replicas, adding, _) in under_way.items()
    }
    for partition, replicas in targets.items():
        sources = found[partition].sources if partition in found else current[partition]
        found[partition] = Move(sources, [broker for broker in replicas if broker not in sources])
    return found


def leader_throttles(all_moves: Mapping[TopicPartition, Move]) -> dict[str, str]:
    """By topic the replicas that are copied from, as a list of ``partition:broker``."""
    return _throttles((partition, move.sources) for partition, move in all_moves.items())


def follower_throttles(all_moves: Mapping[TopicPartition, Move]) -> dict[str, str]:
    """By topic the replicas that are copied to."""
    return _throttles((partition, move.destinations) for partition, move in all_moves.items())


def _throttles(brokers: Iterable[tuple[TopicPartition, Sequence[int]]]) -> dict[str, str]:
    topics: dict[str, set[str]] = {}
    for partition, ids in brokers:
        topics.setdefault(partition.topic, set()).update(f"{partition.partition}:{broker}" for broker in ids)
    return {topic: ",".join(sorted(parts)) for topic, parts in topics.items()}


# a proposal


def proposed(current: Assignment, racks: Mapping[int, str | None], entropy: Entropy) -> Assignment:
    """A new assignment that spreads every topic over the brokers, given with their racks. Raises `KafkaError`."""
    known = sum(rack is not None for rack in racks.values())
    if known not in (0, len(racks)):
        raise JavaError(
            ADMIN_OPERATION,
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information.",
        )
    found: Assignment = {}
    topics: dict[str, list[TopicPartition]] = {}
    for partition in sorted(current):
        topics.setdefault(partition.topic, []).append(partition)
    for topic, partitions in topics.items():
        assigned = assign_replicas(racks, len(partitions), len(current[partitions[0]]), entropy)
        found |= {TopicPartition(topic, number): list(replicas) for number, replicas in assigned.items()}
    return found
