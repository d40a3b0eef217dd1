"""The workloads of a run: each has a topic of its own, and tests another side of a broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REGISTERS: Final = "registers"
LIST_APPEND: Final = "list-append"
BANK: Final = "bank"
COMPACTION: Final = "compaction"
DELETION: Final = "deletion"

WORKLOADS: Final[Mapping[str, Mapping[str, str]]] = {
    REGISTERS: {},
    LIST_APPEND: {},
    BANK: {},
    COMPACTION: {
        "cleanup.policy": "compact",
        "segment.ms": "3000",
        "min.cleanable.dirty.ratio": "0.01",
        # Longer than a fault: a replica that was away for longer than this keeps what a tombstone has deleted.
        "delete.retention.ms": "60000",
    },
    DELETION: {"segment.ms": "3000"},
}
"""By name, what its topic's configuration has beside what all of them have."""

TOMBSTONES: Final = 0.1
"""The share of a compacted topic's records that are tombstones."""
IDENTITY: Final = "value"
"""The header that carries a tombstone's value in the history: every record can be told from every other."""
DELETES_S: Final = 1.0
"""How long a client waits at least between one DeleteRecords and the next."""
