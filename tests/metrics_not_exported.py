"""Kafka's metrics that are not here, each with the reason."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

_NO_THREADS = "a broker is one loop: it has no such threads; `barnabas_loop_lag_ms` says how busy the loop is"
_NO_QUEUE = "requests begin as they arrive: there is no queue between threads; RequestQueueTimeMs has what waits"
_NO_QUOTAS = "this is the state of Kafka's quota threads; ThrottleTimeMs has what clients are told"
_SELECTOR = (
    "the inside of Java's selector; RequestMetrics has requests, bytes and times, connection-count the connections"
)
_KRAFT = "always 0 with ZooKeeper"
_IN_LOG = "counted as errors of Produce (ErrorsPerSec), and told in the log"
_CLEANER = "of cleaner threads; the log has a line with keys, records, bytes and time of each pass"
_ONE_SESSION = "this authorizer has no session of its own: the broker's is SessionExpireListener"
_CONVERSION = "converting from and to older formats is part of LocalTimeMs; RequestsPerSec has who asks by old versions"
_AWAITED = "such a request waits in its own story and in no purgatory: RemoteTimeMs has how long"

NOT_EXPORTED: Final[dict[str, str]] = {
    "kafka.controller:type=ControllerChannelManager,name=RequestRateAndQueueTimeMs,*": (
        "the brokers' own times of LeaderAndIsr, UpdateMetadata and StopReplica say more; QueueSize has what waits"
    ),
    "kafka.controller:type=KafkaController,name=FencedBrokerCount": _KRAFT,
    "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,*": (
        "`barnabas transaction list --state PrepareCommit`, or PrepareAbort, names those whose markers are under way"
    ),
    "kafka.log:type=LogCleaner,*": _CLEANER,
    "kafka.log:type=LogCleanerManager,name=max-dirty-percent": _CLEANER,
    "kafka.log:type=LogCleanerManager,name=time-since-last-run-ms": _CLEANER,
    "kafka.network:type=Acceptor,*": _NO_THREADS,
    "kafka.network:type=Processor,*": _NO_THREADS,
    "kafka.network:type=RequestChannel,*": _NO_QUEUE,
    "kafka.network:type=RequestMetrics,name=MessageConversionsTimeMs,*": _CONVERSION,
    "kafka.network:type=RequestMetrics,name=TemporaryMemoryBytes,*": _CONVERSION,
    "kafka.network:type=SocketServer,name=*IdlePercent": _NO_THREADS,
    "kafka.network:type=SocketServer,name=*ExpiredConnectionsKilledCount": "told in the log",
    "kafka.network:type=SocketServer,name=MemoryPoolAvailable": "queued.max.request.bytes less MemoryPoolUsed",
    "kafka.security:type=AclAuthorizer,*": _ONE_SESSION,
    "kafka.server:type=AddPartitionsManager-channel-metrics": _SELECTOR,
    "kafka.server:type=AddPartitionsToTxnManager,*": "AddPartitionsToTxn of the coordinator has times and errors",
    "kafka.server:type=BrokerTopicMetrics,name=*MessageConversionsPerSec": _CONVERSION,
    "kafka.server:type=BrokerTopicMetrics,name=Invalid*": _IN_LOG,
    "kafka.server:type=BrokerTopicMetrics,name=NoKeyCompactedTopicRecordsPerSec": _IN_LOG,
    "kafka.server:type=BrokerTopicMetrics,name=Reassignment*": "it is part of ReplicationBytesInPerSec and …OutPerSec",
    "kafka.server:type=ControllerMutation*": _NO_QUOTAS,
    "kafka.server:type=DelayedFetchMetrics,*": "RemoteTimeMs of the fetches shows who waited in vain",
    "kafka.server:type=DelayedOperationPurgatory,name=*,delayedOperation=AlterAcls": _AWAITED,
    "kafka.server:type=DelayedOperationPurgatory,name=*,delayedOperation=ElectLeader": _AWAITED,
    "kafka.server:type=DelayedOperationPurgatory,name=*,delayedOperation=RemoteFetch": "there is no tiered storage",
    "kafka.server:type=DelayedOperationPurgatory,name=*,delayedOperation=topic": _AWAITED,
    "kafka.server:type=Fetch": _NO_QUOTAS,
    "kafka.server:type=Produce": _NO_QUOTAS,
    "kafka.server:type=Request*": _NO_QUOTAS,
    "kafka.server:type=LeaderReplication": "ReplicationBytesOutPerSec has it, throttled or not",
    "kafka.server:type=FetcherStats,*": "ReplicationBytesInPerSec, and FetchFollower of the leader",
    "kafka.server:type=KafkaRequestHandlerPool,*": _NO_THREADS,
    "kafka.server:type=KafkaServer,name=linux-disk-*": "the node's own exporter has them for the whole machine",
    "kafka.server:type=KafkaServer,name=yammer-metrics-count": "it counts Java's objects of metrics",
    "kafka.server:type=kafka-metrics-count": "it counts Java's objects of metrics",
    "kafka.server:type=MetadataLoader,*": "of KRaft; `barnabas_controller_id` has the controller",
    "kafka.server:type=ReplicaAlterLogDirsManager,*": "`barnabas log dirs` has how far a move between directories is",
    "kafka.server:type=ReplicaFetcherManager,name=DeadThreadCount,*": _NO_THREADS,
    "kafka.server:type=ReplicaFetcherManager,name=MinFetchRate,*": (
        "a fetcher that does not get on is seen by MaxLag and ConsumerLag, and by whom the leader has not in sync"
    ),
    "kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount": (
        "`barnabas transaction hanging` finds them, and who began them"
    ),
    "kafka.server:type=SessionExpireListener,name=ZooKeeperReadOnlyConnectsPerSec": "it never connects read-only",
    "kafka.server:type=SessionExpireListener,name=ZooKeeperS*PerSec": "SessionState and the disconnects say it",
    "kafka.server:type=alter-partition-metrics,*": _SELECTOR,
    "kafka.server:type=app-info*": "`python_info` and `barnabas --version` say what runs",
    "kafka.server:type=controller-channel-metrics,*": _SELECTOR,
    "kafka.server:type=forwarding-metrics,*": _SELECTOR,
    "kafka.server:type=group-coordinator-metrics": "OffsetCommit, JoinGroup, SyncGroup have counts and times",
    "kafka.server:type=replica-fetcher-metrics,*": _SELECTOR,
    "kafka.server:type=socket-server-metrics": _SELECTOR,
    "kafka.server:type=socket-server-metrics,listener=<L>": _SELECTOR,
    "kafka.server:type=socket-server-metrics,clientSoftwareName=*": "a client may call itself anything, so that the "
    "series would have no bound",
    "kafka.server:type=transaction-coordinator-metrics": "the log says how long a partition took to load",
    "kafka.server:type=txn-marker-channel-metrics": _SELECTOR,
    "kafka.utils:type=Throttler,*": _CLEANER,
    "kafka:type=kafka.Log4jController": "`barnabas config alter` and kafka-configs change the levels of loggers",
}
"""By a pattern of their MBeans' names, in the order in which they are looked up."""


def reason(mbean: str) -> str | None:
    """Why there is no such metric; None where there is one, or where nobody has said."""
    return next((why for pattern, why in NOT_EXPORTED.items() if fnmatchcase(mbean, pattern)), None)
