"""The requests of ``kafka-consumer-groups`` about groups and logs, with the errors of Java's tool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from barnabas.cli.kafka_tools.errors import JavaError, at_runtime, check_answer, illegal_argument, print_stack_trace
from barnabas.cli.kafka_tools.java import in_hash_order
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.client.offsets import CommittedOffset
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.list_groups import ListGroupsRequest

TYPES: Final = ("Consumer", "Classic")


class Listing(NamedTuple):
    group: str
    type: str
    state: str


def print_error(message: str, error: JavaError | None = None) -> None:
    print(f"\nError: {message}")
    if error is not None:
        print_stack_trace(error)


async def listed_groups(admin: ToolAdmin, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[Listing]:
    """Consumer groups, in the order of the Java map in which Kafka's client collects them."""
    found: dict[str, Listing] = {}
    try:
        brokers = (await admin.cluster.refresh([])).brokers
        for broker_id in brokers:
            request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
            answer = await admin.to_broker(broker_id, request)
            if answer.error_code:
                raise KafkaError(ErrorCode(answer.error_code))
            for group in answer.groups:
                if group.protocol_type in ("consumer", ""):
                    kind = next((name for name in TYPES if name.lower() == group.group_type.lower()), "Unknown")
                    found[group.group_id] = Listing(group.group_id, kind, group.group_state or "Unknown")
    except KafkaError as error:
        raise at_runtime(error) from error
    return [found[name] for name in in_hash_order(found)]


async def committed_offsets(admin: ToolAdmin, group: str) -> dict[TopicPartition, CommittedOffset]:
    """In the order of Kafka's map."""
    try:
        found = await admin.cluster.committed_offsets(group, None)
    except KafkaError as error:
        raise at_runtime(error) from error
    return {partition: found[partition] for partition in in_hash_order(found)}


async def log_offsets(admin: ToolAdmin, partitions: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int]:
    """Each partition's offset at a timestamp, in the order of Kafka's map. Raises `JavaError`."""
    ordered = in_hash_order(partitions)
    if not ordered:
        return {}
    found = await admin.list_offsets(dict.fromkeys(ordered, at))
    offsets: dict[TopicPartition, int] = {}
    for partition in ordered:
        outcome = found[partition]
        if isinstance(outcome, KafkaError):
            raise at_runtime(outcome)
        offsets[partition] = outcome.offset
    return offsets


def topic_and_partitions(text: str) -> list[TopicPartition]:
    """``topic:0,1,2``. Raises `JavaError`."""
    topic, *partitions = text.rstrip(":").split(":")
    if len(partitions) != 1:
        raise illegal_argument(f"Invalid topic arg '{text}', expected topic name and partitions")
    found: list[TopicPartition] = []
    for number in partitions[0].split(","):
        try:
            found.append(TopicPartition(topic, int(number)))
        except ValueError:
            raise illegal_argument(f"Invalid partition '{number}' specified in topic arg '{text}''") from None
    return found


async def partitions_of(admin: ToolAdmin, topic: str) -> list[TopicPartition]:
    """A topic's partitions. Raises `JavaError`, in the form of a failed future, if there is no such topic."""
    metadata = await admin.cluster.look_up([topic])
    check_answer(metadata.error_of(topic))
    return metadata.partitions(topic)
