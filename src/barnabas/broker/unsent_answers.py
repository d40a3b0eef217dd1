"""How many bytes of answers may wait in memory for clients that do not read them.

A connection whose client does not read begins no further request, but its current answer may be long. Mostly records
are sent from their file piece by piece (`barnabas.runtime.file_records`). Records over TLS or converted for old clients
are in memory, and so are long answers without records. While such answers take `UNSENT_BYTES_MAX`, fetches are answered
with less, and connections that have read nothing for `PATIENCE_MS` are closed, beginning with the longest stalled.
"""

from __future__ import annotations

from typing import Final, Protocol

from barnabas.runtime import Clock

UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
LEAST_BYTES: Final = 256 * 1024
"""The bytes that a fetch may always be answered with, however many wait."""
PATIENCE_MS: Final = 1_000


class Slow(Protocol):
    """A connection whose client reads slowly, or not at all."""

    @property
    def unsent_bytes(self) -> int: ...

    def end_unread(self) -> None:
        """Ends the connection without sending the rest."""
        ...


class UnsentAnswers:
    """One for all connections of a broker."""

    __slots__ = ("_clock", "_slow", "held")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._slow: dict[Slow, tuple[int, int]] = {}
        """For each client the unsent bytes at its last progress, and when that was (ms); the longest-stalled first."""
        self.held = 0

    def room(self) -> int:
        """How many bytes of records a fetch may be answered with now."""
        return max(UNSENT_BYTES_MAX - self.held, LEAST_BYTES)

    def add(self, connection: Slow) -> None:
        """Counts the answers of a client that takes no more for now."""
        self.remove(connection)
        size = connection.unsent_bytes
        self._slow[connection] = (size, self._clock.monotonic_ms())
        self.held += size
        if self.held > UNSENT_BYTES_MAX:
            self._make_room()

    def remove(self, connection: Slow) -> None:
        """Counts them no more: the client has taken nearly all, or the connection is closed."""
        size, _ = self._slow.pop(connection, (0, 0))
        self.held -= size

    def _make_room(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for connection, (size, since_ms) in list(self._slow.items()):
            if self.held <= UNSENT_BYTES_MAX:
                return
            left = connection.unsent_bytes
            if left < size:
                self.held -= size - left
                self._slow[connection] = (left, now_ms)
            elif now_ms - since_ms >= PATIENCE_MS:
                connection.end_unread()
                self.remove(connection)
