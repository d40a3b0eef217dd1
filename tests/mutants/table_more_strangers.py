"""More mutants of strangers: forty small slips, a third in plain sight, a third on paths such as recovery, failover and
expiry, a third where several things have to come together.

They were written from the product's code alone, as those in `table_strangers` were, some with the knowledge of which
edits were taken. `source` is the package; `what` tells what a user would see.
"""

from __future__ import annotations

from typing import Final

from mutants.edits import remove, replace
from mutants.mutant import unreported

_LOG: Final = (
    unreported(
        "Y1",
        "log",
        "of three leaders in turn the first keeps records that the others never had, or cuts too few of them",
        replace(
            "log.leader_epoch_cache:LeaderEpochCache.end_offset_for",
            "entries[higher - 1].epoch, entries[higher].start_offset",
            "requested_epoch, entries[higher].start_offset",
        ),
    ),
    unreported(
        "Y2",
        "log",
        "who began anew far behind still knows epochs of what it dropped, and as a leader names wrong places to cut",
        remove("log.log:Log._truncate_fully_and_start_at", "self.leader_epochs.clear()"),
    ),
    unreported(
        "Y3",
        "log",
        "retention by size deletes a segment more than it should, and leaves less than retention.bytes",
        replace(
            "log.retention:segments_to_delete",
            "doomed < replicated and excess >= segments[doomed].size",
            "doomed < replicated and excess > 0",
        ),
    ),
    unreported(
        "Y4",
        "log",
        "after a recovery and one more restart a lookup by time passes over the last records of a segment",
        remove(
            "log.segment:Segment.recover",
            "self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)",
        ),
    ),
    unreported(
        "Y5",
        "log",
        "a key's committed value is compacted away for one of an open transaction, which is aborted later",
        replace("log.cleaner:log_to_clean", "log.last_stable_offset", "log.high_watermark"),
    ),
    unreported(
        "Y6",
        "log",
        "after a truncation and then a power loss, recovery trusts bytes that were never flushed",
        remove(
            "log.log:Log._lower_recovery_point",
            """
            if self.on_recovery_point_lowered is not None:
                self.on_recovery_point_lowered(self)
            """,
        ),
    ),
)

_REPLICA: Final = (
    unreported(
        "Y7",
        "replica",
        "a request that waits is never answered where another of the same timeout was due before it",
        replace(
            "replica.purgatory:Purgatory._on_timer",
            "heapq.heapreplace(lengths, (at, timeout_ms))",
            "heapq.heappop(lengths)",
        ),
    ),
    unreported(
        "Y8",
        "replica",
        "a replica that was cut while it moved to another directory has what was cut again when it is there",
        remove("replica.log_dir_moves:LogDirMoves._step", "_cut_what_differs(current, future, wall_ms)"),
    ),
    unreported(
        "Y9",
        "replica",
        "an ISR whose change was refused once neither shrinks nor grows until the next leader",
        replace(
            "replica.leading:refused_isr",
            "return proposed.state.committed, False",
            "return proposed.state, False",
        ),
    ),
    unreported(
        "Y10",
        "replica",
        "a follower in sync leaves the ISR at the first records after a quiet time",
        remove(
            "replica.progress:Progress.rested_until",
            """
            if fetch_ms > self.last_caught_up_ms:
                self.last_caught_up_ms = fetch_ms
            """,
        ),
    ),
    unreported(
        "Y11",
        "replica",
        "a follower that lacks the leader's epoch cuts too little, is told so again and again, and never gets in sync",
        replace(
            "replica.truncation:truncation_offset",
            "min(end_offset, log.log_end_offset)",
            "min(leader_end_offset, log.log_end_offset)",
        ),
    ),
    unreported(
        "Y12",
        "replica",
        "a throttled replica that is copied steadily is held back for ever longer than its rate asks for",
        replace(
            "replica.replication_quota:ReplicationQuota.record",
            "self._samples.append((began_ms, before + size))",
            "self._samples.append((now_ms, before + size))",
        ),
    ),
    unreported(
        "Y13",
        "replica",
        "a deposed leader of groups' or transactions' partition goes on coordinating beside its successor",
        remove("replica.replicas:Replicas._deposed", "self.on_leadership_change([], [partition])"),
    ),
    unreported(
        "Y14",
        "replica",
        "a follower's high watermark stands still until the next record, where it moved while it was asked for",
        remove(
            "replica.fetch_session:CachedPartition.rest",
            """
            if told.high_watermark != log.high_watermark or told.log_start_offset != log.log_start_offset:
                return False
            """,
        ),
    ),
)

_CONTROLLER: Final = (
    unreported(
        "Y15",
        "controller",
        "who replaces one reassignment by another may drop the only replicas that are in sync",
        remove(
            "controller.reassignment:Reassignments._trigger",
            """
            if refused is not None:
                outcomes[partition] = refused
                continue
            """,
        ),
    ),
    unreported(
        "Y16",
        "controller",
        "a topic that is made anew under the controller that deleted it is told to nobody",
        remove(
            "controller.context:ControllerContext.remove_topic",
            "self.topics_with_deletion_started.pop(topic, None)",
        ),
    ),
    unreported(
        "Y17",
        "controller",
        "a topic that was once moved, and is deleted under the same controller, is never gone",
        remove(
            "controller.reassignment:Reassignments._remove_partition_from_reassigning_partitions",
            "self._context.partitions_being_reassigned.pop(partition)",
        ),
    ),
    unreported(
        "Y18",
        "controller",
        "a topic made anew has the configuration of the one that was deleted: its records are compacted or too old",
        remove(
            "controller.topic_deletion:DeletionClient.delete_topic",
            "await self._zk.delete_topic_configs([topic], epoch_zk_version)",
        ),
    ),
    unreported(
        "Y19",
        "controller",
        "an ISR that was written, and whose answer ZooKeeper lost, never changes again under that leader",
        replace(
            "controller.alter_partition:process_alter_partition",
            "await reign.update_leader_and_isr_cache(list(decision.accepted))",
            """
            await reign.update_leader_and_isr_cache(
                [tp for tp in decision.accepted if isinstance(outcomes.get(tp), LeaderAndIsr)]
            )
            """,
        ),
    ),
    unreported(
        "Y20",
        "controller",
        "a broker that is just back is taken for leaving, since its last life's request came late",
        remove(
            "controller.brokers:process_controlled_shutdown",
            """
            if event.broker_epoch != -1 and event.broker_epoch < registered_epoch:
                ...
            """,
        ),
    ),
    unreported(
        "Y21",
        "controller",
        "a reassignment whose target fell out of the ISR as it was about to end is never brought to its end",
        remove(
            "controller.reassignment:Reassignments.on_partition_reassignment",
            "context.update_partition_full_replica_assignment(partition, reassignment)",
        ),
    ),
    unreported(
        "Y22",
        "controller",
        "while one broker leaves another dies: what the first leads gets a second leader, and it is not told",
        replace(
            "controller.context:ControllerContext.partitions_with_offline_leader",
            """
            self.is_replica_online(
                leadership.leader_and_isr.leader, partition, include_shutting_down_brokers=True
            )
            """,
            "self.is_replica_online(leadership.leader_and_isr.leader, partition)",
        ),
    ),
)

_COORDINATOR: Final = (
    unreported(
        "Y23",
        "coordinator",
        "a group that read long without a commit loses its offsets as soon as its members are gone",
        replace(
            "coordinator.groups:Group.expired_offsets",
            "None if self.current_state_timestamp_ms == NO_TIMESTAMP else self.current_state_timestamp_ms",
            "None",
        ),
    ),
    unreported(
        "Y24",
        "coordinator",
        "offsets expire with those that an open transaction is about to replace them by: the group begins anew",
        remove("coordinator.group_offsets:GroupOffsets.expired", "self.is_unstable(key)"),
    ),
    unreported(
        "Y25",
        "coordinator",
        "a static member that restarts during a rebalance loses its place and its partitions",
        remove("coordinator.group_rebalance:RebalancingGroup._complete_join", "not member.is_static"),
    ),
    unreported(
        "Y26",
        "coordinator",
        "a late word of an earlier leader makes a coordinator forget its groups, and nobody has them",
        remove(
            "coordinator.leader_epochs:LeaderEpochs.resigned",
            """
            if leader_epoch < self._last.get(number, -1):
                return False
            """,
        ),
    ),
    unreported(
        "Y27",
        "coordinator",
        "a producer whose transaction timed out, or has a successor, still writes to it behind the abort",
        replace(
            "coordinator.transactions:TransactionMachine._fenced",
            "min(self.metadata.producer_epoch, LAST_GIVEN_EPOCH) + 1",
            "self.metadata.producer_epoch",
        ),
    ),
    unreported(
        "Y28",
        "coordinator",
        "a coordinator sends markers of an end that is lost with it, and the transaction ends twice or never",
        remove(
            "coordinator.transaction_coordinator:TransactionCoordinator._load",
            "await self._is_replicated(partition)",
        ),
    ),
    unreported(
        "Y29",
        "coordinator",
        "a transaction never times out, and holds up readers, while its producer adds partitions to it",
        replace(
            "coordinator.transactions:TransactionMachine.time_out",
            "metadata.start_ms + metadata.timeout_ms < now_ms",
            "metadata.last_update_ms + metadata.timeout_ms < now_ms",
        ),
    ),
    unreported(
        "Y30",
        "coordinator",
        "a transactional id that is taken up in the moment in which it expires is unknown right afterwards",
        remove("coordinator.transaction_coordinator:TransactionCoordinator.remove_expired", "transaction.expire()"),
    ),
)

_BROKER: Final = (
    unreported(
        "Y31",
        "broker",
        "a broker that registers anew while it reads a topic's configuration takes up what was meant for its past",
        replace(
            "broker.handlers.leader_and_isr:_become_leader_or_follower",
            """
            if answer is not None:
                await asyncio.sleep(0)
            if broker.is_stale(request.broker_epoch, request.is_k_raft_controller):
                raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
            """,
            """
            if answer is not None:
                await asyncio.sleep(0)
            """,
        ),
    ),
    unreported(
        "Y32",
        "broker",
        "while one partition is written to steadily, a follower hears late of the others that it fetches with it",
        remove("broker.repeated_fetch:RepeatedFetches.answer", "len(stirred) > (known.cache_key in stirred)"),
    ),
    unreported(
        "Y33",
        "broker",
        "a throttled consumer pays for records that it was not given, each time it asks, and is never let go",
        remove("broker.quotas:Quotas.fetched", "meter.rate.record(-size, now_ms)"),
    ),
    unreported(
        "Y34",
        "broker",
        "a partition gets no marker, and its readers stand still, where ZooKeeper cannot be asked about it",
        replace("broker.transactions:Transactions._exists", "return True", "return False"),
    ),
)

_ZK: Final = (
    unreported(
        "Y35",
        "zk",
        "a controller whose session has ended goes on beside its successor until it has another session",
        remove(
            "zk.client.client:ZooKeeperClient._keep_session",
            'await self._call_hooks("before_initializing_session")',
        ),
    ),
    unreported(
        "Y36",
        "zk",
        "a broker that lost an election takes the winner's /controller along when its session ends",
        remove("zk.server.tree:DataTree._create", "self._account(path, node, -1)"),
    ),
    unreported(
        "Y37",
        "zk",
        "partitions that are added while another of their topic is moved are gone again",
        replace(
            "zk.kafka.zk_topics:KafkaZkTopics.change_topic_assignment",
            "SetData(path, TopicZNode.encode(known.topic_id, change(known.assignment)), stat.version)",
            "SetData(path, TopicZNode.encode(known.topic_id, change(known.assignment)))",
        ),
    ),
)

_CLIENT: Final = (
    unreported(
        "Y38",
        "client",
        "after an aborted transaction a committed reader passes over the next ones of the same producer",
        remove("client.positions:read", "aborting.pop(header.producer_id, None)"),
    ),
    unreported(
        "Y39",
        "client",
        "records whose answer was lost turn up in the producer's next transaction, and count with it",
        remove(
            "client.producing:Producing._take",
            """
            if self._transaction is not None and not isinstance(error, NeverSent):
                self._transaction.answer_lost = True
            """,
        ),
    ),
    unreported(
        "Y40",
        "client",
        "a cooperative consumer that its group has put out reads on, beside whoever has its partitions now",
        remove(
            "client.group:GroupMember._check",
            """
            if code is not ErrorCode.REBALANCE_IN_PROGRESS:
                self._assigned_in = NO_GENERATION
            """,
        ),
    ),
)

MORE_STRANGERS: Final = (*_LOG, *_REPLICA, *_CONTROLLER, *_COORDINATOR, *_BROKER, *_ZK, *_CLIENT)
