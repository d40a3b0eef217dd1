"""The well-behaved client, a process of its own: ``python hostile_neighbour.py BOOTSTRAP TOPIC PARTITIONS FILE``.

It produces a record every 20 ms with acks=all, to each partition in turn, and consumes what it produced. What happened
is written to FILE, a JSON list a line: ``["acked", number, sent at, acknowledged at, partition, offset]``, ``["failed",
number, sent at, error]``, ``["read", number, at]``; times are seconds of the machine's monotonic clock, so that other
processes can compare them. It ends when its standard input does.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

EVERY_S = 0.02


def main(bootstrap: str, topic: str, partitions: int, path: str) -> None:
    over = threading.Event()
    # Waiting for the end on a thread of its own: nothing may delay the pace.
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    lines = open(path, "a", buffering=1)  # noqa: SIM115 - open as long as the process lives

    def note(*what: Any) -> None:
        lines.write(json.dumps(what) + "\n")

    reader = threading.Thread(target=consume, args=(bootstrap, topic, partitions, over, note))
    reader.start()
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "enable.idempotence": True})
    try:
        produce(producer, topic, partitions, over, note)
    finally:  # a client that ends by an error ends whole, so that it is missed
        over.set()
        reader.join()


def produce(producer: Producer, topic: str, partitions: int, over: threading.Event, note: Any) -> None:
    number = 0
    due = time.monotonic()
    while not over.is_set():
        sent_at = time.monotonic()

        def told(error: Any, message: Any, number: int = number, sent_at: float = sent_at) -> None:
            if error is not None:
                note("failed", number, sent_at, str(error))
            else:
                note("acked", number, sent_at, time.monotonic(), message.partition(), message.offset())

        producer.produce(topic, str(number), partition=number % partitions, on_delivery=told)
        number += 1
        due = max(due + EVERY_S, sent_at)
        while (left := due - time.monotonic()) > 0:
            producer.poll(left)
    producer.flush(60)


def consume(bootstrap: str, topic: str, partitions: int, over: threading.Event, note: Any) -> None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "neighbour", "enable.auto.commit": False, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])
    while not over.is_set():
        for message in consumer.consume(100, 0.05):
            if message.error() is None:
                note("read", int(message.value()), time.monotonic())
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
