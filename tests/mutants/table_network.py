"""Mutants: network."""

from __future__ import annotations

from typing import Final

from mutants.edits import replace
from mutants.mutant import mutant

MUTANTS: Final = (
    mutant(
        "B88", "KAFKA-2614", "a connection that was reset is counted for ever",
        "NET", "S2 L1",
        replace(
            "broker.connection:BrokerConnection.connection_lost",
            "self._channel.connections.closed(self)",
            """
            if error is None:
                self._channel.connections.closed(self)
            """,
        ),
    ),
    mutant(
        "B89", "KAFKA-7639", "the length that a frame announces is trusted",
        "NET", "S2",
        replace(
            "broker.framed_connection:FramedConnection._cut",
            "not 0 <= size <= self.max_request_bytes",
            "size < 0",
        ),
    ),
    mutant(
        "B90", "KAFKA-765", "a request whose bytes cannot be read ends more than its connection",
        "NET", "S4",
        replace(
            "broker.connection:BrokerConnection._run_decoded",
            'self._refuse(f"its {route.name} request (version {version}) cannot be read ({error})")',
            "raise",
        ),
    ),
)  # fmt: skip
