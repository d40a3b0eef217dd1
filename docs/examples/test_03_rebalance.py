"""A member leaves a consumer group, and the others take over what it had."""

import contextlib
import threading

from kafka import KafkaConsumer, KafkaProducer


class Worker:
    """A consumer in a thread of its own, as an application has it."""

    def __init__(self, cluster, name):
        self.received = []
        self._leave = threading.Event()
        self._consumer = KafkaConsumer(
            "jobs",
            bootstrap_servers=cluster.bootstrap,
            group_id="workers",
            client_id=name,
            auto_offset_reset="earliest",
            session_timeout_ms=15_000,
            heartbeat_interval_ms=200,
            auto_commit_interval_ms=200,
        )
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self):
        with contextlib.closing(self._consumer):
            while not self._leave.is_set():
                for records in self._consumer.poll(timeout_ms=100).values():
                    self.received += [record.value for record in records]

    def leave(self):
        self._leave.set()
        self._thread.join()


def test_the_others_take_over(kafka_cluster):
    kafka_cluster.create_topic("jobs", partitions=4)
    group = kafka_cluster.group("workers")
    one, two = Worker(kafka_cluster, "one"), Worker(kafka_cluster, "two")
    try:
        group.stable(members=2, timeout=20)
        assert group.members == ["one", "two"]
        two.leave()
        group.stable(members=1, timeout=20)

        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap)
        for number in range(40):
            producer.send("jobs", value=str(number).encode(), partition=number % 4)
        producer.close()

        kafka_cluster.topic("jobs").consumed_by("workers", timeout=20)
        assert sorted(one.received, key=int) == [str(number).encode() for number in range(40)]
    finally:
        one.leave()
        two.leave()
