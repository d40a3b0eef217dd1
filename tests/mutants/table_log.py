# ruff: noqa: E501 -- the texts to be replaced are lines of the product with their ends
"""Mutants: log and storage, and what it knows of producers."""

from __future__ import annotations

from typing import Final

from mutants.mutant import mutant

MUTANTS: Final = (
    mutant(
        "B50", "KAFKA-10778", "appends go on after a write has failed",
        "EIO ENOSPC", "R16 R15",
        (
            "log/log_dir.py",
            "        if self.failure is None:\n            self.failure = LogDirFailure(self.path, f\"{doing}: {error}\")\n",
            "        return LogDirFailure(self.path, f\"{doing}: {error}\")\n"
            "        if self.failure is None:\n            self.failure = LogDirFailure(self.path, f\"{doing}: {error}\")\n",
        ),
    ),
    mutant(
        "B51", "KAFKA-7866", "a transaction index that cannot be written leaves the marker's offset to the next batch",
        "TXN", "R11 T3",
        (
            "log/log.py",
            "            # From here on the offsets are taken, even where a write to an index below fails.\n"
            "            self.log_end_offset = last_offset + 1\n"
            "            if marker is not None:\n"
            "                self._take_marker(segment, producer_id, producer_epoch, marker, first_offset, max_timestamp)\n",
            "            if marker is not None:\n"
            "                try:\n"
            "                    self._take_marker(segment, producer_id, producer_epoch, marker, first_offset, max_timestamp)\n"
            "                except OSError as error:\n"
            "                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from error\n"
            "            self.log_end_offset = last_offset + 1\n",
        ),
    ),
    mutant(
        "B52", "KAFKA-10471", "the marker of a clean stop stays while the broker runs",
        "PWR", "R15",
        ("log/log_dirs.py", "        disk.remove(marker)\n", ""),
    ),
    mutant(
        "B53", "KAFKA-10101", "the recovery point moves on without the data being synced",
        "PWR", "R15",
        ("log/log.py", "                    segment.flush()\n", ""),
    ),
    mutant(
        "B54", "KAFKA-16541", "the removal of the marker of a clean stop is not synced to its directory",
        "PWR", "R15 R13",
        ("log/log_dirs.py", "        disk.remove(marker)\n        disk.fsync_dir(path)\n", "        disk.remove(marker)\n"),
    ),
    mutant(
        "B56", "KAFKA-6492", "a roll of an empty segment makes a segment of the same name",
        "LDRx2 CLK", "R11",
        ("log/log.py", "        if active.base_offset == new_offset:\n", "        if False:\n"),
    ),
    mutant(
        "B57", "KAFKA-15391", "background work goes on with logs that were deleted meanwhile",
        "ADMIN", "R16 L1 S4",
        ("log/upkeep.py", "            if log.closed:\n                continue\n", ""),
    ),
    mutant(
        "B58", "KAFKA-3802", "retention goes by when a segment was made or loaded",
        "CLK", "R17",
        (
            "log/segment.py",
            "        return self.max_timestamp if self.max_timestamp >= 0 else self._disk.modified_ms(self.path)\n",
            "        return self.created_ms\n",
        ),
    ),
    mutant(
        "B59", "KAFKA-5634", "retention does not stop at the high watermark",
        "CLK", "R17 R11",
        (
            "log/log.py",
            "            if self.high_watermark < upper_bound or not is_old(segment, upper_bound):\n",
            "            if not is_old(segment, upper_bound):\n",
        ),
        (
            "log/log.py",
            "        if offset > self.high_watermark:\n            raise KafkaError(\n",
            "        if False:\n            raise KafkaError(\n",
        ),
    ),
    mutant(
        "B61", "KAFKA-15653", "a request's bytes are those of the buffer that the next one is received into",
        "KILL", "R10 S4",
        (
            "broker/connection.py",
            "                self._run(_shared[4:end])\n",
            "                self._run(_shared_view[4:end])  # type: ignore[arg-type]\n",
        ),
    ),
    mutant(
        "B83", "KAFKA-5283", "sequence numbers do not wrap",
        "LDRx2", "T1 T2",
        (
            "log/producer_state.py",
            "                expected = 0 if last == _MAX_SEQUENCE else last + 1\n",
            "                expected = last + 1\n",
        ),
    ),
    mutant(
        "B84", "KAFKA-7298", "a producer of whom nothing is left has to begin at 0",
        "CLK CFG", "T1",
        (
            "log/producer_state.py",
            "            # Nothing is known, perhaps because it expired or was deleted: any sequence may come.\n"
            "            return None\n",
            "            if check_sequence and first_sequence > 0:\n"
            "                raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)\n"
            "            return None\n",
        ),
    ),
    mutant(
        "B87", "Jepsen, Redpanda 21.10.1", "a repeated batch is acknowledged at an offset of its own",
        "DLY LDRx2", "T1 R10",
        (
            "log/log.py",
            "                        duplicate.first_offset,\n                        duplicate.last_offset,\n",
            "                        first_offset,\n                        last_offset,\n",
        ),
    ),
)  # fmt: skip
