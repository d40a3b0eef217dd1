"""What a group has committed for one partition, by the order of what was written. The later record counts, a record of
a transaction once that is committed. A deletion removes everything before it, also of transactions that are open."""

from __future__ import annotations

NOTHING = -1


class CommitsInOrder:
    def __init__(self, value: int) -> None:
        self._written = 0
        self._counts = (0, value)
        """When the value that counts was written, and the value."""
        self._open: dict[str, tuple[int, int]] = {}
        """By transactional id."""

    @property
    def value(self) -> int:
        return self._counts[1]

    def write(self, value: int, transactional_id: str = "") -> None:
        self._written += 1
        if transactional_id:
            self._open[transactional_id] = self._written, value
        else:
            self._counts = self._written, value

    def delete(self) -> None:
        self._open.clear()
        self.write(NOTHING)

    def end(self, transactional_id: str, *, committed: bool) -> None:
        ended = self._open.pop(transactional_id, self._counts)
        if committed:
            self._counts = max(ended, self._counts)
