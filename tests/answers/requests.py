"""Requests of every API in every version, as a client (or a controller) of that version would send them."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import Uuid
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.wire.messages.alter_configs import AlterConfigsRequest
from barnabas.wire.messages.alter_partition import AlterPartitionRequest
from barnabas.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from barnabas.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from barnabas.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.wire.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.wire.messages.create_acls import CreateAclsRequest
from barnabas.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsRequest
from barnabas.wire.messages.delete_records import DeleteRecordsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.describe_acls import DescribeAclsRequest
from barnabas.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.describe_producers import DescribeProducersRequest
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest
from barnabas.wire.messages.list_offsets import ListOffsetsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.offset_delete import OffsetDeleteRequest
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest
from barnabas.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from barnabas.wire.messages.update_features import UpdateFeaturesRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from barnabas.wire.records import Record, build_batch
from barnabas.wire.structs import Struct

if TYPE_CHECKING:
    from answers.world import World

TOPIC_RESOURCE = 2
OK = frozenset({ErrorCode.NONE})

Codes = frozenset[ErrorCode]


def errors_in(message: Any) -> Codes:
    """Every error code anywhere in a response."""
    found: set[ErrorCode] = set()
    for field in (name for kind in type(message).__mro__ for name in getattr(kind, "__slots__", ())):
        value = getattr(message, field)
        if field in ("error_code", "partition_error_code"):
            found.add(ErrorCode(value))
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Struct):
                found |= errors_in(each)
    return frozenset(found) - OK or OK


def batch() -> bytes:
    return build_batch([Record(number, 1_700_000_000_000, b"key", b"value %d" % number, []) for number in range(5)])


def message_set(magic: int) -> bytes:
    """One record as producers wrote it before record batches."""
    timestamp = struct.pack(">q", 1_700_000_000_000) if magic else b""
    content = struct.pack(">bb", magic, 0) + timestamp + struct.pack(">i3si5s", 3, b"key", 5, b"value")
    return struct.pack(">qiI", 0, len(content) + 4, zlib.crc32(content)) + content


def new_topic(name: str) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)


def produce_data(topic: str, records: bytes) -> list[ProduceRequest.TopicProduceData]:
    return [
        ProduceRequest.TopicProduceData(
            name=topic, partition_data=[ProduceRequest.PartitionProduceData(index=0, records=records)]
        )
    ]


def produce(world: World, version: int, topic: str) -> ProduceRequest:
    records = batch() if version >= 3 else message_set(1 if version == 2 else 0)
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=produce_data(topic, records))


def fetch(version: int, topic: str, topic_id: Uuid) -> FetchRequest:
    named = {"topic_id": topic_id} if version >= 13 else {"topic": topic}
    return FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        topics=[
            FetchRequest.FetchTopic(
                partitions=[FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)],
                **named,
            )
        ],
    )


def list_offsets(topic: str, timestamp: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(
                name=topic, partitions=[ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
            )
        ],
    )


def metadata(version: int, topic: str) -> MetadataRequest:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    request.allow_auto_topic_creation = version < 4  # which could not say no
    request.include_cluster_authorized_operations = 8 <= version <= 10
    request.include_topic_authorized_operations = version >= 8
    return request


def leader_and_isr(world: World, version: int, topic_id: Uuid, controller_epoch: int) -> LeaderAndIsrRequest:
    state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(
        topic_name="" if version >= 2 else world.data,
        partition_index=0,
        controller_epoch=controller_epoch,
        leader=world.home,
        leader_epoch=-1,
        isr=[world.home],
        partition_epoch=0,
        replicas=[world.home],
    )
    request = LeaderAndIsrRequest(controller_id=world.home, controller_epoch=controller_epoch)
    if version < 2:
        request.ungrouped_partition_states = [state]
    else:
        request.topic_states = [
            LeaderAndIsrRequest.LeaderAndIsrTopicState(
                topic_name=world.data, topic_id=topic_id, partition_states=[state]
            )
        ]
    return request


def stop_replica(world: World, version: int, topic: str, controller_epoch: int) -> StopReplicaRequest:
    request = StopReplicaRequest(controller_id=world.home, controller_epoch=controller_epoch)
    if version == 0:
        request.ungrouped_partitions = [StopReplicaRequest.StopReplicaPartitionV0(topic_name=topic, partition_index=0)]
    elif version < 3:
        request.topics = [StopReplicaRequest.StopReplicaTopicV1(name=topic, partition_indexes=[0])]
    else:
        request.topic_states = [
            StopReplicaRequest.StopReplicaTopicState(
                topic_name=topic,
                partition_states=[StopReplicaRequest.StopReplicaPartitionState(partition_index=0, leader_epoch=0)],
            )
        ]
    return request


def update_metadata(world: World, version: int) -> UpdateMetadataRequest:
    state = UpdateMetadataRequest.UpdateMetadataPartitionState(
        topic_name="" if version >= 5 else world.data, leader=world.home, isr=[world.home], replicas=[world.home]
    )
    live = UpdateMetadataRequest.UpdateMetadataBroker(id=world.home)
    if version == 0:
        live.v0_host, live.v0_port = "127.0.0.1", world.port
    else:
        live.endpoints = [UpdateMetadataRequest.UpdateMetadataEndpoint(host="127.0.0.1", port=world.port)]
    request = UpdateMetadataRequest(controller_id=world.home, controller_epoch=0, live_brokers=[live])
    if version < 5:
        request.ungrouped_partition_states = [state]
    else:
        request.topic_states = [
            UpdateMetadataRequest.UpdateMetadataTopicState(topic_name=world.data, partition_states=[state])
        ]
    return request


def controlled_shutdown(world: World, version: int) -> tuple[ControlledShutdownRequest, Codes]:
    if version < 2:  # without a broker epoch: only a broker that is not there may be asked for
        return ControlledShutdownRequest(broker_id=99), frozenset({ErrorCode.BROKER_NOT_AVAILABLE})
    return ControlledShutdownRequest(broker_id=world.home, broker_epoch=1), frozenset({ErrorCode.STALE_BROKER_EPOCH})


def offset_commit(topic: str, group: str) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=3, committed_metadata="here"
                    )
                ],
            )
        ],
    )


def offset_fetch(version: int, topic: str, group: str) -> OffsetFetchRequest:
    if version < 8:
        return OffsetFetchRequest(
            group_id=group, topics=[OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
        )
    topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    return OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=topics)])


def find_coordinator(version: int, key: str, key_type: int = 0) -> FindCoordinatorRequest:
    if version >= 4:
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    return FindCoordinatorRequest(key=key, key_type=key_type)


def join_group(group: str, member: str = "", instance: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def joins(world: World, version: int) -> tuple[JoinGroupRequest, Codes]:
    if version >= 5:
        return join_group(world.group(), instance="instance"), OK
    return join_group(world.group()), frozenset({ErrorCode.MEMBER_ID_REQUIRED}) if version == 4 else OK


def sync_group(version: int, group: str, member: str, generation: int) -> SyncGroupRequest:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        assignments=[SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=b"all")],
    )
    if version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    return request


def heartbeats(world: World, version: int) -> tuple[HeartbeatRequest, Codes]:
    group, member, generation = world.member()
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member), OK


def leave_group(version: int, group: str, member: str) -> LeaveGroupRequest:
    if version < 3:
        return LeaveGroupRequest(group_id=group, member_id=member)
    return LeaveGroupRequest(group_id=group, members=[LeaveGroupRequest.MemberIdentity(member_id=member)])


def leaves(world: World, version: int) -> tuple[LeaveGroupRequest, Codes]:
    group, member, _ = world.member()
    return leave_group(version, group, member), OK


def describe_groups(group: str) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=[group])


def describes_groups(world: World, version: int) -> tuple[DescribeGroupsRequest, Codes]:
    group, _, _ = world.member()
    return DescribeGroupsRequest(groups=[group], include_authorized_operations=version >= 3), OK


def create_topics(version: int, topic: CreateTopicsRequest.CreatableTopic) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[topic], timeout_ms=30_000)


def delete_topics(version: int, topic: str, topic_id: Uuid | None) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
    state = DeleteTopicsRequest.DeleteTopicState(name=topic)
    if topic_id is not None:
        state = DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=topic_id)
    return DeleteTopicsRequest(topics=[state], timeout_ms=30_000)


def deletes_topics(world: World, version: int) -> tuple[DeleteTopicsRequest, Codes]:
    topic = world.topic()
    return delete_topics(version, topic, world.topic_id(topic) if version >= 6 else None), OK


def delete_records(topic: str) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsRequest.DeleteRecordsTopic(
                name=topic, partitions=[DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=0)]
            )
        ],
        timeout_ms=10_000,
    )


def init_producer_id(transactional_id: str | None) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)


def offset_for_leader_epoch(topic: str) -> OffsetForLeaderEpochRequest:
    return OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                topic=topic,
                partitions=[OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=0)],
            )
        ]
    )


def describe_configs(version: int, *resources: tuple[int, str]) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=None
            )
            for kind, name in resources
        ],
        include_synonyms=version >= 1,
        include_documentation=version >= 3,
    )


def alter_configs(topic: str) -> AlterConfigsRequest:
    config = AlterConfigsRequest.AlterableConfig(name="retention.ms", value="86400000")
    return AlterConfigsRequest(
        resources=[
            AlterConfigsRequest.AlterConfigsResource(
                resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config]
            )
        ]
    )


def incremental_alter_configs(topic: str) -> IncrementalAlterConfigsRequest:
    config = IncrementalAlterConfigsRequest.AlterableConfig(name="retention.ms", config_operation=0, value="86400000")
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config]
            )
        ]
    )


def alter_replica_log_dirs(topic: str, path: str) -> AlterReplicaLogDirsRequest:
    moved = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=topic, partitions=[0])
    return AlterReplicaLogDirsRequest([AlterReplicaLogDirsRequest.AlterReplicaLogDir(path, [moved])])


def create_partitions(topic: str) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=2, assignments=None)],
        timeout_ms=30_000,
    )


def elect_leaders(topic: str) -> ElectLeadersRequest:
    return ElectLeadersRequest(
        topic_partitions=[ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[0])], timeout_ms=10_000
    )


def alter_partition_reassignments(topic: str, replicas: list[int] | None) -> AlterPartitionReassignmentsRequest:
    moved = AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=replicas)
    return AlterPartitionReassignmentsRequest(
        topics=[AlterPartitionReassignmentsRequest.ReassignableTopic(name=topic, partitions=[moved])]
    )


def alter_partition(world: World, version: int) -> AlterPartitionRequest:
    partition = AlterPartitionRequest.PartitionData(partition_index=0, leader_epoch=0, partition_epoch=0)
    if version < 3:
        partition.new_isr = [world.home]
    else:
        partition.new_isr_with_epochs = [AlterPartitionRequest.BrokerState(broker_id=world.home)]
    topic = AlterPartitionRequest.TopicData(partitions=[partition])
    if version < 2:
        topic.topic_name = world.data
    else:
        topic.topic_id = world.data_id
    return AlterPartitionRequest(broker_id=world.home, broker_epoch=1, topics=[topic])


def offset_delete(topic: str, group: str) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)]
            )
        ],
    )


def describe_producers(topic: str) -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[0])])


def add_partitions_to_txn(
    version: int, transaction: tuple[str, int, int], *topics: str, verify_only: bool = False
) -> AddPartitionsToTxnRequest:
    transactional_id, producer_id, producer_epoch = transaction
    named = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[0]) for topic in topics]
    if version < 4:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=producer_epoch,
            v3_and_below_topics=named,
        )
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                verify_only=verify_only,
                topics=named,
            )
        ]
    )


def add_offsets_to_txn(transaction: tuple[str, int, int], group: str) -> AddOffsetsToTxnRequest:
    transactional_id, producer_id, producer_epoch = transaction
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch, group_id=group
    )


def end_txn(transaction: tuple[str, int, int], *, committed: bool = True) -> EndTxnRequest:
    transactional_id, producer_id, producer_epoch = transaction
    return EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch, committed=committed
    )


def write_txn_markers(topic: str, producer_id: int = 999_999) -> WriteTxnMarkersRequest:
    """A marker for a producer that has no transaction open."""
    return WriteTxnMarkersRequest(
        markers=[
            WriteTxnMarkersRequest.WritableTxnMarker(
                producer_id=producer_id,
                transaction_result=True,
                topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
            )
        ]
    )


def txn_offset_commit(transaction: tuple[str, int, int], topic: str, group: str) -> TxnOffsetCommitRequest:
    transactional_id, producer_id, producer_epoch = transaction
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=3, committed_metadata="here"
    )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        group_id=group,
        topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )


def commits_offsets_in_transaction(world: World, version: int) -> tuple[TxnOffsetCommitRequest, Codes]:
    transaction, group = world.transaction(), world.group()
    assert errors_in(world.ask(add_offsets_to_txn(transaction, group), 3)) == OK
    return txn_offset_commit(transaction, world.data, group), OK


def alter_client_quotas(entity_type: str) -> AlterClientQuotasRequest:
    entity = AlterClientQuotasRequest.EntityData(entity_type, "every-version")
    change = AlterClientQuotasRequest.OpData("producer_byte_rate", 1e9)
    return AlterClientQuotasRequest([AlterClientQuotasRequest.EntryData([entity], [change])])


def describe_client_quotas(entity_type: str) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest([DescribeClientQuotasRequest.ComponentData(entity_type, 2, None)])


def alter_user_scram_credentials(mechanism: int) -> AlterUserScramCredentialsRequest:
    change = AlterUserScramCredentialsRequest.ScramCredentialUpsertion("every-version", mechanism, 4096, b"salt", b"p")
    return AlterUserScramCredentialsRequest(upsertions=[change])


def update_features(level: int) -> UpdateFeaturesRequest:
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature="no.such.feature", max_version_level=level)
    return UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[update])


ACL = (2, "guarded", 3, "User:nobody", "10.0.0.1", 3, 3)
"""A topic's name to the letter, whom, from where, Read, Allow."""


def create_delegation_token(version: int) -> CreateDelegationTokenRequest:
    renewer = CreateDelegationTokenRequest.CreatableRenewers("User", "bob")
    request = CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=1000)
    if version >= 3:
        request.owner_principal_type, request.owner_principal_name = "User", "alice"
    return request


def describe_acls() -> DescribeAclsRequest:
    return DescribeAclsRequest(*ACL)


def create_acls() -> CreateAclsRequest:
    return CreateAclsRequest([CreateAclsRequest.AclCreation(*ACL)])


def delete_acls() -> DeleteAclsRequest:
    return DeleteAclsRequest([DeleteAclsRequest.DeleteAclsFilter(*ACL)])
