"""What brokers are sent under an older inter.broker.protocol.version."""

from __future__ import annotations

import pytest

from barnabas.controller.batch import BrokerRequest, ControllerBrokerRequestBatch
from barnabas.controller.context import ControllerContext
from barnabas.controller.older_forms import form_of
from barnabas.controller.state_change_log import StateChangeLog
from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.model.errors import ConfigError
from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import LeaderAndIsr, LeaderRecoveryState
from barnabas.model.metadata_version import MetadataVersion, metadata_version
from barnabas.runtime.real import RealClock
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from barnabas.zk.kafka.znodes import LeaderIsrAndControllerEpoch, ReplicaAssignment

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
LEADERSHIP = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 5, (1, 2), LeaderRecoveryState.RECOVERING, 8), 3)


def sent_under(version: MetadataVersion) -> list[BrokerRequest]:
    """A leadership, and two replicas that are stopped, one of which is deleted."""
    context = ControllerContext()
    context.set_live_brokers([BrokerInfo(1, (Endpoint("INTERNAL", "host1", 9000),), None, epoch=101)])
    context.set_all_topics(["t"])
    for partition in (P0, P1):
        context.update_partition_full_replica_assignment(partition, ReplicaAssignment((1, 2)))
        context.put_partition_leadership_info(partition, LEADERSHIP)
    sent: list[BrokerRequest] = []
    batch = ControllerBrokerRequestBatch(1, "INTERNAL", context, StateChangeLog(1, RealClock()), sent.append, version)
    batch.new_batch()
    batch.add_leader_and_isr_request_for_brokers(
        (1,), P0, LEADERSHIP, context.partition_full_replica_assignment(P0), is_new=False
    )
    batch.add_stop_replica_request_for_brokers((1,), P0, delete_partition=False)
    batch.add_stop_replica_request_for_brokers((1,), P1, delete_partition=True)
    batch.send_requests_to_brokers(7)
    return sent


@pytest.mark.parametrize("version", MetadataVersion)
def test_what_is_sent_survives_its_encoding_in_every_protocol_version(version: MetadataVersion) -> None:
    stopped: dict[tuple[str, int], bool] = {}
    for each in sent_under(version):
        form = form_of(each.request, each.version)
        decoded = type(form).decode(form.encode(each.version), each.version)[0]
        if isinstance(decoded, StopReplicaRequest):
            for old in decoded.ungrouped_partitions:
                stopped[old.topic_name, old.partition_index] = decoded.delete_partitions
            for named in decoded.topics:
                stopped.update(((named.name, index), decoded.delete_partitions) for index in named.partition_indexes)
            for topic in decoded.topic_states:
                for state in topic.partition_states:
                    stopped[topic.topic_name, state.partition_index] = state.delete_partition
            continue
        assert isinstance(decoded, LeaderAndIsrRequest | UpdateMetadataRequest)
        states = [(state.topic_name, state) for state in decoded.ungrouped_partition_states]
        states += [(topic.topic_name, state) for topic in decoded.topic_states for state in topic.partition_states]
        ((name, told),) = states
        assert (name, told.partition_index, told.leader, told.leader_epoch, told.isr) == ("t", 0, 1, 5, [1, 2])
    assert stopped == {("t", 0): False, ("t", 1): True}


def test_the_versions_are_those_that_apache_kafka_sends() -> None:
    def versions(text: str) -> list[int]:
        return [each.version for each in sent_under(metadata_version(text))]

    assert versions("3.9") == versions("3.4") == [7, 8, 4]
    assert versions("3.2") == [6, 7, 3]
    assert versions("2.8") == [5, 7, 3]
    assert versions("2.6") == [4, 6, 3]
    assert versions("2.5") == [4, 6, 2, 2]  # below 2.6 a StopReplica deletes all that it names, or nothing
    assert versions("2.2") == [2, 5, 1, 1]
    assert versions("1.0") == [1, 4, 0, 0]


def test_a_recovering_leader_is_told_of_from_protocol_version_3_2_on() -> None:
    def recovery_state(text: str) -> int:
        request = sent_under(metadata_version(text))[0].request
        assert isinstance(request, LeaderAndIsrRequest)
        return request.topic_states[0].partition_states[0].leader_recovery_state

    assert [recovery_state("3.2"), recovery_state("3.1")] == [1, 0]


@pytest.mark.parametrize("text", ["0.11.0", "4.0-IV0", "2.6-IV9", "latest", ""])
def test_an_unknown_protocol_version_is_refused_and_the_known_ones_are_told(text: str) -> None:
    with pytest.raises(ConfigError, match=r"inter\.broker\.protocol\.version: it takes one of 1\.0-IV0, .*3\.9-IV0"):
        metadata_version(text)


def test_a_release_means_its_latest_protocol_version() -> None:
    assert metadata_version("2.7") is metadata_version("2.7.2") is MetadataVersion.IBP_2_7_IV2
    assert metadata_version("2.7-IV0") is MetadataVersion.IBP_2_7_IV0
