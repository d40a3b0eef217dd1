"""Requests with as much in them as they may have, all of which makes sense: it is looked at to its end."""

from __future__ import annotations

from typing import Any

from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.wire.messages.alter_configs import AlterConfigsRequest
from barnabas.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from barnabas.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from barnabas.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.wire.messages.create_acls import CreateAclsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsRequest
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.delete_records import DeleteRecordsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.offset_delete import OffsetDeleteRequest
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest
from barnabas.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

MANY = 40_000
NUMBERS = list(range(MANY))
NAMES = [f"n{number}" for number in NUMBERS]
CREATION = CreateAclsRequest.AclCreation
FILTER = DeleteAclsRequest.DeleteAclsFilter
NO_ID = bytes(16)

REQUESTS: dict[str, tuple[Any, int]] = {
    "metadata with operations": (
        MetadataRequest(
            [MetadataRequest.MetadataRequestTopic(NO_ID, name) for name in NAMES],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        ),
        12,
    ),
    "acls that are made": (
        CreateAclsRequest([CREATION(2, f"{name}/", 3, "User:x", "*", 3, 3) for name in NAMES]),
        2,
    ),
    "acls that are deleted": (DeleteAclsRequest([FILTER(2, name, 2, "User:x", "*", 3, 3) for name in NAMES]), 2),
    "leaders that are elected": (ElectLeadersRequest(0, [ElectLeadersRequest.TopicPartitions("u", NUMBERS)]), 2),
    "moves": (
        AlterPartitionReassignmentsRequest(
            topics=[
                AlterPartitionReassignmentsRequest.ReassignableTopic(
                    "u", [AlterPartitionReassignmentsRequest.ReassignablePartition(each, [0]) for each in NUMBERS]
                )
            ]
        ),
        0,
    ),
    "moves to another directory": (
        AlterReplicaLogDirsRequest(
            [
                AlterReplicaLogDirsRequest.AlterReplicaLogDir(
                    "/x", [AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic("t", NUMBERS)]
                )
            ]
        ),
        2,
    ),
    "a broker's values": (
        IncrementalAlterConfigsRequest(
            [
                IncrementalAlterConfigsRequest.AlterConfigsResource(
                    4, "0", [IncrementalAlterConfigsRequest.AlterableConfig(name, 0, "v") for name in NAMES]
                )
            ]
        ),
        1,
    ),
    "all of a broker's values": (
        AlterConfigsRequest(
            [
                AlterConfigsRequest.AlterConfigsResource(
                    4, "0", [AlterConfigsRequest.AlterableConfig(name, "v") for name in NAMES]
                )
            ]
        ),
        1,
    ),
    "topics that are deleted": (
        DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState(name) for name in NAMES], timeout_ms=1000),
        6,
    ),
    "records that are deleted": (
        DeleteRecordsRequest(
            [
                DeleteRecordsRequest.DeleteRecordsTopic(
                    "t", [DeleteRecordsRequest.DeleteRecordsPartition(each, 0) for each in NUMBERS]
                )
            ],
            1000,
        ),
        2,
    ),
    "quotas": (
        AlterClientQuotasRequest(
            [
                AlterClientQuotasRequest.EntryData([AlterClientQuotasRequest.EntityData("user", "")], [])
                for _ in NUMBERS[::2]
            ]
        ),
        1,
    ),
    "credentials": (
        AlterUserScramCredentialsRequest(
            [], [AlterUserScramCredentialsRequest.ScramCredentialUpsertion(name, 1, 1, b"", b"") for name in NAMES]
        ),
        0,
    ),
    "members that leave": (
        LeaveGroupRequest("g", "", [LeaveGroupRequest.MemberIdentity(name) for name in NAMES]),
        5,
    ),
    "groups that are deleted": (DeleteGroupsRequest(NAMES), 2),
    "coordinators": (FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES), 4),
    "transactions": (DescribeTransactionsRequest(NAMES), 0),
    "offsets that are fetched": (
        OffsetFetchRequest("g", [OffsetFetchRequest.OffsetFetchRequestTopic("t", NUMBERS)]),
        7,
    ),
    "offsets that are fetched from ZooKeeper": (
        OffsetFetchRequest("g", [OffsetFetchRequest.OffsetFetchRequestTopic("t", NUMBERS)]),
        0,
    ),
    "a group's offsets that are fetched": (
        OffsetFetchRequest(
            groups=[
                OffsetFetchRequest.OffsetFetchRequestGroup(
                    "g", topics=[OffsetFetchRequest.OffsetFetchRequestTopics("t", NUMBERS)]
                )
            ]
        ),
        8,
    ),
    "offsets that are committed": (
        OffsetCommitRequest(
            "g",
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    "t", [OffsetCommitRequest.OffsetCommitRequestPartition(each) for each in NUMBERS]
                )
            ],
        ),
        5,
    ),
    "offsets of a transaction": (
        TxnOffsetCommitRequest(
            "x",
            "g",
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                    "t", [TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(each) for each in NUMBERS]
                )
            ],
        ),
        3,
    ),
    "offsets that are deleted": (
        OffsetDeleteRequest(
            "g",
            [
                OffsetDeleteRequest.OffsetDeleteRequestTopic(
                    "t", [OffsetDeleteRequest.OffsetDeleteRequestPartition(each) for each in NUMBERS]
                )
            ],
        ),
        0,
    ),
    "epochs": (
        OffsetForLeaderEpochRequest(
            -1,
            [
                OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                    "t", [OffsetForLeaderEpochRequest.OffsetForLeaderPartition(0, 0, 0) for _ in NUMBERS]
                )
            ],
        ),
        4,
    ),
}
