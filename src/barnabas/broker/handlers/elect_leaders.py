"""ElectLeaders: the controller elects preferred leaders, or unclean ones where asked (KIP-460)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.broker.authorize import authorized_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.controller.requests import elect_leaders_response
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime.turns import in_slices
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse


async def handle(broker: BrokerParts, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    if not authorized_cluster(context, Operation.ALTER):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not broker.controller.is_active:
        return _not_controller(broker, request)
    response = await _elected(broker, request)
    if context.version == 0:
        response.error_code = ErrorCode.NONE  # version 0 has errors of partitions only
    return response


async def _elected(broker: BrokerParts, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Waits until this broker knows the new leaders and can tell clients of them (``DelayedElectLeader``)."""
    clock = broker.runtime.clock
    deadline_ms = clock.monotonic_ms() + request.timeout_ms
    try:
        outcomes = await broker.controller.elect_leaders(request)
    except KafkaError as error:
        return ElectLeadersResponse(error_code=error.code)
    leaders = {partition: outcome for partition, outcome in outcomes.items() if isinstance(outcome, int)}
    for late in await broker.topics.until_led(leaders, deadline_ms - clock.monotonic_ms()):
        outcomes[late] = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    return await in_slices(elect_leaders_response(outcomes))


def failed(request: ElectLeadersRequest, error: KafkaError, context: RequestContext) -> ElectLeadersResponse:
    asked = {topic.topic: topic.partitions for topic in request.topic_partitions or ()}
    return _refused(asked, error, ErrorCode.NONE if context.version == 0 else error.code)


def _not_controller(broker: BrokerParts, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """NOT_CONTROLLER for each partition, as in Kafka: for all known ones when the request names none."""
    if request.topic_partitions is None:
        asked = {name: sorted(topic.partitions) for name, topic in broker.metadata.image.topics.items()}
    else:
        asked = {topic.topic: topic.partitions for topic in request.topic_partitions}
    return _refused(asked, KafkaError(ErrorCode.NOT_CONTROLLER), ErrorCode.NONE)


def _refused(asked: Mapping[str, Sequence[int]], error: KafkaError, top_level: ErrorCode) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=top_level,
        replica_election_results=[
            ElectLeadersResponse.ReplicaElectionResult(
                topic=topic,
                partition_result=[
                    ElectLeadersResponse.PartitionResult(
                        partition_id=partition,
                        error_code=error.code,
                        error_message=error.message,
                    )
                    for partition in partitions
                ],
            )
            for topic, partitions in asked.items()
        ],
    )
