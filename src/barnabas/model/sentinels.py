"""Numbers of Kafka's protocol that have a special meaning."""

from __future__ import annotations

from typing import Final

ACKS_ALL: Final = -1
"""``acks=all``: a produce is answered when every replica in the ISR has its records."""
ACKS_OF_LEADER: Final = 1
"""``acks=1``: a produce is answered when the leader has its records."""
NO_TIMESTAMP: Final = -1
"""``RecordBatch.NO_TIMESTAMP``, also of a commit that never expires by itself."""
OFFSET_MAX: Final = (1 << 63) - 1
"""The largest offset. No record has it: the offset after it could not be told."""
SEQUENCE_MAX: Final = (1 << 31) - 1
"""The largest sequence of a producer's record in a partition: the next one is 0."""
LAST_MOMENT_MS: Final = (1 << 63) - 1
"""The largest timestamp: a deadline beyond it never comes. (Java's sum wraps to the far past.)"""

# ``ListOffsetsRequest``: special values in place of a timestamp.
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
