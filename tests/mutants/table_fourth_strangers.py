"""A fourth set of strangers' mutants: thirty small slips in windows, bounds, restarts and rare states.

They were written from the product's code alone, without a look at the simulator or its judges: no checker was written
for them. Where an earlier edit had changed the same place, which a program told, another was chosen. `source` is the
package; `what` tells what a user would see.
"""

from __future__ import annotations

from typing import Final

from mutants.edits import remove, replace
from mutants.mutant import unreported

_LOG: Final = (
    unreported(
        "W1",
        "log",
        "the records of a topic that was made anew are gone when its broker is killed soon after: the log is taken to "
        "begin where its deleted namesake's did",
        remove("log.log_dirs:LogDirs._retire", "self._deleted_from[log.log_dir.path] = None"),
    ),
    unreported(
        "W2",
        "log",
        "a change of a topic's configuration is forgotten where a replica moved to another disk meanwhile: old "
        "records stay, or go too early",
        replace("log.log_dirs:LogDirs.update_topic_config", "(self._logs, self._future)", "(self._logs,)"),
    ),
    unreported(
        "W3",
        "log",
        "a broker takes its disk for broken, or never compacts a topic again, when retention deletes a segment that "
        "is just being compacted",
        remove("log.log_segments:LogSegments.take_out", "self.changed += 1"),
    ),
    unreported(
        "W4",
        "log",
        "readers of committed records get aborted ones after a compaction whose map of keys was full in the middle of "
        "a segment",
        replace("log.cleaner:LogCleaner._clean", "before[-1][1]", "end_offset"),
    ),
    unreported(
        "W5",
        "log",
        "a key that was deleted is back after its replica has moved, slowly, to another disk",
        replace(
            "log.log_dirs:LogDirs.__init__",
            "{partition: log for partition, log in self._logs.items() if partition not in self._future}",
            "self._logs",
        ),
    ),
)

_REPLICA: Final = (
    unreported(
        "W6",
        "replica",
        "a consumer that may read from a follower is told that its offset is out of range, and begins elsewhere: that "
        "follower's log begins later than the leader's",
        replace(
            "replica.readable_partition:ReadablePartition.preferred_read_replica",
            "progress.log_start_offset <= fetch_offset <= progress.log_end_offset",
            "fetch_offset <= progress.log_end_offset",
        ),
    ),
    unreported(
        "W7",
        "replica",
        "a throttled reassignment becomes far slower than its throttle, and hardly ends: what was copied long ago "
        "still counts",
        replace(
            "replica.replication_quota:ReplicationQuota._forget_old",
            "self._sum -= self._samples.popleft()[1]",
            "self._samples.popleft()",
        ),
    ),
    unreported(
        "W8",
        "replica",
        "a group has two coordinators after a disk failed: members of the old one read partitions that others have, "
        "and what they commit is lost",
        remove(
            "replica.replicas:Replicas._lose",
            """
            if lost is not None:
                ...
            """,
        ),
    ),
    unreported(
        "W9",
        "replica",
        "a replica is followed no more, until the next election after that: one came while it asked its leader where "
        "the log begins",
        replace(
            "replica.fetchers:ReplicaFetcher._out_of_range",
            """
            if self._current(state, asked) is not None:
                self._guarded(state, self._begin_at, start_offset)
            """,
            "self._guarded(state, self._begin_at, start_offset)",
        ),
    ),
    unreported(
        "W10",
        "replica",
        "a consumer with a small fetch.max.bytes is sent nothing of its last partitions as long as its first ones "
        "have records for it",
        remove(
            "replica.fetch_session:FetchContext.response",
            """
            if session is not None and cached is not None and data.records:
                ...
            """,
        ),
    ),
)

_CONTROLLER: Final = (
    unreported(
        "W11",
        "controller",
        "a broker that stops in order is not told that others lead now: what it acknowledges to producers with acks=1 "
        "until it is gone is lost",
        replace(
            "controller.election_plan:ControlledShutdownPartitionLeaderElectionStrategy.elect",
            "context.online_replicas(assignment, partition, include_shutting_down_brokers=True)",
            "context.online_replicas(assignment, partition)",
        ),
    ),
    unreported(
        "W12",
        "controller",
        "a reassignment deletes the only replica with the committed records, since the new ones fell out of the ISR "
        "at its end",
        replace(
            "controller.reassignment:Reassignments._move_reassigned_partition_leader_if_required",
            "self._context.current_leader(partition) in completed.replicas",
            "True",
        ),
    ),
    unreported(
        "W13",
        "controller",
        "the cluster has another controller every few seconds for as long as a partition waits for its first leader, "
        "because its brokers were down when it was created",
        replace(
            "controller.replica_election:imbalanced_partitions",
            "context.current_leader(tp) not in (None, broker_id)",
            "context.current_leader(tp) != broker_id",
        ),
    ),
    unreported(
        "W14",
        "controller",
        "a topic that is made anew has no leader where a deleted namesake had a replica on a failed disk before it "
        "was moved away, although the broker has other disks",
        remove(
            "controller.context:ControllerContext.remove_topic",
            """
            for offline in self.replicas_on_offline_dirs.values():
                ...
            """,
        ),
    ),
    unreported(
        "W15",
        "controller",
        "clients and brokers go on connecting to a listener that a broker has moved elsewhere while it ran, if it "
        "joined after the controller",
        remove("controller.brokers:on_broker_startup", "await reign.register_broker_handlers(new_brokers)"),
    ),
)

_COORDINATOR: Final = (
    unreported(
        "W16",
        "coordinator",
        "a static member that is restarted just while its group gets new assignments, and the group with it, waits "
        "for minutes: nobody answers its join",
        remove("coordinator.groups:Group._replace_static", "self._prepare_rebalance(now)"),
    ),
    unreported(
        "W17",
        "coordinator",
        "a transaction without a timeout (two-phase commit) that is open for longer than "
        "transactional.id.expiration.ms can neither be committed nor aborted, and its readers hang",
        remove("coordinator.transactions:TransactionMachine.is_expired", "metadata.state in AT_REST"),
    ),
    unreported(
        "W18",
        "coordinator",
        "a group waits for minutes for a client that was given a member id and then died, though all others have "
        "joined",
        replace(
            "coordinator.groups:Group.tick",
            """
            self._remove(member_id)
            self._maybe_complete_join(now)
            """,
            "self._remove(member_id)",
        ),
    ),
    unreported(
        "W19",
        "coordinator",
        "no member of a group gets partitions any more after one assignment could not be written to the log",
        remove("coordinator.groups:Group.stored", "self._prepare_rebalance(now)"),
    ),
)

_BROKER: Final = (
    unreported(
        "W20",
        "broker",
        "a client that was quiet for a day may then create and delete any number of topics at once, whatever its quota",
        replace(
            "broker.rates:TokenBucket._refill",
            "min(burst, self._tokens + self.limit * (now_ms - self._last_ms) / 1000)",
            "self._tokens + self.limit * (now_ms - self._last_ms) / 1000",
        ),
    ),
    unreported(
        "W21",
        "broker",
        "a broker whose ZooKeeper session has expired once takes up no change of a topic's configuration, a quota or "
        "an ACL any more",
        remove(
            "broker.change_notifications:ChangeNotifications.startup",
            """
            zk.register_state_change_handler(
                StateChangeHandler(f"changes-{self._path}", after_initializing_session=self._wake)
            )
            """,
        ),
    ),
    unreported(
        "W22",
        "broker",
        "a replica whose broker has just registered again stops to follow, or is deleted: a late request to stop, for "
        "the broker's earlier registration, was obeyed",
        remove(
            "broker.handlers.stop_replica:handle",
            """
            if broker.is_stale(request.broker_epoch, request.is_k_raft_controller):
                ...
            """,
        ),
    ),
    unreported(
        "W23",
        "broker",
        "a topic that was deleted and made anew while a broker had no session has the old one's retention and "
        "min.insync.replicas there",
        replace(
            "broker.topic_configs:TopicConfigs._is_known",
            "topic_id == ZERO_UUID or log.topic_id in (None, topic_id)",
            "True",
        ),
    ),
)

_ZK: Final = (
    unreported(
        "W24",
        "zk",
        "the znodes of users and client ids whose quotas were taken away stay for ever, and become more and more",
        remove(
            "zk.kafka.zk_client:KafkaZkClient.change_client_entity_configs",
            """
            if not config:
                ...
            """,
        ),
    ),
    unreported(
        "W25",
        "zk",
        "a broker, and with it its leaders, is taken for dead whenever its connection to ZooKeeper falls silent, "
        "though a new connection could be made in time",
        replace("zk.client.connection:ClientConnection._tick", "timeout_ms * 2 // 3", "timeout_ms"),
    ),
    unreported(
        "W26",
        "zk",
        "of two changes of one topic's configuration at the same moment, both acknowledged, one is lost",
        remove(
            "zk.kafka.zk_client:KafkaZkClient.set_or_create_entity_configs",
            """
            if (await self.get_data_and_stat(path))[0] != data:
                raise
            """,
        ),
    ),
)

_CLIENT: Final = (
    unreported(
        "W27",
        "client",
        "after another member has joined a cooperative group, the partitions that were taken from the first are read "
        "by nobody until the group changes again",
        remove(
            "client.consumer:Consumer._joined",
            """
            if revoked and member.cooperative:
                member.rejoin()
            """,
        ),
    ),
    unreported(
        "W28",
        "client",
        "a consumer of a topic that was made anew begins again, or skips to the end, each time that a broker which is "
        "cut off still names the deleted one",
        remove("client.fetcher:Fetcher._let_go_of_deleted_topics", "topic_id in self._deleted_topics"),
    ),
    unreported(
        "W29",
        "client",
        "a transaction is committed in halves: the late request that was to end the one before, whose answer was "
        "lost, ended it",
        remove(
            "client.transactions:TransactionalProducer.begin_transaction",
            """
            if self._coordinated.answer_lost:
                ...
            """,
        ),
    ),
)

_SPARK: Final = (
    unreported(
        "W30",
        "spark",
        "a streaming query reads a partition again from its first record, after a broker did not know of that "
        "partition for a moment",
        replace("spark.stream:TopicStreamReader._next_end", "chosen | _left_out(begun, topic_ids)", "chosen"),
    ),
)

FOURTH_STRANGERS: Final = (*_LOG, *_REPLICA, *_CONTROLLER, *_COORDINATOR, *_BROKER, *_ZK, *_CLIENT, *_SPARK)
