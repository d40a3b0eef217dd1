"""Producers and consumers of confluent-kafka, and what they were told."""

from __future__ import annotations

import json
import random
import threading
import time

from barnabas.model.ids import TopicPartition

TOPIC = "chaos"
GROUP = "readers"
PARTITIONS = 6
PRODUCERS = 3
CONSUMERS = 2
PER_SECOND = 50
"""Records of each producer."""


def origin(value: bytes) -> tuple[str, int]:
    """Which producer sent a value, and as its how many-eth."""
    producer, number, _ = value.split(b"-", 2)
    return producer.decode(), int(number)


class Seen:
    """What the clients know."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.acknowledged: dict[bytes, tuple[TopicPartition, int]] = {}
        self.failed: dict[bytes, str] = {}
        self.read: dict[tuple[TopicPartition, int], bytes] = {}
        self.changed: list[str] = []
        self.given: set[bytes] = set()
        self.producers_replaced = 0
        self.lock = threading.Lock()

    def note_read(self, topic_partition: TopicPartition, offset: int, value: bytes) -> None:
        with self.lock:
            before = self.read.setdefault((topic_partition, offset), value)
            self.given.add(value)
            if before != value:
                self.changed.append(f"{topic_partition}@{offset} was {before!r}, is {value!r}")


class Traffic:
    def __init__(self, bootstrap: str, seed: int) -> None:
        self.seen = Seen()
        self._bootstrap = bootstrap
        self._seed = seed
        self._producing = threading.Event()
        self._consuming = threading.Event()
        self._threads: list[threading.Thread] = []
        self._statistics: dict[str, str] = {}
        """By producer: what librdkafka said of itself last."""
        self.errors: list[BaseException] = []

    def create_topic(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        new = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=3, config={"min.insync.replicas": "2"})
        admin.create_topics([new])[TOPIC].result(30)

    def start(self) -> None:
        self._producing.set()
        self._consuming.set()
        for number in range(PRODUCERS):
            self._begin(self._produce, number)
        for number in range(CONSUMERS):
            self._begin(self._consume, number)

    def _begin(self, story, number: int) -> None:  # type: ignore[no-untyped-def]
        def run() -> None:
            try:
                story(number)
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=run, name=f"{story.__name__}-{number}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _producer(self, name: str):  # type: ignore[no-untyped-def]
        from confluent_kafka import Producer

        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "client.id": name,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 20,
                "message.timeout.ms": 120_000,
                "socket.timeout.ms": 5_000,
                "reconnect.backoff.max.ms": 1_000,
                "statistics.interval.ms": 5_000,
                "stats_cb": lambda told: self._statistics.update({name: told}),
                "log_level": 0,
            }
        )

    def _stuck(self, name: str, left: int) -> str:
        """Where librdkafka's producer holds what it neither sends nor gives up."""
        told = json.loads(self._statistics.get(name, "{}"))
        brokers = {
            broker["nodeid"]: {key: broker[key] for key in ("state", "outbuf_cnt", "waitresp_cnt", "txidle", "rxidle")}
            for broker in told.get("brokers", {}).values()
        }
        kept = ("leader", "broker", "msgq_cnt", "xmit_msgq_cnt", "msgs_inflight", "next_ack_seq", "next_err_seq")
        partitions = {
            number: {key: each[key] for key in kept}
            for topic in told.get("topics", {}).values()
            for number, each in topic["partitions"].items()
            if int(number) >= 0
        }
        return (
            f"{name} has {left} records left that were neither acknowledged nor failed; its idempotence: "
            f"{told.get('eos')}, brokers: {brokers}, partitions: {partitions}"
        )

    def _produce(self, number: int) -> None:
        seen = self.seen
        name = f"producer-{number}"
        producer = self._producer(name)
        fatal: list[str] = []

        def delivered(error, message) -> None:  # type: ignore[no-untyped-def]
            value = message.value()
            if error is None:
                with seen.lock:
                    place = TopicPartition(message.topic(), message.partition())
                    seen.acknowledged[value] = (place, message.offset())
            else:
                seen.failed[value] = str(error)
                if error.fatal() or "fatal" in str(error).lower():
                    fatal.append(str(error))

        chance = random.Random(f"{self._seed}/{name}")
        count = 0
        began = time.monotonic()
        while self._producing.is_set():
            due = int((time.monotonic() - began) * PER_SECOND)
            while count < due and len(producer) < 5_000:
                value = f"{number}-{count:07d}-".encode() + b"x" * chance.randrange(100)
                with seen.lock:
                    seen.sent.append(value)
                producer.produce(TOPIC, value, key=str(chance.randrange(1000)).encode(), on_delivery=delivered)
                count += 1
            if len(producer) >= 5_000:
                began = time.monotonic() - count / PER_SECOND
            producer.poll(0.02)
            if fatal:
                # The producer's own rule: what it cannot place any more it gives up, and so must its user.
                producer.flush(30)
                producer = self._producer(name)
                seen.producers_replaced += 1
                fatal.clear()
        left = producer.flush(130)
        if left:
            raise RuntimeError(self._stuck(name, left))

    def _consume(self, number: int) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "client.id": f"consumer-{number}",
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": True,
                "auto.commit.interval.ms": 1_000,
                "session.timeout.ms": 10_000,
                "socket.timeout.ms": 5_000,
                "reconnect.backoff.max.ms": 1_000,
                "log_level": 0,
            }
        )
        consumer.subscribe([TOPIC])
        while self._consuming.is_set():
            for message in consumer.consume(500, timeout=0.2):
                if message.error() is None:
                    place = TopicPartition(message.topic(), message.partition())
                    self.seen.note_read(place, message.offset(), message.value())
        consumer.close()

    def stop_producing(self) -> None:
        self._producing.clear()
        for thread in self._threads:
            if thread.name.startswith("_produce"):
                thread.join(150)

    def drain(self, within: float) -> bool:
        """Waits until the group was given every acknowledged record; then its consumers leave."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline and self.seen.acknowledged.keys() - self.seen.given:
            time.sleep(0.2)
        whole = not self.seen.acknowledged.keys() - self.seen.given
        self._consuming.clear()
        for thread in self._threads:
            thread.join(30)
        return whole

    def everything(self, within: float = 120) -> dict[tuple[TopicPartition, int], bytes]:
        """Every record of the topic, read by a consumer without a group from the beginning."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer
        from confluent_kafka import TopicPartition as Place

        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "auditor", "enable.auto.commit": False, "log_level": 0}
        )
        ends = {}
        for number in range(PARTITIONS):
            _, ends[number] = consumer.get_watermark_offsets(Place(TOPIC, number), timeout=30)
        consumer.assign([Place(TOPIC, number, OFFSET_BEGINNING) for number in ends])
        found: dict[tuple[TopicPartition, int], bytes] = {}
        reached = dict.fromkeys(ends, 0)
        deadline = time.monotonic() + within
        while any(reached[number] < end for number, end in ends.items()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the topic could not be read to its end: {reached} of {ends}")
            for message in consumer.consume(2_000, timeout=0.5):
                if message.error() is None:
                    found[TopicPartition(TOPIC, message.partition()), message.offset()] = message.value()
                    reached[message.partition()] = message.offset() + 1
        consumer.close()
        return found
