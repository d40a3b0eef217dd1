"""Numbers of Kafka's protocol that have a special meaning."""

from __future__ import annotations

from typing import Final

ACKS_ALL: Final = -1
"""``acks=all``: a produce is answered when every member of the ISR has it."""
ACKS_OF_LEADER: Final = 1
"""``acks=1``: it is answered when the leader has it."""
NO_TIMESTAMP: Final = -1
"""``RecordBatch.NO_TIMESTAMP``, also of a commit that never expires by itself."""
LAST_MOMENT_MS: Final = (1 << 63) - 1
"""The last that a timestamp can hold: what is due later never is. (Java's sum begins again in the far past.)"""

# ``ListOffsetsRequest``: what is asked for instead of a timestamp.
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
