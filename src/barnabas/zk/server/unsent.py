"""Bounds the bytes that wait in memory for clients that do not read.

A client that does not read gets no answers, but watch events are sent without a request: a hundred clients may watch
one znode, whose name may be as long as a request. When all waiting bytes reach `UNSENT_BYTES_MAX`, the connection with
most of them is closed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024

C = TypeVar("C", bound=Hashable)


class UnsentEvents(Generic[C]):
    """A `C` stands for one connection."""

    def __init__(self) -> None:
        self._sizes: dict[C, int] = {}
        self.held = 0

    def note(self, connection: C, size: int) -> C | None:
        """Notes how many bytes wait for `connection`; returns the connection to close now, if any."""
        self.held += size - self._sizes.pop(connection, 0)
        if size:
            self._sizes[connection] = size
        if self.held <= UNSENT_BYTES_MAX:
            return None
        most = max(self._sizes, key=self._sizes.__getitem__)
        self.held -= self._sizes.pop(most)
        return most
