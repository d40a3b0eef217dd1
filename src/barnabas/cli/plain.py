"""Where servers that are started in the background listen, and how they report to whoever started them."""

from __future__ import annotations

from typing import Final

HOST: Final = "127.0.0.1"
"""Where a cluster on this machine listens."""
READY_FD: Final = "BARNABAS_READY_FD"
"""The environment's variable with the descriptor on which a server says that it is ready, or why it is not."""
KAFKA_OPTS: Final = "KAFKA_OPTS"
"""The environment's variable with what Kafka's operators say to the JVM of a broker that they start themselves."""
STATUS_FILE: Final = "status.json"
"""Beside a broker's ``server.properties``: what it says of itself while it runs."""
