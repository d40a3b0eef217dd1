"""Mutants of a stranger: whoever wrote them has read the product and nothing of the simulator, its judges or its plays.

They measure how much the campaign finds of what nobody named, so all were written before any was tried, and each is
looked for among the ordinary draws. They lie on second-order paths: recovery, failover, expiry, older versions, several
of something at once. `source` is the package; `what` tells what a user would see.
"""

from __future__ import annotations

from typing import Final

from mutants.edits import remove, replace
from mutants.mutant import unreported

_LOG: Final = (
    unreported(
        "X1",
        "log",
        "a loss of power makes a hole in a compacted log: a rolled segment goes, and the one behind it stays",
        remove("log.log_segments:LogSegments.roll", "self._disk.fsync_dir(active.directory)"),
    ),
    unreported(
        "X2",
        "log",
        "compaction takes the commit marker of records that it keeps, and after a restart they are open for ever",
        remove(
            "log.compaction:CleanedTransactions.data_is_aborted",
            "self._ongoing_committed[batch.producer_id] = None",
        ),
    ),
    unreported(
        "X3",
        "log",
        "a second loss of power keeps torn records: what was damaged, cut and written anew counts as flushed",
        remove(
            "log.log_dirs:LogDirs._loading",
            """
            if log.recovery_point < recovery_points.get(partition, 0):
                recovery_points[partition] = log.recovery_point
                self._checkpoint(log_dir, RECOVERY_POINTS, recovery_points)
            """,
        ),
    ),
    unreported(
        "X4",
        "log",
        "the leader epoch in which a log begins is forgotten when records before it are deleted",
        replace(
            "log.leader_epoch_cache:LeaderEpochCache.truncate_from_start",
            "entries[:at] = [EpochEntry(entries[at - 1].epoch, start_offset)]",
            "del entries[:at]",
        ),
    ),
    unreported(
        "X5",
        "log",
        "a batch that is sent again is written twice: a log whose records are all deleted restarts without producers",
        replace(
            "log.recovery:load_segments",
            "segments and log_end_offset < log_start_offset",
            "segments and log_end_offset <= log_start_offset",
        ),
    ),
    unreported(
        "X6",
        "log",
        "committed readers read a transaction whose abort marker was cut, until the marker comes again",
        replace(
            "log.log:Log.truncate_to",
            """
            self.producers.on_high_watermark(self.high_watermark)
            self._note_first_unstable()
            """,
            "self.producers.on_high_watermark(self.high_watermark)",
        ),
    ),
)

_REPLICA: Final = (
    unreported(
        "X7",
        "replica",
        "a follower cuts what it has acknowledged at each new leader epoch: it goes on asking with the one before",
        remove("replica.fetchers:ReplicaFetcher._append", "epoch != asked.last_fetched_epoch"),
    ),
    unreported(
        "X8",
        "replica",
        "followers of a quiet partition never hear of deleted records; DeleteRecords times out",
        remove(
            "replica.fetch_session:CachedPartition.lie_down_for_now",
            "log.log_start_offset == self.local_log_start_offset",
        ),
    ),
    unreported(
        "X9",
        "replica",
        "a follower of an older protocol keeps records that its leader never had: it asks but once where they part",
        replace("replica.truncation:truncation", "known_epoch in (NO_EPOCH, leader_epoch)", "True"),
    ),
    unreported(
        "X10",
        "replica",
        "a batch sent again is acknowledged (acks=all) before its first copy is replicated, and may be lost",
        replace(
            "replica.appending:Appending.append",
            "log is None or log.high_watermark <= info.last_offset",
            "not info.duplicate and (log is None or log.high_watermark <= info.last_offset)",
        ),
    ),
    unreported(
        "X11",
        "replica",
        "followers of a quiet partition never learn how far it is committed; whoever leads next knows less",
        remove(
            "replica.purgatories:Purgatories.high_watermark_moved",
            """
            if partition.resting:
                partition.touch()
            """,
        ),
    ),
    unreported(
        "X12",
        "replica",
        "a leader of an older protocol takes its ISR for written where the controller wrote the state meanwhile",
        replace(
            "replica.zk_alter_partition:ZkAlterPartitionManager._update_leader_and_isr",
            "TopicPartitionStateZNode.encode(state) == data",
            "True",
        ),
    ),
    unreported(
        "X13",
        "replica",
        "a leader's quota for replication holds back followers in sync as well, and drives them out of the ISR",
        remove("replica.replication_quota:ReplicationQuotas.holds_back", "replica_id not in partition.isr_state.isr"),
    ),
)

_CONTROLLER: Final = (
    unreported(
        "X14",
        "controller",
        "a topic's new partitions get no leader where the topic was made in this controller's reign",
        replace(
            "controller.topics:process_topic_change",
            """
            reign.register_topic_handlers(new)
            added = await read_topics(reign, new)
            """,
            """
            added = await read_topics(reign, new)
            reign.register_topic_handlers(new)
            """,
        ),
    ),
    unreported(
        "X15",
        "controller",
        "a reassignment that is asked for by the znode is never begun, if there was one before in the same reign",
        remove(
            "controller.reassignment:Reassignments._maybe_remove_from_zk_reassignment", "self._zk_reassignment_gone()"
        ),
    ),
    unreported(
        "X16",
        "controller",
        "a reassignment ends, and old replicas are deleted, by an ISR that its leader has shrunk since",
        replace(
            "controller.reassignment:Reassignments._is_reassignment_complete",
            "(await self._zk.get_topic_partition_states([partition])).get(partition)",
            "self._context.partition_leadership_info(partition)",
        ),
    ),
    unreported(
        "X17",
        "controller",
        "a partition stays without a leader: the old one wrote its ISR at the moment of the election",
        replace(
            "controller.partition_state_machine:PartitionStateMachine._do_elect_leader_for_partitions",
            "list(updated.updates_to_retry)",
            "[]",
        ),
    ),
    unreported(
        "X18",
        "controller",
        "a new controller's LeaderAndIsr comes before word of who is alive, and a fresh broker's replicas never fetch",
        replace(
            "controller.failover:on_controller_failover",
            """
            reign.send_metadata_of(())
            step("Initializing replica state machine")
            await reign.replicas.startup()
            """,
            """
            step("Initializing replica state machine")
            await reign.replicas.startup()
            reign.send_metadata_of(())
            """,
        ),
    ),
    unreported(
        "X19",
        "controller",
        "a topic that is deleted while it is moved stays for ever: nothing resumes its deletion",
        remove(
            "controller.reassignment:Reassignments.on_partition_reassignment",
            "await self._deletion.resume_deletion_for_topics((partition.topic,))",
        ),
    ),
    unreported(
        "X20",
        "controller",
        "a topic made under the name of one that was deleted in the midst of its move can never be deleted",
        remove(
            "controller.context:ControllerContext.remove_topic",
            "self.partitions_being_reassigned.pop(partition, None)",
        ),
    ),
)

_COORDINATOR: Final = (
    unreported(
        "X21",
        "coordinator",
        "an offset that is deleted while it is being written is known again, until the coordinator changes",
        remove("coordinator.group_offsets:GroupOffsets.written", "len(left) < len(under_way)"),
    ),
    unreported(
        "X22",
        "coordinator",
        "a group's offset goes back: a transaction that commits late overrules what was committed after it",
        replace(
            "coordinator.group_offsets:GroupOffsets.replay_marker",
            "self.replay(key, offset.committed, offset.record_offset)",
            "self.committed[key] = offset",
        ),
    ),
    unreported(
        "X23",
        "coordinator",
        "the first offsets of a group without members never count where a transaction commits them",
        replace(
            "coordinator.group_offsets:GroupOffsets.__bool__",
            "bool(self.committed or self.pending or self.pending_transactional)",
            "bool(self.committed or self.pending)",
        ),
    ),
    unreported(
        "X24",
        "coordinator",
        "a member of an earlier generation still commits offsets in its transaction, for partitions of others",
        replace(
            "coordinator.groups:Group.commit_error",
            "generation_id != self.generation_id",
            "not transactional and generation_id != self.generation_id",
        ),
    ),
    unreported(
        "X25",
        "coordinator",
        "a fenced producer that names its old epoch is given a new one, and fences its successor",
        replace(
            "coordinator.transactions:TransactionMachine.init_producer_id",
            "metadata.producer_epoch not in (NO_PRODUCER_EPOCH, expected.epoch)",
            "NO_PRODUCER_EPOCH < metadata.producer_epoch < expected.epoch",
        ),
    ),
    unreported(
        "X26",
        "coordinator",
        "a producer that asks for its epoch again after its transaction timed out is given the epoch that fenced it",
        replace(
            "coordinator.transactions:TransactionMachine._fenced",
            "NO_PRODUCER_EPOCH",
            "self.metadata.producer_epoch",
        ),
    ),
    unreported(
        "X27",
        "coordinator",
        "a group that is empty for a moment loses the offsets that it committed long ago",
        replace(
            "coordinator.group_offsets:GroupOffsets.expired",
            "committed.commit_timestamp_ms if empty_since_ms is None else empty_since_ms",
            "committed.commit_timestamp_ms",
        ),
    ),
)

_BROKER: Final = (
    unreported(
        "X28",
        "broker",
        "a consumer above its quota never reads again: what it was not sent counts as well",
        remove(
            "broker.quotas:Quotas.fetched",
            """
            if meter is not None:
                meter.rate.record(-size, now_ms)
            """,
        ),
    ),
    unreported(
        "X29",
        "broker",
        "a LeaderAndIsr for an earlier registration counts where ZooKeeper was slow to tell the topic's configuration",
        replace(
            "broker.handlers.leader_and_isr:_become_leader_or_follower",
            """
            if broker.is_stale(request.broker_epoch, request.is_k_raft_controller):
                raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
            if answer is None and is_full(request):
                broker.replicas.set_strays_aside(request)
            """,
            """
            if answer is None and is_full(request):
                broker.replicas.set_strays_aside(request)
            """,
        ),
    ),
    unreported(
        "X30",
        "broker",
        "a broker does not take up a configuration that is changed while it takes up another",
        replace(
            "broker.change_notifications:ChangeNotifications._follow",
            """
            self._pending = False
            try:
                await self._process()
            except ZooKeeperError as error:
                ...
            """,
            """
            try:
                await self._process()
                self._pending = False
            except ZooKeeperError as error:
                ...
            """,
        ),
    ),
    unreported(
        "X31",
        "broker",
        "requests of one connection change places: the third begins while the second is still being verified",
        replace(
            "broker.framed_connection:FramedConnection._may_begin", "unanswered[-1].settled", "unanswered[0].settled"
        ),
    ),
)

_ZK: Final = (
    unreported(
        "X32",
        "zk",
        "of two znodes that went in one transaction one is never told of, where the connection is lost in between",
        replace(
            "zk.client.connection:ClientConnection._packet",
            """
            if xid == NOTIFICATION_XID:
                ...
            if zxid > 0:
                self.session.last_zxid = zxid
            """,
            """
            if zxid > 0:
                self.session.last_zxid = zxid
            if xid == NOTIFICATION_XID:
                ...
            """,
        ),
    ),
    unreported(
        "X33",
        "zk",
        "brokers pass over changes of configuration: a coordinator that restarts counts sequential znodes from 0",
        replace(
            "zk.server.snapshot:_restore",
            "node.pzxid, node.creations = pzxid, creations",
            "node.pzxid = pzxid",
        ),
    ),
    unreported(
        "X34",
        "zk",
        "two clients that connect in one millisecond are one session, and the end of one takes the other's znodes",
        replace(
            "zk.server.sessions:Sessions.next_id",
            "max(self.last_id + 1, 1 << 56 | (wall_clock_ms & 0xFFFFFFFFFF) << 16)",
            "1 << 56 | (wall_clock_ms & 0xFFFFFFFFFF) << 16",
        ),
    ),
)

_CLIENT: Final = (
    unreported(
        "X35",
        "client",
        "a record of a later transaction is acknowledged as the repetition of one that was given up, and is lost",
        remove(
            "client.transactions:TransactionalProducer._settled",
            """
            if batch.encoded is not None:
                self._coordinated.answer_lost = True
            """,
        ),
    ),
    unreported(
        "X36",
        "client",
        "a seek is undone by the answer to a reset from before it, and the consumer reads elsewhere",
        replace(
            "client.fetcher:Fetcher._take_resets",
            "position is None or position.reset_to != asked.get(partition)",
            "position is None",
        ),
    ),
)

STRANGERS: Final = (*_LOG, *_REPLICA, *_CONTROLLER, *_COORDINATOR, *_BROKER, *_ZK, *_CLIENT)
