"""What the fields of drawn requests hold: names that are there and names that are not, offsets before, in and behind a
log, epochs older and newer, members of another generation.

A pool is drawn from by the name of a field, or of an API and a field. Most requests have usual values only; others have
an odd one here and there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.model.config import topic_definitions
from barnabas.model.ids import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from drawn.drawer import Drawer

MADE_MS = 1_700_000_000_000
"""When the records were made: what is younger than `NOW_MS` is the time of a broker."""
ABSENT_ID = Uuid(b"absent topic id!")
HUGE = 2**31 - 1
ABSENT_PRODUCER = 999_999
ILLEGAL = ("", "not a name", "x" * 250, "é")
CONFIG_TEXTS = {
    "int": ("-1", "0", "1", "100", "1048588", "2147483647", "2147483648", " 5 ", "1e3", "abc", "", "0x10", "+5", "1.0"),
    "boolean": ("true", "false", "TRUE", " True ", "yes", "1", ""),
    "double": ("0.5", "0", "1", "1.5", "-0.1", "abc", "5e-1", ""),
    "string": ("", "gzip", "lz4", "zstd", "snappy", "producer", "uncompressed", "GZIP", "LogAppendTime", "x"),
    "list": ("", "*", "0:0", "0:0,1:0", "0:0:1", "delete", "compact", "compact,delete", "delete , compact", "nope"),
}
CONFIG_TEXTS["long"] = (*CONFIG_TEXTS["int"], "9223372036854775807", "9223372036854775808")


class Pool(NamedTuple):
    usual: tuple[Any, ...]
    """Values, or functions of the `Drawer`; in texts ``{e}`` is the episode's prefix."""
    odd: tuple[Any, ...] = ()


def a_topic(drawer: Drawer) -> str:
    return drawer.random.choice(drawer.topics)


def a_new_topic(drawer: Drawer) -> str:
    return drawer.prefix + drawer.random.choice(("new0", "new1", "new.2", "new_2"))


def a_topic_id(drawer: Drawer) -> Uuid:
    return drawer.random.choice([*drawer.topic_ids.values(), ABSENT_ID])


def a_config(drawer: Drawer) -> str:
    drawer.config = drawer.random.choice([*topic_definitions(), "no.such.key"])
    return drawer.config


def a_config_text(drawer: Drawer) -> str:
    definition = topic_definitions().get(drawer.config)
    return drawer.random.choice(CONFIG_TEXTS.get(definition.type if definition else "string", ("x",)))


def a_time(drawer: Drawer) -> int:
    return MADE_MS + drawer.random.randrange(15_000)


def an_acl_name(drawer: Drawer) -> str:
    return drawer.prefix + drawer.random.choice(("r", "r1", "r2"))


def a_known_group(drawer: Drawer) -> str:
    return drawer.random.choice(drawer.groups)


def a_transactional_id(drawer: Drawer) -> str:
    return drawer.random.choice(drawer.transactional_ids)


def a_member(drawer: Drawer) -> str:
    return drawer.member.member_id


def one_of_the_group(drawer: Drawer) -> str:
    return drawer.random.choice(
        [each.member_id for each in drawer.members if each.group == drawer.member.group] or [""]
    )


def a_producer(drawer: Drawer) -> int:
    return drawer.producer.producer_id


def an_epoch(drawer: Drawer) -> int:
    return drawer.producer.epoch


PARTITIONS = Pool((0, 0, 0, 0, 1, 2), (-1, 99, HUGE, -2))
TOPICS = Pool((a_topic,), ("{e}absent", *ILLEGAL))
NEW_TOPICS = Pool((a_new_topic, a_new_topic, a_new_topic, a_topic), (*ILLEGAL, "__consumer_offsets"))
GROUPS = Pool((lambda drawer: drawer.member.group,), ("", "{e}absent", a_known_group, a_known_group))
MEMBERS = Pool((a_member,), ("", "absent"))
GENERATIONS = Pool((lambda drawer: drawer.member.generation,), (-2, -1, 0, 1, 2, 7))
INSTANCES = Pool((lambda drawer: drawer.member.instance,), (None, "i0", "i1", "absent"))
TRANSACTIONAL_IDS = Pool((lambda drawer: drawer.producer.transactional_id,), ("", "{e}absent", a_transactional_id))
PRODUCERS = Pool((a_producer,), (-1, -2, ABSENT_PRODUCER, 2**62))
EPOCHS = Pool((an_epoch,), (-2, -1, 0, 1, 2, 32767))
TIMEOUTS = Pool((5000, 5000, 30_000, HUGE))
CONFIG_NAMES = Pool((a_config,), ("", "RETENTION.MS", " retention.ms"))
POOLS = {
    "acks": Pool((-1, -1, 1), (0, 2, -2)),
    "assignment": Pool((b"", b"a1", b"a2")),
    "broker_ids": Pool((0,), (1, -1)),
    "commit_timestamp": Pool((-1, MADE_MS)),
    "committed_leader_epoch": Pool((-1, 0, 3, -2)),
    "committed_metadata": Pool(("here", "", None), ("m" * 4096, "m" * 4097)),
    "committed_offset": Pool((0, 1, 5, 2**40), (-1, -2)),
    "config_operation": Pool((0, 0, 0, 1, 2, 3)),
    "cluster_id": Pool((None,)),
    "coordinator_epoch": Pool((0, 0, -1, 1)),
    "coordinator_keys": Pool((a_known_group, a_transactional_id), ("",)),
    "count": Pool((2, 3, 4), (-1, 0, 1)),
    "current_leader_epoch": Pool((-1, 0), (1, 99)),
    "duration_filter": Pool((-1, -1, 0, 100_000)),
    "election_type": Pool((0, 1)),
    "FETCH.log_start_offset": Pool((-1,)),
    "FETCH.replica_id": Pool((-1,)),
    "endpoint_type": Pool((1, 1), (2, 0)),
    "fetch_offset": Pool((0, 0, 1, 3, 6), (-1, -2, 99_999)),
    "forgotten_topics_data": Pool(()),
    "generation_id": GENERATIONS,
    "generation_id_or_member_epoch": GENERATIONS,
    "group_id": GROUPS,
    "group_instance_id": INSTANCES,
    "groups": GROUPS,
    "groups_names": GROUPS,
    "host": Pool(("*", "10.0.0.1")),
    "host_filter": Pool((None, "*", "10.0.0.1")),
    "index": PARTITIONS,
    "INIT_PRODUCER_ID.producer_epoch": Pool((-1, -1, an_epoch), (0, 7)),
    "INIT_PRODUCER_ID.producer_id": Pool((-1, -1, a_producer), (ABSENT_PRODUCER, 0)),
    "INIT_PRODUCER_ID.transactional_id": Pool((a_transactional_id, a_transactional_id, None), ("",)),
    "isolation_level": Pool((0, 1)),
    "iterations": Pool((4096, 8192), (4095, 16385, 0)),
    "JOIN_GROUP.group_instance_id": Pool((None, None, "i0", "i1"), ("",)),
    "JOIN_GROUP.member_id": Pool((a_member, ""), ("absent",)),
    "JOIN_GROUP.name": Pool(("range", "range", "roundrobin")),
    "JOIN_GROUP.protocol_type": Pool(("consumer",), ("", "connect")),
    "key": Pool((a_known_group, a_transactional_id), ("",)),
    "key_type": Pool((0, 1)),
    "last_fetched_epoch": Pool((-1,)),
    "leader_epoch": Pool((0, 0, 1, -1, 99)),
    "match_type": Pool((0,)),
    "max_bytes": Pool((1 << 20, 1 << 20, HUGE, 100)),
    "max_num_offsets": Pool((1,)),
    "max_wait_ms": Pool((0, 30)),
    "mechanism": Pool((1, 2), (0, 3)),
    "member_epoch": Pool((-1,)),
    "member_id": MEMBERS,
    "metadata": Pool((b"", b"m1", b"m2")),
    "min_bytes": Pool((0, 1)),
    "name": TOPICS,
    "new_topic": NEW_TOPICS,
    "num_partitions": Pool((1, 2, -1, 3), (0, -2)),
    "OFFSET_FETCH.member_id": Pool((None,)),
    "offset": Pool((1, 3, 0, -1), (5, -2, 99_999)),
    "operation": Pool((2, 3, 8)),
    "partition": PARTITIONS,
    "partition_index": PARTITIONS,
    "partition_indexes": PARTITIONS,
    "partition_max_bytes": Pool((1 << 20, 1 << 20, 100, 0)),
    "partitions": PARTITIONS,
    "pattern_type_filter": Pool((1, 2, 3, 4)),
    "permission_type": Pool((2, 3)),
    "principal": Pool(("User:{e}alice", "User:{e}bob", "User:*")),
    "principal_filter": Pool((None, "User:{e}alice", "User:*")),
    "producer_epoch": EPOCHS,
    "producer_id": PRODUCERS,
    "producer_id_filters": PRODUCERS,
    "protocol_name": Pool(("range", "range", None), ("absent",)),
    "protocol_type": Pool(("consumer", "consumer", None), ("connect",)),
    "rack_id": Pool(("",)),
    "reason": Pool((None, "why")),
    "rebalance_timeout_ms": Pool((60_000,)),
    "replica_directory_id": Pool((ZERO_UUID,)),
    "replica_epoch": Pool((-1,)),
    "replica_id": Pool((-1,)),
    "replicas": Pool((0,), (-1, 7)),
    "replication_factor": Pool((1, 1, -1), (0, 2, -2)),
    "resource_name": TOPICS,
    "resource_name_filter": Pool((None, an_acl_name, "*")),
    "resource_pattern_type": Pool((3, 3, 4)),
    "resource_type": Pool((2,)),
    "resource_type_filter": Pool((1, 2, 3)),
    "retention_time_ms": Pool((-1,)),
    "salt": Pool((b"salt",)),
    "salted_password": Pool((b"p" * 32,)),
    "session_epoch": Pool((lambda drawer: drawer.session.epoch,), (-1, 0, 1, 5)),
    "session_id": Pool((lambda drawer: drawer.session.session_id,)),
    "session_timeout_ms": Pool((60_000,), (5999, 1_800_001, 0)),
    "state_filters": Pool(("Ongoing", "Empty", "CompleteCommit", "nope", "")),
    "states_filter": Pool(("Stable", "Empty", "PreparingRebalance", "nope")),
    "SYNC_GROUP.assignments.member_id": Pool((one_of_the_group,), ("absent",)),
    "timeout_ms": TIMEOUTS,
    "timestamp": Pool((-1, -2, -3, a_time, MADE_MS), (-4, -5, 0, 4_200_000_000_000)),
    "topic": TOPICS,
    "topic_id": Pool((a_topic_id,)),
    "topic_names": TOPICS,
    "transaction_timeout_ms": Pool((60_000, 60_000, 900_000), (0, -1, 900_001)),
    "transactional_id": TRANSACTIONAL_IDS,
    "transactional_ids": TRANSACTIONAL_IDS,
    "types_filter": Pool(("classic", "Classic", "nope")),
    "user": Pool(("{e}alice", "{e}bob")),
    "v3_and_below_producer_epoch": EPOCHS,
    "v3_and_below_producer_id": PRODUCERS,
    "v3_and_below_transactional_id": TRANSACTIONAL_IDS,
    "value": Pool((a_config_text,), (None,)),
}
