"""The controller's answer to a leader's proposal to change its ISR (KIP-497): a pure decision, and the story around it.

The order of the checks is Kafka's: a leader with a newer epoch has to find the new controller, a leader with an older
epoch is fenced, and a change that is already made is a success, so that a request can be sent again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.controller import events
from barnabas.controller.context import ControllerContext
from barnabas.controller.reign import Reign
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import ZERO_UUID, TopicPartition, Uuid
from barnabas.model.leadership import LeaderAndIsr, LeaderRecoveryState
from barnabas.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

PartitionOutcome = LeaderAndIsr | ErrorCode


@dataclass(slots=True)
class AlterPartitionDecision:
    """`accepted` is to be written to ZooKeeper; `outcomes` are settled already; `unknown_topic_ids` have no name."""

    accepted: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    outcomes: dict[TopicPartition, PartitionOutcome] = field(default_factory=dict)
    unknown_topic_ids: dict[Uuid, list[int]] = field(default_factory=dict)


def refusal(context: ControllerContext, broker_id: int, broker_epoch: int) -> ErrorCode | None:
    """Why a whole request is refused: its sender is not registered, or has registered again since."""
    return None if context.broker_epoch(broker_id) == broker_epoch else ErrorCode.STALE_BROKER_EPOCH


def decide(context: ControllerContext, request: AlterPartitionRequest, version: int) -> AlterPartitionDecision:
    """Decides about each partition. Raises `KafkaError` for a request with impossible content."""
    decision = AlterPartitionDecision()
    for topic in request.topics:
        name = context.topic_names.get(topic.topic_id) if version > 1 else topic.topic_name
        if name is None:
            decision.unknown_topic_ids[topic.topic_id] = [asked.partition_index for asked in topic.partitions]
            continue
        for asked in topic.partitions:
            isr = [member.broker_id for member in asked.new_isr_with_epochs] if version >= 3 else asked.new_isr
            proposed = LeaderAndIsr(
                request.broker_id,
                asked.leader_epoch,
                tuple(isr),
                _recovery_state(asked.leader_recovery_state),
                asked.partition_epoch,
            )
            partition = TopicPartition(name, asked.partition_index)
            outcome = judge(context, partition, proposed, version)
            if outcome is None:
                decision.accepted[partition] = proposed
            else:
                decision.outcomes[partition] = outcome
    return decision


def _recovery_state(number: int) -> LeaderRecoveryState:
    try:
        return LeaderRecoveryState(number)
    except ValueError:  # a leader's mistake is no reason to resign
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{number} is no leader recovery state.") from None


def judge(
    context: ControllerContext, partition: TopicPartition, proposed: LeaderAndIsr, version: int
) -> PartitionOutcome | None:
    """The answer to give at once; None if the proposal may be written."""
    leadership = context.partition_leadership_info(partition)
    if leadership is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    current = leadership.leader_and_isr
    if proposed.partition_epoch > current.partition_epoch or proposed.leader_epoch > current.leader_epoch:
        # The leader knows a newer state than this controller, which may have been replaced.
        return ErrorCode.NOT_CONTROLLER
    if proposed.leader_epoch < current.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if _is_so_already(proposed, current):
        return current
    if proposed.partition_epoch < current.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if proposed.leader != current.leader or proposed.leader not in proposed.isr:
        return ErrorCode.INVALID_REQUEST
    if proposed.leader_recovery_state is LeaderRecoveryState.RECOVERING and (
        len(proposed.isr) > 1 or current.leader_recovery_state is LeaderRecoveryState.RECOVERED
    ):
        return ErrorCode.INVALID_REQUEST
    if not all(context.is_live_broker(replica) for replica in proposed.isr):
        # KIP-841: a dead or leaving broker does not come (back) into the ISR.
        return ErrorCode.INELIGIBLE_REPLICA if version > 1 else ErrorCode.OPERATION_NOT_ATTEMPTED
    return None


def _is_so_already(proposed: LeaderAndIsr, current: LeaderAndIsr) -> bool:
    """Kafka's ``equalsAllowStalePartitionEpoch``."""
    return (
        proposed.leader == current.leader
        and proposed.leader_epoch == current.leader_epoch
        and sorted(proposed.isr) == sorted(current.isr)
        and proposed.leader_recovery_state is current.leader_recovery_state
        and proposed.partition_epoch <= current.partition_epoch
    )


def response(
    topic_ids: Mapping[str, Uuid], decision: AlterPartitionDecision, outcomes: Mapping[TopicPartition, PartitionOutcome]
) -> AlterPartitionResponse:
    """The answer; `outcomes` has every partition whose topic is known."""
    topics: dict[str, list[AlterPartitionResponse.PartitionData]] = {}
    for partition, outcome in outcomes.items():
        data = AlterPartitionResponse.PartitionData(partition_index=partition.partition)
        if isinstance(outcome, ErrorCode):
            data.error_code = int(outcome)
        else:
            data.leader_id = outcome.leader
            data.leader_epoch = outcome.leader_epoch
            data.isr = list(outcome.isr)
            data.leader_recovery_state = int(outcome.leader_recovery_state)
            data.partition_epoch = outcome.partition_epoch
        topics.setdefault(partition.topic, []).append(data)
    unknown = [
        AlterPartitionResponse.TopicData(
            topic_id=topic_id,
            partitions=[
                AlterPartitionResponse.PartitionData(partition_index=index, error_code=int(ErrorCode.UNKNOWN_TOPIC_ID))
                for index in partitions
            ],
        )
        for topic_id, partitions in decision.unknown_topic_ids.items()
    ]
    # Versions below 2 have the name, later ones the id; the codec omits the other.
    known = [
        AlterPartitionResponse.TopicData(name, topic_ids.get(name, ZERO_UUID), partitions)
        for name, partitions in topics.items()
    ]
    return AlterPartitionResponse(topics=[*unknown, *known])


async def process_alter_partition(reign: Reign, event: events.AlterPartitionReceived) -> AlterPartitionResponse:
    context = reign.context
    request = event.request
    refused = refusal(context, request.broker_id, request.broker_epoch)
    if refused is not None:
        raise KafkaError(refused)
    decision = decide(context, request, event.version)
    outcomes = dict(decision.outcomes)
    if decision.accepted:
        updated = await reign.zk.update_leader_and_isr(decision.accepted, context.epoch, context.epoch_zk_version)
        for partition, outcome in updated.finished.items():
            outcomes[partition] = outcome if isinstance(outcome, LeaderAndIsr) else ErrorCode.UNKNOWN_SERVER_ERROR
        for partition in updated.updates_to_retry:
            outcomes[partition] = ErrorCode.INVALID_UPDATE_VERSION
        # Also partitions with another version: the write may be done and its answer lost. The leader asks again, and
        # its request must then be compared with ZooKeeper's state.
        await reign.update_leader_and_isr_cache(list(decision.accepted))
    known = [*decision.outcomes, *decision.accepted]
    reign.send_metadata_of([partition for partition in known if context.has_partition(partition)])
    event.succeed(response(context.topic_ids, decision, outcomes))
    for partition, settled in outcomes.items():
        if isinstance(settled, LeaderAndIsr):
            await reign.reassignments.maybe_complete_reassignment(partition)
    return event.answer.result()
