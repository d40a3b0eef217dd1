"""The last hour of the cluster as one broker saw it, in a bounded ring: what the view draws and scrubs through.

What there is to be seen is a dictionary of *facts*, plain values by name, and a *change* gives one fact another value,
or takes it away (None). A picture of any moment is the facts before the ring's first change, and all changes up to that
moment upon them; the newest picture is what the live view shows, so that living and scrubbing are one thing. A change
that leaves the ring goes into the facts before it. The facts:

    broker/ID             address, rack, up: whether it is registered
    controller            id and epoch
    partition/TOPIC-N     leader, leader_epoch, isr, replicas
    offsets/TOPIC-N       high_watermark, log_end_offset and role here; behind: by how many records each follower is
    session               the state of this broker's ZooKeeper session
    queue                 the controller's event queue: the state, the event in hand, how many wait
    requests/ID           requests of this controller to the broker that are not answered yet
    lag/GROUP             records that the group has not read

A change without a name (``""``) is a line of the state-change log. Whoever writes such a history, a broker or the
simulator, is drawn by the same page.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from barnabas.model.cluster import BrokerInfo

HISTORY_BYTES_MAX: Final = 16 * 1024 * 1024
KEPT_MS: Final = 60 * 60 * 1000
OVERHEAD_BYTES: Final = 128
"""What Python's objects take for each change, beside its text."""
PIECE: Final = 1_000
LINE: Final = ""


def broker_fact(address: str, rack: str | None, *, up: bool) -> dict[str, Any]:
    """`address` is ``host:port``, or empty where nobody has said it."""
    return {"address": address, "rack": rack, "up": up}


def registered_fact(info: BrokerInfo, *, up: bool) -> dict[str, Any]:
    """Of a registration, which may name no endpoint."""
    address = f"{info.endpoints[0].host}:{info.endpoints[0].port}" if info.endpoints else ""
    return broker_fact(address, info.rack, up=up)


def partition_fact(leader: int, leader_epoch: int, isr: Iterable[int], replicas: Iterable[int]) -> dict[str, Any]:
    return {"leader": leader, "leader_epoch": leader_epoch, "isr": list(isr), "replicas": list(replicas)}


def leader_fact(high_watermark: int, log_end_offset: int, followers: Mapping[int, int]) -> dict[str, Any]:
    """Offsets as the leader has them. `followers` are their log end offsets by broker; negative: not heard of yet."""
    behind = {str(follower): max(0, log_end_offset - end) for follower, end in followers.items() if end >= 0}
    offsets = {"role": "leader", "high_watermark": high_watermark, "log_end_offset": log_end_offset}
    return {**offsets, "behind": behind}


class SeenHistory:
    """See the module. `made_by` names the broker or the run that saw it."""

    def __init__(
        self, made_by: str, now_ms: int, *, bytes_max: int = HISTORY_BYTES_MAX, kept_ms: int = KEPT_MS
    ) -> None:
        self.made_by = made_by
        self.facts: dict[str, Any] = {}
        """As they are now."""
        self.written = 0
        """How many changes there have been: a reader that counts along knows which are new."""
        self.size = 0
        self.before_ms = now_ms
        self._before: dict[str, Any] = {}
        self._changes: deque[tuple[int, bytes]] = deque()
        self._bytes_max = bytes_max
        self._kept_ms = kept_ms

    def __len__(self) -> int:
        return len(self._changes)

    def note(self, ms: int, name: str, value: Any) -> None:
        """Gives the fact this value, as JSON knows values, from now on; None takes it away."""
        if self.facts.get(name) == value:
            return
        if value is None:
            self.facts.pop(name, None)
        else:
            self.facts[name] = value
        self._append(ms, name, value)

    def line(self, ms: int, text: str) -> None:
        self._append(ms, LINE, text)

    def _append(self, ms: int, name: str, value: Any) -> None:
        change = json.dumps([ms, name, value], separators=(",", ":"), ensure_ascii=False).encode()
        self._changes.append((ms, change))
        self.size += len(change) + OVERHEAD_BYTES
        self.written += 1
        while self.size > self._bytes_max or self._changes[0][0] < ms - self._kept_ms:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        self.before_ms, change = self._changes.popleft()
        self.size -= len(change) + OVERHEAD_BYTES
        _, name, value = json.loads(change)
        if value is None:
            self._before.pop(name, None)
        elif name != LINE:
            self._before[name] = value

    def since(self, written: int) -> list[bytes]:
        """The changes since there were `written` of them, each as JSON; as many of them as there still are."""
        new = min(self.written - written, len(self._changes))
        return [change for _, change in islice(self._changes, len(self._changes) - new, None)]

    def pieces(self) -> Iterator[bytes]:
        """All of it as one JSON value, as it is when this is called: ``made_by``, ``written``, ``before_ms``,
        ``before`` (the facts then) and ``changes``."""
        changes = [change for _, change in self._changes]
        head = {
            "made_by": self.made_by,
            "written": self.written,
            "before_ms": self.before_ms,
            "before": dict(self._before),
        }
        return self._pieces(head, changes)

    def _pieces(self, head: dict[str, Any], changes: list[bytes]) -> Iterator[bytes]:
        yield json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()[:-1] + b',"changes":['
        for first in range(0, len(changes), PIECE):
            yield (b",\n" if first else b"") + b",\n".join(changes[first : first + PIECE])
        yield b"]}"
