"""Events within processes, told as they happen, so that a fault can strike there and not at a time.

An action with the argument `when` waits for its event from the moment it begins: ``"zk /admin/reassign_partitions"`` is
the commit of a ZooKeeper transaction that touches such a path, ``"rpc StopReplica"`` a request of that kind that has
left its sender, ``"disk fsync .log"`` a disk operation that is about to be done (every word has to be in it). With
`nth` it is the n-th such event. Then a `node` that is ``here`` is the node that wrote or sent, or whose disk it is, and
``there`` the receiver of a request.

A commit or a request is told right after it: its answer is not under way yet, and the request has not arrived. A disk
operation is told before it is done, and a process that dies of it never does it. While a log is cut, loses old
segments, or replaces some by a cleaned one, its operations have the words ``truncating``, ``deleting``, ``swapping``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.sim.plans.plan import Argument

ZK: Final = "zk"
RPC: Final = "rpc"
DISK: Final = "disk"
KINDS: Final = (ZK, RPC, DISK)
EVENTS: Final[Mapping[str, tuple[str, ...]]] = {
    ZK: (
        "/state", "/state", "/brokers/topics/", "/admin/reassign_partitions", "/admin/delete_topics", "/controller",
        "/brokers/ids/", "/isr_change_notification", "/config/", "/latest_producer_id_block",
    ),
    RPC: (
        "LeaderAndIsr", "LeaderAndIsr", "UpdateMetadata", "StopReplica", "AlterPartition", "AlterPartition",
        "ControlledShutdown", "Fetch", "Produce", "OffsetForLeaderEpoch", "ListOffsets", "InitProducerId",
        "AllocateProducerIds", "AddPartitionsToTxn", "EndTxn", "WriteTxnMarkers", "JoinGroup", "SyncGroup",
        "OffsetCommit",
    ),
    DISK: (
        "fsync .log", "fsync .log", "write .log", "write .index", "truncating", "truncating", "deleting", "rename",
        "open .log", "fsync .snapshot", "checkpoint", "leader-epoch-checkpoint", "swapping",
    ),
}  # fmt: skip
"""Events that drawn plans wait for: where one step follows another at once."""


@dataclass(eq=False, slots=True)
class Waiting:
    """Waits for the event with all `words`, after `left` - 1 others like it."""

    kind: str
    words: tuple[str, ...]
    left: int
    strike: Callable[[str, str], None]


class Events:
    """The actions that wait, by the kind of event. An event that nobody waits for costs next to nothing."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Waiting]] = {kind: [] for kind in KINDS}

    def awaited(self, kind: str) -> bool:
        return bool(self._waiting[kind])

    def wait_for(self, event: str, nth: int, strike: Callable[[str, str], None]) -> Callable[[], None]:
        """Calls `strike(here, there)` once, at the n-th `event` from now on; returns what calls that off."""
        kind, *words = event.split()
        if kind not in self._waiting:
            raise ValueError(f"{event!r} is no event: it begins with one of {', '.join(KINDS)}")
        waiting = Waiting(kind, tuple(words), max(1, nth), strike)
        self._waiting[kind].append(waiting)

        def call_off() -> None:
            if waiting in self._waiting[kind]:
                self._waiting[kind].remove(waiting)

        return call_off

    def happened(self, kind: str, what: str, here: str, there: str = "") -> None:
        for waiting in list(self._waiting[kind]):
            if all(map(what.__contains__, waiting.words)):
                waiting.left -= 1
                if not waiting.left:
                    self._waiting[kind].remove(waiting)
                    waiting.strike(here, there)


def in_places(value: Argument, places: Mapping[str, str]) -> Argument:
    """Replaces ``here`` and ``there`` by the nodes' names."""
    if isinstance(value, list):
        named = [">".join(places.get(end, end) for end in str(link).split(">")) for link in value]
        return [name for name in named if name]
    return places.get(str(value), value)
