from __future__ import annotations

import pytest

from barnabas.controller.batch import BrokerRequest, ControllerBrokerRequestBatch
from barnabas.controller.context import ControllerContext
from barnabas.controller.state_change_log import StateChangeLog
from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.model.leadership import LeaderAndIsr, LeaderRecoveryState
from barnabas.runtime.real import RealClock
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from barnabas.zk.kafka.znodes import LeaderIsrAndControllerEpoch, ReplicaAssignment

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = Uuid(bytes(15) + b"\7")
LEADERSHIP = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 5, (1, 2), partition_epoch=8), 3)
ASSIGNMENT = ReplicaAssignment((1, 2, 3), (3,), (2,))


def broker(broker_id: int) -> BrokerInfo:
    endpoints = (Endpoint("CLIENT", "outside", 1), Endpoint("INTERNAL", f"host{broker_id}", 9000, "SASL_PLAINTEXT"))
    return BrokerInfo(broker_id, endpoints, f"rack{broker_id}", epoch=100 + broker_id)


@pytest.fixture
def context() -> ControllerContext:
    made = ControllerContext()
    made.set_live_brokers([broker(1), broker(2)])
    made.set_all_topics(["t"])
    made.add_topic_id("t", TOPIC_ID)
    for partition in (P0, P1):
        made.update_partition_full_replica_assignment(partition, ASSIGNMENT)
        made.put_partition_leadership_info(partition, LEADERSHIP)
    return made


@pytest.fixture
def sent() -> list[BrokerRequest]:
    return []


@pytest.fixture
def batch(context: ControllerContext, sent: list[BrokerRequest]) -> ControllerBrokerRequestBatch:
    return ControllerBrokerRequestBatch(1, "INTERNAL", context, StateChangeLog(1, RealClock()), sent.append)


def test_a_replica_hears_its_leader_and_every_broker_the_metadata(
    batch: ControllerBrokerRequestBatch, sent: list[BrokerRequest]
) -> None:
    batch.new_batch()
    batch.add_leader_and_isr_request_for_brokers((2, 3, -1), P0, LEADERSHIP, ASSIGNMENT, is_new=True)
    batch.send_requests_to_brokers(7)
    # Broker 3 is not registered: it hears nothing.
    assert [(each.broker_id, type(each.request).__name__, each.version) for each in sent] == [
        (2, "LeaderAndIsrRequest", 7),
        (1, "UpdateMetadataRequest", 8),
        (2, "UpdateMetadataRequest", 8),
    ]
    assert sent[0].request == LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=7,
        broker_epoch=102,
        topic_states=[
            LeaderAndIsrRequest.LeaderAndIsrTopicState(
                topic_name="t",
                topic_id=TOPIC_ID,
                partition_states=[
                    LeaderAndIsrRequest.LeaderAndIsrPartitionState(
                        partition_index=0,
                        controller_epoch=3,
                        leader=1,
                        leader_epoch=5,
                        isr=[1, 2],
                        partition_epoch=8,
                        replicas=[1, 2, 3],
                        adding_replicas=[3],
                        removing_replicas=[2],
                        is_new=True,
                    )
                ],
            )
        ],
        live_leaders=[LeaderAndIsrRequest.LeaderAndIsrLiveLeader(broker_id=1, host_name="host1", port=9000)],
    )
    update = sent[1].request
    assert isinstance(update, UpdateMetadataRequest)
    assert update.broker_epoch == 101
    assert update.topic_states[0].partition_states[0].offline_replicas == [3]
    assert [(each.id, each.rack, len(each.endpoints)) for each in update.live_brokers] == [
        (1, "rack1", 2),
        (2, "rack2", 2),
    ]
    assert update.live_brokers[0].endpoints[1].security_protocol == 2


def test_a_replica_once_new_stays_new_within_a_batch(
    batch: ControllerBrokerRequestBatch, sent: list[BrokerRequest]
) -> None:
    batch.new_batch()
    batch.add_leader_and_isr_request_for_brokers((2,), P0, LEADERSHIP, ASSIGNMENT, is_new=True)
    batch.add_leader_and_isr_request_for_brokers((2,), P0, LEADERSHIP, ASSIGNMENT, is_new=False)
    batch.send_requests_to_brokers(7)
    request = sent[0].request
    assert isinstance(request, LeaderAndIsrRequest)
    assert request.topic_states[0].partition_states[0].is_new


def test_stop_replica_goes_last_and_a_deletion_stays_one(
    batch: ControllerBrokerRequestBatch, sent: list[BrokerRequest]
) -> None:
    batch.new_batch()
    batch.add_stop_replica_request_for_brokers((1,), P0, delete_partition=True)
    batch.add_stop_replica_request_for_brokers((1,), P0, delete_partition=False)
    batch.add_leader_and_isr_request_for_brokers((1,), P1, LEADERSHIP, ASSIGNMENT, is_new=False)
    batch.send_requests_to_brokers(7)
    to_broker_1 = [each.request for each in sent if each.broker_id == 1]
    assert [type(each) for each in to_broker_1] == [LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest]
    assert to_broker_1[-1] == StopReplicaRequest(
        controller_id=1,
        controller_epoch=7,
        broker_epoch=101,
        topic_states=[
            StopReplicaRequest.StopReplicaTopicState(
                topic_name="t",
                partition_states=[
                    StopReplicaRequest.StopReplicaPartitionState(
                        partition_index=0, leader_epoch=5, delete_partition=True
                    )
                ],
            )
        ],
    )


def test_a_topic_being_deleted_is_told_with_leader_minus_two(
    batch: ControllerBrokerRequestBatch, context: ControllerContext, sent: list[BrokerRequest]
) -> None:
    context.queue_topic_deletion(["t"])
    batch.new_batch()
    batch.add_update_metadata_request_for_brokers((1,), [P0])
    batch.add_stop_replica_request_for_brokers((1,), P0, delete_partition=True)
    batch.send_requests_to_brokers(7)
    update, stop = (each.request for each in sent)
    assert isinstance(update, UpdateMetadataRequest)
    assert isinstance(stop, StopReplicaRequest)
    state = update.topic_states[0].partition_states[0]
    assert (state.leader, state.leader_epoch, state.zk_version, state.isr) == (-2, 0, 0, [1, 2])
    assert stop.topic_states[0].partition_states[0].leader_epoch == -2


def test_a_topic_whose_deletion_waits_for_a_reassignment_is_told_as_it_is_until_the_deletion_begins(
    batch: ControllerBrokerRequestBatch, context: ControllerContext, sent: list[BrokerRequest]
) -> None:
    context.queue_topic_deletion(["t"])
    context.partitions_being_reassigned[P1] = None
    for begun in (False, True):
        if begun:
            context.begin_topic_deletion(["t"])
        batch.new_batch()
        batch.add_update_metadata_request_for_brokers((1,), [P0])
        batch.send_requests_to_brokers(7)
    updates = [each.request for each in sent if isinstance(each.request, UpdateMetadataRequest)]
    told = [update.topic_states[0].partition_states[0].leader for update in updates]
    assert told == [LEADERSHIP.leader_and_isr.leader, -2]


def test_the_recovery_state_is_told(batch: ControllerBrokerRequestBatch, sent: list[BrokerRequest]) -> None:
    recovering = LeaderIsrAndControllerEpoch(LeaderAndIsr(2, 6, (2,), LeaderRecoveryState.RECOVERING), 7)
    batch.new_batch()
    batch.add_leader_and_isr_request_for_brokers((2,), P0, recovering, ASSIGNMENT, is_new=False)
    batch.send_requests_to_brokers(7)
    request = sent[0].request
    assert isinstance(request, LeaderAndIsrRequest)
    assert request.topic_states[0].partition_states[0].leader_recovery_state == 1


def test_a_batch_that_was_not_sent_is_not_forgotten(batch: ControllerBrokerRequestBatch) -> None:
    batch.new_batch()
    batch.add_update_metadata_request_for_brokers((1,), ())
    with pytest.raises(AssertionError, match="never sent"):
        batch.new_batch()
