"""Record batches as producers make them, and not quite so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from drawn.pools import MADE_MS

from barnabas.wire.records import Record, build_batch

if TYPE_CHECKING:
    from drawn.drawer import Drawer


class Batches(NamedTuple):
    """The producer's id is put in when they are sent: each broker has given it another."""

    records: tuple[Record, ...]
    producer_id: int
    options: dict[str, Any]
    spoilt: str

    @property
    def transactional(self) -> bool:
        return bool(self.options.get("is_transactional"))

    def encoded(self, real: Callable[[Any], Any]) -> bytes:
        content = build_batch(self.records, producer_id=real(self.producer_id), **self.options)
        match self.spoilt:
            case "corrupt":
                return content[:-1] + bytes([content[-1] ^ 0xFF])
            case "cut":
                return content[:-3]
            case "twice":
                return content + content
        return content


def drawn_batches(drawer: Drawer) -> Batches | bytes:
    spoilt = drawer.random.choice(("corrupt", "cut", "twice", "empty")) if drawer.chance(0.1) else ""
    if spoilt == "empty":
        return b""
    count = drawer.random.choice((1, 1, 3, 5))
    times = [MADE_MS + drawer.random.randrange(15_000) for _ in range(count)]
    records = tuple(
        Record(
            number, time, drawer.random.choice((None, b"k1", b"k2")), drawer.random.choice((None, b"", b"value")), ()
        )
        for number, time in enumerate(times)
    )
    options: dict[str, Any] = {"compression": drawer.random.choice(("none", "none", "none", "gzip", "lz4", "zstd"))}
    producer = drawer.producer
    if not drawer.producers or drawer.chance(0.5):
        return Batches(records, -1, options, spoilt)
    sequence = drawer.sequences.get(producer, 0)
    if drawer.chance(0.15):
        sequence = drawer.random.choice((0, sequence + 5, max(0, sequence - 1)))
    drawer.sequences[producer] = sequence + count
    options |= {
        "producer_epoch": producer.epoch,
        "base_sequence": sequence,
        "is_transactional": producer.transactional_id is not None,
    }
    return Batches(records, producer.producer_id, options, spoilt)
