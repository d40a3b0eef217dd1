# ruff: noqa: E501 -- the texts to be replaced are lines of the product with their ends
"""Mutants: groups and transactions."""

from __future__ import annotations

from typing import Final

from mutants.mutant import mutant

MUTANTS: Final = (
    mutant(
        "B70", "KAFKA-5600", "a coordinator that lost a partition keeps its groups for when it leads again",
        "GRP", "G1 G4 T7",
        (
            "coordinator/group_coordinator.py",
            "            self._epochs[number] = leader_epoch\n        self._unload(number)\n",
            "            self._epochs[number] = leader_epoch\n",
        ),
    ),
    mutant(
        "B71", "KAFKA-7286", "a record larger than the buffer ends the loading of the groups before it",
        "GRP", "G4 L1 G1",
        (
            "broker/offsets_log.py",
            "        records: Bytes = log.read(max(offset, log.log_start_offset), max_bytes).records\n",
            "        records: Bytes = log.read(\n"
            "            max(offset, log.log_start_offset), max_bytes, min_one_batch=False\n"
            "        ).records\n",
        ),
    ),
    mutant(
        "B72", "KAFKA-8069", "an offset without a time of its own to expire expires at once",
        "GRP", "G5 G1",
        (
            "coordinator/group_offsets.py",
            "            if committed.expire_timestamp_ms != NO_TIMESTAMP:\n",
            "            if True:\n",
        ),
    ),
    mutant(
        "B73", "KAFKA-12890", "nobody waits for a member that never syncs with a clock",
        "GRP", "L1 G3",
        (
            "coordinator/groups.py",
            "        self._sync_deadline_ms = now.ms + self._rebalance_timeout_ms()\n",
            "        self._sync_deadline_ms = None\n",
        ),
    ),
    mutant(
        "B74", "KAFKA-9844", "a join that finds no group waits, and then makes one, though another join made one meanwhile",
        "GRP", "G3 G6 L1",
        (
            "coordinator/group_coordinator.py",
            "        group = partition.group(group_id, now)\n"
            "        ticket: asyncio.Future[JoinResult]",
            "        if group_id not in partition.groups:\n"
            "            await asyncio.sleep(0.5)\n"
            "            partition.groups.pop(group_id, None)\n"
            "        group = partition.group(group_id, now)\n"
            "        ticket: asyncio.Future[JoinResult]",
        ),
    ),
    mutant(
        "B75", "KAFKA-17507", "offsets of a transaction do not count when its marker is written",
        "TXN", "T6 L1",
        (
            "coordinator/group_coordinator.py",
            "                partition.replay_marker(producer_id, committed)\n",
            "                pass\n",
        ),
    ),
    mutant(
        "B76", "KIP-890", "a batch is appended though its partition is not in a transaction that goes on",
        "TXN", "T5 T3",
        ("broker/verification.py", "        if self._is_enabled():\n", "        if False:\n"),
    ),
    mutant(
        "B78", "KAFKA-14920", "a batch that was verified goes before an earlier one that waits for its answer",
        "TXN", "T1 L1",
        (
            "log/producer_state.py",
            "        if self._verifications and check_sequence:\n"
            "            self._check_lowest_sequence(producer_id, first_sequence, offset)\n",
            "",
        ),
    ),
    mutant(
        "B79", "KAFKA-9144", "a producer expires though its transaction is open",
        "TXN", "T4 T5",
        (
            "log/producer_state.py",
            "            entry.current_txn_first_offset == NO_OFFSET\n            and now_ms - entry.last_timestamp >= self.producer_id_expiration_ms\n",
            "            now_ms - entry.last_timestamp >= self.producer_id_expiration_ms\n",
        ),
    ),
    mutant(
        "B80", "KAFKA-9777", "what was prepared when the coordinator changed is not completed by the next one",
        "TXN", "L1 T5",
        (
            "coordinator/transaction_coordinator.py",
            "        for transaction in list(partition.transactions.values()):\n"
            "            if transaction.metadata.state in PREPARED:\n"
            "                self._send_markers(partition, transaction)\n",
            "",
        ),
    ),
    mutant(
        "B81", "KAFKA-9666", "a fence that cannot be written uses an epoch up",
        "TXN", "T2",
        (
            "coordinator/transactions.py",
            '        """Whether the log has it is not known; nobody was told, and the next record overrules it."""\n',
            "        if self.pending is not None and self.pending.state is PREPARE_ABORT:\n"
            "            self.metadata = replace(self.metadata, producer_epoch=self.pending.producer_epoch)\n",
        ),
    ),
    mutant(
        "B82", "KAFKA-9600", "EndTxn does not ask for the very epoch of the producer",
        "TXN", "T2 T3",
        (
            "coordinator/transactions.py",
            "    def end(self, producer_id: int, producer_epoch: int, committed: bool, now_ms: int) -> Decision:\n"
            "        metadata = self.metadata\n"
            "        error = self._change_error(producer_id, producer_epoch)\n",
            "    def end(self, producer_id: int, producer_epoch: int, committed: bool, now_ms: int) -> Decision:\n"
            "        metadata = self.metadata\n"
            "        error = self._change_error(producer_id, metadata.producer_epoch)\n",
        ),
    ),
    mutant(
        "B86", "KAFKA-5610", "a transaction waits for the marker of a partition that was deleted",
        "TXN", "L1",
        (
            "coordinator/transaction_markers.py",
            "            if await self._exists(topic_partition):\n",
            "            if await self._exists(topic_partition) or True:\n",
        ),
    ),
    mutant(
        "B85", "KAFKA-5376", "a read of what is committed does not tell which transactions were aborted",
        "TXN", "R9 T3",
        (
            "log/log_segments.py",
            "            if segment.collect_aborted(start_offset, end_offset, found):\n                break\n",
            "            break\n",
        ),
    ),
)  # fmt: skip
