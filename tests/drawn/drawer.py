"""Draws requests from the messages' schemas, valid ones and nearly valid ones, of an episode's topics and groups."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from drawn.batches import Batches, drawn_batches
from drawn.pools import ABSENT_PRODUCER, CONFIG_NAMES, NEW_TOPICS, POOLS, Pool, an_acl_name

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.api import SUPPORTED, ApiKey
from barnabas.wire.frames import request_class
from barnabas.wire.message import Message
from barnabas.wire.schema import Field, StructSchema, message_schema
from barnabas.wire.structs import Struct

GROUPS = "JOIN_GROUP SYNC_GROUP HEARTBEAT LEAVE_GROUP OFFSET_COMMIT OFFSET_FETCH DESCRIBE_GROUPS DELETE_GROUPS"
TRANSACTIONS = "INIT_PRODUCER_ID ADD_PARTITIONS_TO_TXN ADD_OFFSETS_TO_TXN END_TXN TXN_OFFSET_COMMIT PRODUCE FETCH"
RECORDS = "PRODUCE FETCH LIST_OFFSETS DELETE_RECORDS OFFSET_FOR_LEADER_EPOCH DESCRIBE_PRODUCERS INIT_PRODUCER_ID"
TOPICS = "CREATE_TOPICS CREATE_PARTITIONS METADATA ELECT_LEADERS ALTER_PARTITION_REASSIGNMENTS DESCRIBE_LOG_DIRS"
FOCI = {
    "groups": f"{GROUPS} OFFSET_DELETE LIST_GROUPS FIND_COORDINATOR",
    "transactions": f"{TRANSACTIONS} DESCRIBE_TRANSACTIONS LIST_TRANSACTIONS DESCRIBE_PRODUCERS WRITE_TXN_MARKERS",
    "records": f"{RECORDS} DESCRIBE_LOG_DIRS METADATA",
    "topics": f"{TOPICS} LIST_PARTITION_REASSIGNMENTS PRODUCE FETCH DESCRIBE_CLUSTER",
    "configurations": "DESCRIBE_CONFIGS ALTER_CONFIGS INCREMENTAL_ALTER_CONFIGS CREATE_TOPICS PRODUCE",
    "security": "CREATE_ACLS DELETE_ACLS DESCRIBE_ACLS ALTER_USER_SCRAM_CREDENTIALS DESCRIBE_USER_SCRAM_CREDENTIALS",
}
"""What an episode is mostly about; requests that mean something to each other meet more often so."""
ALL = sorted({ApiKey[name] for names in FOCI.values() for name in names.split()})
IDENTITY = (
    "name", "topic", "topic_id", "group_id", "transactional_id", "partition_index", "partition", "index", "key",
    "resource_name", "member_id", "producer_id",
)  # fmt: skip


class Member(NamedTuple):
    group: str
    member_id: str = ""
    generation: int = -1
    instance: str | None = None


class Producer(NamedTuple):
    transactional_id: str | None
    producer_id: int = ABSENT_PRODUCER
    epoch: int = 0


class Session(NamedTuple):
    session_id: int = 0
    epoch: int = 0


class Asked(NamedTuple):
    key: ApiKey
    version: int
    message: Any


class Drawer:
    """The same requests for the same seed and answers."""

    def __init__(self, seed: int, episode: int) -> None:
        self.random = random.Random(f"{seed} {episode}")
        self.prefix = f"e{episode}-"
        self.topics = [self.prefix + name for name in ("one", "three", "compact", "append")]
        self.topic_ids: dict[str, Uuid] = {}
        self.groups = [self.prefix + name for name in ("g0", "g1")]
        self.transactional_ids = [self.prefix + name for name in ("x0", "x1")]
        self.members: list[Member] = []
        self.producers: list[Producer] = []
        self.sessions: list[Session] = []
        self.sequences: dict[Any, int] = {}
        self.focus = [ApiKey[name] for name in FOCI[self.random.choice(sorted(FOCI))].split()]
        self.config = ""
        self._key = ApiKey.PRODUCE

    def chance(self, of: float) -> bool:
        return self.random.random() < of

    def request(self, *among: ApiKey) -> Asked:
        key = self.random.choice(among or (self.focus if self.chance(0.85) else ALL))
        low, high = SUPPORTED[key]
        version = high if self.chance(0.4) else self.random.randint(low, high)
        self._key = key
        self.sloppiness = self.random.choice((0, 0, 0.05, 0.3))
        self._choose_who()
        message = request_class(key)()
        self._fill(message, message, message_schema(message.name).root, version, "")
        self._put_together(message, version)
        return Asked(key, version, message)

    def _choose_who(self) -> None:
        """Of whom the request speaks: a member, a producer and a session whose fields belong together."""
        nobody = Member(self.random.choice(self.groups))
        self.member = self.random.choice(self.members) if self.members and self.chance(0.85) else nobody
        named = [each for each in self.producers if each.transactional_id or self._key is ApiKey.PRODUCE]
        absent = Producer(self.random.choice(self.transactional_ids))
        self.producer = self.random.choice(named[-4:]) if named and self.chance(0.9) else absent
        self.session = self.random.choice(self.sessions) if self.sessions and self.chance(0.6) else Session()

    def _fill(self, message: Message, target: Struct, schema: StructSchema, version: int, path: str) -> None:
        for field in schema.fields:
            if version not in field.versions:
                continue
            at = f"{path}.{field.attribute}" if path else field.attribute
            nullable = version in field.nullable
            value = self._array(message, field, version, at) if field.is_array else None
            if field.is_array and nullable and self.chance(0.12):
                value = None
            elif not field.is_array:
                value = self._element(message, field, version, at)
                if value is None and not nullable:
                    continue
            setattr(target, field.attribute, value)

    def _array(self, message: Message, field: Field, version: int, at: str) -> list[Any]:
        """No element is named twice: Apache keeps some in maps, and the last one counts."""
        if POOLS.get(field.attribute) == Pool(()):
            return []
        count = self.random.choice((1, 1, 1, 1, 2, 0, 3) if self.sloppiness else (1, 1, 1, 2))
        found = {}
        for _ in range(count):
            element = self._element(message, field, version, at)
            names = [str(getattr(element, name)) for name in IDENTITY if hasattr(element, name)]
            found[repr(names or element)] = element
        return list(found.values())

    def _element(self, message: Message, field: Field, version: int, at: str) -> Any:
        if not field.is_struct:
            return self._value(field, at)
        schema = message_schema(message.name).structs[field.type]
        made = getattr(type(message), field.type)()
        self._fill(message, made, schema, version, at)
        return made

    def _value(self, field: Field, at: str) -> Any:
        if field.type == "records":
            return drawn_batches(self)
        if field.type == "bool":
            return self.chance(0.5)
        pool = self._pool(field, at)
        value = self.random.choice(pool.odd if pool.odd and self.chance(self.sloppiness) else pool.usual)
        if callable(value):
            value = value(self)
        return value.replace("{e}", self.prefix) if isinstance(value, str) else value

    def _pool(self, field: Field, at: str) -> Pool:
        if at.endswith("configs.name") or field.attribute == "configuration_keys":
            return CONFIG_NAMES
        if self._key is ApiKey.CREATE_TOPICS and field.attribute == "name":
            return NEW_TOPICS
        if "SCRAM" in self._key.name and field.attribute == "name":
            return POOLS["user"]
        if self._key is ApiKey.CREATE_ACLS and field.attribute == "resource_name":
            return Pool((an_acl_name,))
        names = (f"{self._key.name}.{at}", f"{self._key.name}.{field.attribute}", field.attribute)
        return next(POOLS[name] for name in names if name in POOLS)

    def _put_together(self, message: Any, version: int) -> None:
        """Fields that exclude each other hold one of them, mostly."""
        match self._key:
            case ApiKey.CREATE_TOPICS:
                for topic in message.topics:
                    topic.assignments = []
                    if version < 4:
                        topic.num_partitions, topic.replication_factor = max(1, topic.num_partitions), 1
            case ApiKey.CREATE_PARTITIONS:
                for topic in message.topics:
                    topic.assignments = None
            case ApiKey.METADATA:
                message.allow_auto_topic_creation = version < 4
                for topic in message.topics or ():
                    if self.chance(0.7):
                        topic.topic_id = ZERO_UUID
            case ApiKey.OFFSET_COMMIT | ApiKey.TXN_OFFSET_COMMIT if self.chance(0.4):
                message.member_id, message.group_instance_id = "", None
                generation = (
                    "generation_id" if self._key is ApiKey.TXN_OFFSET_COMMIT else "generation_id_or_member_epoch"
                )
                setattr(message, generation, -1)
            case ApiKey.PRODUCE if not any(
                isinstance(data.records, Batches) and data.records.transactional
                for topic in message.topic_data
                for data in topic.partition_data
            ):
                message.transactional_id = None
            case ApiKey.FETCH if message.session_id == 0:
                message.session_epoch = self.random.choice((-1, 0))
