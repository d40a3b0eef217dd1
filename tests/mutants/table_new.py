"""Mutants that nobody's bug report is behind: what a tired engineer writes and a reviewer misses, in all packages.

They were written from the product's code alone, without a look at what the simulator checks, which makes them a measure
of how much it finds of what it was not told. None is known to have happened, so none has a profile or an invariant of
its own. `source` is the package; `what` tells what a user would see.
"""

from __future__ import annotations

from typing import Final

from mutants.edits import before, remove, replace
from mutants.mutant import unreported

_LOG: Final = (
    unreported(
        "N01",
        "log",
        "a lookup by the very largest timestamp of a segment passes over it and names a later record",
        replace(
            "log.log_segments:LogSegments._batch_not_before",
            "largest(segment) >= timestamp",
            "largest(segment) > timestamp",
        ),
    ),
    unreported(
        "N02",
        "log",
        "a lookup by a timestamp that a record has exactly names the record one batch later, or none",
        replace(
            "log.segment:Segment.batches_not_before",
            "batch.max_timestamp >= timestamp",
            "batch.max_timestamp > timestamp",
        ),
    ),
    unreported(
        "N03",
        "log",
        "a committed reader that begins within an aborted transaction is given the rest of its records",
        replace(
            "log.txn_index:TransactionIndex.collect",
            "entry.first_offset < upper_bound_offset",
            "fetch_offset <= entry.first_offset < upper_bound_offset",
        ),
    ),
    unreported(
        "N04",
        "log",
        "aborted records are given to committed readers where the abort marker lies in a later segment",
        replace(
            "log.log_segments:LogSegments.aborted_transactions",
            "self._segments[max(0, self.index_of(start_offset)):]",
            "self._segments[max(0, self.index_of(start_offset)):][:1]",
        ),
    ),
    unreported(
        "N05",
        "log",
        "a power loss takes flushed records: the segment within which the recovery point lay is passed by",
        replace(
            "log.log:Log.flush",
            "max(0, self.segments.index_of(self.recovery_point))",
            "max(0, self.segments.index_of(self.recovery_point - 1) + 1)",
        ),
    ),
    unreported(
        "N06",
        "log",
        "with flush.messages=1 a power loss of all brokers takes records, since followers never flush",
        remove(
            "log.log:Log.append_as_follower",
            """
            if self.log_end_offset - self.recovery_point >= self.settings.flush_messages:
                self.flush(now_ms=now_ms)
            """,
        ),
    ),
    unreported(
        "N07",
        "log",
        "the first batch of a producer's new epoch is acknowledged as a repetition, and is lost",
        replace(
            "log.producer_state:ProducerEntry.duplicate_of",
            "producer_epoch == self.producer_epoch",
            "producer_epoch >= self.producer_epoch",
        ),
    ),
    unreported(
        "N08",
        "log",
        "a batch that was truncated and is sent again is acknowledged as a repetition, and is lost",
        replace(
            "log.producer_state:ProducerStateManager.truncate_and_reload",
            "not log_start_offset <= offset <= end_offset",
            "not log_start_offset <= offset",
        ),
    ),
    unreported(
        "N09",
        "log",
        "committed readers stand still for ever behind a transaction open for longer than producers live",
        remove("log.producer_state:ProducerStateManager._is_expired", "entry.current_txn_first_offset == NO_OFFSET"),
    ),
    unreported(
        "N10",
        "log",
        "a follower whose whole last epoch is cut is told to cut again for ever, and never gets in sync",
        replace(
            "log.leader_epoch_cache:LeaderEpochCache.truncate_from_end",
            "entries[-1].start_offset >= end_offset",
            "entries[-1].start_offset > end_offset",
        ),
    ),
    unreported(
        "N11",
        "log",
        "after a kill and then a power loss torn batches are served: what was recovered counts as synced",
        replace(
            "log.recovery:load_segments",
            "log_end_offset if clean else min(recovery_point, log_end_offset)",
            "log_end_offset",
        ),
    ),
    unreported(
        "N12",
        "log",
        "a kill while a cleaned segment takes its place costs the whole segment behind it",
        replace(
            "log.recovery:_finish_interrupted_work",
            "swapped[0] <= bases[0] < max(ends)",
            "swapped[0] <= bases[0] <= max(ends)",
        ),
    ),
    unreported(
        "N13",
        "log",
        "a compacted topic loses a key's committed value to one of a transaction that is aborted later",
        replace(
            "log.cleaner:log_to_clean",
            "min(log.last_stable_offset, log.active_segment.base_offset)",
            "min(log.high_watermark, log.active_segment.base_offset)",
        ),
    ),
    unreported(
        "N14",
        "log",
        "deleted keys live on with readers: tombstones go with the next cleaning, not delete.retention.ms",
        replace(
            "log.compaction:Compaction.cleaned",
            "self._next_horizon_ms if begins else horizon_ms",
            "self._now_ms if begins else horizon_ms",
        ),
    ),
    unreported(
        "N15",
        "log",
        "retention by size leaves less than retention.bytes: a segment goes that is only partly beyond it",
        replace("log.retention:segments_to_delete", "excess >= segments[doomed].size", "excess > 0"),
    ),
    unreported(
        "N16",
        "log",
        "committed records are hidden from readers where a truncation took an abort marker of before",
        remove("log.segment:Segment.truncate_to", "self.txn_index.truncate_to(offset)"),
    ),
    unreported(
        "N17",
        "log",
        "after a truncation lookups by time miss the last kilobytes, and retention takes them too early",
        remove(
            "log.segment:Segment.truncate_to",
            """
            for batch in self.batches(self.offset_index.lookup(self.offset_of_max_timestamp)):
                ...
            """,
        ),
    ),
)

_REPLICA: Final = (
    unreported(
        "N18",
        "replica",
        "acknowledged records are lost: a leader that missed an epoch counts what followers had before",
        replace(
            "replica.partition:Partition.make_leader",
            "new_leader or state.leader_epoch > self.leader_epoch + 1",
            "new_leader",
        ),
    ),
    unreported(
        "N19",
        "replica",
        "a record is acknowledged that was cut while its leader followed, and is another's by now",
        remove(
            "replica.partition:Partition.check_enough_replicas_reach_offset",
            "self.leading_since_epoch != leading_since_epoch",
        ),
    ),
    unreported(
        "N20",
        "replica",
        "committed records are lost: the leader forgets a new ISR member that ZooKeeper has, if told late",
        replace(
            "replica.leading:refused_isr",
            "(ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)",
            "(ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_UPDATE_VERSION)",
        ),
    ),
    unreported(
        "N21",
        "replica",
        "sound followers fall out of the ISR when a partition is written to after a long rest",
        remove("replica.partition:Partition.stir", "progress.rested_until(fetch.last_fetch_ms)"),
    ),
    unreported(
        "N22",
        "replica",
        "replicas differ: a follower with more of an old epoch than the leader has is not made to cut it",
        replace(
            "replica.readable_partition:ReadablePartition.read",
            "epoch < last_fetched_epoch or end_offset < fetch_offset",
            "epoch < last_fetched_epoch",
        ),
    ),
    unreported(
        "N23",
        "replica",
        "a caught-up follower whose way into the ISR was refused stays out until the next write",
        remove("replica.partition:Partition.has_all", "follower_id in self.isr_state.isr"),
    ),
    unreported(
        "N24",
        "replica",
        "a lookup by time names a record at the high watermark, which may yet be lost",
        replace(
            "replica.readable_partition:ReadablePartition.offset_for_timestamp",
            "found.offset < last_fetchable",
            "found.offset <= last_fetchable",
        ),
    ),
    unreported(
        "N25",
        "replica",
        "after a truncation a follower's high watermark stays behind until something is written",
        remove("replica.fetchers:ReplicaFetcher._take", "self._session.lost()"),
    ),
    unreported(
        "N26",
        "replica",
        "a paused or failed follower looks alive to its leader, since others' fetches still name it",
        remove(
            "replica.fetch_session_handler:FetchSessionHandler.drop",
            """
            if key in self._told:
                self._dropped[key] = None
            """,
        ),
    ),
    unreported(
        "N27",
        "replica",
        "a partition's ISR never changes again after two elections while one request is under way",
        replace(
            "replica.alter_partition:AlterPartitionManager._answer",
            """
            if self._unanswered.get(topic_partition) is change:
                del self._unanswered[topic_partition]
            """,
            "self._unanswered.pop(topic_partition, None)",
        ),
    ),
    unreported(
        "N28",
        "replica",
        "followers in sync are throttled as well during a throttled move, and fall out of the ISR",
        remove("replica.replication_quota:ReplicationQuotas.is_held_back", "lag != 0"),
    ),
    unreported(
        "N29",
        "replica",
        "replicas are not stopped or deleted where the controller knows the same epoch as the broker",
        replace(
            "replica.replicas:Replicas.stop_replica",
            "leader_epoch >= partition.leader_epoch",
            "leader_epoch > partition.leader_epoch",
        ),
    ),
)

_CONTROLLER: Final = (
    unreported(
        "N30",
        "controller",
        "acks=all stands still after a planned stop: who leaves stays in the ISR until it lags",
        replace(
            "controller.election:leader_for_controlled_shutdown",
            "leader_and_isr.with_leader(leader, staying)",
            "leader_and_isr.with_leader(leader, leader_and_isr.isr)",
        ),
    ),
    unreported(
        "N31",
        "controller",
        "a broker that stopped politely is never elected nor let into an ISR after its return",
        remove("controller.brokers:on_broker_failure", "context.shutting_down_broker_ids.pop(broker_id, None)"),
    ),
    unreported(
        "N32",
        "controller",
        "a dead broker stays in the ISR of a partition whose leader wrote its state just then",
        replace(
            "controller.replica_state_machine:ReplicaStateMachine._remove_replicas_from_isr",
            "finished, remaining = await self._do_remove_replicas_from_isr(broker_id, remaining)",
            """
            finished, _ = await self._do_remove_replicas_from_isr(broker_id, remaining)
            remaining = []
            """,
        ),
    ),
    unreported(
        "N33",
        "controller",
        "a move that only takes replicas away never ends when the controller dies within it",
        replace(
            "controller.failover:_initialize_controller_context",
            "assignment.is_being_reassigned",
            "assignment.adding_replicas",
        ),
    ),
    unreported(
        "N34",
        "controller",
        "a topic is back after its deletion when the controller dies between the order and the topic",
        replace(
            "controller.topic_deletion:DeletionClient.delete_topic",
            """
            await self._zk.delete_topic_znode(topic, epoch_zk_version)
            await self._zk.delete_topic_configs([topic], epoch_zk_version)
            await self._zk.delete_topic_deletions([topic], epoch_zk_version)
            """,
            """
            await self._zk.delete_topic_deletions([topic], epoch_zk_version)
            await self._zk.delete_topic_znode(topic, epoch_zk_version)
            await self._zk.delete_topic_configs([topic], epoch_zk_version)
            """,
        ),
    ),
    unreported(
        "N35",
        "controller",
        "a partition's ISR cannot change until the next election once another version was met",
        replace(
            "controller.alter_partition:process_alter_partition",
            "list(decision.accepted)",
            "list(updated.finished)",
        ),
    ),
    unreported(
        "N36",
        "controller",
        "a broker stops at once although partitions that it leads could not be moved yet",
        replace(
            "controller.brokers:process_controlled_shutdown",
            "context.partition_leaders_on_broker(event.broker_id)",
            "[]",
        ),
    ),
    unreported(
        "N37",
        "controller",
        "a topic counts as deleted though a broker failed to delete its replica and still has it",
        replace(
            "controller.answers:process_topic_deletion_stop_replica_response",
            "event.request_error is not ErrorCode.NONE or error is not ErrorCode.NONE",
            "event.request_error is not ErrorCode.NONE",
        ),
    ),
    unreported(
        "N38",
        "controller",
        "the answer of a broker's former life counts: a deletion passes, or a replica is offline",
        remove("controller.answers:_is_of_this_life", "broker_epoch == context.broker_epoch(broker_id)"),
    ),
    unreported(
        "N39",
        "controller",
        "two producers get the same id, the last of one block and the first of the next",
        replace(
            "controller.producer_ids:new_producer_id_block",
            "ProducerIdBlockZNode.decode(data).last_producer_id + 1",
            "ProducerIdBlockZNode.decode(data).last_producer_id",
        ),
    ),
)

_COORDINATOR: Final = (
    unreported(
        "N40",
        "coordinator",
        "a member left behind in an earlier generation commits, and takes the group's offset back",
        replace(
            "coordinator.groups:Group.commit_error",
            "generation_id != self.generation_id",
            "generation_id > self.generation_id",
        ),
    ),
    unreported(
        "N41",
        "coordinator",
        "members go without partitions: a late record of the generation before settles this one",
        remove("coordinator.groups:Group.stored", "self.generation_id == write.generation_id"),
    ),
    unreported(
        "N42",
        "coordinator",
        "a group's offset goes back when a transaction ends after a plain commit that came later",
        replace(
            "coordinator.group_offsets:GroupOffsets.replay",
            "key not in self.committed or self.committed[key].record_offset < record_offset",
            "True",
        ),
    ),
    unreported(
        "N43",
        "coordinator",
        "a group that is empty for a minute loses offsets that it committed a week ago",
        replace(
            "coordinator.groups:Group.expired_offsets",
            "self.offsets.expired(since_ms, frozenset(), retention_ms, now.wall_ms)",
            "self.offsets.expired(None, frozenset(), retention_ms, now.wall_ms)",
        ),
    ),
    unreported(
        "N44",
        "coordinator",
        "a commit that timed out is answered as done, and the offset is lost at the next failover",
        replace(
            "coordinator.group_answers:offset_commit_error",
            "return error",
            "return ErrorCode.NONE if error is ErrorCode.REQUEST_TIMED_OUT else error",
        ),
    ),
    unreported(
        "N45",
        "coordinator",
        "exactly-once is broken: an offset is told that an open transaction is about to replace",
        remove(
            "coordinator.group_offsets:GroupOffsets.is_unstable",
            "key in self._open",
        ),
    ),
    unreported(
        "N46",
        "coordinator",
        "a producer whose transaction timed out writes on, into one that nobody ends",
        replace(
            "coordinator.transactions:TransactionMachine.time_out",
            "self._fenced(now_ms)",
            "replace(metadata, state=PREPARE_ABORT, last_update_ms=now_ms)",
        ),
    ),
    unreported(
        "N47",
        "coordinator",
        "a late batch is let in behind the marker, and committed readers stand still for ever",
        remove(
            "coordinator.transactions:TransactionMachine.verification_error",
            """
            if error is ErrorCode.NONE and self.metadata.state in PREPARED:
                return ErrorCode.CONCURRENT_TRANSACTIONS
            """,
        ),
    ),
    unreported(
        "N48",
        "coordinator",
        "an abort that was decided before a failover is never marked: its id is stuck for ever",
        replace(
            "coordinator.transaction_coordinator:TransactionCoordinator._load",
            "each.metadata.state in PREPARED",
            "each.metadata.state is PREPARE_COMMIT",
        ),
    ),
    unreported(
        "N49",
        "coordinator",
        "a partition gets no marker where its new leader did not know it yet: readers stand still",
        replace(
            "coordinator.transaction_markers:TransactionMarkers._take",
            "error is ErrorCode.NONE or error in _NO_MARKERS_THERE",
            "error in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) or error in _NO_MARKERS_THERE",
        ),
    ),
    unreported(
        "N50",
        "coordinator",
        "a producer is told CONCURRENT_TRANSACTIONS for ever after its topic was deleted",
        replace(
            "coordinator.transaction_markers:TransactionMarkers._look_up",
            """
            if there:
                self._retry_later([(ended, there)])
            else:
                self._maybe_complete(ended)
            """,
            "self._retry_later([(ended, there)] if there else [])",
        ),
    ),
)

_BROKER: Final = (
    unreported(
        "N51",
        "replica",
        "acks=all is answered while the last record of the batch is on the leader alone",
        replace(
            "replica.leading:produce_outcome",
            "high_watermark < required_offset",
            "high_watermark < required_offset - 1",
        ),
    ),
    unreported(
        "N52",
        "replica",
        "acks=all that timed out is answered as done",
        remove("replica.delayed_produce:DelayedProduce.on_expiration", "result.failed(ErrorCode.REQUEST_TIMED_OUT)"),
    ),
    unreported(
        "N53",
        "broker",
        "a broker never takes up a changed configuration that it lost ZooKeeper while reading",
        before(
            "broker.change_notifications:ChangeNotifications._process",
            "data, stat = await zk.get_data_and_stat(f'{self._path}/{name}')",
            "self._last_executed = number",
        ),
    ),
    unreported(
        "N54",
        "broker",
        "a client that pipelines and reads slowly hangs: what it asked meanwhile is never begun",
        remove("broker.framed_connection:FramedConnection.resume_writing", "self._begin_waiting()"),
    ),
    unreported(
        "N55",
        "broker",
        "a producer's second transactional batch overtakes the first, and is refused as out of order",
        remove("broker.framed_connection:FramedConnection._may_begin", "not unanswered[-1].settled"),
    ),
    unreported(
        "N56",
        "broker",
        "a broker that the controller refused to free stops as if it were, and partitions are offline",
        replace("broker.controlled_shutdown:_ask", "response.error_code or remaining", "remaining"),
    ),
    unreported(
        "N57",
        "broker",
        "a batch counts as verified when the coordinator cannot be reached: its transaction may be over",
        replace(
            "broker.verification:TransactionVerification._send_to",
            "_answer(waiting, _all(transaction, ErrorCode.NETWORK_EXCEPTION))",
            "_answer(waiting, {})",
        ),
    ),
)

_ZK: Final = (
    unreported(
        "N58",
        "zk",
        "a controller back from a lost connection never hears of topics and brokers that came meanwhile",
        replace(
            "zk.server.tree:DataTree.set_watches",
            "node.pzxid > request.relative_zxid",
            "node.mzxid > request.relative_zxid",
        ),
    ),
    unreported(
        "N59",
        "zk",
        "a power loss takes all that ZooKeeper answered since its last snapshot, with the log file's name",
        remove("zk.server.wal:WriteAheadLog.begin", "self._disk.fsync_dir(self._directory)"),
    ),
    unreported(
        "N60",
        "zk",
        "after a restart of ZooKeeper a dead broker stays registered, or stays the controller",
        replace(
            "zk.server.snapshot:_restore",
            "tree.ephemerals.setdefault(node.ephemeral_owner, {})[path] = None",
            "tree.ephemerals[node.ephemeral_owner] = {path: None}",
        ),
    ),
    unreported(
        "N61",
        "zk",
        "a write whose answer was lost counts as done where another's write took its version",
        replace(
            "zk.kafka.requests:KafkaRequests._own_success",
            "stat is not None and stat.version == write.version + 1 and data == write.data",
            "stat is not None and stat.version == write.version + 1",
        ),
    ),
    unreported(
        "N62",
        "zk",
        "a move or election asked for by znode during a lost connection is not begun",
        replace(
            "zk.client.session:ClientSession.watched",
            "self.exist_watches[path] = None",
            "self.data_watches[path] = None",
        ),
    ),
    unreported(
        "N63",
        "zk",
        "a failed multi of several children leaves their parent with versions of what was never done",
        replace("zk.server.tree:DataTree._multi", "reversed(undo)", "undo"),
    ),
    unreported(
        "N64",
        "zk",
        "a session that comes back just before its end expires all the same, with its ephemeral znodes",
        remove("zk.server.sessions:Sessions.reopen", "session.heard_ms = now_ms"),
    ),
)

_CLIENT: Final = (
    unreported(
        "N65",
        "client",
        "the batch after one that was given up is acknowledged as its repetition, and is lost",
        replace(
            "client.producer:Producer._settled",
            "queue.gave_up()",
            "queue.next_sequence = (queue.next_sequence - batch.count) & 2147483647",
        ),
    ),
    unreported(
        "N66",
        "client",
        "a partition that gave a batch up begins at sequence 0 under the old id, and is refused",
        replace("client.producing:Producing._identify", "queue.epoch != _GAVE_UP", "True"),
    ),
    unreported(
        "N67",
        "client",
        "a transaction fails in its time when its coordinator has moved: the old one is asked again",
        remove(
            "client.transaction:Transaction._ask",
            """
            if code in COORDINATOR_MOVED:
                self._coordinators.pop(key, None)
            """,
        ),
    ),
    unreported(
        "N68",
        "client",
        "a request that comes late ends the producer's next transaction in its midst",
        remove("client.transaction:Transaction._ask", "self.answer_lost = True"),
    ),
    unreported(
        "N69",
        "client",
        "a committed reader is given the first batch of every aborted transaction",
        replace(
            "client.positions:read",
            "beginning and beginning[0].first_offset <= header.last_offset",
            "beginning and beginning[0].first_offset < header.base_offset",
        ),
    ),
    unreported(
        "N70",
        "client",
        "a seek back is undone by the answer to a fetch that was under way, and records are skipped",
        remove("client.fetcher:Fetcher._take", "asked.get(topic_partition) != position.place"),
    ),
    unreported(
        "N71",
        "client",
        "a seek right after the assignment is undone when the committed offset comes",
        remove("client.consumer:Consumer._place", "position.offset != UNKNOWN"),
    ),
    unreported(
        "N72",
        "client",
        "with the range assignor partitions are read by nobody where members want different topics",
        replace("client.assignors:RangeAssignor.assign", "len(readers)", "len(members)"),
    ),
    unreported(
        "N73",
        "client",
        "a partition that two members claim goes to one while the other still reads it",
        replace(
            "client.sticky:_owned", "other is None or generation > others", "other is None or generation >= others"
        ),
    ),
    unreported(
        "N74",
        "client",
        "a consumer that the group had removed reads on from its old place what another has done since",
        replace("client.group:GroupMember.ask_to_join", "not self.is_lost", "True"),
    ),
    unreported(
        "N75",
        "client",
        "a transaction is committed though some of its records were given up",
        remove(
            "client.transactions:TransactionalProducer.commit_transaction",
            """
            if self._trouble is not None:
                raise self._trouble
            """,
        ),
    ),
    unreported(
        "N76",
        "client",
        "a list of groups leaves out those of a broker that does not answer, and does not say so",
        replace("client.admin_groups:GroupAdmin.list_groups", "raise outcome", "continue"),
    ),
    unreported(
        "N77",
        "client",
        "a consumer begins anew at the start of its topic when its coordinator was just moving",
        replace(
            "client.offsets:read_offset_fetch",
            "codes = [found.error_code]",
            "codes: list[int] = []",
        ),
    ),
)

_WIRE: Final = (
    unreported(
        "N78",
        "wire",
        "lookups by time miss records in a batch whose last record is not its youngest",
        replace("wire.records:build_batch", "max(record.timestamp for record in records)", "records[-1].timestamp"),
    ),
    unreported(
        "N79",
        "wire",
        "a reader of a LogAppendTime topic is given the producer's time of the batch, not the broker's",
        replace(
            "wire.records:_records_at",
            "header.max_timestamp if header.attributes & LOG_APPEND_TIME else None",
            "header.base_timestamp if header.attributes & LOG_APPEND_TIME else None",
        ),
    ),
    unreported(
        "N80",
        "wire",
        "a small snappy batch of many blocks takes a broker's whole memory: each may be as large as all",
        remove("wire.compression:_snappy_pieces", "left -= len(block)"),
    ),
    unreported(
        "N81",
        "wire",
        "a batch with its offsets in disorder is stored, if only its last record stands where it should",
        replace(
            "wire.scan:PythonScan._judge",
            "self.disordered |= self._offset_delta != self._records",
            "self.disordered = self._offset_delta != self._records",
        ),
    ),
    unreported(
        "N82",
        "wire",
        "the youngest record of a compacted topic is not found: a cleaned batch is as young as what it lost",
        replace(
            "wire.records:rewritten",
            "header.max_timestamp if stamped else max(record.timestamp for record in records)",
            "header.max_timestamp",
        ),
    ),
)

_SPARK: Final = (
    unreported(
        "N83",
        "spark",
        "a task reads more than maxRecordsPerPartition where the range is no multiple of it",
        replace("spark.plan:cut", "-(-whole.size // max_records)", "whole.size // max_records"),
    ),
    unreported(
        "N84",
        "spark",
        "a committed read's batch waits, and fails, while a transaction is open behind the last stable offset",
        replace(
            "spark.topics:ends",
            "cluster.list_offsets(asked, isolation_level=options.isolation_level)",
            "cluster.list_offsets(asked)",
        ),
    ),
    unreported(
        "N85",
        "spark",
        "rows are there twice: what a failed attempt wrote beyond the counted one is committed with it",
        replace("spark.one_transaction:OneTransaction._check", "last != count - 1", "last < count - 1"),
    ),
    unreported(
        "N86",
        "spark",
        "rows of a decided micro-batch are aborted when the decision's answer was lost",
        remove(
            "spark.task_transactions:TaskTransactions.abort",
            """
            if self.marker(cluster) != plan.marker:
                return
            """,
        ),
    ),
    unreported(
        "N87",
        "spark",
        "a micro-batch is written twice when its commit lands while a new run takes the sink over",
        replace(
            "spark.delivery:Deliverer.taken_over",
            """
            options = self.options
            transaction = BlockingTransaction.initialized(
                cluster,
                options.sink_id,
                transaction_timeout_ms=options.transaction_timeout_ms,
                timeout_ms=options.delivery_timeout_ms,
            )
            return DeliveryPlan(transaction.identity, self.marker(cluster))
            """,
            """
            options = self.options
            marker = self.marker(cluster)
            transaction = BlockingTransaction.initialized(
                cluster,
                options.sink_id,
                transaction_timeout_ms=options.transaction_timeout_ms,
                timeout_ms=options.delivery_timeout_ms,
            )
            return DeliveryPlan(transaction.identity, marker)
            """,
        ),
    ),
    unreported(
        "N88",
        "spark",
        "a task that is tried again fails: its keyless rows of later Arrow batches go elsewhere than before",
        replace(
            "spark.sink_encoding:placed",
            "numpy.arange(before, before + len(keyless))",
            "numpy.arange(len(keyless))",
        ),
    ),
    unreported(
        "N89",
        "spark",
        "WHERE offset > n gives the record at n as well",
        replace("spark.filters:Pushed._with_offset", "max(low, value + 1)", "max(low, value)"),
    ),
    unreported(
        "N90",
        "spark",
        "a query with availableNow reads partitions that were added after it was started",
        replace(
            "spark.stream:TopicStreamReader._until_target",
            "self._target.get(partition, starts[partition])",
            "self._target.get(partition, end)",
        ),
    ),
)

_GROUND: Final = (
    unreported(
        "N91",
        "runtime",
        "a write that the kernel took in more than two parts stands in the file in disorder",
        remove("runtime.real:RealFile._write_rest", "position += written"),
    ),
    unreported(
        "N92",
        "testing",
        "verify passes over a topic that has no leader just then, whatever was lost of it",
        replace(
            "testing.promises:examine",
            "metadata.error_of(topic) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION",
            "metadata.error_of(topic) is not ErrorCode.NONE",
        ),
    ),
)

_MORE: Final = (
    unreported(
        "N93",
        "log",
        "committed readers are told of an end that goes back, after a truncation and until something is written",
        remove("log.log:Log.truncate_to", "self.producers.on_high_watermark(self.high_watermark)"),
    ),
    unreported(
        "N94",
        "log",
        "a power loss after a truncation leaves torn batches: recovery begins behind what was written since",
        remove("log.log:Log.truncate_to", "self._lower_recovery_point(target_offset)"),
    ),
    unreported(
        "N95",
        "log",
        "aborted records are given to committed readers where an earlier transaction was still open at the abort",
        replace(
            "log.producer_state:ProducerStateManager._append_marker",
            "next(iter(self._ongoing), offset + 1)",
            "offset + 1",
        ),
    ),
    unreported(
        "N96",
        "log",
        "a lookup by a timestamp that several batches have names the last of them",
        replace(
            "log.segment:Segment.append", "max_timestamp > self.max_timestamp", "max_timestamp >= self.max_timestamp"
        ),
    ),
    unreported(
        "N97",
        "log",
        "after a power loss a follower asks for an epoch of which it has nothing, and cuts again and again",
        remove("log.recovery:load_segments", "epochs.truncate_from_end(log_end_offset)"),
    ),
    unreported(
        "N98",
        "replica",
        "deleted records are back with the next leader, and DeleteRecords waits for its time",
        remove(
            "replica.partition:Partition.append_as_follower",
            """
            if leader_log_start_offset > log.log_start_offset:
                ...
            """,
        ),
    ),
    unreported(
        "N99",
        "replica",
        "a follower that lacks committed records comes into the ISR, and may be elected",
        remove("replica.leading:expanded_isr", "follower.log_end_offset < high_watermark"),
    ),
    unreported(
        "N100",
        "replica",
        "the end that a new leader tells is below what the one before told (KIP-207)",
        replace(
            "replica.readable_partition:ReadablePartition.offset_for_timestamp",
            "start > log.high_watermark",
            "start > log.log_end_offset",
        ),
    ),
    unreported(
        "N101",
        "controller",
        "a replica that was moved away lies on its disk for ever when the controller dies amid the move",
        replace(
            "controller.reassignment:Reassignments.on_partition_reassignment",
            """
            await self._stop_removed_replicas(partition, reassignment.removing_replicas)
            await self._update_replica_assignment_for_partition(partition, completed)
            """,
            """
            await self._update_replica_assignment_for_partition(partition, completed)
            await self._stop_removed_replicas(partition, reassignment.removing_replicas)
            """,
        ),
    ),
    unreported(
        "N102",
        "controller",
        "a broker that comes back is told an ISR of before, and does not follow until the next election",
        remove(
            "controller.replica_state_machine:ReplicaStateMachine._do_remove_replicas_from_isr",
            "context.put_partition_leadership_info(partition, leadership)",
        ),
    ),
    unreported(
        "N103",
        "controller",
        "a topic that is made while a broker is down has that broker in its ISR: acks=all waits for it",
        replace(
            "controller.partition_state_machine:PartitionStateMachine._initialize_leader_and_isr_for_partitions",
            "LeaderAndIsr(live[0], 0, live)",
            "LeaderAndIsr(live[0], 0, assigned)",
        ),
    ),
    unreported(
        "N104",
        "coordinator",
        "a member that wants other topics, or has given partitions up, gets what it had: nobody reads the rest",
        replace(
            "coordinator.groups:Group._join_known",
            "self.state is STABLE and unchanged and member_id != self.leader",
            "self.state is STABLE and member_id != self.leader",
        ),
    ),
    unreported(
        "N105",
        "coordinator",
        "a transaction that goes on adding partitions never times out, and holds committed readers up",
        replace(
            "coordinator.transactions:TransactionMachine.add_partitions",
            "metadata.start_ms if metadata.state is ONGOING else now_ms",
            "now_ms",
        ),
    ),
    unreported(
        "N106",
        "coordinator",
        "exactly-once is broken: offsets of a transaction that is open at a failover are lost with its commit",
        remove(
            "coordinator.offsets_partition:OffsetsPartition.replay",
            """
            if producer_id >= 0:
                self.open_groups.setdefault(producer_id, {})[read.group_id] = None
            """,
        ),
    ),
    unreported(
        "N107",
        "coordinator",
        "a transaction is stuck for ever when the connection by which its markers went is lost",
        replace("coordinator.transaction_markers:TransactionMarkers._send_once", "return entries", "return []"),
    ),
    unreported(
        "N108",
        "broker",
        "producers at different brokers have the same id",
        replace("broker.producer_ids:ProducerIds.next", "self._next >= self._end", "self._next > self._end"),
    ),
    unreported(
        "N109",
        "client",
        "a producer's second transaction is refused: its partitions count as added by the first",
        remove("client.transaction:Transaction.begin", "self.added.clear()"),
    ),
    unreported(
        "N110",
        "client",
        "a transaction is committed before its last records are written, which are lost or are in the next one",
        replace(
            "client.transactions:TransactionalProducer.commit_transaction",
            """
            await self._flushed()
            if self._trouble is not None:
                raise self._trouble
            """,
            """
            if self._trouble is not None:
                raise self._trouble
            """,
        ),
    ),
    unreported(
        "N111",
        "client",
        "a consumer stands still when a leader moves, until something else asks for metadata",
        replace(
            "client.fetcher:Fetcher._take",
            """
            if code in _MOVED:
                self._in_doubt.add(topic_partition)
                return
            """,
            """
            if code in _MOVED:
                return
            """,
        ),
    ),
    unreported(
        "N112",
        "client",
        "a consumer stands still when its group's coordinator moves to another broker",
        remove(
            "client.group:GroupMember._check",
            """
            if code in COORDINATOR_MOVED:
                self._coordinator = None
            """,
        ),
    ),
)
"""Written from the code of a later day, before the campaign learnt to ask what they violate."""

_LATER: Final = (
    unreported(
        "N114",
        "log",
        "committed readers are given records of an open transaction after a restart, where another began before it",
        replace(
            "log.producer_state:ProducerStateManager.truncate_and_reload",
            "sorted(open_txns, key=lambda entry: entry.current_txn_first_offset)",
            "open_txns",
        ),
    ),
    unreported(
        "N115",
        "log",
        "deleted records are back after a restart, unless the log began in its last segment",
        replace(
            "log.checkpointed_logs:CheckpointedLogs._checkpoint_log_start_offsets_in",
            "log.segments[0].base_offset",
            "log.active_segment.base_offset",
        ),
    ),
    unreported(
        "N116",
        "replica",
        "a partition is followed no more, for good, where an election came while its leader was asked for offsets",
        remove(
            "replica.followed_partitions:FollowedPartitions._pause",
            """
            if self.states.get(state.topic_partition) is not state:
                return
            """,
        ),
    ),
    unreported(
        "N117",
        "replica",
        "a broker that missed a topic's deletion tells partitions of the old one beside those of the new one",
        remove("replica.metadata_cache:_update_topic", "partitions = copied[name] = {}"),
    ),
    unreported(
        "N118",
        "coordinator",
        "a rebalance takes all its time though the member that it waited for has left",
        remove("coordinator.group_rebalance:RebalancingGroup._remove_and_rebalance", "self._maybe_complete_join(now)"),
    ),
    unreported(
        "N119",
        "coordinator",
        "a dead member keeps its partitions until a later deadline of its group, which was set first",
        replace(
            "coordinator.group_coordinator:GroupCoordinator._set_timer",
            "set_ms is None or timed_ms <= set_ms",
            "True",
        ),
    ),
    unreported(
        "N120",
        "client",
        "a client finds no leader of a topic that was made again, until it was led as often as the old one",
        remove("client.metadata:TopicMetadata.not_before", "self.topic_id == known.topic_id"),
    ),
    unreported(
        "N121",
        "client",
        "a producer never writes to a partition again whose leader moved just before a batch went out",
        remove("client.producing:Producing._sealed", "queue.under_way = False"),
    ),
    unreported(
        "N122",
        "zk",
        "a controller back from a lost connection never hears of brokers that died meanwhile",
        remove("zk.server.tree:DataTree._take_away", "parent.pzxid = write.zxid"),
    ),
    unreported(
        "N123",
        "controller",
        "a broker that was killed and is back at once still leads, and is in sync, whatever it lost",
        remove("controller.brokers:process_broker_change", "context.remove_live_brokers(bounced)"),
    ),
)
"""Written from the code of a still later day, in the packages of which the list had least."""

_AGAIN: Final = (
    unreported(
        "N124",
        "replica",
        "a follower keeps its last records of an epoch that its leader never had, and goes on behind them",
        remove("replica.readable_partition:ReadablePartition.read", "epoch < last_fetched_epoch"),
    ),
    unreported(
        "N125",
        "replica",
        "DeleteRecords waits for all its time, and fails, while any of the brokers is down",
        remove("replica.leading:lowest_log_start", "is_alive(broker_id)"),
    ),
    unreported(
        "N126",
        "controller",
        "a move ends, and copies are deleted, while a replica that stays is out of sync",
        replace(
            "controller.reassignment:Reassignments._is_reassignment_complete",
            "reassignment.target_replicas",
            "reassignment.adding_replicas",
        ),
    ),
    unreported(
        "N127",
        "controller",
        "clients are sent to a dead broker for good, if it had no replica",
        remove(
            "controller.brokers:on_replicas_become_offline",
            """
            if not not_for_deletion and not elected:
                reign.send_update_metadata_request(context.live_or_shutting_down_broker_ids, ())
            """,
        ),
    ),
    unreported(
        "N128",
        "coordinator",
        "a transaction writes its markers into all partitions that any before it wrote to",
        replace(
            "coordinator.transactions:TransactionMachine.complete",
            "frozenset()",
            "metadata.partitions",
        ),
    ),
    unreported(
        "N129",
        "coordinator",
        "offsets that were deleted, or have expired, are back with the next coordinator",
        replace(
            "coordinator.group_coordinator:GroupCoordinator._clean_up",
            "not tombstones",
            "group.state is not DEAD",
        ),
    ),
    unreported(
        "N130",
        "broker",
        "a request that waited for ZooKeeper is obeyed by a broker that has registered anew meanwhile",
        replace(
            "broker.handlers.leader_and_isr:_become_leader_or_follower",
            """
            if answer is not None:
                ...
            if broker.is_stale(request.broker_epoch, request.is_k_raft_controller):
                ...
            """,
            """
            if answer is not None:
                ...
            """,
        ),
    ),
    unreported(
        "N131",
        "broker",
        "a broker from which a group's partition was moved away goes on as the coordinator of the group",
        remove("broker.handlers.stop_replica:handle", "_tell_deletions(broker, share, part)"),
    ),
    unreported(
        "N132",
        "client",
        "a client goes back to a former leader when a broker that is cut off tells of it",
        replace(
            "client.metadata:ClusterMetadata.merged",
            "topic if known is None else topic.not_before(known)",
            "topic",
        ),
    ),
    unreported(
        "N133",
        "client",
        "what a transaction has read is read again by the member that takes the partition over before it ends",
        replace(
            "client.consumer:Consumer._places",
            "self.cluster.committed_offsets(group, partitions, require_stable=True, owner=self.member)",
            "self.cluster.committed_offsets(group, partitions, owner=self.member)",
        ),
    ),
)
"""Written from the code of yet another day, of what decides: replicas, controller, coordinators, handlers, client."""

_STILL: Final = (
    unreported(
        "N134",
        "replica",
        "a follower forgets a partition in the very request that asks for it anew, and never gets more of it",
        remove("replica.fetch_session_handler:FetchSessionHandler.want", "self._dropped.pop(key, None)"),
    ),
    unreported(
        "N135",
        "replica",
        "a request with a short timeout is answered only when the time of a longer one that came before is over",
        replace("replica.purgatory:Purgatory.watch", "at < self._timer_at", "self._timer is None"),
    ),
    unreported(
        "N136",
        "replica",
        "followers that keep up with a steady load leave the ISR again and again",
        replace(
            "replica.progress:Progress.record_fetch",
            "fetch_offset >= self.last_fetch_leader_log_end_offset",
            "fetch_offset > self.last_fetch_leader_log_end_offset",
        ),
    ),
    unreported(
        "N137",
        "coordinator",
        "after a commit that failed, who asks for stable offsets waits until somebody commits again",
        replace(
            "coordinator.group_offsets:GroupOffsets.written",
            """
            for key, committed in offsets.items():
                ...
            """,
            """
            if record_offset is None:
                return
            for key, committed in offsets.items():
                ...
            """,
        ),
    ),
    unreported(
        "N138",
        "coordinator",
        "a transaction whose end could not be noted for once never ends, and its producer waits for good",
        remove(
            "coordinator.transaction_coordinator:TransactionCoordinator._complete",
            "completed.add_done_callback(judge)",
        ),
    ),
    unreported(
        "N139",
        "coordinator",
        "a producer's second transaction is as old as its first, and is aborted long before its time is over",
        replace(
            "coordinator.transactions:TransactionMachine.add_partitions",
            "metadata.start_ms if metadata.state is ONGOING else now_ms",
            "metadata.start_ms if metadata.start_ms >= 0 else now_ms",
        ),
    ),
    unreported(
        "N140",
        "controller",
        "replicas in a failed log directory count as alive again as soon as their broker answers about others",
        replace("controller.answers:process_leader_and_isr_response", "dict(before)", "{}"),
    ),
    unreported(
        "N141",
        "controller",
        "a broker whose session ended while a topic was deleted tells clients of that topic for good",
        remove(
            "controller.controller:KafkaController._process_register_broker_and_reelect",
            """
            self._known.forget_topics({name: topic_id for name, topic_id in known.items() if name not in there})
            """,
        ),
    ),
    unreported(
        "N142",
        "log",
        "readers of committed records are given those of a transaction whose end only its leader has",
        replace(
            "log.producer_state:ProducerStateManager.on_high_watermark",
            "marker >= high_watermark",
            "marker > high_watermark",
        ),
    ),
    unreported(
        "N143",
        "broker",
        "a group's offsets count with a transaction whose marker the partition of the group has refused",
        remove("broker.end_markers:_end", "not result.error"),
    ),
    unreported(
        "N144",
        "log",
        "records that were deleted are back when a broker dies after it moved the replica to another directory",
        remove("log.log_dirs:LogDirs.replace_with_future", "self._checkpoint_dir(future.log_dir)"),
    ),
    unreported(
        "N145",
        "client",
        "two members read one partition: one thinks that its session lasts longer than its coordinator does",
        replace("client.group:GroupMember.beat", "self._confirmed(asked_ms)", "self._confirmed(clock.monotonic_ms())"),
    ),
    unreported(
        "N146",
        "client",
        "a consumer that seeks while an earlier seek is looked up goes where the earlier one wanted",
        replace(
            "client.fetcher:Fetcher._take_resets",
            "position.reset_to != asked.get(partition)",
            "position.reset_to is None",
        ),
    ),
    unreported(
        "N147",
        "client",
        "a member that its group had removed goes on where it was, not where the group is by now",
        replace(
            "client.consumer:Consumer._joined",
            "self._give_up(revoked) if joined.kept else self._lose(held)",
            "self._give_up(revoked)",
        ),
    ),
    unreported(
        "N148",
        "zk",
        "a topic's deletion fails at a lost connection: a znode is deleted before those below it",
        remove("zk.kafka.requests:KafkaRequests._requests", "in_order and lost"),
    ),
)
"""Written once more from the code alone, and without a look at what the simulator draws or checks by then."""

_ONCE_MORE: Final = (
    unreported(
        "N149",
        "controller",
        "followers of a topic that is made again take the old one's leadership for the newer, and never follow",
        remove("controller.context:ControllerContext.remove_topic", "self._leadership.pop(partition, None)"),
    ),
    unreported(
        "N150",
        "controller",
        "a broker that is back leads nothing, and is in no ISR: its former life's wish to stop came late and counts",
        replace(
            "controller.brokers:process_controlled_shutdown",
            "event.broker_epoch < registered_epoch",
            "event.broker_epoch > registered_epoch",
        ),
    ),
    unreported(
        "N151",
        "controller",
        "replicas that a move had added stay, on their disks and in the ISR, when another move takes its place",
        remove(
            "controller.reassignment:Reassignments._update_current_reassignment",
            "await self._stop_removed_replicas(partition, unneeded)",
        ),
    ),
    unreported(
        "N152",
        "controller",
        "a topic is never led whose brokers were all down when it was made",
        replace(
            "controller.partition_state_machine:PartitionStateMachine.trigger_online_partition_state_change",
            "_TRIGGERED",
            "(PartitionState.OfflinePartition,)",
        ),
    ),
    unreported(
        "N153",
        "controller",
        "a broker that dies together with the controller stays in ISRs, and acks=all waits until it lags",
        remove(
            "controller.replica_state_machine:ReplicaStateMachine.startup",
            "await self.handle_state_changes(offline, ReplicaState.OfflineReplica)",
        ),
    ),
    unreported(
        "N154",
        "replica",
        "a follower goes on asking by the last epoch that it had when it began, and is told to cut what it has copied",
        remove("replica.fetchers:ReplicaFetcher._frame", "known.asked is not asked"),
    ),
    unreported(
        "N155",
        "replica",
        "DeleteRecords waits for all its time, and fails, though every replica has deleted",
        remove("replica.partition:Partition.record_fetch", "low_watermark_moved"),
    ),
    unreported(
        "N156",
        "replica",
        "a follower cuts to where its leader's epoch ends, not to where its own does, and keeps what it must cut",
        replace(
            "replica.truncation:truncation_offset",
            "min(end_offset, leader_end_offset, log.log_end_offset)",
            "min(leader_end_offset, log.log_end_offset)",
        ),
    ),
    unreported(
        "N157",
        "replica",
        "a follower's high watermark stays behind until something is written: it was told in an answer that came late",
        replace("replica.followed_partitions:FollowedPartitions._not_taken", "self._session.lost()", "pass"),
    ),
    unreported(
        "N158",
        "replica",
        "committed records are lost: the high watermark passes a follower whose way into the ISR is not answered yet",
        replace(
            "replica.leading:next_high_watermark",
            "isr_state.isr if type(isr_state) is CommittedIsr else isr_state.maximal_isr",
            "isr_state.isr",
        ),
    ),
    unreported(
        "N159",
        "replica",
        "a follower's high watermark stays behind until something is written: it moved just before the partition rests",
        remove(
            "replica.fetch_session:CachedPartition.rest",
            """
            if told.high_watermark != log.high_watermark or told.log_start_offset != log.log_start_offset:
                ...
            """,
        ),
    ),
    unreported(
        "N160",
        "log",
        "after a power loss a log does not know epochs of records that it flushed",
        remove("log.log:Log.flush", "self.leader_epochs.flush()"),
    ),
    unreported(
        "N161",
        "log",
        "a power loss brings segments back that were cut or deleted, and they hold what no other replica has",
        remove("log.log:Log._drop_segments", "self._disk.fsync_dir(self.directory)"),
    ),
    unreported(
        "N162",
        "log",
        "where the log's start has passed whole epochs, its first records are of the oldest of them",
        replace(
            "log.leader_epoch_cache:LeaderEpochCache.truncate_from_start",
            "EpochEntry(entries[at - 1].epoch, start_offset)",
            "EpochEntry(entries[0].epoch, start_offset)",
        ),
    ),
    unreported(
        "N163",
        "log",
        "after DeleteRecords retention by size takes more than is beyond it: what is deleted anyway counts as kept",
        replace("log.retention:segments_to_delete", "segments[doomed:]", "segments"),
    ),
    unreported(
        "N164",
        "coordinator",
        "a broker whose disk failed goes on as the coordinator of groups and transactions that another has taken over",
        replace(
            "coordinator.leader_epochs:LeaderEpochs.resigned",
            "leader_epoch < self._last.get(number, -1)",
            "leader_epoch <= self._last.get(number, -1)",
        ),
    ),
    unreported(
        "N165",
        "coordinator",
        "members are thrown out as soon as they have their share, where the group's leader took long to deal it out",
        remove(
            "coordinator.group_rebalance:RebalancingGroup._propagate_assignment",
            "self._schedule(member, member.session_timeout_ms, now)",
        ),
    ),
    unreported(
        "N166",
        "coordinator",
        "two producers with one transactional id write at once: both were its first, and neither is fenced",
        remove(
            "coordinator.transaction_coordinator:TransactionCoordinator.init_producer_id",
            "transaction is None",
        ),
    ),
    unreported(
        "N167",
        "coordinator",
        "a member that joins while its coordinator moves waits for all the time that a rebalance may take",
        remove(
            "coordinator.groups:Group.unloaded",
            "self._answer_join(member, JoinResult(ErrorCode.NOT_COORDINATOR, member.member_id))",
        ),
    ),
    unreported(
        "N168",
        "coordinator",
        "static members are unknown to the next coordinator, and each restart of one is a rebalance",
        remove(
            "coordinator.group_membership:GroupMembership.restore",
            """
            if stored_member.group_instance_id is not None:
                ...
            """,
        ),
    ),
    unreported(
        "N169",
        "broker",
        "a transaction is half ended when a leader dies: its marker counts as written before any follower has it",
        replace("broker.end_markers:_append", "ACKS_ALL", "1"),
    ),
    unreported(
        "N170",
        "zk",
        "partitions that are added while others of their topic are moved vanish again",
        replace("zk.kafka.zk_topics:KafkaZkTopics.change_topic_assignment", "stat.version", "MATCH_ANY_VERSION"),
    ),
    unreported(
        "N171",
        "client",
        "a consumer stands still after a leader moved, unless it reads from another one, too",
        remove("client.fetcher:Fetcher._ask_who_leads", "self._due = True"),
    ),
    unreported(
        "N172",
        "client",
        "a consumer that gives partitions up commits older offsets behind the last ones, and others read again",
        remove(
            "client.consumer:Consumer._commit_positions",
            """
            if self._committing is not None:
                ...
            """,
        ),
    ),
)
"""Written from the product's code of another day again, spread over what decides, waits, cuts and remembers."""

_UNSEEN: Final = (
    unreported(
        "N173",
        "controller",
        "a topic whose deletion waited for a broker stays, half deleted, when the broker is back",
        remove(
            "controller.topic_deletion:TopicDeletionManager.resume_deletion_for_topics",
            """
            for topic in resumed:
                ...
            """,
        ),
    ),
    unreported(
        "N174",
        "controller",
        "committed records are lost: the preferred replica leads as soon as its broker is back, before it has them",
        remove("controller.election:preferred_replica_partition_leader_election", "preferred in isr"),
    ),
    unreported(
        "N175",
        "controller",
        "committed records are lost when a move is cancelled while only replicas that it had added are in sync",
        remove(
            "controller.reassignment:Reassignments._trigger",
            """
            refused = validate_isr_stays(self._context, partition, reassignment)
            if refused is not None:
                ...
            """,
        ),
    ),
    unreported(
        "N176",
        "replica",
        "a former leader that ends where the next one does counts as having all, and keeps what nobody else has",
        remove(
            "replica.partition:Partition.record_fetch_of_all",
            "asked.last_fetched_epoch != log.leader_epochs.latest_epoch",
        ),
    ),
    unreported(
        "N177",
        "replica",
        "the high watermark passes a follower that has yet to cut its log, by the offsets that it is about to cut",
        remove("replica.fetching:Fetching._read_one", "result.diverging is None"),
    ),
    unreported(
        "N178",
        "replica",
        "a leader gives up what it leads: a wish that it had in an earlier epoch was refused, and it leads again since",
        remove("replica.replicas:Replicas._deposed", "partition.isr_state is not refused.state"),
    ),
    unreported(
        "N179",
        "log",
        "committed records are hidden from committed readers: an abort marker was cut, and stays in the index",
        replace(
            "log.txn_index:TransactionIndex.truncate_to",
            "aborted[keep - 1].last_offset >= offset",
            "aborted[keep - 1].last_offset > offset",
        ),
    ),
    unreported(
        "N180",
        "log",
        "compaction takes what a producer committed after a transaction that it had aborted",
        replace(
            "log.compaction:CleanedTransactions.marker_is_alone",
            "self._ongoing_aborted.pop(batch.producer_id, (None, False))",
            "self._ongoing_aborted.get(batch.producer_id, (None, False))",
        ),
    ),
    unreported(
        "N181",
        "log",
        "aborted records are given to committed readers that read from the middle of a segment",
        replace("log.log_segments:LogSegments.bound_of_read", "where.position + size", "size"),
    ),
    unreported(
        "N182",
        "coordinator",
        "what a consumer without a subscription has committed is gone when its coordinator moves",
        remove("coordinator.offsets_partition:OffsetsPartition.complete", "not group.offsets"),
    ),
    unreported(
        "N183",
        "coordinator",
        "members that wait for their share when another joins are not told, and the group waits for them in vain",
        remove(
            "coordinator.group_rebalance:RebalancingGroup._prepare_rebalance",
            """
            if self.state is COMPLETING:
                self._reset_and_propagate(ErrorCode.REBALANCE_IN_PROGRESS, now)
            """,
        ),
    ),
    unreported(
        "N184",
        "coordinator",
        "a producer that asks again for its next epoch, since the answer was lost, is fenced by itself",
        replace(
            "coordinator.transactions:TransactionMachine.init_producer_id",
            "expected == metadata.last",
            "False",
        ),
    ),
    unreported(
        "N185",
        "coordinator",
        "a new coordinator aborts what was committed long ago, and fences its producer, while it reads its log",
        remove(
            "coordinator.transaction_coordinator:TransactionCoordinator.abort_timed_out",
            """
            if partition.loading:
                continue
            """,
        ),
    ),
    unreported(
        "N186",
        "replica",
        "a single record is acknowledged with acks=all before any follower has it, and is lost with its leader",
        replace(
            "replica.appending:Appending.append",
            "log.high_watermark <= info.last_offset",
            "log.high_watermark < info.last_offset",
        ),
    ),
    unreported(
        "N187",
        "replica",
        "a produce that waits for followers is acknowledged when its leader's disk fails",
        remove("replica.delayed_produce:DelayedProduce._is_over", "result.failed(partition)"),
    ),
    unreported(
        "N188",
        "client",
        "a consumer that pauses a partition of which it has records in hand reads nothing more of it, once resumed",
        replace(
            "client.positions:PartitionsInTurn.taken",
            """
            if position.has_records:
                ...
            elif position.paused:
                kept.append(topic_partition)
            """,
            """
            if position.has_records:
                ...
            """,
        ),
    ),
    unreported(
        "N189",
        "client",
        "a producer's records wait until their time is over where another request has told it of a new leader",
        replace(
            "client.producer:Producer._send_to",
            """
            while ready := self._ready(leader, closed=False):
                ...
            self._wake_leaders()
            """,
            """
            while ready := self._ready(leader, closed=False):
                ...
            """,
        ),
    ),
    unreported(
        "N190",
        "zk",
        "a broker that a silent network cut off from ZooKeeper never connects again: its own pings count as answers",
        replace(
            "zk.client.connection:ClientConnection._tick",
            "now_ms - self.last_received_ms >= silent_max_ms",
            "now_ms - self.last_sent_ms >= silent_max_ms",
        ),
    ),
)
"""Written once more from the product's code alone: slips at boundaries, in rare branches, and in what is remembered."""

_OWN: Final = (
    unreported(
        "N113",
        "controller",
        "nobody reigns, for good, where a controller comes and goes before a broker has looked at it",
        remove(
            "controller.controller:KafkaController._process_controller_change",
            """
            if self._active_controller_id == NO_BROKER:
                await self._elect()
            """,
        ),
    ),
)
"""Faults that were here, and were found on living brokers."""

NEW_MUTANTS: Final = (
    *_LOG,
    *_REPLICA,
    *_CONTROLLER,
    *_COORDINATOR,
    *_BROKER,
    *_ZK,
    *_CLIENT,
    *_WIRE,
    *_SPARK,
    *_GROUND,
    *_MORE,
    *_OWN,
    *_LATER,
    *_AGAIN,
    *_STILL,
    *_ONCE_MORE,
    *_UNSEEN,
)
