"""A third set of strangers' mutants: thirty small slips, a third moderately hidden, a third on paths such as recovery,
failover and expiry, a third where several things have to come together.

They were written from the product's code alone, as those in `table_strangers` were, with the knowledge of which edits
were taken. `source` is the package; `what` tells what a user would see.
"""

from __future__ import annotations

from typing import Final

from mutants.edits import remove, replace
from mutants.mutant import unreported

_LOG: Final = (
    unreported(
        "Z1",
        "log",
        "compaction takes a key's committed value, since a transaction wrote another that was aborted",
        replace(
            "log.cleaner:LogCleaner._map",
            """
            if batch.is_control:
                transactions.marker_is_alone(batch, data)
            elif not transactions.data_is_aborted(batch):
                ...
            """,
            """
            if batch.is_control:
                transactions.marker_is_alone(batch, data)
            else:
                ...
            """,
        ),
    ),
    unreported(
        "Z2",
        "log",
        "after DeleteRecords within a batch a lookup by time names a deleted record, and who goes there is reset",
        replace(
            "log.log_segments:LogSegments._searching",
            "record.timestamp >= timestamp and (exact or record.offset >= from_offset)",
            "record.timestamp >= timestamp",
        ),
    ),
    unreported(
        "Z3",
        "log",
        "records that were deleted shortly before a broker stopped in order are back when it starts again",
        remove("log.log_dirs:LogDirs._close_dir", "self._checkpoint_dir(log_dir)"),
    ),
    unreported(
        "Z4",
        "log",
        "a batch that was given up, and comes behind its transaction's marker, begins a transaction that nobody ends",
        remove("log.producer_state:ProducerStateManager._append_marker", "self._verifications.pop(producer_id, None)"),
    ),
    unreported(
        "Z5",
        "log",
        "who is hundreds of batches behind the end, consumer or follower, is sent all records but one",
        replace("log.segment:Segment.append", "tail[half - 1] + 1", "tail[half - 1]"),
    ),
)

_REPLICA: Final = (
    unreported(
        "Z6",
        "replica",
        "a leader that is elected again while it changes its ISR goes back to the ISR of before, and keeps it for ever",
        remove(
            "replica.partition:Partition.isr_altered",
            """
            if self.isr_state is not proposed.state:
                return False
            """,
        ),
    ),
    unreported(
        "Z7",
        "replica",
        "after each election nothing is committed while a replica that is far behind catches up: producers time out",
        replace(
            "replica.progress:Progress.reset",
            "self.last_caught_up_ms = now_ms if in_sync else NEVER_MS",
            "self.last_caught_up_ms = now_ms",
        ),
    ),
    unreported(
        "Z8",
        "replica",
        "the move of a replica to another directory never ends, if its broker starts again and leads it then",
        remove("replica.replicas:Replicas._make_leaders", "self.log_dir_moves.begin(partition.topic_partition)"),
    ),
    unreported(
        "Z9",
        "replica",
        "a change of the ISR that a deposed controller has refused is never asked for again; a dead replica stays in",
        replace(
            "replica.replicas:Replicas.alter_isr",
            """
            if partition.isr_altered(proposed, outcome, self._clock.monotonic_ms()):
                ...
            """,
            "partition.isr_altered(proposed, outcome, self._clock.monotonic_ms())",
        ),
    ),
    unreported(
        "Z10",
        "replica",
        "consumers read what is on no other replica, after a new topic's leader has died before its first checkpoint",
        replace(
            "replica.high_watermark_checkpoints:HighWatermarkCheckpoints.of",
            "log.log_start_offset",
            "log.log_end_offset",
        ),
    ),
    unreported(
        "Z11",
        "replica",
        "a follower that cuts a record or two throws its whole log away where it begins before its leader's; elected "
        "then, it lacks what was acknowledged",
        remove("replica.fetchers:ReplicaFetcher._take", "offset <= data.log_start_offset"),
    ),
)

_CONTROLLER: Final = (
    unreported(
        "Z12",
        "controller",
        "a partition all of whose replicas were gone has no leader when they are back",
        replace(
            "controller.partition_state_machine:PartitionStateMachine._do_handle_state_changes",
            """
            for partition, outcome in outcomes.items():
                if isinstance(outcome, LeaderAndIsr):
                    self._changed(partition, target_state)
            """,
            """
            for partition in outcomes:
                self._changed(partition, target_state)
            """,
        ),
    ),
    unreported(
        "Z13",
        "controller",
        "who describes a topic is told an ISR from before its leader changed it, until the next election",
        remove(
            "controller.alter_partition:process_alter_partition",
            "reign.send_metadata_of([partition for partition in known if context.has_partition(partition)])",
        ),
    ),
    unreported(
        "Z14",
        "controller",
        "of elections that are asked for by the znode a controller does the first, and never a second one",
        replace(
            "controller.replica_election:elect_by_znode",
            """
            while await reign.zk.register_znode_change_handler_and_check_existence(
                reign.preferred_replica_election_handler
            ):
                ...
            """,
            """
            if await reign.zk.register_znode_change_handler_and_check_existence(
                reign.preferred_replica_election_handler
            ):
                ...
            """,
        ),
    ),
    unreported(
        "Z15",
        "controller",
        "who asks a controller that is deposed meanwhile is never answered, nor anybody behind on that connection",
        remove("controller.controller:KafkaController._process", "event.preempt()"),
    ),
    unreported(
        "Z16",
        "controller",
        "a partition has no leader when its move is replaced by another, and a replica that the first added led it",
        remove(
            "controller.reassignment:Reassignments._update_current_reassignment",
            """
            if unneeded and context.current_leader(partition) == NO_BROKER:
                ...
            """,
        ),
    ),
    unreported(
        "Z17",
        "controller",
        "a partition that was moved goes back by itself under the next controller, where a move by znode was replaced",
        remove(
            "controller.reassignment:Reassignments.trigger_by_api",
            "await self._maybe_remove_from_zk_reassignment(lambda partition, _: partition in built)",
        ),
    ),
)

_COORDINATOR: Final = (
    unreported(
        "Z18",
        "coordinator",
        "a topic's new partitions are read by nobody: the leader of the group joins again, and nothing comes of it",
        remove("coordinator.groups:Group._join_known", "member_id != self.leader"),
    ),
    unreported(
        "Z19",
        "coordinator",
        "members that wait for a slow one are thrown out of the group when that lasts longer than a session",
        remove("coordinator.group_rebalance:RebalancingGroup._complete_join", "member.is_new = False"),
    ),
    unreported(
        "Z20",
        "coordinator",
        "a group whose leader is a static member that is away gets no assignment until that one's session ends",
        replace(
            "coordinator.group_rebalance:RebalancingGroup._elect_joined_leader",
            "leader is not None and leader.awaits_join",
            "leader is not None",
        ),
    ),
    unreported(
        "Z21",
        "coordinator",
        "a transactional id is refused, until its coordinator changes, after its expiry could not be written",
        remove(
            "coordinator.transaction_coordinator:TransactionCoordinator._forget",
            """
            for transaction in expired:
                transaction.not_written()
            """,
        ),
    ),
    unreported(
        "Z22",
        "coordinator",
        "of offsets that a transaction commits for two groups only the second's count, until the coordinator changes",
        replace(
            "coordinator.group_coordinator:GroupCoordinator.commit_transactional_offsets",
            "partition.open_groups.setdefault(producer_id, {})[group_id] = None",
            "partition.open_groups[producer_id] = {group_id: None}",
        ),
    ),
    unreported(
        "Z23",
        "coordinator",
        "a group skips the first records of a topic made anew: a transaction was open when the old one was deleted",
        replace(
            "coordinator.group_coordinator:GroupCoordinator.partitions_deleted",
            "group.offsets.keys",
            "group.offsets.committed",
        ),
    ),
)

_BROKER: Final = (
    unreported(
        "Z24",
        "broker",
        "a quota that is changed or taken away goes on throttling whoever is known, and a new one throttles nobody",
        remove("broker.quotas:Quotas.set", "self._found.clear()"),
    ),
    unreported(
        "Z25",
        "broker",
        "a connection on which a megabyte of requests had to wait, one after the other, is never read again",
        remove("broker.framed_connection:FramedConnection._begin_waiting", "self._waiting_bytes -= len(frame)"),
    ),
    unreported(
        "Z26",
        "broker",
        "a topic that is made anew at the moment in which its namesake's deletion ends loses its configuration, or is "
        "deleted as well",
        remove(
            "broker.topics:Topics._write_topic",
            """
            if await zk.is_topic_marked_for_deletion(name):
                ...
            """,
        ),
    ),
)

_ZK: Final = (
    unreported(
        "Z27",
        "zk",
        "a broker whose session ended while it had asked for something never comes back: it waits for the answer",
        remove("zk.client.client:ZooKeeperClient.expired", "self._fail(self._taken_queue(), SessionExpired)"),
    ),
    unreported(
        "Z28",
        "zk",
        "a broker whose session had ended goes on in it, unregistered, after the coordinator was killed and is back",
        remove(
            "zk.server.recovery:replay",
            """
            if op_code == OpCode.CLOSE_SESSION:
                sessions.close(session_id)
            """,
        ),
    ),
)

_CLIENT: Final = (
    unreported(
        "Z29",
        "client",
        "a consumer begins anew, or skips to the end, since a leader that was cut off calls its position out of range",
        remove(
            "client.fetcher:Fetcher._take",
            """
            if self._may_have_led_before(topic_partition, position, leader):
                ...
            """,
        ),
    ),
    unreported(
        "Z30",
        "client",
        "a group's offset goes back: a commit that is repeated comes behind a later one of the same member",
        replace(
            "client.group:GroupMember.commit",
            """
            async with self._commits:
                return await self.cluster.retrying(attempt, timeout_ms=timeout_ms)
            """,
            "return await self.cluster.retrying(attempt, timeout_ms=timeout_ms)",
        ),
    ),
)

THIRD_STRANGERS: Final = (*_LOG, *_REPLICA, *_CONTROLLER, *_COORDINATOR, *_BROKER, *_ZK, *_CLIENT)
