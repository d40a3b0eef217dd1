"""LeaderAndIsr: the controller makes this broker leader or follower of partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Final

from barnabas.broker.authorize import require_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.shares import PARTITIONS_AT_ONCE, shares
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

_FIRST_VERSION_WITH_TOPIC_IDS: Final = 5


async def handle(broker: Broker, request: LeaderAndIsrRequest, context: RequestContext) -> LeaderAndIsrResponse:
    require_cluster(context, Operation.CLUSTER_ACTION)
    if broker.is_stale(request.broker_epoch):
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    if request.controller_epoch < broker.replicas.controller_epoch:
        # Before anything is done for it: ZooKeeper would be asked about each of a hundred thousand names.
        raise KafkaError(ErrorCode.STALE_CONTROLLER_EPOCH)
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
    ungrouped = request.ungrouped_partition_states  # before version 2
    for first in range(0, len(ungrouped), PARTITIONS_AT_ONCE):
        share = copy(request)
        share.ungrouped_partition_states = ungrouped[first : first + PARTITIONS_AT_ONCE]
        yield share
    if not ungrouped:
        for share_of_topics in shares(request.topic_states):
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
