# ruff: noqa: E501 -- the texts to be replaced are lines of the product with their ends
"""Mutants: compaction."""

from __future__ import annotations

from typing import Final

from mutants.mutant import mutant

MUTANTS: Final = (
    mutant(
        "B55", "KAFKA-6264", "nobody looks how far apart the offsets of one segment are",
        "CMP", "R11 R15",
        (
            "log/cleaner.py",
            "                and last - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET\n",
            "",
        ),
        (
            "log/log.py",
            "            waited_ms > self._roll_ms or segment.indexes_full or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET\n",
            "            waited_ms > self._roll_ms or segment.indexes_full\n",
        ),
    ),
    mutant(
        "B62", "KAFKA-12520", "a swap that is finished at the start leaves segments that it replaces",
        "CMP", "R11 R18",
        (
            "log/recovery.py",
            "swapped[0] <= int(name[:20]) < max(ends):\n",
            "int(name[:20]) in swapped:\n",
        ),
    ),
    mutant(
        "B63", "KAFKA-4529", "a tombstone goes with the second pass, however young it is",
        "CMP", "R18",
        (
            "log/compaction.py",
            "                horizon = self._now_ms + self._delete_retention_ms if begins else horizon_ms\n",
            "                horizon = self._now_ms if begins else horizon_ms\n",
        ),
    ),
    mutant(
        "B64", "KAFKA-14055", "an end marker goes when a record has its key",
        "CMP", "R18 T3 T5",
        (
            "log/compaction.py",
            "            if not discarded and (batch.is_control or self._is_kept(record, keep_tombstones))\n",
            "            if not discarded and self._is_kept(record, keep_tombstones)\n",
        ),
    ),
    mutant(
        "B65", "KAFKA-13194", "the cleaner does not stop at the last stable offset",
        "CMP", "R18 R7",
        (
            "log/cleaner.py",
            "    bound = min(log.last_stable_offset, log.active_segment.base_offset)\n",
            "    bound = log.active_segment.base_offset\n",
        ),
    ),
    mutant(
        "B66", "KAFKA-5490", "the last batch of a producer goes like any other",
        "CMP", "R18 T1",
        (
            "log/compaction.py",
            "        last_of_producer = self._is_last_of_producer(batch)\n",
            "        last_of_producer = False\n",
        ),
    ),
    mutant(
        "B67", "KAFKA-3330", "a checkpoint outside of its log ends the cleaner",
        "CMP", "R18 S4 L1",
        (
            "log/cleaner.py",
            "    if not log.log_start_offset <= first_dirty <= log.log_end_offset:\n        first_dirty = log.log_start_offset\n",
            "    if not log.log_start_offset <= first_dirty <= log.log_end_offset:\n"
            "        raise ValueError(f\"the checkpoint {first_dirty} is outside of {log}\")\n",
        ),
    ),
    mutant(
        "B68", "KAFKA-7322", "a pass goes on while retention deletes the segments under it",
        "CMP", "R18 L1",
        (
            "log/cleaner.py",
            "            log.segments.changed != version\n            or log.closed\n            or not log.settings.compact\n",
            "            log.closed\n",
        ),
    ),
    mutant(
        "B69", "KAFKA-6834", "a batch larger than max.message.bytes ends the cleaning of its log",
        "CMP", "R18 L1",
        (
            "log/cleaner.py",
            "                data = segment.read_batch(batch)\n",
            "                if batch.size > log.settings.max_message_bytes:\n"
            "                    raise ValueError(f\"the batch has {batch.size} bytes\")\n"
            "                data = segment.read_batch(batch)\n",
        ),
    ),
)  # fmt: skip
