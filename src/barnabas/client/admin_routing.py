"""Routes an operator's request: to the controller, leaders, brokers or a coordinator, and again when that moves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from barnabas.client.asking import GROUP, RequestTimedOut
from barnabas.client.cluster import ClusterClient
from barnabas.client.connection import Connection
from barnabas.client.metadata import BrokerNode, ClusterMetadata
from barnabas.client.offsets import by_leader
from barnabas.model.errors import ErrorCode, KafkaError, outcome_of
from barnabas.model.ids import NO_BROKER, TopicPartition, numbers_by_topic
from barnabas.runtime import cause_of

OPERATION_TIMEOUT_MS: Final = 30_000
ANSWER_MARGIN_MS: Final = 5_000
"""How long the answer to a request may take beyond the time that the request grants the broker."""
PARTITION_TIMEOUT_MS: Final = 20
"""The time that each new partition adds: 10,000 with three replicas take a minute on two cores."""
BROKER_TIMEOUT_MS: Final = 5_000
"""How long each broker is tried when all are asked."""
UNKNOWN_TOPIC_TIMEOUT_MS: Final = 1_000
"""How long "unknown topic" may mean that the broker has not heard of the topic yet."""

_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Errors after which the same request may succeed later, or at another broker."""

T = TypeVar("T")


def _outcome(result: Any) -> KafkaError | None:
    return outcome_of(result.error_code, getattr(result, "error_message", None))


class AdminRouting:
    """Sends requests where they belong, and again when that has moved.

    Each item of a request has its own outcome: a value, or the `KafkaError` that was its last answer.
    """

    def __init__(self, cluster: ClusterClient) -> None:
        self.cluster = cluster

    async def _to(self, target: Callable[[], Awaitable[Connection]], request: Any, codes: Callable[[Any], Any]) -> Any:
        """Sends to `target`; tries again when `codes` of the answer hold one of `_AGAIN`.

        `request` may be a function that makes it for a connection: brokers may support different versions.
        """

        async def attempt() -> Any:
            connection = await target()
            message = request(connection) if callable(request) else request
            timeout_ms: int = getattr(message, "timeout_ms", OPERATION_TIMEOUT_MS)
            answer = await connection.send(message, timeout_ms=timeout_ms + ANSWER_MARGIN_MS)
            for code in codes(answer):
                if code in _AGAIN:
                    raise KafkaError(ErrorCode(code), ErrorCode(code).name)
            return answer

        takes_ms = getattr(request, "timeout_ms", OPERATION_TIMEOUT_MS)  # many new partitions take longer than others
        patience_ms = max(self.cluster.retry_timeout_ms, takes_ms + ANSWER_MARGIN_MS)
        return await self.cluster.retrying(attempt, timeout_ms=patience_ms)

    async def _within_quota(
        self,
        names: Iterable[str],
        request: Callable[[list[str]], Any],
        results: Callable[[Any], Sequence[Any]],
        outcome: Callable[[Any], KafkaError | None] = _outcome,
    ) -> dict[str, KafkaError | None]:
        """Asks the controller for `names`. Asks again for those that a mutation quota refused (KIP-599), after the
        throttle time of the answer."""
        outcomes: dict[str, KafkaError | None] = {}
        left = list(names)
        deadline_ms = self.cluster.monotonic_ms() + OPERATION_TIMEOUT_MS
        while True:
            answer = await self._to(
                self.cluster.controller, request(left), lambda a: [r.error_code for r in results(a)]
            )
            found = {result.name: outcome(result) for result in results(answer)}
            outcomes.update(found)
            left = [name for name in left if _is_throttled(found.get(name))]
            if not left or self.cluster.monotonic_ms() + answer.throttle_time_ms >= deadline_ms:
                return outcomes
            await self.cluster.pause(answer.throttle_time_ms)

    async def _at_leaders(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[Connection, list[TopicPartition]], Awaitable[Mapping[TopicPartition, T | KafkaError]]],
    ) -> dict[TopicPartition, T | KafkaError]:
        """Calls `ask` for each leader and its partitions, and again for those whose leader moves."""
        outcomes: dict[TopicPartition, T | KafkaError] = {
            partition: KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{partition}: no broker has answered")
            for partition in partitions
        }
        settled: set[TopicPartition] = set()
        clock = self.cluster.runtime.clock
        unknown_is_final_ms = clock.monotonic_ms() + UNKNOWN_TOPIC_TIMEOUT_MS

        async def attempt() -> None:
            missing = [partition for partition in outcomes if partition not in settled]
            metadata = await self.cluster.refresh(list(numbers_by_topic(missing)))
            for leader, group in by_leader(missing, metadata).items():
                found: Mapping[TopicPartition, T | KafkaError]
                try:
                    if leader == NO_BROKER:
                        found = {partition: _without_leader(partition, metadata) for partition in group}
                    else:
                        found = await ask(await self.cluster.broker(leader), group)
                except OSError as error:
                    text = f"broker {leader}, which leads it, does not answer ({cause_of(error)})"
                    found = {
                        partition: KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{partition}: {text}")
                        for partition in group
                    }
                outcomes.update(found)
                for partition, outcome in found.items():
                    code = outcome.code if isinstance(outcome, KafkaError) else ErrorCode.NONE
                    patient = clock.monotonic_ms() < unknown_is_final_ms
                    if not code.retriable or (code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not patient):
                        settled.add(partition)
            for partition, outcome in outcomes.items():
                if isinstance(outcome, KafkaError) and partition not in settled:
                    raise outcome

        try:
            await self.cluster.retrying(attempt)
        except RequestTimedOut:
            pass  # the outcomes say which partitions nobody has answered for
        except KafkaError as error:
            if error not in outcomes.values():
                raise
        return outcomes

    async def _at_brokers(
        self, brokers: Iterable[int] | None, ask: Callable[[Connection, int], Awaitable[T]]
    ) -> dict[int, T | KafkaError]:
        """Calls `ask` for each of `brokers` (None: all alive); BROKER_NOT_AVAILABLE for a broker without an answer."""
        metadata = await self.cluster.refresh([])
        outcomes: dict[int, T | KafkaError] = {}
        for broker_id in sorted(metadata.brokers) if brokers is None else brokers:

            async def attempt(broker_id: int = broker_id) -> T:
                return await ask(await self.cluster.broker(broker_id), broker_id)

            try:
                outcomes[broker_id] = await self.cluster.retrying(attempt, timeout_ms=BROKER_TIMEOUT_MS)
            except KafkaError as error:
                outcomes[broker_id] = error.with_traceback(None)
            except OSError as error:
                text = f"broker {broker_id} does not answer ({cause_of(error)})"
                outcomes[broker_id] = KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, text)
        return outcomes

    def _coordinator_of(self, key: str, key_type: int = GROUP) -> Callable[[], Awaitable[Connection]]:
        return partial(self.cluster.coordinator, key, key_type=key_type)

    async def _node_of(self, connection: Connection) -> BrokerNode:
        """The broker at the other end, as the cluster's metadata has it."""
        at = (connection.host, connection.port)
        nodes = (await self.cluster.refresh([])).brokers.values()
        return next((node for node in nodes if (node.host, node.port) == at), BrokerNode(NO_BROKER, *at))


def _is_throttled(outcome: KafkaError | None) -> bool:
    return outcome is not None and outcome.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def _without_leader(partition: TopicPartition, metadata: ClusterMetadata) -> KafkaError:
    topic = metadata.topics.get(partition.topic)
    if topic is not None and topic.error is not ErrorCode.NONE:
        return KafkaError(topic.error, f"topic {partition.topic}: {topic.error.name}")
    if topic is None or partition.partition not in topic.partitions:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}")
    return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
