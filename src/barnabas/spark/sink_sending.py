"""Sends a task's rows to its producer: compiled (`sink_encoding`), or row by row in plain Python (`sink_rows`).

Both ways write the same records, which a property test checks. Plain Python sends the first rows of a process, since
loading numba and the kernels would take longer than it saves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.client.blocking_producer import BlockingProducer
from barnabas.spark.compiled import COMPILED_ROWS_MIN, takes_compiled
from barnabas.spark.sink_options import SinkOptions
from barnabas.spark.sink_rows import rows_of

if TYPE_CHECKING:
    import pyarrow

    from barnabas.spark.sink_encoding import Encoder

_rows_here = 0
"""How much the tasks of this process have written: a worker runs many of them."""


def encoder_for(batch: pyarrow.RecordBatch, producer: BlockingProducer, options: SinkOptions) -> Encoder | None:
    """The encoder for the rows of `batch` and all later ones; None while plain Python encodes them.

    Raises ``ValueError`` for the option ``encoder=compiled`` without numba.
    """
    global _rows_here
    _rows_here += batch.num_rows
    if not takes_compiled(options.encoder, _rows_here, option="encoder", records_min=COMPILED_ROWS_MIN):
        return None
    from barnabas.spark.sink_encoding import Encoder

    return Encoder(producer, options.batch_bytes)


class Sending:
    """Sends rows to the partition that they name, or that Kafka's partitioner chooses."""

    def __init__(self, producer: BlockingProducer, options: SinkOptions) -> None:
        self._producer = producer
        self._options = options
        self._encoder: Encoder | None = None

    def send(self, batch: pyarrow.RecordBatch) -> None:
        """Raises ``ValueError`` for a row that cannot be a record, `KafkaError` for the brokers' refusals."""
        if self._encoder is None:
            self._encoder = encoder_for(batch, self._producer, self._options)
        if self._encoder is not None:
            self._encoder.send(batch, self._options)
            return
        send = self._producer.send
        for topic, partition, key, value, headers, timestamp in rows_of(batch, self._options):
            send(topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp)

    def flush(self) -> None:
        """Returns when every row is acknowledged."""
        (self._encoder or self._producer).flush()
