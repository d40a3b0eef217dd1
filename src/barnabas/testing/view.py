"""The events in a test's cluster as a history for the view (``barnabas.web``).

It is made on demand from data that are kept anyway. The coordinator's log has the registrations, the controllers and
each partition's states; the cluster's own history has the high watermarks and the log lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Disk
from barnabas.testing.history import ClusterHistory
from barnabas.web.history import SeenHistory, broker_fact, partition_fact, registered_fact
from barnabas.zk.kafka.znode_json import ZNodeError
from barnabas.zk.kafka.znodes import (
    BrokerIdZNode,
    ControllerEpochZNode,
    ControllerZNode,
    TopicPartitionStateZNode,
    TopicZNode,
)
from barnabas.zk.protocol.data import OpCode
from barnabas.zk.protocol.frames import decode_operation
from barnabas.zk.protocol.ops import Multi, ZkOperation
from barnabas.zk.server.recovery import replay
from barnabas.zk.server.sessions import Sessions
from barnabas.zk.server.snapshot import restore_snapshot
from barnabas.zk.server.tree import DataTree
from barnabas.zk.server.wal import LoggedTransaction, WriteAheadLog

_ALL_OF_IT_MS: Final = 2**53

Told = tuple[int, str, Any]
"""A time, a fact, and its value from then on; a fact without a name is a log line."""


def viewed(history: ClusterHistory, disk: Disk, coordinator_directory: str, made_by: str) -> SeenHistory:
    """The history for the view. Raises `OSError` if the coordinator's directory cannot be read."""
    seen = SeenHistory(made_by, history.began_ms, kept_ms=_ALL_OF_IT_MS)
    told = [*_of_the_coordinator(disk, coordinator_directory, history.began_ms), *_of_the_brokers(history)]
    for ms, name, value in sorted(told, key=lambda item: item[0]):
        if name:
            seen.note(ms, name, value)
        else:
            seen.line(ms, value)
    return seen


def _of_the_brokers(history: ClusterHistory) -> Iterator[Told]:
    for event in list(history.timeline):
        yield event.at_ms, "", f"{event.who}: {event.what}"
    for topic_partition, moves in list(history.high_watermarks.items()):
        for at_ms, _, high_watermark in list(moves):
            yield at_ms, f"offsets/{topic_partition}", {"role": "leader", "high_watermark": high_watermark}


def _of_the_coordinator(disk: Disk, directory: str, began_ms: int) -> Iterator[Told]:
    tree: DataTree[Any] = DataTree()
    sessions: Sessions[Any] = Sessions(timeout_min_ms=1, timeout_max_ms=1)
    _, snapshot, transactions = WriteAheadLog(disk, directory, fsync=False).recover()
    if snapshot is not None:
        restore_snapshot(snapshot, tree, sessions, 0)
        for path in list(tree.nodes):
            yield from _facts(began_ms, path, tree)
    for transaction in transactions:
        touched = _touched(transaction, tree)
        replay(transaction, tree, sessions, 0)
        for path in touched:
            yield from _facts(transaction.time_ms, path, tree)


def _touched(transaction: LoggedTransaction, tree: DataTree[Any]) -> list[str]:
    if transaction.op_code == OpCode.CREATE_SESSION:
        return []
    if transaction.op_code == OpCode.CLOSE_SESSION:
        return tree.ephemerals_of(transaction.session_id)
    return list(_paths(decode_operation(transaction.op_code, transaction.record, 0)))


def _paths(operation: ZkOperation[Any] | None) -> Iterator[str]:
    if isinstance(operation, Multi):
        for part in operation.operations:
            yield from _paths(part)
    else:
        path = getattr(operation, "path", None)
        if path is not None:
            yield path


def _facts(ms: int, path: str, tree: DataTree[Any]) -> Iterator[Told]:
    """The facts in a znode; none if a test wrote unreadable data there."""
    try:
        match path.split("/")[1:]:
            case ["controller"]:
                yield ms, "controller", _controller(tree)
            case ["brokers", "ids", number] if number.isdecimal():
                yield ms, f"broker/{number}", _broker(int(number), tree)
            case ["brokers", "topics", topic, "partitions", number, "state"] if number.isdecimal():
                yield from _partition(ms, TopicPartition(topic, int(number)), tree)
            case ["brokers", "topics", topic]:
                for number in _children(f"{path}/partitions", tree):
                    yield from _partition(ms, TopicPartition(topic, int(number)), tree)
    except ZNodeError:
        return


def _children(path: str, tree: DataTree[Any]) -> list[str]:
    node = tree.nodes.get(path)
    return [] if node is None else [child for child in node.children if child.isdecimal()]


def _data(path: str, tree: DataTree[Any]) -> bytes | None:
    """The znode's data; None if there is no such znode."""
    node = tree.nodes.get(path)
    return None if node is None else node.data or b""


def _controller(tree: DataTree[Any]) -> dict[str, Any] | None:
    data = _data(ControllerZNode.path, tree)
    if data is None:
        return None
    epoch = _data(ControllerEpochZNode.path, tree)
    return {
        "id": ControllerZNode.decode(data).broker_id,
        "epoch": 0 if epoch is None else ControllerEpochZNode.decode(epoch),
    }


def _broker(broker_id: int, tree: DataTree[Any]) -> dict[str, Any]:
    data = _data(BrokerIdZNode.path(broker_id), tree)
    if data is None:
        return broker_fact("", None, up=False)
    return registered_fact(BrokerIdZNode.decode(broker_id, data), up=True)


def _partition(ms: int, topic_partition: TopicPartition, tree: DataTree[Any]) -> Iterator[Told]:
    topic = topic_partition.topic
    data, assigned = _data(TopicPartitionStateZNode.path(topic_partition), tree), _data(TopicZNode.path(topic), tree)
    if data is None or assigned is None:
        yield ms, f"partition/{topic_partition}", None
        yield ms, f"offsets/{topic_partition}", None
        return
    state = TopicPartitionStateZNode.decode(topic_partition, data, 0).leader_and_isr
    assignment = TopicZNode.decode(topic, assigned).assignment.get(topic_partition)
    replicas = () if assignment is None else assignment.replicas
    fact = partition_fact(state.leader, state.leader_epoch, state.isr, replicas)
    yield ms, f"partition/{topic_partition}", fact
