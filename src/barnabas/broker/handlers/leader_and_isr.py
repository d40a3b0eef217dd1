"""LeaderAndIsr: the controller makes this broker leader or follower of partitions.

A new epoch is on the disk before a partition takes it, which is a millisecond or more for each, and a request may name
ten thousand partitions. They are taken in shares, and whatever else there is to do has its turn between them: fetches,
and the heartbeats without which the session at ZooKeeper would expire, and all of it begin anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Final

from barnabas.broker.authorize import Operation, require_cluster
from barnabas.broker.context import RequestContext
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

_FIRST_VERSION_WITH_TOPIC_IDS: Final = 5
PARTITIONS_AT_ONCE: Final = 64


async def handle(broker: Broker, request: LeaderAndIsrRequest, context: RequestContext) -> LeaderAndIsrResponse:
    require_cluster(context, Operation.CLUSTER_ACTION)
    if broker.is_stale(request.broker_epoch):
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    names = [topic.topic_name for topic in request.topic_states]
    names.extend(state.topic_name for state in request.ungrouped_partition_states)
    await broker.learn_topic_configs(names)
    answer: LeaderAndIsrResponse | None = None
    for share in _shares(request):
        if answer is not None:
            await asyncio.sleep(0)
        # ZooKeeper may have been long in answering, and this broker may have registered anew meanwhile; a newer
        # controller's request may have come between two shares.
        if broker.is_stale(request.broker_epoch):
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
        part = broker.replicas.become_leader_or_follower(
            share, answer_by_topic_id=context.version >= _FIRST_VERSION_WITH_TOPIC_IDS
        )
        if part.error_code:
            raise KafkaError(ErrorCode(part.error_code))
        answer = part if answer is None else _joined(answer, part)
    assert answer is not None, "there is a share, be it an empty one"
    return answer


def _shares(request: LeaderAndIsrRequest) -> Iterator[LeaderAndIsrRequest]:
    """The request in its order as several of at most `PARTITIONS_AT_ONCE` partitions; as it is when it is small."""
    ungrouped = request.ungrouped_partition_states
    total = len(ungrouped) + sum(len(topic.partition_states) for topic in request.topic_states)
    if total <= PARTITIONS_AT_ONCE:
        yield request
        return
    share = copy(request)
    for first in range(0, len(ungrouped), PARTITIONS_AT_ONCE):
        share.ungrouped_partition_states = ungrouped[first : first + PARTITIONS_AT_ONCE]
        share.topic_states = []
        yield share
    share = copy(request)
    share.ungrouped_partition_states, share.topic_states = [], []
    room = PARTITIONS_AT_ONCE
    for topic in request.topic_states:
        states = topic.partition_states
        while states:
            part = copy(topic)
            part.partition_states, states = states[:room], states[room:]
            share.topic_states.append(part)
            room -= len(part.partition_states)
            if not room:
                yield share
                share = copy(share)
                share.topic_states, room = [], PARTITIONS_AT_ONCE
    if share.topic_states:
        yield share


def _joined(answer: LeaderAndIsrResponse, part: LeaderAndIsrResponse) -> LeaderAndIsrResponse:
    answer.partition_errors = [*answer.partition_errors, *part.partition_errors]
    topics = answer.topics
    for topic in part.topics:
        if topics and topics[-1].topic_id == topic.topic_id:
            topics[-1].partition_errors = [*topics[-1].partition_errors, *topic.partition_errors]
        else:
            topics.append(topic)
    return answer


def failed(request: LeaderAndIsrRequest, error: KafkaError, context: RequestContext) -> LeaderAndIsrResponse:
    """The error, and again with each partition (``LeaderAndIsrRequest.getErrorResponse``)."""
    answer = LeaderAndIsrResponse(error_code=error.code)
    if context.version >= _FIRST_VERSION_WITH_TOPIC_IDS:
        answer.topics = [
            LeaderAndIsrResponse.LeaderAndIsrTopicError(
                topic.topic_id,
                [
                    LeaderAndIsrResponse.LeaderAndIsrPartitionError(
                        partition_index=state.partition_index, error_code=error.code
                    )
                    for state in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ]
        return answer
    named = [(state.topic_name, state) for state in request.ungrouped_partition_states]
    named += [(topic.topic_name, state) for topic in request.topic_states for state in topic.partition_states]
    answer.partition_errors = [
        LeaderAndIsrResponse.LeaderAndIsrPartitionError(name, state.partition_index, error.code)
        for name, state in named
    ]
    return answer
