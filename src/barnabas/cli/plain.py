"""How a server that was started in the background reports to whoever started it."""

from __future__ import annotations

from typing import Final

READY_FD: Final = "BARNABAS_READY_FD"
"""The environment's variable with the descriptor on which a server says that it is ready, or why it is not."""
STATUS_FILE: Final = "status.json"
"""Beside a broker's ``server.properties``: what it says of itself while it runs."""
