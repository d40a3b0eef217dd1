"""How much memory requests may take while they are received, and while they wait to begin.

There are two bounds. A frame of an ordinary size gets its whole buffer as soon as its size is known, so that a record
batch is received into its place at once. At most `AHEAD_BYTES_MAX` are empty in all such buffers together; any other
buffer grows with the bytes that arrive. The second bound is ``queued.max.request.bytes``, unset by default as in Kafka:
while the requests that are being received or wait have that many bytes, the broker does not read another one. As in
Kafka's ``SimpleMemoryPool``, a request of any length is read while one byte is free.
"""

from __future__ import annotations

from typing import Final, Protocol

from barnabas.model.config import Config
from barnabas.model.errors import ConfigError

ORDINARY_BYTES: Final = 1024 * 1024 + 64 * 1024
"""A producer's ``max.request.size`` is 1 MiB by default, and ``message.max.bytes`` little more."""
AHEAD_BYTES_MAX: Final = 64 * 1024 * 1024


class Muted(Protocol):
    def unmute(self) -> None:
        """Tells the connection that there is room for the request that it announced."""
        ...


class RequestMemory:
    """One for all connections of a broker. `limit`: bytes; -1 is none."""

    __slots__ = ("_limit", "_muted", "ahead", "held")

    def __init__(self, limit: int = -1) -> None:
        self._limit = limit
        self._muted: dict[Muted, None] = {}
        self.ahead = 0
        """Bytes of buffers that are still empty."""
        self.held = 0
        """Bytes of requests that are announced and admitted, but have not begun."""

    def buffer_bytes(self, size: int, arrived: int) -> int:
        """The length of the buffer for a frame of `size` bytes when `arrived` of them are there. A buffer shorter than
        `size` is enlarged by another call when it is full."""
        length = min(size, max(2 * arrived, ORDINARY_BYTES))
        if length <= ORDINARY_BYTES and self.ahead + length - arrived > AHEAD_BYTES_MAX:
            length = min(size, max(2 * arrived, 4096))
        return length

    def admit(self, connection: Muted) -> bool:
        """Whether a connection may read its announced request; if not, `unmute` is called when it may."""
        if self._limit <= 0 or self.held < self._limit:
            return True
        self._muted[connection] = None
        return False

    def release(self, size: int) -> None:
        self.held -= size
        while self._muted and self.held < self._limit:
            connection = next(iter(self._muted))
            del self._muted[connection]
            connection.unmute()

    def forget(self, connection: Muted) -> None:
        """Drops a closed connection from those that wait."""
        self._muted.pop(connection, None)


def request_memory(config: Config) -> RequestMemory:
    limit, largest = config.number("queued.max.request.bytes"), config.number("socket.request.max.bytes")
    if 0 < limit < largest:
        raise ConfigError(
            f"queued.max.request.bytes={limit} is less than socket.request.max.bytes={largest}: "
            "no request of that size would ever be read."
        )
    return RequestMemory(limit)
