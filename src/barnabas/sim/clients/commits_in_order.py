"""What a group has committed in one place, by the order of what was written there: the later record counts, a record of
a transaction when that is committed, and a deletion buries what was written before it, be its transaction open."""

from __future__ import annotations

NOTHING = -1


class CommitsInOrder:
    def __init__(self, value: int) -> None:
        self._written = 0
        self._counts = (0, value)
        """When it was written that counts, and what."""
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
