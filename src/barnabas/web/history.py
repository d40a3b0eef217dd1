"""The last hour of the cluster as one broker saw it, in a bounded ring, for the view and its slider.

The state is a dictionary of *facts*, plain values by name. A *change* gives one fact another value, or removes it
(None). The picture of a moment is the facts before the ring's first change, with all changes up to that moment applied;
the live view shows the newest picture, so that live and past pictures work in the same way. A change that leaves the
ring is applied to the facts before it. The facts:

    broker/ID             address, rack, up: whether it is registered
    controller            id and epoch
    partition/TOPIC-N     leader, leader_epoch, isr, replicas
    offsets/TOPIC-N       high_watermark, log_end_offset and role here; behind: by how many records each follower is
    session               the state of this broker's ZooKeeper session
    queue                 the controller's event queue: the state, the event in hand, how many wait
    requests/ID           requests of this controller to the broker that are not answered yet
    lag/GROUP             records that the group has not read

A change without a name (``""``) is a line of the state-change log. The same page draws the histories of brokers and of
the simulator.
"""

from __future__ import annotations

import json
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from barnabas.model.cluster import BrokerInfo
from barnabas.wire.kernel import staying

HISTORY_BYTES_MAX: Final = 4 * 1024 * 1024
KEPT_MS: Final = 60 * 60 * 1000
OVERHEAD_BYTES: Final = 128
"""The memory of Python's objects for each change, or each pack of changes, besides its text."""
PACKED: Final = 256
"""Changes in a pack. Packing takes a millisecond, and a pack a tenth of the memory. The newest changes are not packed:
they are sent to each reader."""
LINE: Final = ""
_BETWEEN: Final = b",\n"
"""The separator of changes. No change contains it, as JSON escapes newlines in strings."""


def broker_fact(address: str, rack: str | None, *, up: bool) -> dict[str, Any]:
    """`address` is ``host:port``, or empty if unknown."""
    return {"address": address, "rack": rack, "up": up}


def registered_fact(info: BrokerInfo, *, up: bool) -> dict[str, Any]:
    """The fact of a broker's registration, which may name no endpoint."""
    address = f"{info.endpoints[0].host}:{info.endpoints[0].port}" if info.endpoints else ""
    return broker_fact(address, info.rack, up=up)


def partition_fact(leader: int, leader_epoch: int, isr: Iterable[int], replicas: Iterable[int]) -> dict[str, Any]:
    return {"leader": leader, "leader_epoch": leader_epoch, "isr": list(isr), "replicas": list(replicas)}


def leader_fact(high_watermark: int, log_end_offset: int, followers: Mapping[int, int]) -> dict[str, Any]:
    """A leader's offsets. `followers` has their log end offsets by broker; negative if not known yet."""
    behind = {str(follower): max(0, log_end_offset - end) for follower, end in followers.items() if end >= 0}
    offsets = {"role": "leader", "high_watermark": high_watermark, "log_end_offset": log_end_offset}
    return {**offsets, "behind": behind}


def _joined(changes: Iterable[tuple[int, bytes]]) -> bytes:
    return _BETWEEN.join(change for _, change in changes)


class _Pack(NamedTuple):
    """`PACKED` consecutive changes, as JSON, compressed."""

    first_ms: int
    data: bytes

    def text(self) -> bytes:
        return zlib.decompress(self.data)


class SeenHistory:
    """The facts and their changes, as the module describes them. `made_by` names the broker or the run that recorded
    them."""

    def __init__(
        self, made_by: str, now_ms: int, *, bytes_max: int = HISTORY_BYTES_MAX, kept_ms: int = KEPT_MS
    ) -> None:
        self.made_by = made_by
        self.facts: dict[str, Any] = {}
        """The present facts."""
        self.written = 0
        """The number of changes so far: a reader that counts as well knows which are new."""
        self.size = 0
        self.before_ms = now_ms
        self._before: dict[str, Any] = {}
        self._oldest: deque[tuple[int, bytes]] = deque()
        """The remaining changes of the oldest pack, from which some have left the ring."""
        self._packs: deque[_Pack] = deque()
        self._newest: deque[tuple[int, bytes]] = deque()
        self._bytes_max = bytes_max
        self._kept_ms = kept_ms

    def __len__(self) -> int:
        return len(self._oldest) + PACKED * len(self._packs) + len(self._newest)

    def note(self, ms: int, name: str, value: Any) -> None:
        """Gives the fact this value, of a type that JSON has; None removes the fact."""
        if self.facts.get(name) == value:
            return
        if value is None:
            self.facts.pop(name, None)
        else:
            self.facts[name] = value
        self._append(ms, name, value)

    def line(self, ms: int, text: str) -> None:
        self._append(ms, LINE, text)

    @staying
    def _append(self, ms: int, name: str, value: Any) -> None:
        change = json.dumps([ms, name, value], separators=(",", ":"), ensure_ascii=False).encode()
        self._newest.append((ms, change))
        self.size += len(change) + OVERHEAD_BYTES
        self.written += 1
        if len(self._newest) >= 2 * PACKED:
            self._pack()
        while self.size > self._bytes_max or self._first_ms() < ms - self._kept_ms:
            self._forget_oldest()

    def _pack(self) -> None:
        packed = [self._newest.popleft() for _ in range(PACKED)]
        pack = _Pack(packed[0][0], zlib.compress(_joined(packed)))
        self._packs.append(pack)
        self.size += len(pack.data) + OVERHEAD_BYTES - sum(len(change) + OVERHEAD_BYTES for _, change in packed)

    def _unpack_oldest(self) -> None:
        pack = self._packs.popleft()
        changes = pack.text().split(_BETWEEN)
        self._oldest.extend((json.loads(change)[0], change) for change in changes)
        self.size += sum(len(change) + OVERHEAD_BYTES for change in changes) - len(pack.data) - OVERHEAD_BYTES

    def _first_ms(self) -> int:
        if self._packs and not self._oldest:
            return self._packs[0].first_ms
        return (self._oldest or self._newest)[0][0]

    def _forget_oldest(self) -> None:
        if self._packs and not self._oldest:
            self._unpack_oldest()
        self.before_ms, change = (self._oldest or self._newest).popleft()
        self.size -= len(change) + OVERHEAD_BYTES
        _, name, value = json.loads(change)
        if value is None:
            self._before.pop(name, None)
        elif name != LINE:
            self._before[name] = value

    def since(self, written: int) -> list[bytes]:
        """The changes after the first `written` ones, each as JSON; older ones may have left the ring."""
        new = min(self.written - written, len(self))
        changes = [change for _, change in self._newest]
        if new > len(changes):
            packed = [change for pack in self._packs for change in pack.text().split(_BETWEEN)]
            changes = [*(change for _, change in self._oldest), *packed, *changes]
        return changes[len(changes) - new :]

    def pieces(self) -> Iterator[bytes]:
        """The whole history at the time of the call, as one JSON value: ``made_by``, ``written``, ``before_ms``,
        ``before`` (the facts then) and ``changes``."""
        head = {
            "made_by": self.made_by,
            "written": self.written,
            "before_ms": self.before_ms,
            "before": dict(self._before),
        }
        return self._pieces(head, _joined(self._oldest), [*self._packs], _joined(self._newest))

    def _pieces(self, head: dict[str, Any], oldest: bytes, packs: list[_Pack], newest: bytes) -> Iterator[bytes]:
        yield json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()[:-1] + b',"changes":['
        texts = chain([oldest] if oldest else [], (pack.text() for pack in packs), [newest] if newest else [])
        for number, text in enumerate(texts):
            yield _BETWEEN + text if number else text
        yield b"]}"
