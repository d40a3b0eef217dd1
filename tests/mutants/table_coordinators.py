"""Mutants: groups and transactions."""

from __future__ import annotations

from typing import Final

from mutants.edits import before, remove, replace
from mutants.mutant import mutant

MUTANTS: Final = (
    mutant(
        "B70", "KAFKA-5600", "a coordinator that lost a partition keeps its groups for when it leads again",
        "GRP", "G1 G4 T7",
        remove("coordinator.group_coordinator:GroupCoordinator.resigned", "self._unload(number)"),
    ),
    mutant(
        "B71", "KAFKA-7286", "a record larger than the buffer ends the loading of the groups before it",
        "GRP", "G4 L1 G1",
        replace(
            "broker.offsets_log:ReplicatedLog.read",
            "log.read(begin, max_bytes)",
            "log.read(begin, max_bytes, min_one_batch=False)",
        ),
    ),
    mutant(
        "B72", "KAFKA-8069", "an offset without a time of its own to expire expires at once",
        "GRP", "G5 G1",
        replace(
            "coordinator.group_offsets:GroupOffsets.expired",
            "committed.expire_timestamp_ms != NO_TIMESTAMP",
            "True",
        ),
    ),
    mutant(
        "B73", "KAFKA-12890", "nobody waits for a member that never syncs with a clock",
        "GRP", "L1 G3",
        replace(
            "coordinator.group_rebalance:RebalancingGroup._complete_join",
            "self._sync_deadline_ms = now.ms + self._rebalance_timeout_ms()",
            "self._sync_deadline_ms = None",
        ),
    ),
    mutant(
        "B74", "KAFKA-9844", "a join that finds no group waits, then makes one, though another join made one meanwhile",
        "GRP", "G3 G6 L1",
        before(
            "coordinator.group_coordinator:GroupCoordinator.join",
            "group = partition.group(group_id, now)",
            """
            if group_id not in partition.groups:
                await asyncio.sleep(0.5)
                partition.groups.pop(group_id, None)
            """,
        ),
    ),
    mutant(
        "B75", "KAFKA-17507", "offsets of a transaction do not count when its marker is written",
        "TXN", "T6 L1",
        replace(
            "coordinator.group_coordinator:GroupCoordinator.transaction_completed",
            "partition.replay_marker(producer_id, committed)",
            "pass",
        ),
    ),
    mutant(
        "B76", "KIP-890", "a batch is appended though its partition is not in a transaction that goes on",
        "TXN", "T5 T3",
        replace("broker.verification:TransactionVerification.verify", "self._is_enabled()", "False"),
    ),
    mutant(
        "B78", "KAFKA-14920", "a batch that was verified goes before an earlier one that waits for its answer",
        "TXN", "T1 L1",
        remove(
            "log.producer_state:ProducerStateManager.check",
            """
            if self._verifications and check_sequence:
                self._check_lowest_sequence(producer_id, first_sequence, offset)
            """,
        ),
    ),
    mutant(
        "B79", "KAFKA-9144", "a producer expires though its transaction is open",
        "TXN", "T4 T5",
        remove("log.producer_state:ProducerStateManager._is_expired", "entry.current_txn_first_offset == NO_OFFSET"),
    ),
    mutant(
        "B80", "KAFKA-9777", "what was prepared when the coordinator changed is not completed by the next one",
        "TXN", "L1 T5",
        remove(
            "coordinator.transaction_coordinator:TransactionCoordinator._load",
            """
            if prepared and await self._is_replicated(partition):
                for transaction in prepared:
                    self._send_markers(partition, transaction)
            """,
        ),
    ),
    mutant(
        "B81", "KAFKA-9666", "a fence that cannot be written uses an epoch up",
        "TXN", "T2",
        before(
            "coordinator.transactions:TransactionMachine.not_written",
            "self.pending = None",
            """
            if self.pending is not None and self.pending.state is PREPARE_ABORT:
                self.metadata = replace(self.metadata, producer_epoch=self.pending.producer_epoch)
            """,
        ),
    ),
    mutant(
        "B82", "KAFKA-9600", "EndTxn does not ask for the very epoch of the producer",
        "TXN", "T2 T3",
        replace(
            "coordinator.transactions:TransactionMachine.end",
            "self._change_error(producer_id, producer_epoch)",
            "self._change_error(producer_id, metadata.producer_epoch)",
        ),
    ),
    mutant(
        "B86", "KAFKA-5610", "a transaction waits for the marker of a partition that was deleted",
        "TXN", "L1",
        replace(
            "coordinator.transaction_markers:TransactionMarkers._look_up",
            "await self._exists(topic_partition)",
            "await self._exists(topic_partition) or True",
        ),
    ),
    mutant(
        "B85", "KAFKA-5376", "a read of what is committed does not tell which transactions were aborted",
        "TXN", "R9 T3",
        replace(
            "log.log_segments:LogSegments.aborted_transactions",
            """
            if segment.collect_aborted(start_offset, end_offset, found):
                break
            """,
            "break",
        ),
    ),
)  # fmt: skip
