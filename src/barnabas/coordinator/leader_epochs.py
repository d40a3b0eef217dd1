"""The latest leader epoch that a coordinator knows of each partition of its topic, also of those led elsewhere."""

from __future__ import annotations


class LeaderEpochs:
    """Recognizes late requests: leaders may change while requests of an earlier controller are still on their way."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def elected(self, number: int, leader_epoch: int) -> bool:
        """Whether it is news that this broker leads partition `number`."""
        if leader_epoch <= self._last.get(number, -1):
            return False
        self._last[number] = leader_epoch
        return True

    def resigned(self, number: int, leader_epoch: int | None) -> bool:
        """Whether it counts that another broker leads it, or (None) that it is gone from here."""
        if leader_epoch is None:
            self._last.pop(number, None)  # one that is made anew begins with epoch 0
            return True
        if leader_epoch < self._last.get(number, -1):
            return False
        self._last[number] = leader_epoch
        return True
