"""The metrics of a broker: a table of names, of Kafka's names, and of the function that reads each at a scrape.

A name is Kafka's MBean in the form that Prometheus' JMX exporter gives it: domain, type and name in lower case, with
``_`` between them; ``…PerSec`` is a counter, and ends in ``_total``. Barnabas' own metrics begin with ``barnabas_``.
This module keeps nothing between two scrapes: a row reads plain integers that the broker has anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any, Final, NamedTuple

from barnabas.broker.server import Broker
from barnabas.controller.events import ControllerState
from barnabas.controller.reign import Reign
from barnabas.controller.states import ReplicaState
from barnabas.coordinator.group_values import GroupState
from barnabas.log.log import Log
from barnabas.model.errors import ErrorCode
from barnabas.runtime import Histogram


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


class Total(NamedTuple):
    """A count and a sum: the values of a summary without quantiles."""

    times: int
    amount: float


Value = int | float | Histogram | Total
Reading = tuple[tuple[str, ...], Value]
"""The labels' values, in the order of `Metric.labels`, and the value."""


class Metric(NamedTuple):
    """One metric. `mbean` is Kafka's name; empty if Kafka has none."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    mbean: str
    help: str
    read: Callable[[Broker], Iterable[Reading]]


def name_of(mbean: str) -> str:
    """``kafka.server:type=ReplicaManager,name=IsrShrinksPerSec`` is ``kafka_server_replicamanager_isrshrinks``."""
    domain, _, keys = mbean.partition(":")
    words = dict(pair.split("=", 1) for pair in keys.split(",") if "=" in pair)
    name = words.get("name", "").removesuffix("PerSec")
    parts = [domain.replace(".", "_"), words["type"], name]
    return "_".join(part for part in parts if part).lower().replace("-", "_")


def _row(kind: Kind, mbean: str, help_: str, read: Callable[[Broker], Any], labels: tuple[str, ...] = ()) -> Metric:
    """A row. Without labels `read` gives one value."""
    if labels:
        return Metric(name_of(mbean), kind, labels, mbean, help_, read)
    return Metric(name_of(mbean), kind, (), mbean, help_, lambda broker: [((), read(broker))])


def _own(kind: Kind, name: str, help_: str, read: Callable[[Broker], Any], labels: tuple[str, ...] = ()) -> Metric:
    row = Metric(f"barnabas_{name}", kind, labels, "", help_, read)
    return row if labels else row._replace(read=lambda broker: [((), read(broker))])


# Requests


def _requests_by_version(broker: Broker) -> Iterator[Reading]:
    for name, figures in broker.request_channel.requests.counted().items():
        for version, count in sorted(figures.requests.items()):
            yield (name, str(version)), count


def _errors(broker: Broker) -> Iterator[Reading]:
    for name, figures in broker.request_channel.requests.counted().items():
        for code, count in sorted(figures.errors.items()):
            yield (name, ErrorCode(code).name), count


def _request_times(part: str) -> Callable[[Broker], Iterator[Reading]]:
    def read(broker: Broker) -> Iterator[Reading]:
        for name, times in broker.request_channel.requests.times(part):
            yield (name,), times

    return read


def _request_bytes(broker: Broker) -> Iterator[Reading]:
    for name, figures in broker.request_channel.requests.counted().items():
        yield (name,), Total(sum(figures.requests.values()), figures.request_bytes)


_REQUESTS: Final = "kafka.network:type=RequestMetrics,name="
_REQUEST: Final = ("request",)

REQUEST_METRICS: Final = (
    _row(
        Kind.COUNTER,
        f"{_REQUESTS}RequestsPerSec",
        "Requests.",
        _requests_by_version,
        ("request", "version"),
    ),
    _row(
        Kind.COUNTER,
        f"{_REQUESTS}ErrorsPerSec",
        "Error codes of answers and of the topics and partitions in them, NONE included.",
        _errors,
        ("request", "error"),
    ),
    _row(Kind.SUMMARY, f"{_REQUESTS}RequestBytes", "Sizes of requests.", _request_bytes, _REQUEST),
    *(
        _row(Kind.HISTOGRAM, f"{_REQUESTS}{name}", help_, _request_times(part), _REQUEST)
        for name, part, help_ in (
            (
                "RequestQueueTimeMs",
                "queue",
                "From a request's arrival until its handling began: earlier requests of the connection come first.",
            ),
            ("LocalTimeMs", "local", "From the begin of handling until the answer, or until the request had to wait."),
            ("RemoteTimeMs", "remote", "Time waited for followers, for records or for the controller."),
            ("ThrottleTimeMs", "throttle", "How long a quota made a client wait."),
            (
                "ResponseQueueTimeMs",
                "response_queue",
                "From the answer until it could be sent: answers to earlier requests come first.",
            ),
            ("ResponseSendTimeMs", "send", "Time to hand an answer to the kernel."),
            ("TotalTimeMs", "total", "From a request's arrival until its answer was handed to the kernel."),
        )
    ),
)

# Replicas


def _logs(broker: Broker) -> Iterable[Log]:
    return broker.log_dirs.logs.values()


_REPLICAS: Final = "kafka.server:type=ReplicaManager,name="
_PURGATORY: Final = "kafka.server:type=DelayedOperationPurgatory,name="


def _purgatories(broker: Broker) -> Iterator[Reading]:
    replicas = broker.replicas
    yield ("Produce",), replicas.purgatories.produce.delayed
    yield ("Fetch",), replicas.purgatories.follower_fetch.delayed + replicas.purgatories.consumer_fetch.delayed
    yield ("DeleteRecords",), replicas.purgatories.delete_records.delayed
    groups = [group for part in broker.groups.owned for group in part.groups.values()]
    yield ("Rebalance",), sum(group.state is GroupState.PREPARING_REBALANCE for group in groups)
    yield ("Heartbeat",), sum(len(group.members) for group in groups)


REPLICA_METRICS: Final = (
    *(
        _row(Kind.GAUGE, f"{_REPLICAS}{name}", help_, read)
        for name, help_, read in (
            ("PartitionCount", "Partitions of which this broker has a replica.", lambda b: len(b.replicas.partitions)),
            (
                "OfflineReplicaCount",
                "Replicas in failed log directories.",
                lambda b: len(b.replicas.offline_partitions),
            ),
            (
                "ProducerIdCount",
                "Idempotent producers whose state the logs keep.",
                lambda b: sum(log.producers.count for log in _logs(b)),
            ),
        )
    ),
    *(
        _row(Kind.COUNTER, f"{_REPLICAS}{name}", help_, read)
        for name, help_, read in (
            ("IsrShrinksPerSec", "Shrinks of ISRs.", lambda b: b.replicas.isr_shrinks),
            ("IsrExpandsPerSec", "Expansions of ISRs.", lambda b: b.replicas.isr_expands),
            (
                "FailedIsrUpdatesPerSec",
                "Changes of ISRs that the controller refused.",
                lambda b: b.replicas.failed_isr_updates,
            ),
        )
    ),
    *(
        _row(Kind.GAUGE, f"{_PURGATORY}{name}", help_, _purgatories, ("delayedOperation",))
        for name, help_ in (
            ("NumDelayedOperations", "Requests that wait in the purgatory."),
            ("PurgatorySize", "Equal to NumDelayedOperations: a completed request leaves the purgatory at once."),
        )
    ),
    _row(
        Kind.GAUGE,
        "kafka.server:type=ReplicaFetcherManager,name=FailedPartitionsCount",
        "Partitions that this broker follows and cannot copy, as an error stopped their fetcher.",
        lambda b: len(b.replicas.fetchers.failed_partitions),
    ),
    _row(
        Kind.GAUGE,
        "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
        "Fetch sessions.",
        lambda b: len(b.replicas.fetch_sessions),
    ),
    _row(
        Kind.GAUGE,
        "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached",
        "Partitions in all fetch sessions.",
        lambda b: b.replicas.fetch_sessions.partitions,
    ),
    _row(
        Kind.COUNTER,
        "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec",
        "Fetch sessions that were evicted for new ones.",
        lambda b: b.replicas.fetch_sessions.evictions,
    ),
)

# Logs


def _by_directory(read: Callable[[Broker, str], int]) -> Callable[[Broker], Iterator[Reading]]:
    def readings(broker: Broker) -> Iterator[Reading]:
        for path in broker.log_dirs.paths:
            yield (path,), read(broker, path)

    return readings


def _uncleanable(broker: Broker, path: str) -> list[Log]:
    return [log for log in broker.log_dirs.all_logs if log.uncleanable is not None and log.log_dir.path == path]


_DIRECTORY: Final = ("logDirectory",)

LOG_METRICS: Final = (
    _row(
        Kind.HISTOGRAM,
        "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
        "Flushes of logs to the disk.",
        lambda b: b.log_dirs.flushes,
    ),
    _row(
        Kind.GAUGE,
        "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
        "Failed log directories.",
        lambda b: len(b.log_dirs.offline_paths),
    ),
    _row(
        Kind.GAUGE,
        "kafka.log:type=LogManager,name=LogDirectoryOffline",
        "1 for a failed log directory.",
        _by_directory(lambda b, path: int(not b.log_dirs.is_online(path))),
        _DIRECTORY,
    ),
    _row(
        Kind.GAUGE,
        "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
        "Logs that cannot be compacted and grow until the broker starts again.",
        _by_directory(lambda b, path: len(_uncleanable(b, path))),
        _DIRECTORY,
    ),
    _row(
        Kind.GAUGE,
        "kafka.log:type=LogCleanerManager,name=uncleanable-bytes",
        "Bytes of the logs that cannot be compacted.",
        _by_directory(lambda b, path: sum(log.size for log in _uncleanable(b, path))),
        _DIRECTORY,
    ),
)

# Controller

_CONTROLLER: Final = "kafka.controller:type=KafkaController,name="
_STATS: Final = "kafka.controller:type=ControllerStats,name="
_UNTIMED: Final = (ControllerState.Idle, ControllerState.UpdateMetadataResponseReceived)
_RATES: Final = {state: state.name for state in ControllerState if state not in _UNTIMED} | {
    ControllerState.BrokerChange: "LeaderElection",
    ControllerState.AlterPartitionReassignment: "PartitionReassignment",
}
"""Kafka's names of timers, by the state of the timed events (``ControllerState.rateAndTimeMetricName``)."""


def _event_times(state: ControllerState) -> Callable[[Broker], Total]:
    def read(broker: Broker) -> Total:
        figures = broker.controller.event_manager.figures[state]
        return Total(figures.count, figures.total_ms)

    return read


def _queue_times(broker: Broker) -> Total:
    figures = broker.controller.event_manager.figures.values()
    return Total(sum(figure.count for figure in figures), sum(figure.queue_total_ms for figure in figures))


def _of_reign(read: Callable[[Reign], int]) -> Callable[[Broker], int]:
    """Reads a value of the controller; 0 on other brokers, as in Kafka."""

    def reading(broker: Broker) -> int:
        reign = broker.controller.reign
        return 0 if reign is None else read(reign)

    return reading


def _replicas_to_delete(reign: Reign, *, ineligible: bool) -> int:
    context = reign.context
    states = [
        context.replica_state(replica)
        for topic in context.topics_to_be_deleted
        for replica in context.replicas_for_topic(topic)
    ]
    if ineligible:
        return sum(state is ReplicaState.ReplicaDeletionIneligible for state in states)
    return sum(state is not ReplicaState.ReplicaDeletionSuccessful for state in states)


def _channel_queues(broker: Broker) -> Iterator[Reading]:
    reign = broker.controller.reign
    if reign is not None:
        for broker_id, size in reign.channels.queue_sizes().items():
            yield (str(broker_id),), size


CONTROLLER_METRICS: Final = (
    *(
        _row(Kind.GAUGE, f"{_CONTROLLER}{name}", help_, read)
        for name, help_, read in (
            (
                "ActiveControllerCount",
                "1 on the controller, 0 on other brokers.",
                lambda b: int(b.controller.is_active),
            ),
            (
                "ControllerState",
                "The number of Kafka's ControllerState, for the event that the controller handles.",
                lambda b: b.controller.event_manager.state.value,
            ),
            (
                "ActiveBrokerCount",
                "Live brokers.",
                _of_reign(lambda r: len(r.context.live_or_shutting_down_broker_ids)),
            ),
            ("GlobalTopicCount", "Topics.", _of_reign(lambda r: len(r.context.all_topics))),
            (
                "GlobalPartitionCount",
                "Partitions.",
                _of_reign(lambda r: len(r.context.partitions_leadership_info)),
            ),
            (
                "OfflinePartitionsCount",
                "Partitions without a leader.",
                _of_reign(lambda r: r.context.offline_partition_count()),
            ),
            (
                "PreferredReplicaImbalanceCount",
                "Partitions whose leader is not the preferred replica.",
                _of_reign(lambda r: r.context.preferred_replica_imbalance_count()),
            ),
            (
                "TopicsToDeleteCount",
                "Topics whose deletion is under way.",
                _of_reign(lambda r: len(r.context.topics_to_be_deleted)),
            ),
            (
                "TopicsIneligibleToDeleteCount",
                "Topics whose deletion has to wait.",
                _of_reign(lambda r: len(r.context.topics_ineligible_for_deletion)),
            ),
            (
                "ReplicasToDeleteCount",
                "Replicas that will be deleted.",
                _of_reign(lambda r: _replicas_to_delete(r, ineligible=False)),
            ),
            (
                "ReplicasIneligibleToDeleteCount",
                "Replicas that cannot be deleted now.",
                _of_reign(lambda r: _replicas_to_delete(r, ineligible=True)),
            ),
            (
                "ZkMigrationState",
                "Always 4 (ZK): this controller works by ZooKeeper. KRaft's controllers show a migration's state.",
                lambda _: 4,
            ),
        )
    ),
    *(
        _row(
            Kind.SUMMARY,
            f"{_STATS}{name}RateAndTimeMs",
            f"Events of the kind {state}, and their time.",
            _event_times(state),
        )
        for state, name in _RATES.items()
    ),
    _row(
        Kind.COUNTER,
        f"{_STATS}UncleanLeaderElectionsPerSec",
        "Elections of a leader outside of the ISR, which may lose records.",
        lambda b: b.controller.unclean_leader_elections,
    ),
    _row(
        Kind.GAUGE,
        "kafka.controller:type=ControllerEventManager,name=EventQueueSize",
        "Events that wait in the controller's queue.",
        lambda b: b.controller.event_manager.event_queue_size,
    ),
    _row(
        Kind.SUMMARY,
        "kafka.controller:type=ControllerEventManager,name=EventQueueTimeMs",
        "How long events waited in the controller's queue.",
        _queue_times,
    ),
    _row(
        Kind.GAUGE,
        "kafka.controller:type=ControllerChannelManager,name=TotalQueueSize",
        "Requests to brokers that wait to be sent.",
        _of_reign(lambda r: sum(r.channels.queue_sizes().values())),
    ),
    _row(
        Kind.GAUGE,
        "kafka.controller:type=ControllerChannelManager,name=QueueSize",
        "Requests that wait to be sent, by broker.",
        _channel_queues,
        ("broker_id",),
    ),
    _own(
        Kind.GAUGE,
        "controller_id",
        "The controller as this broker knows it; -1 for none.",
        lambda b: b.controller.active_controller_id,
    ),
    _own(Kind.GAUGE, "controller_epoch", "The controller's epoch; 0 on other brokers.", lambda b: b.controller.epoch),
)

# Groups, ZooKeeper, connections, the process

_GROUPS: Final = "kafka.coordinator.group:type=GroupMetadataManager,name="


def _groups_in(state: GroupState) -> Callable[[Broker], int]:
    return lambda broker: sum(group.state is state for part in broker.groups.owned for group in part.groups.values())


def _by_listener(broker: Broker) -> Iterator[Reading]:
    counts: dict[str, int] = {endpoint.listener: 0 for endpoint in broker.listeners.bound}
    for connection in broker.connections:
        counts[connection.listener] = counts.get(connection.listener, 0) + 1
    for listener, count in counts.items():
        yield (listener,), count


def _zookeeper(name: str) -> Callable[[Broker], int]:
    return lambda broker: broker.zookeeper_status()[name]


def _unreadable(broker: Broker) -> Iterator[Reading]:
    for kind, count in broker.unreadable().items():
        yield (kind,), count


def _session_states(broker: Broker) -> Iterator[Reading]:
    now = broker.zookeeper_status()["state"]
    for state in ("CONNECTING", "CONNECTED", "EXPIRED", "AUTH_FAILED", "CLOSED"):
        yield (state,), int(state == now)


_BROKER_STATES: Final = {"STARTING": 1, "WAITING_FOR_REGISTRATION": 1, "RUNNING": 3, "SHUTTING_DOWN": 7}

OTHER_METRICS: Final = (
    _row(
        Kind.GAUGE,
        f"{_GROUPS}NumGroups",
        "Groups that this broker coordinates.",
        lambda b: sum(len(part.groups) for part in b.groups.owned),
    ),
    *(
        _row(Kind.GAUGE, f"{_GROUPS}NumGroups{state.value}", f"Groups in the state {state.value}.", _groups_in(state))
        for state in GroupState
    ),
    _row(
        Kind.GAUGE,
        f"{_GROUPS}NumOffsets",
        "Committed offsets of the groups that this broker coordinates.",
        lambda b: sum(len(group.offsets.committed) for part in b.groups.owned for group in part.groups.values()),
    ),
    Metric(
        "kafka_server_socket_server_metrics_connection_count",
        Kind.GAUGE,
        ("listener",),
        "kafka.server:type=socket-server-metrics,listener=<L>,networkProcessor=<N>: connection-count",
        "Open connections.",
        _by_listener,
    ),
    _row(
        Kind.GAUGE,
        "kafka.server:type=KafkaServer,name=BrokerState",
        "1 starting, 3 running, 7 shutting down.",
        lambda b: _BROKER_STATES[b.state],
    ),
    Metric(
        "kafka_server_kafkaserver_clusterid",
        Kind.GAUGE,
        ("clusterid",),
        "kafka.server:type=KafkaServer,name=ClusterId",
        "Always 1; the label is the cluster's id.",
        lambda b: [((b.cluster_id,), 1)],
    ),
    _row(
        Kind.GAUGE,
        "kafka.server:type=SessionExpireListener,name=SessionState",
        "1 for the present state of the ZooKeeper session.",
        _session_states,
        ("state",),
    ),
    _row(
        Kind.COUNTER,
        "kafka.server:type=SessionExpireListener,name=ZooKeeperDisconnectsPerSec",
        "Connections to ZooKeeper that were lost.",
        _zookeeper("disconnects"),
    ),
    _row(
        Kind.COUNTER,
        "kafka.server:type=SessionExpireListener,name=ZooKeeperExpiresPerSec",
        "Sessions that expired.",
        _zookeeper("expires"),
    ),
    _row(
        Kind.COUNTER,
        "kafka.server:type=SessionExpireListener,name=ZooKeeperAuthFailuresPerSec",
        "Credentials that ZooKeeper refused.",
        _zookeeper("auth_failures"),
    ),
    _row(
        Kind.SUMMARY,
        "kafka.server:type=ZooKeeperClientMetrics,name=ZooKeeperRequestLatencyMs",
        "Requests to ZooKeeper, and their time from sending to the answer.",
        lambda b: Total(b.zookeeper_status()["requests"], b.zookeeper_status()["latency_total_ms"]),
    ),
    _own(Kind.COUNTER, "unreadable", "Stored entries that could not be read and were skipped.", _unreadable, ("kind",)),
    _row(
        Kind.GAUGE,
        "kafka.network:type=SocketServer,name=MemoryPoolUsed",
        "Bytes of requests that have begun to arrive and are not handled yet.",
        lambda b: b.request_channel.memory.held,
    ),
)

METRICS: Final[tuple[Metric, ...]] = (
    *REQUEST_METRICS,
    *REPLICA_METRICS,
    *LOG_METRICS,
    *CONTROLLER_METRICS,
    *OTHER_METRICS,
)
