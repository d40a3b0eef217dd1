# ruff: noqa: TID251 -- a bench reads the real clock
"""How long a new producer of librdkafka takes for its first record: ``python bench/first_record.py BOOTSTRAP …``.

Against any brokers, ours or Apache Kafka's. Each producer is new, sends one record to a topic that stands, and is
timed from before it was made until its delivery report. The rows below ``idempotent`` say what can be set or called so
that it does not wait for half a second (docs/performance.md, "A first record by librdkafka").
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, Producer

TOPIC = "first-record"
WAITED_MS = 400.0
"""Whoever took longer has waited for librdkafka's timer of 500 ms."""

Before = Callable[[Producer], object]


def first_record_ms(bootstrap: str, settings: dict[str, Any], before: Before = lambda producer: None) -> float:
    """Raises `SystemExit` where the record is not taken."""
    delivered: list[tuple[KafkaError | None, float]] = []
    began = time.perf_counter()
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    before(producer)
    producer.produce(TOPIC, b"x", on_delivery=lambda error, message: delivered.append((error, time.perf_counter())))
    while not delivered:
        producer.poll(1)
    producer.flush()
    error, at = delivered[0]
    if error is not None:
        raise SystemExit(f"{bootstrap}: {error}")
    return (at - began) * 1e3


def twice(producer: Producer) -> None:
    producer.list_topics(TOPIC)
    producer.list_topics(TOPIC)


IDEMPOTENT = {"enable.idempotence": True}
ROWS: dict[str, tuple[dict[str, Any], Before]] = {
    "not idempotent": ({}, lambda producer: None),
    "idempotent": (IDEMPOTENT, lambda producer: None),
    "poll(0.02) before": (IDEMPOTENT, lambda producer: producer.poll(0.02)),
    "list_topics(topic) before": (IDEMPOTENT, lambda producer: producer.list_topics(TOPIC)),
    "list_topics(topic) twice": (IDEMPOTENT, twice),
    "enable.sparse.connections=false": ({**IDEMPOTENT, "enable.sparse.connections": False}, lambda producer: None),
    "topic.metadata.refresh.interval.ms=50": (
        {**IDEMPOTENT, "topic.metadata.refresh.interval.ms": 50},
        lambda producer: None,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap", nargs="+", help="one cluster's servers each")
    parser.add_argument("--producers", type=int, default=50)
    arguments = parser.parse_args()
    for bootstrap in arguments.bootstrap:
        first_record_ms(bootstrap, {})  # The topic.
        print(f"{bootstrap}\n{'':<38} {'p50':>8} {'p90':>8} {'max':>8}   over {WAITED_MS:.0f} ms")
        for name, (settings, before) in ROWS.items():
            took = sorted(first_record_ms(bootstrap, settings, before) for _ in range(arguments.producers))
            waited = sum(each > WAITED_MS for each in took)
            print(
                f"{name:<38} {statistics.median(took):>8.1f} {took[len(took) * 9 // 10]:>8.1f} {took[-1]:>8.1f}"
                f"   {waited} of {len(took)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
