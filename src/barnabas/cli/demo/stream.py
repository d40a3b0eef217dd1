"""The demo's producer: librdkafka, idempotent, acks=all. It goes on sending while brokers are killed."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from barnabas.cli.demo.flights import Flight

_BUCKET_S: Final = 0.25
_TURN_S: Final = 0.02


class ManifestLine(NamedTuple):
    """A line of the producer's manifest; `offset` is -1 if a retry's answer did not contain it."""

    id: int
    partition: int
    offset: int
    crc: int
    sequence: int


class FlightStream(threading.Thread):
    """Sends `flights` in their order at about `rate` records a second, and records every acknowledgement.

    `acknowledged` counts the acknowledged records; `manifest` has a line for each. `failures` are records whose
    delivery the client gave up: there must be none. `notices` are librdkafka's reports of lost connections, which an
    application may ignore.
    """

    def __init__(
        self, bootstrap: str, topic: str, flights: Sequence[Flight], rate: float, on_progress: Callable[[int], None]
    ) -> None:
        super().__init__(name="flights", daemon=True)
        from confluent_kafka import Producer

        self._flights = flights
        self._topic = topic
        self.rate = rate
        self._on_progress = on_progress
        self.sent = 0
        self.manifest: list[ManifestLine] = []
        self.failures: list[str] = []
        self.notices: list[str] = []
        self.fatal: str | None = None
        self.begun = 0.0
        self.took_s = 0.0
        self.longest_pause_s = 0.0
        self.per_bucket: dict[int, int] = {}
        """Acknowledgements in each quarter of a second since the start."""
        self._last_acknowledged = 0.0
        self._stopping = False
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 10,
                "queue.buffering.max.messages": 500_000,
                "error_cb": self._noticed,
                "log_level": 0,  # lost connections arrive as notices; on the console they would bury the demo
            }
        )

    @property
    def acknowledged(self) -> int:
        return len(self.manifest)

    @property
    def share(self) -> float:
        """The share of the stream that has been sent, 0 to 1."""
        return self.sent / len(self._flights)

    def _noticed(self, error: Any) -> None:
        if error.fatal():
            self.fatal = str(error)
        self.notices.append(f"{time.monotonic() - self.begun:.1f} s: {error.str()}")

    def _delivered(self, flight: Flight, sequence: int, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(f"flight {flight.id}: {error.str()}")
            return
        now = time.monotonic()
        self.longest_pause_s = max(self.longest_pause_s, now - self._last_acknowledged)
        self._last_acknowledged = now
        bucket = int((now - self.begun) / _BUCKET_S)
        self.per_bucket[bucket] = self.per_bucket.get(bucket, 0) + 1
        self.manifest.append(
            ManifestLine(flight.id, message.partition(), message.offset(), zlib.crc32(flight.value), sequence)
        )

    def run(self) -> None:
        self.begun = self._last_acknowledged = time.monotonic()
        produce, delivered = self._producer.produce, self._delivered
        due = 0.0
        for sequence, flight in enumerate(self._flights):
            if self._stopping:
                return
            while True:
                try:
                    produce(
                        self._topic,
                        flight.value,
                        flight.carrier,
                        on_delivery=partial(delivered, flight, sequence),
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
            self.sent += 1
            due += 1.0
            if due >= self.rate * _TURN_S:
                due = 0.0
                self._producer.poll(0)
                # `poll` returns at the first delivery report, not at the end of its timeout.
                while (ahead_s := self.sent / self.rate - (time.monotonic() - self.begun)) > 0:
                    self._producer.poll(ahead_s)
                self._on_progress(self.acknowledged)
        while self._producer.flush(0.5) and not self._stopping:
            self._on_progress(self.acknowledged)
        self._on_progress(self.acknowledged)
        self.took_s = time.monotonic() - self.begun

    def write_manifest(self, target: Path) -> None:
        """Writes the acknowledged records in the format that ``barnabas spark audit`` reads."""
        import pyarrow
        import pyarrow.parquet as parquet

        columns = dict(zip(ManifestLine._fields, zip(*self.manifest, strict=True), strict=True))
        parquet.write_table(pyarrow.table(columns), str(target))

    def stop(self) -> None:
        self._stopping = True
        self.join(5)
