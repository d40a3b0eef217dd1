"""The data of the view's pages besides the picture: one value of bounded size for each page.

Lists are answered in parts: ``from`` is the first wanted item, ``limit`` the number of items, ``q`` a text that the
name must contain; ``total`` counts all. Long answers are made in slices; between slices the broker does its other work.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from barnabas.broker.configs import Entry
from barnabas.broker.server import Broker
from barnabas.client.descriptions import read_assignment
from barnabas.coordinator.group_values import DEAD
from barnabas.coordinator.groups import Group
from barnabas.log.log import Log
from barnabas.model.cluster import TopicInfo
from barnabas.model.errors import KafkaError
from barnabas.model.ids import NO_BROKER, NO_EPOCH, TopicPartition
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC
from barnabas.runtime.turns import SLICE
from barnabas.web.group_lag import GroupLag, PartitionLag
from barnabas.web.views import NotSeen, Query
from barnabas.wire.errors import WireError
from barnabas.wire.message_sets import records_in_turns
from barnabas.wire.records import Record, batches
from barnabas.zk.protocol.data import Stat
from barnabas.zk.protocol.errors import ZooKeeperError

T = TypeVar("T")

LIMIT: Final = 100
LIMIT_MAX: Final = 1_000
MESSAGES_MAX: Final = 200
MESSAGE_BYTES_MAX: Final = 64 * 1024
"""The most bytes shown of a key, a value or a header; the rest is cut off."""
SHOWN_BYTES_MAX: Final = 1024 * 1024
"""The most bytes of all keys and values in one answer, which is kept in memory until it is read."""
READ_BYTES: Final = 1024 * 1024
SEARCHED_BYTES_MAX: Final = 16 * 1024 * 1024
"""The most uncompressed bytes of records in one search by key; the answer tells where to go on."""
RECORD_BYTES: Final = 100
"""The fixed cost of looking at a record, in bytes of record."""
ASSIGNMENT_BYTES_MAX: Final = 64 * 1024
"""The most bytes that are read of a member's assignment: some ten thousand partitions."""
SECRETS: Final = ("/config/users", "/delegation_token/tokens", "/config/brokers", "/config/clients")
"""The znodes below which credentials may be stored."""
ZNODE_BYTES_MAX: Final = 64 * 1024


def _number(query: Query, name: str, default: int, low: int, high: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    try:
        number = int(text)
    except ValueError:
        raise NotSeen(400, f"{name}={text} is not a whole number") from None
    if not low <= number <= high:
        raise NotSeen(400, f"{name}={text} is not between {low} and {high}")
    return number


def _part(names: Iterable[str], query: Query) -> tuple[list[str], dict[str, Any]]:
    """The wanted part of the names, in their order, and its place among all."""
    wanted = query.get("q", "").lower()
    found = sorted(name for name in names if wanted in name.lower())
    first = _number(query, "from", 0, 0, 10_000_000)
    limit = _number(query, "limit", LIMIT, 1, LIMIT_MAX)
    return found[first : first + limit], {"from": first, "limit": limit, "total": len(found)}


# Topics


async def topics(broker: Broker, query: Query) -> dict[str, Any]:
    """Topics with their health; with ``topic`` its partitions."""
    image = broker.metadata.image
    wanted = query.get("topic")
    if wanted is not None:
        topic = image.topics.get(wanted)
        if topic is None:
            raise NotSeen(404, f"there is no topic {wanted}")
        return {
            "topic": wanted,
            "partitions": [_partition(broker, topic, number) for number in sorted(topic.partitions)],
        }
    names, part = _part(image.topics, query)
    return {**part, "topics": [_topic(broker, image.topics[name]) for name in names]}


def _topic(broker: Broker, topic: TopicInfo) -> dict[str, Any]:
    partitions = topic.partitions.values()
    logs = [_log(broker, TopicPartition(topic.name, number)) for number in topic.partitions]
    return {
        "topic": topic.name,
        "topic_id": str(topic.topic_id),
        "partitions": len(topic.partitions),
        "replication_factor": max((len(partition.replicas) for partition in partitions), default=0),
        "under_replicated": sum(len(partition.isr) < len(partition.replicas) for partition in partitions),
        "without_leader": sum(partition.leader == NO_BROKER for partition in partitions),
        "here": sum(log is not None for log in logs),
        "size": sum(log.size for log in logs if log is not None),
        "records": sum(log.high_watermark - log.log_start_offset for log in logs if log is not None),
    }


def _partition(broker: Broker, topic: TopicInfo, number: int) -> dict[str, Any]:
    known = topic.partitions[number]
    log = _log(broker, TopicPartition(topic.name, number))
    told: dict[str, Any] = {"partition": number, "leader": known.leader, "leader_epoch": known.leader_epoch}
    told |= {"isr": list(known.isr), "replicas": list(known.replicas), "here": log is not None}
    if log is not None:
        told |= {"log_start_offset": log.log_start_offset, "high_watermark": log.high_watermark}
        told |= {"log_end_offset": log.log_end_offset, "size": log.size, "segments": len(log.segments)}
    return told


def _log(broker: Broker, topic_partition: TopicPartition) -> Log | None:
    partition = broker.replicas.partition(topic_partition)
    return None if partition is None else partition.log


# Messages


async def messages(broker: Broker, query: Query) -> dict[str, Any]:
    """Records of a replica on this broker: from ``offset`` on, from the time ``at`` (milliseconds) on, or the last
    ones; with ``key`` only records with that key. Bytes are in base64."""
    key = TopicPartition(query.get("topic", ""), _number(query, "partition", 0, 0, 2**31 - 1))
    log = _log(broker, key)
    if log is None:
        known = broker.metadata.partition(key)
        raise NotSeen(
            404, f"there is no {key}" if known is None else f"{key} is not on this broker, but on {known.replicas}"
        )
    limit = _number(query, "limit", 50, 1, MESSAGES_MAX)
    sought = query["key"].encode() if query.get("key") else None
    start, end = log.log_start_offset, log.high_watermark
    offset = await _first_offset(broker, key, query, start, end, limit)
    found: list[dict[str, Any]] = []
    searched = shown = 0
    while offset < end and len(found) < limit and searched < SEARCHED_BYTES_MAX and shown < SHOWN_BYTES_MAX:
        data = _read(log, offset, end)
        if not data:
            break
        for record in _records(data):
            if record is None:
                await _turn(broker)
                continue
            if record.offset < offset:
                continue
            if (
                len(found) >= limit
                or record.offset >= end
                or searched >= SEARCHED_BYTES_MAX
                or shown >= SHOWN_BYTES_MAX
            ):
                break
            offset = record.offset + 1
            size = len(record.key or b"") + len(record.value or b"")
            searched += size + RECORD_BYTES
            if sought is None or record.key == sought:
                found.append(_message(record))
                shown += size
        else:
            offset = max(offset, _end_of(data))
        await _turn(broker)
    told = {"topic": key.topic, "partition": key.partition, "log_start_offset": start, "high_watermark": end}
    return {**told, "next_offset": min(offset, end), "messages": found}


def _turn(broker: Broker) -> Awaitable[None]:
    return broker.request_channel.long_requests.turns.next(passing=True)


async def _first_offset(broker: Broker, key: TopicPartition, query: Query, start: int, end: int, limit: int) -> int:
    if query.get("at"):
        timestamp = _number(query, "at", 0, 0, 2**63 - 1)
        searching = broker.replicas.partition_or_raise(key).searching(timestamp, NO_EPOCH, only_leader=False)
        try:
            while True:
                next(searching)
                await _turn(broker)
        except StopIteration as found:
            return end if found.value is None else found.value.offset
        except KafkaError as error:
            raise NotSeen(503, f"{key} cannot be searched by time now: {error.code.name}") from None
    last = start if query.get("key") else max(start, end - limit)
    return min(max(_number(query, "offset", last, 0, 2**63 - 1), start), end)


def _read(log: Log, offset: int, end: int) -> bytes:
    try:
        return bytes(log.read(offset, READ_BYTES, bound=end))
    except KafkaError as error:
        raise NotSeen(
            503, f"{log.topic_partition} cannot be read at offset {offset}: {error.message or error.code.name}"
        ) from None


def _records(data: bytes) -> Iterator[Record | None]:
    """The records of all batches except control batches. None marks a point at which the loop may do other work."""
    try:
        for header, first, last in batches(data):
            if not header.is_control:
                yield from records_in_turns(header, memoryview(data)[first:last], headers_max=LIMIT)
    except WireError as error:
        raise NotSeen(503, f"a batch cannot be read: {error}") from None


def _end_of(data: bytes) -> int:
    return max((header.base_offset + header.last_offset_delta + 1 for header, _, _ in batches(data)), default=0)


def _message(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _shown(record.key),
        "value": _shown(record.value),
        "size": len(record.value or b""),
        "headers": [[name, _shown(value)] for name, value in record.headers],
    }


def _shown(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data[:MESSAGE_BYTES_MAX]).decode()


# Groups


async def groups(broker: Broker, query: Query, lag: GroupLag) -> dict[str, Any]:
    """The groups that this broker coordinates; with ``group`` its members, and its lag by partition."""
    lag.want()
    found = {
        name: group for part in broker.groups.owned for name, group in part.groups.items() if group.state is not DEAD
    }
    wanted = query.get("group")
    if wanted is not None:
        if wanted not in found:
            raise NotSeen(404, f"this broker does not coordinate a group {wanted}")
        return await _group(
            found[wanted], [partition_lag for partition_lag in lag.known if partition_lag.group == wanted], broker
        )
    names, part = _part(found, query)
    lags: dict[str, int] = {}
    for partition_lag in lag.known:
        lags[partition_lag.group] = lags.get(partition_lag.group, 0) + (partition_lag.records or 0)
    listed = [{**_listed(found[name]), "lag": lags.get(name)} for name in names]
    return {**part, "groups": listed, "elsewhere": _other_coordinators(broker)}


def _listed(group: Group) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "members": len(group.members),
        "generation": group.generation_id,
        "partitions": len(group.offsets.committed),
    }


async def _group(group: Group, lags: Sequence[PartitionLag], broker: Broker) -> dict[str, Any]:
    now_ms = broker.runtime.clock.now_ms()
    consumers = group.protocol_type == "consumer"
    members = []
    for member in list(group.members.values())[:LIMIT_MAX]:
        readable = consumers and len(member.assignment) <= ASSIGNMENT_BYTES_MAX
        members.append(
            {
                "member_id": member.member_id,
                "instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "host": member.client_host,
                "assignment": [str(partition) for partition in read_assignment(member.assignment)[:LIMIT]]
                if readable
                else [],
            }
        )
        if readable and len(member.assignment) > LIMIT_MAX:
            await _turn(broker)
    known = {lag.topic_partition: lag for lag in lags}
    offsets = []
    for key, committed in sorted(group.offsets.committed.items())[:LIMIT_MAX]:
        lag = known.get(key)
        offsets.append(
            {
                "topic": key.topic,
                "partition": key.partition,
                "committed": committed.committed.offset,
                "end": None if lag is None else lag.end,
                "lag": None if lag is None else lag.records,
                "behind_s": None if lag is None else lag.seconds(now_ms),
            }
        )
    return {**_listed(group), "member_list": members, "offsets": offsets}


def _other_coordinators(broker: Broker) -> list[int]:
    """The brokers that coordinate the other groups."""
    topic = broker.metadata.image.topics.get(GROUP_METADATA_TOPIC)
    leaders = set() if topic is None else {partition.leader for partition in topic.partitions.values()}
    return sorted(leaders - {broker.broker_id, NO_BROKER})


# Transactions and producers


async def transactions(broker: Broker, query: Query) -> dict[str, Any]:
    """The transactional ids that this broker coordinates, and the idempotent producers whose state its replicas
    keep."""
    coordinator = broker.transactions.coordinator
    try:
        _, listings = coordinator.list_transactions()
    except KafkaError as error:
        raise NotSeen(503, f"transactions are not known yet: {error.code.name}") from None
    names, part = _part((listing.transactional_id for listing in listings), query)
    listed = []
    for name in names:
        metadata = coordinator.describe(name)
        listed.append(
            {
                "transactional_id": name,
                "state": metadata.state.title,
                "producer_id": metadata.producer_id,
                "producer_epoch": metadata.producer_epoch,
                "timeout_ms": metadata.timeout_ms,
                "start_ms": metadata.start_ms,
                "partitions": [str(partition) for partition in sorted(metadata.partitions)[:LIMIT]],
            }
        )
    return {**part, "transactions": listed, "producers": await _producers(broker)}


async def _producers(broker: Broker) -> list[dict[str, Any]]:
    """The producers that wrote last, the newest first."""
    found: list[dict[str, Any]] = []
    for at, (key, log) in enumerate(list(broker.log_dirs.logs.items()), 1):
        for entry in list(log.producers.entries.values())[:LIMIT]:
            told = {"partition": str(key), "producer_id": entry.producer_id, "producer_epoch": entry.producer_epoch}
            told |= {"last_sequence": entry.last_sequence, "last_offset": entry.last_offset}
            open_since = entry.current_txn_first_offset
            told |= {
                "last_timestamp": entry.last_timestamp,
                "open_since_offset": open_since if open_since >= 0 else None,
            }
            found.append(told)
        if not at % SLICE:
            await _turn(broker)
    found.sort(key=lambda told: told["last_timestamp"], reverse=True)
    return found[:LIMIT]


# ZooKeeper


async def znodes(broker: Broker, query: Query) -> dict[str, Any]:
    """The znode at ``path``: its data, and the names of its children."""
    path = query.get("path", "/")
    try:
        data, stat, children = await broker.znode(path)
    except ZooKeeperError as error:
        raise NotSeen(404, f"{path} cannot be read: {type(error).__name__}") from None
    except ValueError as error:
        raise NotSeen(400, f"{path} is not a path: {error}") from None
    names, part = _part(children, query)
    secret = any(path == prefix or path.startswith(f"{prefix}/") for prefix in SECRETS)
    told = {"path": path, **part, "children": names, "stat": _stat(stat)}
    if secret and data:
        return {**told, "data": None, "hidden": f"{len(data)} bytes that may contain a secret"}
    return {**told, "data": None if data is None else data[:ZNODE_BYTES_MAX].decode(errors="replace")}


def _stat(stat: Stat) -> dict[str, Any]:
    return {
        "version": stat.version,
        "czxid": stat.czxid,
        "mzxid": stat.mzxid,
        "ephemeral_owner": f"{stat.ephemeral_owner:#x}" if stat.ephemeral_owner else None,
        "children": stat.num_children,
        "bytes": stat.data_length,
    }


# Configurations


async def configurations(broker: Broker, query: Query) -> dict[str, Any]:
    """The configuration of this broker or of ``topic``: value, default, and the value's source; with ``changed=1`` only
    entries that were set."""
    topic = query.get("topic")
    if topic:
        if topic not in broker.metadata.image.topics:
            raise NotSeen(404, f"there is no topic {topic}")
        try:
            entries = broker.config_layers.describe_topic(await broker.topics.configs(topic))
        except ZooKeeperError as error:
            raise NotSeen(503, f"the configuration of {topic} cannot be read: {error}") from None
    else:
        entries = broker.config_layers.describe_broker()
    changed = query.get("changed") == "1"
    told = [_entry(entry) for entry in entries]
    by_name = {shown["name"]: shown for shown in told if shown["changed"] or not changed}
    names, part = _part(by_name, {"limit": str(LIMIT_MAX), **query})
    return {**part, "topic": topic, "configurations": [by_name[name] for name in names]}


def _entry(entry: Entry) -> dict[str, Any]:
    default = entry.synonyms[-1] if entry.synonyms else None
    source = entry.source.name
    return {
        "name": entry.definition.name,
        "value": None if entry.sensitive else entry.value,
        "sensitive": entry.sensitive,
        "source": source,
        "changed": source != "DEFAULT_CONFIG",
        "default": None if default is None or default.source.name != "DEFAULT_CONFIG" else default.value,
        "read_only": entry.read_only,
        "doc": entry.definition.doc,
    }


Page = Callable[[Broker, Query], Awaitable[Mapping[str, Any]]]

PAGES: Final[dict[str, Page]] = {
    "/topics": topics,
    "/messages": messages,
    "/transactions": transactions,
    "/znodes": znodes,
    "/configurations": configurations,
}
"""The function that answers each path, except ``/groups``, which also needs the lag."""
