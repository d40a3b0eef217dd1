"""Mutants: controller and ZooKeeper."""

from __future__ import annotations

from typing import Final

from mutants.edits import after, remove, replace
from mutants.mutant import mutant

MUTANTS: Final = (
    mutant(
        "B01", "KAFKA-6082", "controller writes are not guarded by the epoch they were elected with",
        "GC", "C1",
        replace(
            "zk.kafka.requests:KafkaRequests._checked_requests",
            "assert expected_controller_epoch_zk_version >= 0",
            """
            if expected_controller_epoch_zk_version >= 0:
                return await self._requests(ops)
            """,
        ),
    ),
    mutant(
        "B02", "KAFKA-1096", "a stalled controller reads the epoch again before it writes",
        "GC", "C1 C2",
        replace(
            "zk.kafka.requests:KafkaRequests._checked_requests",
            "check = Check(ControllerEpochZNode.path, expected_controller_epoch_zk_version)",
            """
            known = await self.get_controller_epoch()
            assert known is not None
            check = Check(ControllerEpochZNode.path, known[1].version)
            """,
        ),
    ),
    mutant(
        "B03", "KAFKA-532", "a broker applies requests of an older controller",
        "DLY GC", "C3 C6",
        replace(
            "replica.replicas:Replicas.become_leader_or_follower",
            "request.controller_epoch < self.controller_epoch",
            "False",
        ),
        replace(
            "replica.replicas:Replicas.stop_replicas",
            "request.controller_epoch < self.controller_epoch",
            "False",
        ),
        replace(
            "replica.replicas:Replicas.maybe_update_metadata_cache",
            "request.controller_epoch < self.controller_epoch",
            "False",
        ),
    ),
    mutant(
        "B04", "KAFKA-4447", "a controller that resigned keeps its context for its next reign",
        "ZKX REAS", "C1 C12 C14",
        replace(
            "controller.reign:Reign.__init__",
            "ControllerContext()",
            "zk.__dict__.setdefault('_kept', ControllerContext())",
        ),
    ),
    mutant(
        "B05", "KAFKA-4443", "a new controller sends LeaderAndIsr before it says who is alive",
        "GC BNC", "L1",
        replace(
            "controller.failover:on_controller_failover",
            """
            reign.send_metadata_of(())
            step("Initializing replica state machine")
            await reign.replicas.startup()
            step("Initializing partition state machine")
            await reign.partitions.startup()
            """,
            """
            step("Initializing replica state machine")
            await reign.replicas.startup()
            step("Initializing partition state machine")
            await reign.partitions.startup()
            reign.send_metadata_of(())
            """,
        ),
    ),
    mutant(
        "B06", "KAFKA-2729", "a leader keeps the partition epoch it had, and its next ISR change is refused for ever",
        "ZKX KILL", "C7 L1",
        remove("replica.partition:Partition.isr_altered", "self.partition_epoch = outcome.partition_epoch"),
    ),
    mutant(
        "B07", "KAFKA-1387", "a registration that is there already counts as one's own",
        "BNC ZKX", "C4 L1",
        replace(
            "zk.kafka.zk_client:KafkaZkClient.register_broker",
            "found.ephemeral_owner == self.client.session_id",
            "found.ephemeral_owner",
        ),
    ),
    mutant(
        "B08", "KAFKA-7235", "a broker applies requests that were meant for its life before",
        "BNC DLY", "C4",
        replace(
            "broker.parts:BrokerParts.is_stale",
            "broker_epoch < self.controller.broker_epoch",
            "False",
        ),
    ),
    mutant(
        "B09", "KAFKA-9839", "a request for a registration that the broker has not heard of yet is refused",
        "ZKX DLY", "C4 C14 L1",
        replace(
            "broker.parts:BrokerParts.is_stale",
            "broker_epoch < self.controller.broker_epoch",
            "broker_epoch != self.controller.broker_epoch",
        ),
    ),
    mutant(
        "B10", "KAFKA-9539, KAFKA-13972", "StopReplica with the present leader epoch is refused as stale",
        "REAS DLY", "C12 C13",
        replace(
            "replica.replicas:Replicas.stop_replica",
            "leader_epoch >= partition.leader_epoch",
            "leader_epoch > partition.leader_epoch",
        ),
    ),
    mutant(
        "B11", "KAFKA-6879", "what is asked of an expired session waits for the next one, which waits for it",
        "ZKX", "L1",
        replace(
            "zk.client.client:ZooKeeperClient._submit",
            "self._state in (ConnectionState.CONNECTING, ConnectionState.CONNECTED)",
            "self._state is not ConnectionState.CLOSED",
        ),
    ),
    mutant(
        "B12", "KAFKA-5473", "after an expiry the first connection that fails is the last",
        "ZKX", "L1 C1",
        replace(
            "zk.client.client:ZooKeeperClient._keep_connected",
            """
            if attempt % len(order) == 0:
                ...
            """,
            """
            if session.id == 0 and self.expires:
                return
            elif attempt % len(order) == 0:
                ...
            """,
        ),
    ),
    mutant(
        "B13", "KAFKA-928", "watches are not set again on a new connection",
        "ZKX ADMIN", "C14 L1",
        replace(
            "zk.client.connection:ClientConnection._introduced",
            "self.session.set_watches()",
            "list(self.session.set_watches())[:0]",
        ),
    ),
    mutant(
        "B14", "KAFKA-708", "the last member of the ISR is removed",
        "KILL", "C8 C10",
        replace(
            "controller.replica_state_machine:without_replica",
            "isr if len(isr) == 1 else tuple(member for member in isr if member != replica)",
            "tuple(member for member in isr if member != replica)",
        ),
    ),
    mutant(
        "B15", "KAFKA-14140", "a broker that is leaving comes back into the ISR",
        "SHUT", "C9 C11",
        replace(
            "controller.alter_partition:judge",
            "all(context.is_live_broker(replica) for replica in proposed.isr)",
            "proposed.isr",
        ),
    ),
    mutant(
        "B16", "KAFKA-14144", "an AlterPartition that is sent again, its answer lost, is refused",
        "DLY GC", "C7 L1",
        replace(
            "controller.alter_partition:judge",
            "_is_so_already(proposed, current)",
            "_is_so_already(proposed, current) and proposed.partition_epoch == current.partition_epoch",
        ),
    ),
    mutant(
        "B17", "KAFKA-12686", "a LeaderAndIsr leaves an ISR change that is in flight as it was",
        "DLY LDRx2", "C7 L1",
        replace(
            "replica.partition:Partition.make_leader",
            "self.isr_state = CommittedIsr(frozenset(state.isr), state.partition_epoch)",
            """
            if not self.isr_state.in_flight:
                self.isr_state = CommittedIsr(frozenset(state.isr), state.partition_epoch)
            """,
        ),
    ),
    mutant(
        "B18", "KAFKA-13091", "the high watermark is not looked at when a shrunken ISR is confirmed",
        "KILL", "R6 L1",
        replace(
            "replica.partition:Partition.isr_altered",
            "self.maybe_increment_high_watermark(now_ms)",
            "False",
        ),
    ),
    mutant(
        "B19", "KAFKA-9769", "the leader epoch is taken before the step that may fail",
        "BNC GC", "C5 L1",
        after(
            "replica.replicas:Replicas._make_followers",
            "partition.log = self.open_log(partition, topic_id, state.is_new)",
            "partition.leader_epoch = state.leader_epoch",
        ),
    ),
    mutant(
        "B20", "KAFKA-9672", "a leader goes on counting replicas that are no longer assigned",
        "REAS DLY", "C8 C12",
        replace(
            "replica.partition:Partition.make_leader",
            "self.progress = {follower: self.progress.get(follower) or Progress(follower) for follower in followers}",
            "self.progress |= {follower: self.progress.get(follower) or Progress(follower) for follower in followers}",
        ),
    ),
    mutant(
        "B21", "KAFKA-10371", "an answer counts for a partition that has left its fetcher",
        "DLY", "R3 R5 L1",
        replace(
            "replica.followed_partitions:FollowedPartitions._current",
            """
            if asked is None or state.wanted is not asked or self.states.get(state.topic_partition) is not state:
                return None
            return self._follower.follower_partition(state.topic_partition, state.current_leader_epoch)
            """,
            "return self._follower._partitions.get(state.topic_partition)",
        ),
        remove("replica.followed_partitions:FollowedPartitions.remove", "del self._by_key[state.key]"),
        replace(
            "replica.followed_partitions:FollowedPartitions._partition",
            """
            partition = self._follower.follower_partition(state.topic_partition, state.current_leader_epoch)
            assert partition is not None, f"{state} was checked"
            """,
            "partition = self._follower._partitions[state.topic_partition]",
        ),
    ),
    mutant(
        "B22", "KAFKA-7482", "a broker that is leaving is not told who leads in its place",
        "SHUT", "C11",
        replace(
            "controller.election:leader_for_controlled_shutdown",
            """
            return ElectionResult(
                partition, leader_and_isr.with_leader(leader, staying), live_or_shutting_down_replicas
            )
            """,
            """
            told = tuple(each for each in live_or_shutting_down_replicas if each not in shutting_down_brokers)
            return ElectionResult(partition, leader_and_isr.with_leader(leader, staying), told)
            """,
        ),
    ),
    mutant(
        "B23", "KAFKA-150", "a registration that is in the way is deleted",
        "BNC GC", "C4",
        replace(
            "zk.kafka.zk_client:KafkaZkClient.register_broker",
            "found.ephemeral_owner in self.client.own_sessions",
            "found.ephemeral_owner",
        ),
    ),
    mutant(
        "B24", "ZOOKEEPER-2355", "an election that was won while its answer was lost counts as lost",
        "ZKX DLY", "C1 C2 L1",
        replace(
            "zk.kafka.zk_client:KafkaZkClient.register_controller_and_increment_controller_epoch",
            "return await self._check_controller_and_epoch(controller_id, new_epoch)",
            'raise ControllerMoved("Another broker was elected controller.")',
        ),
    ),
    mutant(
        "B25", "KAFKA-12332", "a log of a topic that was deleted serves the new topic of that name",
        "ADMIN", "C13",
        replace(
            "replica.replicas:Replicas._judge",
            "ZERO_UUID not in (topic_id, known_id) and topic_id != known_id",
            "False",
        ),
        replace("log.readable_log:ReadableLog.assign_topic_id", "self.topic_id is not None", "False"),
    ),
    mutant(
        "B26", "KAFKA-10314", "a replica whose log directory is offline is made anew in another",
        "MOVE EIO", "R3 R16",
        replace("log.log_dirs:LogDirs.get_or_create", "not is_new and self.offline_paths", "False"),
        remove(
            "replica.replicas:Replicas._judge",
            """
            if topic_partition in self._hosted.offline:
                return ErrorCode.KAFKA_STORAGE_ERROR, None
            """,
        ),
    ),
)  # fmt: skip
