"""Mutants: log and storage, and what it knows of producers."""

from __future__ import annotations

from typing import Final

from mutants.edits import before, remove, replace
from mutants.mutant import mutant

MUTANTS: Final = (
    mutant(
        "B50", "KAFKA-10778", "appends go on after a write has failed",
        "EIO ENOSPC", "R16 R15",
        before(
            "log.log_dir:LogDir.failed",
            """
            if self.failure is None:
                ...
            """,
            'return LogDirFailure(self.path, f"{doing}: {error}")',
        ),
    ),
    mutant(
        "B51", "KAFKA-7866", "a transaction index that cannot be written leaves the marker's offset to the next batch",
        "TXN", "R11 T3",
        replace(
            "log.log:Log._take_up",
            """
            next_offset = self.log_end_offset = batch.last_offset + 1
            if batch.producer_id != NO_PRODUCER_ID:
                ...
            """,
            """
            next_offset = batch.last_offset + 1
            if batch.producer_id != NO_PRODUCER_ID:
                try:
                    ...
                except OSError as error:
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from error
            self.log_end_offset = next_offset
            """,
        ),
    ),
    mutant(
        "B52", "KAFKA-10471", "the marker of a clean stop stays while the broker runs",
        "PWR", "R15",
        remove("log.log_dirs:LogDirs._loading", "disk.remove(marker)"),
    ),
    mutant(
        "B53", "KAFKA-10101", "the recovery point moves on without the data being synced",
        "PWR", "R15",
        remove("log.log:Log.flush", "segment.flush()"),
    ),
    mutant(
        "B54", "KAFKA-16541", "the removal of the marker of a clean stop is not synced to its directory",
        "PWR", "R15 R13",
        remove("log.log_dirs:LogDirs._loading", "disk.fsync_dir(path)"),
    ),
    mutant(
        "B56", "KAFKA-6492", "a roll of an empty segment makes a segment of the same name",
        "LDRx2 CLK", "R11",
        replace("log.log_segments:LogSegments.roll", "active.base_offset == new_offset", "False"),
    ),
    mutant(
        "B57", "KAFKA-15391", "background work goes on with logs that were deleted meanwhile",
        "ADMIN", "R16 L1 S4",
        remove(
            "log.upkeep:LogUpkeep._each_log",
            """
            if log.closed:
                continue
            """,
        ),
    ),
    mutant(
        "B58", "KAFKA-3802", "retention goes by when a segment was made or loaded",
        "CLK", "R17",
        replace(
            "log.segment:Segment.largest_timestamp",
            "self.max_timestamp if self.max_timestamp >= 0 else self._disk.modified_ms(self.path)",
            "self.created_ms",
        ),
    ),
    mutant(
        "B59", "KAFKA-5634", "retention does not stop at the high watermark",
        "CLK", "R17 R11",
        remove("log.retention:segments_to_delete", "ends[replicated] <= high_watermark"),
        replace("log.log:Log.maybe_increment_log_start_offset", "offset > self.high_watermark", "False"),
    ),
    mutant(
        "B61", "KAFKA-15653", "a request's bytes are those of the buffer that the next one is received into",
        "KILL", "R10 S4",
        replace("broker.framed_connection:FramedConnection.buffer_updated", "_shared[4:end]", "_shared_view[4:end]"),
    ),
    mutant(
        "B83", "KAFKA-5283", "sequence numbers do not wrap",
        "LDRx2", "T1 T2",
        replace(
            "log.producer_state:ProducerStateManager.check",
            "0 if last == SEQUENCE_MAX else last + 1",
            "last + 1",
        ),
    ),
    mutant(
        "B84", "KAFKA-7298", "a producer of whom nothing is left has to begin at 0",
        "CLK CFG", "T1",
        replace(
            "log.producer_state:ProducerStateManager.check",
            """
            if entry is None:
                return None
            """,
            """
            if entry is None:
                if check_sequence and first_sequence > 0:
                    raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
                return None
            """,
        ),
    ),
    mutant(
        "B87", "Jepsen, Redpanda 21.10.1", "a repeated batch is acknowledged at an offset of its own",
        "DLY LDRx2", "T1 R10",
        replace("log.log:Log._told_again", "duplicate.first_offset", "first_offset"),
        replace("log.log:Log._told_again", "duplicate.last_offset", "last_offset"),
    ),
)  # fmt: skip
