"""LeaderAndIsr: the controller makes this broker leader or follower of partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator, Sequence
from copy import copy
from typing import Final, TypeVar

from barnabas.broker.authorize import require_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.broker.shares import NEW_LOG, portions, shares
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import ZERO_UUID, TopicPartition
from barnabas.replica.metadata_cache import is_full
from barnabas.runtime.turns import SLICE
from barnabas.wire.kernel import staying
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

_FIRST_VERSION_WITH_TOPIC_IDS: Final = 5


async def handle(broker: BrokerParts, request: LeaderAndIsrRequest, context: RequestContext) -> LeaderAndIsrResponse:
    try:
        return await _become_leader_or_follower(broker, request, context)
    except KafkaError as error:
        failing = _failing(request, error, context)
        while True:
            try:
                cost = next(failing)
            except StopIteration as end:
                answer: LeaderAndIsrResponse = end.value
                return answer
            if context.due(cost):
                await context.turn()


async def _become_leader_or_follower(
    broker: BrokerParts, request: LeaderAndIsrRequest, context: RequestContext
) -> LeaderAndIsrResponse:
    require_cluster(context, Operation.CLUSTER_ACTION)
    if broker.is_stale(request.broker_epoch, request.is_k_raft_controller):
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    if request.controller_epoch < broker.replicas.controller_epoch:
        # Before any other work: ZooKeeper would be asked about each of a hundred thousand names.
        raise KafkaError(ErrorCode.STALE_CONTROLLER_EPOCH)
    topics = {state.topic_name: ZERO_UUID for state in request.ungrouped_partition_states}
    topics.update((topic.topic_name, topic.topic_id) for topic in request.topic_states)
    await broker.topic_configs.learn(topics)
    change = staying(broker.replicas.become_leader_or_follower)
    answer: LeaderAndIsrResponse | None = None
    for share in _shares(broker, request):
        if answer is not None:
            await asyncio.sleep(0)
        # ZooKeeper may have answered late, and this broker may have registered again meanwhile; a newer controller's
        # request may have come between two shares.
        if broker.is_stale(request.broker_epoch, request.is_k_raft_controller):
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
        if answer is None and is_full(request):
            broker.replicas.set_strays_aside(request)
        part = change(share, answer_by_topic_id=context.version >= _FIRST_VERSION_WITH_TOPIC_IDS)
        if part.error_code:
            raise KafkaError(ErrorCode(part.error_code))
        answer = part if answer is None else _joined(answer, part)
    assert answer is not None, "there is a share, be it an empty one"
    return answer


def _shares(broker: BrokerParts, request: LeaderAndIsrRequest) -> Iterator[LeaderAndIsrRequest]:
    def cost(name: str, state: LeaderAndIsrRequest.LeaderAndIsrPartitionState) -> int:
        return NEW_LOG if broker.log_dirs.get(TopicPartition(name, state.partition_index)) is None else 1

    if request.ungrouped_partition_states:  # before version 2
        for states in portions(request.ungrouped_partition_states, lambda state: cost(state.topic_name, state)):
            share = copy(request)
            share.ungrouped_partition_states = states
            yield share
        return
    for share_of_topics in shares(request.topic_states, cost):
        share = copy(request)
        share.topic_states = share_of_topics
        yield share


def _joined(answer: LeaderAndIsrResponse, part: LeaderAndIsrResponse) -> LeaderAndIsrResponse:
    answer.partition_errors += part.partition_errors
    topics = answer.topics
    for topic in part.topics:
        if topics and topics[-1].topic_id == topic.topic_id:
            topics[-1].partition_errors += topic.partition_errors
        else:
            topics.append(topic)
    return answer


def failed(request: LeaderAndIsrRequest, error: KafkaError, context: RequestContext) -> LeaderAndIsrResponse:
    """The error, repeated for each partition (``LeaderAndIsrRequest.getErrorResponse``)."""
    failing = _failing(request, error, context)
    while True:
        try:
            next(failing)
        except StopIteration as end:
            answer: LeaderAndIsrResponse = end.value
            return answer


def _failing(
    request: LeaderAndIsrRequest, error: KafkaError, context: RequestContext
) -> Generator[int, None, LeaderAndIsrResponse]:
    """`failed` in slices: yields how many elements it has made."""
    answer = LeaderAndIsrResponse(error_code=error.code)
    made = LeaderAndIsrResponse.LeaderAndIsrPartitionError
    if context.version >= _FIRST_VERSION_WITH_TOPIC_IDS:
        for topic in request.topic_states:
            errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = []
            answer.topics.append(LeaderAndIsrResponse.LeaderAndIsrTopicError(topic.topic_id, errors))
            yield 1
            for states in _slices(topic.partition_states):
                errors += [made(partition_index=state.partition_index, error_code=error.code) for state in states]
                yield len(states)
        return answer
    for ungrouped in _slices(request.ungrouped_partition_states):
        answer.partition_errors += [made(state.topic_name, state.partition_index, error.code) for state in ungrouped]
        yield len(ungrouped)
    for topic in request.topic_states:
        name = topic.topic_name
        yield 1
        for states in _slices(topic.partition_states):
            answer.partition_errors += [made(name, state.partition_index, error.code) for state in states]
            yield len(states)
    return answer


_StateT = TypeVar("_StateT")


def _slices(states: Sequence[_StateT]) -> Iterator[Sequence[_StateT]]:
    for first in range(0, len(states), SLICE):
        yield states[first : first + SLICE]
