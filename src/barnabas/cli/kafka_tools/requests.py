"""Requests that Kafka's tools need and `Admin` lacks, or whose answers the tools print in more detail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from barnabas.cli.kafka_tools.errors import java_error_of
from barnabas.cli.kafka_tools.java import in_hash_order
from barnabas.client.admin import Admin, ConfigEntry, ResourceType
from barnabas.client.admin_routing import OPERATION_TIMEOUT_MS
from barnabas.client.connection import Connection
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.api import ApiKey
from barnabas.wire.errors import WireError
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest


class Reassignment(NamedTuple):
    """A partition's move in progress, as broker ids."""

    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


class ToolAdmin(Admin):
    """`Admin` with the requests of these tools. An error is raised as `JavaError`, with the broker's text or Kafka's
    own."""

    async def to_controller(self, request: Any, codes: Callable[[Any], Iterable[int]]) -> Any:
        """The controller's answer; asks again while the answer's `codes` say that the controller has moved."""
        return await self.ask(self.cluster.controller, request, codes)

    async def to_any(self, request: Any) -> Any:
        return await self.ask(self.cluster.any, request)

    async def to_broker(self, broker_id: int, request: Any) -> Any:
        return await self.ask(partial(self.cluster.broker, broker_id), request)

    async def ask(
        self,
        target: Callable[[], Awaitable[Connection]],
        request: Any,
        codes: Callable[[Any], Iterable[int]] = lambda answer: (),
    ) -> Any:
        try:
            return await self._to(target, request, codes)
        except WireError:
            versions = (await target()).versions
            name = ApiKey(request.api_key).name
            if request.api_key in versions:
                raise
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"The node does not support {name}") from None

    async def listed_reassignments(self, topics: Sequence[str]) -> dict[TopicPartition, Reassignment]:
        """The moves of `topics`; none if the brokers cannot list them (``TopicCommand.listAllReassignments``)."""
        try:
            listed = await self.list_reassignments()
        except KafkaError as error:
            if error.code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
                return {}
            raise
        return {partition: Reassignment(*move) for partition, move in listed.items() if partition.topic in topics}

    async def topic_configs(self, topics: Sequence[str]) -> dict[str, list[ConfigEntry]]:
        """Each topic's configuration entries, in the order of Kafka's ``Config``."""
        found: dict[str, list[ConfigEntry]] = {}
        for topic in topics:
            entries = {entry.name: entry for entry in await self.describe_configs(ResourceType.TOPIC, topic)}
            found[topic] = [entries[name] for name in in_hash_order(entries)]
        return found

    async def add_partitions(self, wanted: Mapping[str, tuple[int, list[list[int]] | None]]) -> None:
        """`counts` has each topic's new number of partitions, and the brokers of the added partitions."""
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsRequest.CreatePartitionsTopic(
                    name=name,
                    count=count,
                    assignments=None
                    if added is None
                    else [CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=brokers) for brokers in added],
                )
                for name, (count, added) in wanted.items()
            ],
            timeout_ms=OPERATION_TIMEOUT_MS,
            validate_only=False,
        )
        answer = await self.to_controller(request, lambda a: [result.error_code for result in a.results])
        for result in answer.results:
            if result.error_code:
                raise java_error_of(result.error_code, result.error_message)
