"""LeaderAndIsr: the controller makes this broker leader or follower of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.authorize import Operation, require_cluster
from barnabas.broker.context import RequestContext
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

_FIRST_VERSION_WITH_TOPIC_IDS: Final = 5


async def handle(broker: Broker, request: LeaderAndIsrRequest, context: RequestContext) -> LeaderAndIsrResponse:
    require_cluster(context, Operation.CLUSTER_ACTION)
    if broker.is_stale(request.broker_epoch):
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    names = [topic.topic_name for topic in request.topic_states]
    names.extend(state.topic_name for state in request.ungrouped_partition_states)
    await broker.learn_topic_configs(names)
    if broker.is_stale(request.broker_epoch):
        # ZooKeeper may have been long in answering, and this broker may have registered anew meanwhile.
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    answer = broker.replicas.become_leader_or_follower(
        request, answer_by_topic_id=context.version >= _FIRST_VERSION_WITH_TOPIC_IDS
    )
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code))
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
