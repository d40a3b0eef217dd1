"""Mutants: replication."""

from __future__ import annotations

from typing import Final

from mutants.edits import after, remove, replace
from mutants.mutant import mutant

MUTANTS: Final = (
    mutant(
        "B27", "KIP-101", "a follower truncates to its high watermark",
        "KILL LDRx2", "R1 R2 R3 R4 R7",
        remove("replica.followed_partitions:FollowedPartitions.add", "older_leader or log.latest_epoch == NO_EPOCH"),
    ),
    mutant(
        "B28", "KIP-279", "a leader that never saw the follower's epoch answers with the end of that one",
        "UNCLEAN LDRx2", "R1 R2",
        replace(
            "log.leader_epoch_cache:LeaderEpochCache.end_offset_for",
            "entries[higher - 1].epoch",
            "requested_epoch",
        ),
    ),
    mutant(
        "B30", "KAFKA-7415", "a leader's epoch enters the cache with its first record, not at the election",
        "LDRx2 UNCLEAN", "R13 R1 L1",
        replace(
            "replica.partition:Partition.make_leader",
            "log.maybe_assign_epoch_start_offset(state.leader_epoch, end_offset)",
            "pass",
        ),
    ),
    mutant(
        "B31", "KAFKA-7164", "a new epoch of the same leader does not restart the fetcher",
        "LDRx2", "R1 L1",
        replace(
            "replica.partition:Partition.make_follower",
            "state.leader_epoch > self.leader_epoch",
            "state.leader != self.leader_id",
        ),
    ),
    mutant(
        "B32", "KAFKA-7128", "a follower joins the ISR below the start of the leader's epoch",
        "LDRx2 DLY", "R12 R3 R4",
        remove(
            "replica.leading:expanded_isr",
            "follower.log_end_offset < leader_epoch_start_offset",
        ),
    ),
    mutant(
        "B33", "KIP-320", "nobody compares leader epochs in a fetch",
        "PART", "R14 R10",
        replace(
            "replica.readable_partition:ReadablePartition.log_with_epoch",
            "current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch",
            "False",
        ),
    ),
    mutant(
        "B34", "KAFKA-7786, KAFKA-10706", "a truncation to the log's end leaves epochs that began there",
        "LDRx2 UNCLEAN", "R13 L1",
        remove("log.log:Log.truncate_to", "self.leader_epochs.truncate_from_end(self.log_end_offset)"),
    ),
    mutant(
        "B35", "KAFKA-9491", "the high watermark stays where it was when the log is truncated",
        "UNCLEAN", "R5 R11",
        replace("log.log:Log.truncate_to", "min(self.high_watermark, target_offset)", "self.high_watermark"),
        replace(
            "log.log:Log._truncate_fully_and_start_at",
            "self._spans(log_start_offset, new_offset, new_offset)",
            "self._spans(log_start_offset, self.high_watermark, new_offset)",
        ),
    ),
    mutant(
        "B36", "KAFKA-14704", "a follower takes the leader's high watermark before it truncates",
        "PART LDRx2 UNCLEAN", "R9 R5 R12 R4",
        after(
            "replica.fetchers:ReplicaFetcher._take",
            "log = partition.local_log()",
            "log.update_high_watermark(min(data.high_watermark, log.log_end_offset))",
        ),
    ),
    mutant(
        "B38", "KIP-966, KAFKA-15583", "the high watermark rises while the ISR is under min.insync.replicas",
        "KILL", "R6 R7",
        remove(
            "replica.leading:next_high_watermark",
            "(len(isr_state.isr) < min_insync_replicas and lacks_min_isr(isr_state, followers, min_insync_replicas))",
        ),
    ),
    mutant(
        "B39", "KAFKA-15021", "the high watermark waits for a replica that may not join the ISR",
        "SHUT KILL", "R6 L1",
        remove(
            "replica.leading:next_high_watermark",
            "is_alive(broker_id)",
        ),
    ),
    mutant(
        "B40", "KAFKA-769", "the high watermark checkpoint forgets replicas that were not spoken of yet",
        "BNC", "R5 R7",
        replace(
            "replica.high_watermark_checkpoints:HighWatermarkCheckpoints.write",
            "self._log_dirs.online_paths",
            "self._log_dirs.online_paths[:0]",
        ),
        replace("replica.replicas:Replicas.checkpoint_high_watermarks", "self._had_leader_and_isr", "True"),
    ),
    mutant(
        "B41", "KAFKA-2143", "a follower whose log differs throws all of it away",
        "UNCLEAN LDRx2", "R3 R4 L1",
        replace(
            "replica.fetchers:ReplicaFetcher._take",
            "truncation_offset(log, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)",
            "log.log_start_offset",
        ),
    ),
    mutant(
        "B42", "KAFKA-4485", "in sync is who has all at this moment",
        "DLY KILL", "L1 R6",
        remove("replica.progress:Progress.is_caught_up", "now_ms - self.last_caught_up_ms <= lag_max_ms"),
    ),
    mutant(
        "B44", "KAFKA-15510", "an empty answer makes a follower forget its last fetched epoch",
        "LDRx2", "R3",
        replace(
            "replica.fetchers:ReplicaFetcher._append",
            "self._last_fetched_epoch(log, state.current_leader_epoch)",
            "log.leader_epochs.latest_epoch if records else 0",
        ),
    ),
    mutant(
        "B47", "KAFKA-955", "a failed produce with acks=0 leaves the connection open",
        "LDRx2 KILL", "R8",
        replace(
            "broker.handlers.produce:response",
            'raise Disconnect(f"a produce request with acks=0 failed: {topics}")',
            "return None",
        ),
    ),
    mutant(
        "B48", "KAFKA-14372", "consumers are sent to a replica that is not in sync",
        "KILL", "R9 L1",
        remove(
            "replica.readable_partition:ReadablePartition.preferred_read_replica",
            "broker_id in self.isr_state.isr",
        ),
    ),
    mutant(
        "B49", "KAFKA-4384", "one bad batch ends the fetcher for all its partitions",
        "DLY", "L1 S4",
        replace(
            "replica.followed_partitions:FollowedPartitions._in_trouble",
            'logger.error("%s: bad records of %s: %s", self._client_id, state.topic_partition, error)',
            """
            for each in list(self.states.values()):
                self._failed(each, error)
            """,
        ),
    ),
)  # fmt: skip
