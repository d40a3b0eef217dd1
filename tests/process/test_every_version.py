"""Whatever ApiVersions offers is answered: every API in every version, by a message that the version can carry.

Each request is one that a client (or a controller) of that version would send. Those that the cluster is steered by
are sent with a stale controller epoch or a wrong broker epoch, so that they are answered and change nothing. Each API
is also asked for what does not exist, and on a broker that is neither leader nor coordinator nor controller, since a
refusal has to fit its version as well. What is expected is what Kafka 3.9.1 answers to the same requests.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import apache
import pytest
from cluster import running, until

from barnabas.broker.router import HANDLED
from barnabas.cli.apache import cluster_view
from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.api import SUPPORTED, ApiKey
from barnabas.wire.message import Struct
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.wire.messages.alter_configs import AlterConfigsRequest
from barnabas.wire.messages.alter_partition import AlterPartitionRequest
from barnabas.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from barnabas.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.delete_records import DeleteRecordsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.wire.messages.describe_producers import DescribeProducersRequest
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
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
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.list_offsets import ListOffsetsRequest
from barnabas.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
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
from barnabas.wire.records import Record, batches, build_batch, records_of

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
ABSENT = "absent"
ABSENT_ID = Uuid(b"absent topic id!")
OK = frozenset({ErrorCode.NONE})

Codes = frozenset[ErrorCode]
Builder = Callable[["World", int], tuple[Any, Codes]]


class World:
    """Two brokers, one of which does it all: it is the controller, leads the topics and coordinates the groups."""

    def __init__(self, ports: Mapping[int, int], *, is_apache: bool) -> None:
        self.is_apache = is_apache
        self.home: int = until(lambda: cluster_view("127.0.0.1", ports[0])[1] + 1, "a controller") - 1
        self.port = ports[self.home]
        self.other_port = ports[1 - self.home]
        self._connection = BlockingConnection("127.0.0.1", self.port, "every-version")
        self.offered = dict(self._connection.versions)
        self._names = 0
        self.data = self.topic()
        self.scratch = self.topic()
        self.data_id = self.topic_id(self.data)
        produced = self.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=produce_data(self.data, batch())), 9)
        assert errors_in(produced) == OK

        until(lambda: errors_in(self.ask(FindCoordinatorRequest(key="group"), 3)) == OK, "a group coordinator")
        until(lambda: errors_in(self.ask(describe_groups(self.group()), 4)) == OK, "the coordinator's groups")
        until(lambda: errors_in(self.ask(init_producer_id(None), 4)) == OK, "producer ids")
        transaction = FindCoordinatorRequest(key="transaction", key_type=1)
        until(lambda: errors_in(self.ask(transaction, 3)) == OK, "a transaction coordinator")
        described = DescribeTransactionsRequest(transactional_ids=[self.transactional_id()])
        until(lambda: errors_in(self.ask(described, 0)) == NO_TRANSACTION, "the coordinator's transactions")

    def close(self) -> None:
        self._connection.close()

    def ask(self, message: Any, version: int) -> Any:
        return self._connection.send(message, version)

    def name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}-{self._names}"

    def topic(self) -> str:
        name = self.name("topic")
        at_home = CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=[self.home])
        topic = CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=[at_home]
        )
        assert errors_in(self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5)) == OK
        return name

    def group(self) -> str:
        """The name of a group that the home broker coordinates."""
        while True:
            name = self.name("group")
            if self.ask(FindCoordinatorRequest(key=name), 3).node_id == self.home:
                return name

    def transactional_id(self) -> str:
        """One that the home broker coordinates."""
        while True:
            name = self.name("transaction")
            if self.ask(FindCoordinatorRequest(key=name, key_type=1), 3).node_id == self.home:
                return name

    def transaction(self) -> tuple[str, int, int]:
        """A transactional id, with the producer id and epoch that it was given."""
        transactional_id = self.transactional_id()
        given = self.ask(init_producer_id(transactional_id), 4)
        assert errors_in(given) == OK
        return transactional_id, given.producer_id, given.producer_epoch

    def open_transaction(self, *topics: str) -> tuple[str, int, int]:
        """A transaction in which partition 0 of `topics` is."""
        transaction = self.transaction()
        assert errors_in(self.ask(add_partitions_to_txn(3, transaction, *topics), 3)) == OK
        return transaction

    def topic_id(self, name: str) -> Uuid:
        answer = self.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)]), 12)
        return Uuid(answer.topics[0].topic_id)

    def group_with_offsets(self, version: int = 2) -> str:
        """A group with an offset where the requests of that version keep them: version 0 in ZooKeeper."""
        group = self.group()
        assert errors_in(self.ask(offset_commit(self.data, group), min(version, 2))) == OK
        return group

    def member(self) -> tuple[str, str, int]:
        """A group of one, its member and generation."""
        group = self.group()
        joined = self.ask(join_group(group), 3)
        assert errors_in(joined) == OK
        return group, joined.member_id, joined.generation_id


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


def codes(*given: ErrorCode) -> Codes:
    return frozenset(given)


NO_TRANSACTION = codes(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)


SENSIBLE: dict[ApiKey, Builder] = {
    ApiKey.PRODUCE: lambda world, version: (produce(world, version, world.scratch), OK),
    ApiKey.FETCH: lambda world, version: (fetch(version, world.data, world.data_id), OK),
    ApiKey.LIST_OFFSETS: lambda world, version: (list_offsets(world.data, -1), OK),
    ApiKey.METADATA: lambda world, version: (metadata(version, world.data), OK),
    ApiKey.LEADER_AND_ISR: lambda world, version: (
        leader_and_isr(world, version, world.data_id, controller_epoch=0),
        codes(ErrorCode.STALE_CONTROLLER_EPOCH),
    ),
    ApiKey.STOP_REPLICA: lambda world, version: (
        stop_replica(world, version, world.data, controller_epoch=0),
        codes(ErrorCode.STALE_CONTROLLER_EPOCH),
    ),
    ApiKey.UPDATE_METADATA: lambda world, version: (
        update_metadata(world, version),
        codes(ErrorCode.STALE_CONTROLLER_EPOCH),
    ),
    ApiKey.CONTROLLED_SHUTDOWN: lambda world, version: controlled_shutdown(world, version),
    ApiKey.OFFSET_COMMIT: lambda world, version: (offset_commit(world.data, world.group()), OK),
    ApiKey.OFFSET_FETCH: lambda world, version: (
        offset_fetch(version, world.data, world.group_with_offsets(version)),
        OK,
    ),
    ApiKey.FIND_COORDINATOR: lambda world, version: (find_coordinator(version, "group"), OK),
    ApiKey.JOIN_GROUP: joins,
    ApiKey.HEARTBEAT: heartbeats,
    ApiKey.LEAVE_GROUP: leaves,
    ApiKey.SYNC_GROUP: lambda world, version: (sync_group(version, *world.member()), OK),
    ApiKey.DESCRIBE_GROUPS: describes_groups,
    ApiKey.LIST_GROUPS: lambda world, version: (ListGroupsRequest(), OK),
    ApiKey.API_VERSIONS: lambda world, version: (
        ApiVersionsRequest(client_software_name="every-version", client_software_version="1.0"),
        OK,
    ),
    ApiKey.CREATE_TOPICS: lambda world, version: (create_topics(version, new_topic(world.name("topic"))), OK),
    ApiKey.DELETE_TOPICS: deletes_topics,
    ApiKey.DELETE_RECORDS: lambda world, version: (delete_records(world.data), OK),
    ApiKey.INIT_PRODUCER_ID: lambda world, version: (
        init_producer_id(world.transactional_id()),
        OK,
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda world, version: (
        add_partitions_to_txn(version, world.transaction(), world.data, world.scratch),
        OK,
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: lambda world, version: (add_offsets_to_txn(world.transaction(), world.group()), OK),
    ApiKey.END_TXN: lambda world, version: (end_txn(world.open_transaction(world.data)), OK),
    ApiKey.WRITE_TXN_MARKERS: lambda world, version: (write_txn_markers(world.scratch), OK),
    ApiKey.TXN_OFFSET_COMMIT: commits_offsets_in_transaction,
    ApiKey.DESCRIBE_TRANSACTIONS: lambda world, version: (
        DescribeTransactionsRequest(transactional_ids=[world.open_transaction(world.data)[0]]),
        OK,
    ),
    ApiKey.LIST_TRANSACTIONS: lambda world, version: (ListTransactionsRequest(), OK),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda world, version: (offset_for_leader_epoch(world.data), OK),
    ApiKey.DESCRIBE_CONFIGS: lambda world, version: (
        describe_configs(version, (TOPIC_RESOURCE, world.data), (BROKER_RESOURCE, str(world.home))),
        OK,
    ),
    ApiKey.ALTER_CONFIGS: lambda world, version: (alter_configs(world.scratch), OK),
    ApiKey.DESCRIBE_LOG_DIRS: lambda world, version: (DescribeLogDirsRequest(topics=None), OK),
    ApiKey.CREATE_PARTITIONS: lambda world, version: (create_partitions(world.topic()), OK),
    ApiKey.DELETE_GROUPS: lambda world, version: (DeleteGroupsRequest(groups_names=[world.group_with_offsets()]), OK),
    ApiKey.ELECT_LEADERS: lambda world, version: (
        elect_leaders(world.data),
        codes(ErrorCode.ELECTION_NOT_NEEDED),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda world, version: (incremental_alter_configs(world.scratch), OK),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda world, version: (
        alter_partition_reassignments(world.data, None),
        codes(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda world, version: (ListPartitionReassignmentsRequest(topics=None), OK),
    ApiKey.ALTER_PARTITION: lambda world, version: (
        alter_partition(world, version),
        codes(ErrorCode.STALE_BROKER_EPOCH),
    ),
    ApiKey.OFFSET_DELETE: lambda world, version: (offset_delete(world.data, world.group_with_offsets()), OK),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda world, version: (describe_client_quotas("user"), OK),
    ApiKey.ALTER_CLIENT_QUOTAS: lambda world, version: (alter_client_quotas("user"), OK),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda world, version: (DescribeUserScramCredentialsRequest(), OK),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda world, version: (alter_user_scram_credentials(1), OK),
    ApiKey.UPDATE_FEATURES: lambda world, version: (update_features(1), codes(ErrorCode.INVALID_REQUEST)),
    ApiKey.DESCRIBE_CLUSTER: lambda world, version: (
        DescribeClusterRequest(include_cluster_authorized_operations=True),
        OK,
    ),
    ApiKey.DESCRIBE_PRODUCERS: lambda world, version: (describe_producers(world.data), OK),
    ApiKey.ALLOCATE_PRODUCER_IDS: lambda world, version: (
        AllocateProducerIdsRequest(broker_id=world.home, broker_epoch=1),
        codes(ErrorCode.STALE_BROKER_EPOCH),
    ),
}
"""For each API a request that makes sense, and the error codes that may be in its answer."""

UNKNOWN_TOPIC = codes(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
UNKNOWN_MEMBER = codes(ErrorCode.UNKNOWN_MEMBER_ID)

REFUSED: dict[ApiKey, Builder] = {
    ApiKey.PRODUCE: lambda world, version: (produce(world, version, ABSENT), UNKNOWN_TOPIC),
    ApiKey.FETCH: lambda world, version: (
        fetch(version, ABSENT, ABSENT_ID),
        UNKNOWN_TOPIC if version < 13 else codes(ErrorCode.UNKNOWN_TOPIC_ID),
    ),
    ApiKey.LIST_OFFSETS: lambda world, version: (list_offsets(ABSENT, -1), UNKNOWN_TOPIC),
    ApiKey.METADATA: lambda world, version: (
        metadata(version, "not a topic's name"),
        codes(ErrorCode.INVALID_TOPIC_EXCEPTION),
    ),
    # The controller's own epoch, of a leader epoch that was before the partition's: it is fenced, nothing changes.
    ApiKey.LEADER_AND_ISR: lambda world, version: (
        leader_and_isr(world, version, world.data_id, controller_epoch=1),
        codes(ErrorCode.STALE_CONTROLLER_EPOCH),
    ),
    # A replica that is not here is a replica that has stopped.
    ApiKey.STOP_REPLICA: lambda world, version: (stop_replica(world, version, ABSENT, controller_epoch=1), OK),
    ApiKey.OFFSET_COMMIT: lambda world, version: (offset_commit(ABSENT, world.group()), UNKNOWN_TOPIC),
    ApiKey.OFFSET_FETCH: lambda world, version: (
        offset_fetch(version, world.data, world.group()),
        OK if version else UNKNOWN_TOPIC,  # version 0 has no other word for no offset
    ),
    ApiKey.FIND_COORDINATOR: lambda world, version: (
        find_coordinator(version, "group", key_type=7 if version else 0),
        codes(ErrorCode.INVALID_REQUEST) if version else OK,
    ),
    ApiKey.JOIN_GROUP: lambda world, version: (join_group(world.group(), member="stranger"), UNKNOWN_MEMBER),
    ApiKey.HEARTBEAT: lambda world, version: (
        HeartbeatRequest(group_id=world.group(), generation_id=1, member_id="stranger"),
        UNKNOWN_MEMBER,
    ),
    ApiKey.LEAVE_GROUP: lambda world, version: (leave_group(version, world.group(), "stranger"), UNKNOWN_MEMBER),
    ApiKey.SYNC_GROUP: lambda world, version: (sync_group(version, world.group(), "stranger", 1), UNKNOWN_MEMBER),
    ApiKey.DESCRIBE_GROUPS: lambda world, version: (describe_groups(world.group()), OK),
    ApiKey.CREATE_TOPICS: lambda world, version: (
        create_topics(version, new_topic(world.data)),
        codes(ErrorCode.TOPIC_ALREADY_EXISTS),
    ),
    ApiKey.DELETE_TOPICS: lambda world, version: (
        delete_topics(version, ABSENT, ABSENT_ID),
        UNKNOWN_TOPIC if version < 6 else codes(ErrorCode.UNKNOWN_TOPIC_ID),
    ),
    ApiKey.DELETE_RECORDS: lambda world, version: (delete_records(ABSENT), UNKNOWN_TOPIC),
    ApiKey.INIT_PRODUCER_ID: lambda world, version: (
        InitProducerIdRequest(transactional_id=world.transactional_id(), transaction_timeout_ms=900_001),
        codes(ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda world, version: (
        add_partitions_to_txn(version, world.transaction(), ABSENT),
        UNKNOWN_TOPIC,
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: lambda world, version: (
        add_offsets_to_txn((world.transactional_id(), 1, 0), world.group()),
        codes(ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ),
    ApiKey.END_TXN: lambda world, version: (end_txn(world.transaction()), codes(ErrorCode.INVALID_TXN_STATE)),
    ApiKey.WRITE_TXN_MARKERS: lambda world, version: (write_txn_markers(ABSENT), UNKNOWN_TOPIC),
    ApiKey.TXN_OFFSET_COMMIT: lambda world, version: (
        txn_offset_commit(world.transaction(), ABSENT, world.group()),
        UNKNOWN_TOPIC,
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: lambda world, version: (
        DescribeTransactionsRequest(transactional_ids=[world.transactional_id()]),
        NO_TRANSACTION,
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda world, version: (offset_for_leader_epoch(ABSENT), UNKNOWN_TOPIC),
    ApiKey.DESCRIBE_CONFIGS: lambda world, version: (
        describe_configs(version, (TOPIC_RESOURCE, ABSENT)),
        UNKNOWN_TOPIC,
    ),
    ApiKey.ALTER_CONFIGS: lambda world, version: (alter_configs(ABSENT), UNKNOWN_TOPIC),
    ApiKey.CREATE_PARTITIONS: lambda world, version: (create_partitions(ABSENT), UNKNOWN_TOPIC),
    ApiKey.DELETE_GROUPS: lambda world, version: (
        DeleteGroupsRequest(groups_names=[world.group()]),
        codes(ErrorCode.GROUP_ID_NOT_FOUND),
    ),
    ApiKey.ELECT_LEADERS: lambda world, version: (elect_leaders(ABSENT), UNKNOWN_TOPIC),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda world, version: (incremental_alter_configs(ABSENT), UNKNOWN_TOPIC),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda world, version: (
        alter_partition_reassignments(ABSENT, [world.home]),
        UNKNOWN_TOPIC,
    ),
    ApiKey.OFFSET_DELETE: lambda world, version: (
        offset_delete(world.data, world.group()),
        codes(ErrorCode.GROUP_ID_NOT_FOUND),
    ),
    ApiKey.DESCRIBE_PRODUCERS: lambda world, version: (describe_producers(ABSENT), UNKNOWN_TOPIC),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda world, version: (
        describe_client_quotas("country"),
        codes(ErrorCode.UNSUPPORTED_VERSION),
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: lambda world, version: (
        alter_client_quotas("country"),
        codes(ErrorCode.INVALID_REQUEST),
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda world, version: (
        DescribeUserScramCredentialsRequest([DescribeUserScramCredentialsRequest.UserName(ABSENT)]),
        codes(ErrorCode.RESOURCE_NOT_FOUND),
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda world, version: (
        alter_user_scram_credentials(9),
        codes(ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ),
    ApiKey.UPDATE_FEATURES: lambda world, version: (update_features(0), codes(ErrorCode.INVALID_REQUEST)),
}
"""The same for what does not exist, where an API can be asked for such a thing."""

NOT_LEADER = codes(ErrorCode.NOT_LEADER_OR_FOLLOWER)
NOT_COORDINATOR = codes(ErrorCode.NOT_COORDINATOR)
NOT_CONTROLLER = codes(ErrorCode.NOT_CONTROLLER)

ELSEWHERE: dict[ApiKey, Builder] = {
    ApiKey.PRODUCE: lambda world, version: (produce(world, version, world.scratch), NOT_LEADER),
    ApiKey.FETCH: lambda world, version: (fetch(version, world.data, world.data_id), NOT_LEADER),
    ApiKey.LIST_OFFSETS: lambda world, version: (list_offsets(world.data, -1), NOT_LEADER),
    ApiKey.DELETE_RECORDS: lambda world, version: (delete_records(world.data), NOT_LEADER),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda world, version: (offset_for_leader_epoch(world.data), NOT_LEADER),
    ApiKey.DESCRIBE_PRODUCERS: lambda world, version: (describe_producers(world.data), NOT_LEADER),
    ApiKey.OFFSET_COMMIT: lambda world, version: (
        offset_commit(world.data, world.group()),
        NOT_COORDINATOR if version else OK,  # in ZooKeeper
    ),
    ApiKey.OFFSET_FETCH: lambda world, version: (
        offset_fetch(version, world.data, world.group_with_offsets(version)),
        # Kafka answers version 1 without any partition, from which a client learns nothing.
        OK if version == 0 or (version == 1 and world.is_apache) else NOT_COORDINATOR,
    ),
    ApiKey.INIT_PRODUCER_ID: lambda world, version: (init_producer_id(world.transactional_id()), NOT_COORDINATOR),
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda world, version: (
        add_partitions_to_txn(version, world.transaction(), world.data),
        NOT_COORDINATOR,
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: lambda world, version: (
        add_offsets_to_txn(world.transaction(), world.group()),
        NOT_COORDINATOR,
    ),
    ApiKey.END_TXN: lambda world, version: (end_txn(world.transaction()), NOT_COORDINATOR),
    ApiKey.WRITE_TXN_MARKERS: lambda world, version: (write_txn_markers(world.data), UNKNOWN_TOPIC),
    ApiKey.TXN_OFFSET_COMMIT: lambda world, version: (
        txn_offset_commit(world.transaction(), world.data, world.group()),
        NOT_COORDINATOR,
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: lambda world, version: (
        DescribeTransactionsRequest(transactional_ids=[world.transactional_id()]),
        NOT_COORDINATOR,
    ),
    ApiKey.JOIN_GROUP: lambda world, version: (join_group(world.group()), NOT_COORDINATOR),
    ApiKey.HEARTBEAT: lambda world, version: (
        HeartbeatRequest(group_id=world.group(), generation_id=1, member_id="member"),
        NOT_COORDINATOR,
    ),
    ApiKey.LEAVE_GROUP: lambda world, version: (leave_group(version, world.group(), "member"), NOT_COORDINATOR),
    ApiKey.SYNC_GROUP: lambda world, version: (sync_group(version, world.group(), "member", 1), NOT_COORDINATOR),
    ApiKey.DESCRIBE_GROUPS: lambda world, version: (describe_groups(world.group()), NOT_COORDINATOR),
    ApiKey.DELETE_GROUPS: lambda world, version: (DeleteGroupsRequest(groups_names=[world.group()]), NOT_COORDINATOR),
    ApiKey.OFFSET_DELETE: lambda world, version: (offset_delete(world.data, world.group()), NOT_COORDINATOR),
    ApiKey.CREATE_TOPICS: lambda world, version: (
        create_topics(version, new_topic(world.name("topic"))),
        NOT_CONTROLLER,
    ),
    ApiKey.DELETE_TOPICS: lambda world, version: (delete_topics(version, world.data, world.data_id), NOT_CONTROLLER),
    ApiKey.CREATE_PARTITIONS: lambda world, version: (create_partitions(world.data), NOT_CONTROLLER),
    ApiKey.ELECT_LEADERS: lambda world, version: (elect_leaders(world.data), NOT_CONTROLLER),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda world, version: (
        alter_partition_reassignments(world.data, None),
        NOT_CONTROLLER,
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda world, version: (
        ListPartitionReassignmentsRequest(topics=None),
        NOT_CONTROLLER,
    ),
    ApiKey.ALTER_PARTITION: lambda world, version: (alter_partition(world, version), NOT_CONTROLLER),
    ApiKey.ALLOCATE_PRODUCER_IDS: lambda world, version: (
        AllocateProducerIdsRequest(broker_id=world.home, broker_epoch=1),
        NOT_CONTROLLER,
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda world, version: (alter_user_scram_credentials(1), NOT_CONTROLLER),
    ApiKey.UPDATE_FEATURES: lambda world, version: (update_features(1), NOT_CONTROLLER),
    # Kafka's word for it: the controller has moved.
    ApiKey.CONTROLLED_SHUTDOWN: lambda world, version: (
        ControlledShutdownRequest(broker_id=99),
        codes(ErrorCode.STALE_CONTROLLER_EPOCH),
    ),
    ApiKey.DESCRIBE_CONFIGS: lambda world, version: (
        describe_configs(version, (BROKER_RESOURCE, str(world.home))),
        codes(ErrorCode.INVALID_REQUEST),
    ),
}
"""The same for a broker that is not the one to ask."""


CONFIG = {"group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(scope="module", params=["barnabas", pytest.param("apache", marks=pytest.mark.apache)])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("versions")
    with contextlib.ExitStack() as stack:
        if request.param == "apache":
            apache.require()
            ports = stack.enter_context(apache.ApacheCluster(directory, 2, config=CONFIG)).ports
        else:
            cluster = stack.enter_context(running(directory, 2, *(f"{key}={value}" for key, value in CONFIG.items())))
            ports = {each["id"]: each["port"] for each in cluster.state["brokers"]}
        made = World(ports, is_apache=request.param == "apache")
        stack.callback(made.close)
        yield made


def every_version(table: dict[ApiKey, Builder]) -> list[Any]:
    return [
        pytest.param(key, version, id=f"{key.name}-{version}")
        for key in table
        for version in range(SUPPORTED[key][0], SUPPORTED[key][1] + 1)
    ]


def test_every_offered_api_has_a_request_here(world: World) -> None:
    offered = {int(key): SUPPORTED[key] for key in HANDLED}
    assert {key: world.offered[key] for key in offered} == offered
    assert set(SENSIBLE) == set(HANDLED)


def answered(port: int, request: Any, version: int) -> Any:
    """The answer to `request`, on a connection that goes on to serve."""
    with BlockingConnection("127.0.0.1", port, "raw", negotiate=False) as connection:
        answer = connection.send(request, version, 20_000)
        assert connection.send(ApiVersionsRequest(), 0, 20_000).api_keys
        return answer


@pytest.mark.parametrize(("key", "version"), every_version(SENSIBLE))
def test_a_request_is_answered_in_its_version(world: World, key: ApiKey, version: int) -> None:
    request, allowed = SENSIBLE[key](world, version)
    answer = answered(world.port, request, version)
    assert errors_in(answer) == allowed, answer


@pytest.mark.parametrize(("key", "version"), every_version(REFUSED))
def test_a_refusal_fits_its_version(world: World, key: ApiKey, version: int) -> None:
    request, allowed = REFUSED[key](world, version)
    answer = answered(world.port, request, version)
    assert errors_in(answer) == allowed, answer


@pytest.mark.parametrize(("key", "version"), every_version(ELSEWHERE))
def test_the_wrong_broker_says_so_in_the_requests_version(world: World, key: ApiKey, version: int) -> None:
    request, allowed = ELSEWHERE[key](world, version)
    answer = answered(world.other_port, request, version)
    assert errors_in(answer) == allowed, answer


@pytest.mark.parametrize("version", [10, 11])
def test_the_wrong_broker_names_the_leader_to_a_producer(world: World, version: int) -> None:
    answer = answered(world.other_port, produce(world, version, world.scratch), version)
    assert answer.responses[0].partition_responses[0].current_leader.leader_id == world.home
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(world.home, world.port)]


@pytest.mark.parametrize("version", [16, 17])
def test_the_wrong_broker_names_the_leader_to_a_consumer(world: World, version: int) -> None:
    answer = answered(world.other_port, fetch(version, world.data, world.data_id), version)
    assert answer.responses[0].partitions[0].current_leader.leader_id == world.home
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(world.home, world.port)]


@pytest.mark.parametrize("version", range(3))
def test_an_election_of_all_partitions_is_answered_in_its_version(world: World, version: int) -> None:
    request = ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000)
    assert errors_in(answered(world.port, request, version)) == OK
    assert errors_in(answered(world.other_port, request, version)) == NOT_CONTROLLER


@pytest.mark.parametrize("version", [5, 6, 7])
def test_a_controller_without_topic_ids_is_answered_by_topic_id(world: World, version: int) -> None:
    answer = answered(world.port, leader_and_isr(world, version, ZERO_UUID, controller_epoch=1), version)
    assert [each.topic_id for each in answer.topics] == [ZERO_UUID]


@pytest.mark.parametrize("version", [10, 11])
def test_a_topic_without_a_name_is_refused_where_ids_cannot_be_asked_for(world: World, version: int) -> None:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=None, topic_id=world.data_id)])
    answer = answered(world.port, request, version)
    assert errors_in(answer) == {ErrorCode.INVALID_REQUEST}
    assert answer.topics[0].name == ""


@pytest.mark.parametrize("version", range(18))
def test_every_version_of_fetch_has_the_records_in_its_own_format(world: World, version: int) -> None:
    answer = answered(world.port, fetch(version, world.data, world.data_id), version)
    records = answer.responses[0].partitions[0].records
    found = [(header, record) for header, start, end in batches(records) for record in records_of(records, start, end)]
    assert {header.magic for header, _ in found} == {0 if version < 2 else 1 if version < 4 else 2}
    assert [(record.offset, record.key, record.value) for _, record in found] == [
        (number, b"key", b"value %d" % number) for number in range(5)
    ]
    assert {record.timestamp for _, record in found} == {-1 if version < 2 else 1_700_000_000_000}


@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize("timestamp", [-1, -2, 0, 2_000_000_000_000])
def test_every_version_of_list_offsets_finds_offsets(world: World, version: int, timestamp: int) -> None:
    answer = answered(world.port, list_offsets(world.data, timestamp), version)
    assert errors_in(answer) == OK, answer
