"""The latest leader epoch that a coordinator knows of each partition of its topic, also of those led elsewhere."""

from __future__ import annotations


class LeaderEpochs:
    """Recognizes late requests: leaders may change while requests of an earlier controller are still on their way."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def elected(self, number: int, leader_epoch: int) -> bool:
        """Whether this leadership of partition `number` has a newer epoch than the last known."""
        if leader_epoch <= self._last.get(number, -1):
            return False
        self._last[number] = leader_epoch
        return True

    def resigned(self, number: int, leader_epoch: int | None) -> bool:
        """Whether this is no late news that another broker leads it, or (None) that it has left this broker."""
        if leader_epoch is None:
            self._last.pop(number, None)  # a recreated partition begins with epoch 0
            return True
        if leader_epoch < self._last.get(number, -1):
            return False
        self._last[number] = leader_epoch
        return True
