"""Mutants: compaction."""

from __future__ import annotations

from typing import Final

from mutants.edits import before, remove, replace
from mutants.mutant import mutant

MUTANTS: Final = (
    mutant(
        "B55", "KAFKA-6264", "nobody looks how far apart the offsets of one segment are",
        "CMP", "R11 R15",
        remove("log.cleaner:LogCleaner._groups", "last - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET"),
        remove("log.log_segments:LogSegments.should_roll", "last_offset - segment.base_offset > MAX_RELATIVE_OFFSET"),
    ),
    mutant(
        "B62", "KAFKA-12520", "a swap that is finished at the start leaves segments that it replaces",
        "CMP", "R11 R18",
        replace(
            "log.recovery:_finish_interrupted_work",
            "swapped[0] <= bases[0] < max(ends)",
            "bases[0] in swapped",
        ),
    ),
    mutant(
        "B63", "KAFKA-4529", "a tombstone goes with the second pass, however young it is",
        "CMP", "R18",
        replace(
            "log.compaction:Compaction.cleaned",
            "self._next_horizon_ms",
            "self._now_ms",
        ),
    ),
    mutant(
        "B64", "KAFKA-14055", "an end marker goes when a record has its key",
        "CMP", "R18 T3 T5",
        remove("log.compaction:Compaction.cleaned", "batch.is_control"),
    ),
    mutant(
        "B65", "KAFKA-13194", "the cleaner does not stop at the last stable offset",
        "CMP", "R18 R7",
        replace(
            "log.cleaner:log_to_clean",
            "min(log.last_stable_offset, log.active_segment.base_offset)",
            "log.active_segment.base_offset",
        ),
    ),
    mutant(
        "B66", "KAFKA-5490", "the last batch of a producer goes like any other",
        "CMP", "R18 T1",
        replace("log.compaction:Compaction.cleaned", "self._is_last_of_producer(batch)", "False"),
    ),
    mutant(
        "B67", "KAFKA-3330", "a checkpoint outside of its log ends the cleaner",
        "CMP", "R18 S4 L1",
        replace(
            "log.cleaner:log_to_clean",
            "first_dirty = log.log_start_offset",
            'raise ValueError(f"the checkpoint {first_dirty} is outside of {log}")',
        ),
    ),
    mutant(
        "B68", "KAFKA-7322", "a pass goes on while retention deletes the segments under it",
        "CMP", "R18 L1",
        remove("log.cleaner:LogCleaner._look_again", "log.segments.changed != version"),
        remove("log.cleaner:LogCleaner._look_again", "not log.settings.compact"),
    ),
    mutant(
        "B69", "KAFKA-6834", "a batch larger than max.message.bytes ends the cleaning of its log",
        "CMP", "R18 L1",
        before(
            "log.cleaner:LogCleaner._map",
            "data = segment.read_batch(batch)",
            """
            if batch.size > log.settings.max_message_bytes:
                raise ValueError(f"the batch has {batch.size} bytes")
            """,
        ),
    ),
)  # fmt: skip
