# ruff: noqa: E501 -- the texts to be replaced are lines of the product with their ends
"""Mutants: replication."""

from __future__ import annotations

from typing import Final

from mutants.mutant import mutant

MUTANTS: Final = (
    mutant(
        "B27", "KIP-101", "a follower truncates to its high watermark",
        "KILL LDRx2", "R1 R2 R3 R4 R7",
        (
            "replica/fetchers.py",
            "        if log.latest_epoch == NO_EPOCH and log.log_end_offset > log.high_watermark:\n",
            "        if log.log_end_offset > log.high_watermark:\n",
        ),
    ),
    mutant(
        "B28", "KIP-279", "a leader that never saw the follower's epoch answers with the end of that one",
        "UNCLEAN LDRx2", "R1 R2",
        (
            "log/leader_epoch_cache.py",
            "        return entries[higher - 1].epoch, entries[higher].start_offset\n",
            "        return requested_epoch, entries[higher].start_offset\n",
        ),
    ),
    mutant(
        "B30", "KAFKA-7415", "a leader's epoch enters the cache with its first record, not at the election",
        "LDRx2 UNCLEAN", "R13 R1 L1",
        (
            "replica/partition.py",
            "            log.maybe_assign_epoch_start_offset(state.leader_epoch, end_offset)\n",
            "            pass\n",
        ),
    ),
    mutant(
        "B31", "KAFKA-7164", "a new epoch of the same leader does not restart the fetcher",
        "LDRx2", "R1 L1",
        (
            "replica/partition.py",
            "        new_epoch = state.leader_epoch > self.leader_epoch\n"
            "        self.controller_epoch = state.controller_epoch\n"
            "        self.leader_id = state.leader\n",
            "        new_epoch = state.leader != self.leader_id\n"
            "        self.controller_epoch = state.controller_epoch\n"
            "        self.leader_id = state.leader\n",
        ),
    ),
    mutant(
        "B32", "KAFKA-7128", "a follower joins the ISR below the start of the leader's epoch",
        "LDRx2 DLY", "R12 R3 R4",
        (
            "replica/partition.py",
            "            or progress.log_end_offset < self.leader_epoch_start_offset\n",
            "",
        ),
    ),
    mutant(
        "B33", "KIP-320", "nobody compares leader epochs in a fetch",
        "PART", "R14 R10",
        (
            "replica/partition.py",
            "        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:\n",
            "        if False:\n",
        ),
    ),
    mutant(
        "B34", "KAFKA-7786, KAFKA-10706", "a truncation to the log's end leaves epochs that began there",
        "LDRx2 UNCLEAN", "R13 L1",
        (
            "log/log.py",
            "                self.leader_epochs.truncate_from_end(self.log_end_offset)\n                return False\n",
            "                return False\n",
        ),
    ),
    mutant(
        "B35", "KAFKA-9491", "the high watermark stays where it was when the log is truncated",
        "UNCLEAN", "R5 R11",
        (
            "log/log.py",
            "min(self.high_watermark, target_offset), target_offset",
            "self.high_watermark, target_offset",
        ),
        (
            "log/log.py",
            "self._spans(log_start_offset, new_offset, new_offset)",
            "self._spans(log_start_offset, self.high_watermark, new_offset)",
        ),
    ),
    mutant(
        "B36", "KAFKA-14704", "a follower takes the leader's high watermark before it truncates",
        "PART LDRx2 UNCLEAN", "R9 R5 R12 R4",
        (
            "replica/fetchers.py",
            "        log = partition.local_log()\n        if data.diverging_epoch.epoch != NO_EPOCH",
            "        log = partition.local_log()\n"
            "        log.update_high_watermark(min(data.high_watermark, log.log_end_offset))\n"
            "        if data.diverging_epoch.epoch != NO_EPOCH",
        ),
    ),
    mutant(
        "B38", "KIP-966, KAFKA-15583", "the high watermark rises while the ISR is under min.insync.replicas",
        "KILL", "R6 R7",
        (
            "replica/partition.py",
            "if high_watermark <= log.high_watermark or self._lacks_min_isr(log):",
            "if high_watermark <= log.high_watermark:",
        ),
    ),
    mutant(
        "B39", "KAFKA-15021", "the high watermark waits for a replica that may not join the ISR",
        "SHUT KILL", "R6 L1",
        (
            "replica/partition.py",
            "                        progress.is_caught_up(end_offset, now_ms, "
            "self._surroundings.replica_lag_time_max_ms)\n"
            "                        and self._surroundings.is_alive(broker_id)\n",
            "                        progress.is_caught_up(end_offset, now_ms, "
            "self._surroundings.replica_lag_time_max_ms)\n",
        ),
    ),
    mutant(
        "B40", "KAFKA-769", "the high watermark checkpoint forgets replicas that were not spoken of yet",
        "BNC", "R5 R7",
        (
            "replica/high_watermark_checkpoints.py",
            "        for path in self._log_dirs.online_paths:\n            try:",
            "        for path in self._log_dirs.online_paths[:0]:\n            try:",
        ),
        (
            "replica/replicas.py",
            "        if self._had_leader_and_isr:\n            self._high",
            "        if True:\n            self._high",
        ),
    ),
    mutant(
        "B41", "KAFKA-2143", "a follower whose log differs throws all of it away",
        "UNCLEAN LDRx2", "R3 R4 L1",
        (
            "replica/fetchers.py",
            "            offset = truncation_offset(log, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)\n",
            "            offset = log.log_start_offset\n",
        ),
    ),
    mutant(
        "B42", "KAFKA-4485", "in sync is who has all at this moment",
        "DLY KILL", "L1 R6",
        (
            "replica/progress.py",
            "        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_max_ms\n",
            "        return self.log_end_offset == leader_end_offset\n",
        ),
    ),
    mutant(
        "B44", "KAFKA-15510", "an empty answer makes a follower forget its last fetched epoch",
        "LDRx2", "R3",
        (
            "replica/fetchers.py",
            "        state.last_fetched_epoch = self._last_fetched_epoch(log)\n        state.lag = ",
            "        state.last_fetched_epoch = self._last_fetched_epoch(log) if records else 0\n        state.lag = ",
        ),
    ),
    mutant(
        "B47", "KAFKA-955", "a failed produce with acks=0 leaves the connection open",
        "LDRx2 KILL", "R8",
        (
            "broker/handlers/produce.py",
            "            raise Disconnect(f\"a produce request with acks=0 failed: {errors}\")\n",
            "            return None\n",
        ),
    ),
    mutant(
        "B48", "KAFKA-14372", "consumers are sent to a replica that is not in sync",
        "KILL", "R9 L1",
        ("replica/partition.py", "            and broker_id in self.isr_state.isr\n", ""),
    ),
    mutant(
        "B49", "KAFKA-4384", "one bad batch ends the fetcher for all its partitions",
        "DLY", "L1 S4",
        (
            "replica/fetchers.py",
            "                self._pause(state)\n            else:\n                self._failed(state, error)\n",
            "                for each in list(self.states.values()):\n"
            "                    self._failed(each, error)\n"
            "            else:\n                self._failed(state, error)\n",
        ),
    ),
)  # fmt: skip
