"""The state of one broker as plain values: the admin endpoint's answers, from which the web page is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from barnabas.broker.server import Broker
from barnabas.controller.states import VALID_PREVIOUS_PARTITION_STATES, VALID_PREVIOUS_REPLICA_STATES
from barnabas.controller.status import controller_status, partition_status
from barnabas.replica.partition import Partition
from barnabas.replica.progress import NEVER_MS

Query = Mapping[str, str]


class NotSeen(Exception):
    """There is nothing to show. The text tells why; `status` is the HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def status(broker: Broker, query: Query) -> dict[str, Any]:
    """The broker's own state."""
    return {
        **broker.status(),
        "cluster_id": broker.cluster_id,
        "broker_epoch": broker.broker_epoch,
        "listeners": [str(listener) for listener in broker.listeners.advertised],
        "log_dirs": {path: broker.log_dirs.is_online(path) for path in broker.log_dirs.paths},
        "uncleanable_partitions": {
            str(partition): log.uncleanable
            for partition, log in broker.log_dirs.logs.items()
            if log.uncleanable is not None
        },
        "connections": len(broker.connections),
        "purgatories": {
            "produce": broker.replicas.purgatories.produce.delayed,
            "follower_fetch": broker.replicas.purgatories.follower_fetch.delayed,
            "consumer_fetch": broker.replicas.purgatories.consumer_fetch.delayed,
            "delete_records": broker.replicas.purgatories.delete_records.delayed,
        },
        "controller": {"active_controller_id": broker.controller.active_controller_id},
    }


def controller(broker: Broker, query: Query) -> dict[str, Any]:
    """The controller: its epoch, the present event, the queue and, on the active controller, its state of the
    cluster."""
    return controller_status(broker.controller)


def partitions(broker: Broker, query: Query) -> list[dict[str, Any]]:
    """The controller's state of each partition and of each replica; ``topic`` names one topic."""
    reign = broker.controller.reign
    if reign is None:
        raise NotSeen(409, f"broker {broker.broker_id} is not the controller; {_who_is(broker)}")
    topic = query.get("topic")
    if topic is not None and topic not in reign.context.all_topics:
        raise NotSeen(404, f"the controller knows no topic {topic}")
    topics = [topic] if topic is not None else sorted(reign.context.all_topics)
    return [state for name in topics for state in partition_status(reign, name)]


def _who_is(broker: Broker) -> str:
    active = broker.controller.active_controller_id
    return f"broker {active} is" if active >= 0 else "there is none now"


def replicas(broker: Broker, query: Query) -> list[dict[str, Any]]:
    """This broker's replicas: leader or follower, epochs, offsets, and a leader's state of its followers."""
    topic = query.get("topic")
    now_ms = broker.runtime.clock.monotonic_ms()
    return [
        _replica(broker, partition, now_ms)
        for partition in sorted(broker.replicas.partitions, key=lambda partition: partition.topic_partition)
        if topic in (None, partition.topic_partition.topic)
    ]


def _replica(broker: Broker, partition: Partition, now_ms: int) -> dict[str, Any]:
    log = partition.log
    fetcher = broker.replicas.fetchers.state(partition.topic_partition)
    return {
        "topic": partition.topic_partition.topic,
        "partition": partition.topic_partition.partition,
        "role": "leader" if partition.is_leader else "follower" if log is not None else "offline",
        "leader": partition.leader_id,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "isr": sorted(partition.isr_state.isr),
        "maximal_isr": sorted(partition.isr_state.maximal_isr),
        "isr_state": type(partition.isr_state).__name__,
        "high_watermark": None if log is None else log.high_watermark,
        "last_stable_offset": None if log is None else log.last_stable_offset,
        "log_start_offset": None if log is None else log.log_start_offset,
        "log_end_offset": None if log is None else log.log_end_offset,
        "lag": None if fetcher is None else fetcher.lag,
        "followers": {
            str(broker_id): {
                "log_end_offset": progress.log_end_offset,
                "caught_up_ms_ago": _caught_up_ms_ago(partition, broker_id, now_ms),
            }
            for broker_id, progress in partition.progress.items()
        },
    }


def _caught_up_ms_ago(partition: Partition, broker_id: int, now_ms: int) -> int | None:
    """How long ago a follower had all records; None if this leader has not seen that yet."""
    if broker_id in partition.resting:
        return 0
    caught_up_ms = partition.progress[broker_id].last_caught_up_ms
    return None if caught_up_ms == NEVER_MS else now_ms - caught_up_ms


def state_changes(broker: Broker, query: Query) -> list[dict[str, Any]]:
    """The newest lines of the state-change log, oldest first."""
    return [{"ms": ms, "line": line} for ms, line in broker.controller.log.since(0)]


def transitions(broker: Broker, query: Query) -> dict[str, dict[str, list[str]]]:
    """The two state machines as tables: the valid previous states of each state."""
    return {
        "partition": {str(to): list(map(str, previous)) for to, previous in VALID_PREVIOUS_PARTITION_STATES.items()},
        "replica": {str(to): list(map(str, previous)) for to, previous in VALID_PREVIOUS_REPLICA_STATES.items()},
    }


VIEWS: Final[dict[str, Callable[[Broker, Query], Any]]] = {
    "/status": status,
    "/controller": controller,
    "/partitions": partitions,
    "/replicas": replicas,
    "/state-changes": state_changes,
    "/transitions": transitions,
}
"""The function that answers each path. ``/events`` is missing: it is a stream."""
