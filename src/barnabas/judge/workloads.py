"""The workloads of a run: each has its own topic, and tests another aspect of a broker."""

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
        # Longer than a fault: a replica that was away for longer than this would keep records that a tombstone has
        # deleted.
        "delete.retention.ms": "60000",
    },
    DELETION: {"segment.ms": "3000"},
}
"""The workloads by name, with their topic's additional configuration."""

TOMBSTONES: Final = 0.1
"""The share of a compacted topic's records that are tombstones."""
IDENTITY: Final = "value"
"""The header with a tombstone's value in the history, which distinguishes it from all other records."""
DELETES_S: Final = 1.0
"""The least time between one DeleteRecords of a client and its next."""
