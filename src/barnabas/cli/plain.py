"""Where servers that are started in the background listen, and how they report to whoever started them."""

from __future__ import annotations

from typing import Final

HOST: Final = "127.0.0.1"
"""Where a cluster on this machine listens."""
READY_FD: Final = "BARNABAS_READY_FD"
"""The environment variable with the file descriptor on which a server says that it is ready, or why it is not."""
KAFKA_OPTS: Final = "KAFKA_OPTS"
"""The environment variable with the JVM options that Kafka's operators set for a broker."""
STATUS_FILE: Final = "status.json"
"""The file beside a broker's ``server.properties`` with its status while it runs."""
