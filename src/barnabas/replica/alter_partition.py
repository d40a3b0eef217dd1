"""Asks the controller to change ISRs (KIP-497, Kafka's ``DefaultAlterPartitionManager``).

All waiting changes go out as one request, and only one request is in flight. A change waits until it is answered; if
the reply is lost or the controller moves, it is sent again. That is safe, since the controller treats a repeated change
at the same epochs as done.

Below ``inter.broker.protocol.version`` 2.7 there is no such request: see `zk_alter_partition`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import ZERO_UUID, TopicPartition, Uuid
from barnabas.model.leadership import LeaderAndIsr, LeaderRecoveryState
from barnabas.runtime import Tasks
from barnabas.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

logger = logging.getLogger(__name__)

RETRY_BACKOFF_MS: Final = 50
DEPOSED_AFTER_MS: Final = 500
"""How long a leader whose epoch is refused waits for the next LeaderAndIsr, by which it may lead again."""

LAST_WITH_TOPIC_NAMES: Final = 1
LAST_WITH_PLAIN_ISR: Final = 2
"""The last version of AlterPartition that names topics, and the last that has an ISR without broker epochs."""

Answered = Callable[[LeaderAndIsr | ErrorCode], None]
_Change = tuple[Uuid, LeaderAndIsr, Answered]


class AlterPartitionSender(Protocol):
    def submit(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        sent: LeaderAndIsr,
        controller_epoch: int,
        answered: Answered,
    ) -> None:
        """Calls `answered` once, later, with the new state or an error. The epoch is that of the controller that made
        this broker leader."""
        ...

    def close(self) -> None: ...


def form_of(request: AlterPartitionRequest, version: int) -> AlterPartitionRequest:
    """Returns `request` with its content in the fields of `version`. An earlier attempt may have sent it to another
    controller in another version."""
    for topic in request.topics:
        for partition in topic.partitions:
            isr = partition.new_isr or [member.broker_id for member in partition.new_isr_with_epochs]
            plain = version <= LAST_WITH_PLAIN_ISR
            partition.new_isr = isr if plain else []
            partition.new_isr_with_epochs = [] if plain else [AlterPartitionRequest.BrokerState(id_, -1) for id_ in isr]
    return request


class AlterPartitionManager:
    """`send` takes a request to the controller, wherever it is, and returns the answer; its second argument is the
    highest version in which the request can be sent, None for any.

    `uses_topic_ids` is false with ``inter.broker.protocol.version`` 2.7: then requests name topics, as they also do
    while one of the topics has no id.
    """

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        send: Callable[[AlterPartitionRequest, int | None], Awaitable[Any]],
        tasks: Tasks,
        *,
        uses_topic_ids: bool = True,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._send = send
        self._tasks = tasks
        self._uses_topic_ids = uses_topic_ids
        self._unanswered: dict[TopicPartition, _Change] = {}
        self._sending: asyncio.Task[None] | None = None
        self._closed = False

    def submit(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        sent: LeaderAndIsr,
        controller_epoch: int,
        answered: Answered,
    ) -> None:
        if self._closed:
            return
        _, waiting, _ = self._unanswered.get(topic_partition, (None, None, None))
        if waiting is not None and waiting.leader_epoch >= sent.leader_epoch:
            # A leader has at most one change in flight per epoch; it may ask again when that is answered.
            asyncio.get_running_loop().call_soon(answered, ErrorCode.OPERATION_NOT_ATTEMPTED)
            return
        self._unanswered[topic_partition] = (topic_id, sent, answered)
        if self._sending is None or self._sending.done():
            self._sending = self._tasks.begin(self._propagate(), "alter-partition")

    def close(self) -> None:
        """Sends nothing any more; unanswered changes are never answered."""
        self._closed = True
        self._unanswered.clear()
        if self._sending is not None:
            self._sending.cancel()

    async def _propagate(self) -> None:
        while self._unanswered and not self._closed:
            in_flight = dict(self._unanswered)
            try:
                by_id = self._uses_topic_ids and all(topic_id != ZERO_UUID for topic_id, _, _ in in_flight.values())
                response = await self._send(self._request(in_flight), None if by_id else LAST_WITH_TOPIC_NAMES)
            except (KafkaError, OSError, ValueError) as error:
                logger.debug("the controller did not answer AlterPartition: %s", error)
                await asyncio.sleep(RETRY_BACKOFF_MS / 1000)
                continue
            if not self._answer(in_flight, response):
                await asyncio.sleep(RETRY_BACKOFF_MS / 1000)

    def _request(self, items: dict[TopicPartition, _Change]) -> AlterPartitionRequest:
        topics: dict[str, AlterPartitionRequest.TopicData] = {}
        for topic_partition, (topic_id, sent, _) in items.items():
            name = topic_partition.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = AlterPartitionRequest.TopicData(topic_name=name, topic_id=topic_id)
            topic.partitions.append(
                AlterPartitionRequest.PartitionData(
                    topic_partition.partition,
                    sent.leader_epoch,
                    new_isr=list(sent.isr),
                    leader_recovery_state=sent.leader_recovery_state,
                    partition_epoch=sent.partition_epoch,
                )
            )
        return AlterPartitionRequest(self._broker_id, self._broker_epoch(), list(topics.values()))

    def _answer(self, in_flight: dict[TopicPartition, _Change], response: AlterPartitionResponse) -> bool:
        """Distributes the answers; False when something has to be sent again after a pause."""
        if response.error_code:
            # STALE_BROKER_EPOCH: the controller has not seen this registration yet, or this broker has not.
            logger.info("the controller refused AlterPartition: %s", ErrorCode(response.error_code).name)
            return False
        # Versions below 2 carry the topic's name, later ones its id; the other field is empty.
        answers = {
            (topic.topic_name or topic.topic_id, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }
        complete = True
        for topic_partition, change in in_flight.items():
            topic_id, _, answered = change
            name, number = topic_partition
            answer = answers.get((name, number)) or answers.get((topic_id, number))
            if answer is None:
                complete = False
                continue
            if self._unanswered.get(topic_partition) is change:
                del self._unanswered[topic_partition]
            answered(_outcome(answer))
        return complete


def _outcome(answer: AlterPartitionResponse.PartitionData) -> LeaderAndIsr | ErrorCode:
    if answer.error_code:
        return ErrorCode(answer.error_code)
    return LeaderAndIsr(
        answer.leader_id,
        answer.leader_epoch,
        tuple(answer.isr),
        LeaderRecoveryState(answer.leader_recovery_state),
        answer.partition_epoch,
    )
