"""For each API a request that makes sense, one for what does not exist, and one to a broker that is not the one to ask.

Each comes with the error codes that may be in its answer; what is expected is what Kafka 3.9.2 answers. Requests that
the cluster is steered by have a stale controller epoch or a wrong broker epoch: they are answered and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from answers.requests import (
    OK,
    TOPIC_RESOURCE,
    Codes,
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    commits_offsets_in_transaction,
    controlled_shutdown,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_records,
    delete_topics,
    deletes_topics,
    describe_acls,
    describe_client_quotas,
    describe_configs,
    describe_groups,
    describe_producers,
    describes_groups,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeats,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    joins,
    leader_and_isr,
    leave_group,
    leaves,
    list_offsets,
    metadata,
    new_topic,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    stop_replica,
    sync_group,
    txn_offset_commit,
    update_features,
    update_metadata,
    write_txn_markers,
)
from answers.world import NO_TRANSACTION, World

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import Uuid
from barnabas.wire.api import ApiKey
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest

BROKER_RESOURCE = 4
ABSENT = "absent"
ABSENT_ID = Uuid(b"absent topic id!")
Builder = Callable[[World, int], tuple[Any, Codes]]


def codes(*given: ErrorCode) -> Codes:
    return frozenset(given)


TOKENS_NOT_ALLOWED = codes(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)

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
    # On a plaintext listener there is nothing to be proved.
    ApiKey.SASL_HANDSHAKE: lambda world, version: (
        SaslHandshakeRequest(mechanism="PLAIN"),
        codes(ErrorCode.ILLEGAL_SASL_STATE),
    ),
    ApiKey.SASL_AUTHENTICATE: lambda world, version: (
        SaslAuthenticateRequest(auth_bytes=b"\0alice\0wonder"),
        codes(ErrorCode.ILLEGAL_SASL_STATE),
    ),
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
    ApiKey.DESCRIBE_ACLS: lambda world, version: (describe_acls(), codes(ErrorCode.SECURITY_DISABLED)),
    ApiKey.CREATE_ACLS: lambda world, version: (create_acls(), codes(ErrorCode.SECURITY_DISABLED)),
    ApiKey.DELETE_ACLS: lambda world, version: (delete_acls(), codes(ErrorCode.SECURITY_DISABLED)),
    # Nobody is known on a plaintext listener.
    ApiKey.CREATE_DELEGATION_TOKEN: lambda world, version: (create_delegation_token(version), TOKENS_NOT_ALLOWED),
    ApiKey.RENEW_DELEGATION_TOKEN: lambda world, version: (
        RenewDelegationTokenRequest(hmac=b"hmac", renew_period_ms=1),
        TOKENS_NOT_ALLOWED,
    ),
    ApiKey.EXPIRE_DELEGATION_TOKEN: lambda world, version: (
        ExpireDelegationTokenRequest(hmac=b"hmac", expiry_time_period_ms=1),
        TOKENS_NOT_ALLOWED,
    ),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: lambda world, version: (
        DescribeDelegationTokenRequest([DescribeDelegationTokenRequest.DescribeDelegationTokenOwner("User", "alice")]),
        TOKENS_NOT_ALLOWED,
    ),
    ApiKey.DESCRIBE_CONFIGS: lambda world, version: (
        describe_configs(version, (TOPIC_RESOURCE, world.data), (BROKER_RESOURCE, str(world.home))),
        OK,
    ),
    ApiKey.ALTER_CONFIGS: lambda world, version: (alter_configs(world.scratch), OK),
    # To where it is already.
    ApiKey.ALTER_REPLICA_LOG_DIRS: lambda world, version: (alter_replica_log_dirs(world.data, world.log_dir), OK),
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
    ApiKey.ALTER_REPLICA_LOG_DIRS: lambda world, version: (
        alter_replica_log_dirs(world.data, "/no/such/directory"),
        codes(ErrorCode.LOG_DIR_NOT_FOUND),
    ),
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
        NOT_COORDINATOR if version else OK,  # in ZooKeeper
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
