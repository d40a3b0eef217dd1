"""Kafka Streams with exactly_once_v2 while it and brokers are killed: what it tells is whole, nothing of it twice."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from clients.programs import streams_command
from clients.topic_records import records
from cluster import running, until
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [pytest.mark.long(3), pytest.mark.apache, pytest.mark.timeout(600)]

USERS, PLACES, WORDS = 20, 5, 7
CLICKS_OF_A_ROUND = 400
STEP_MS, WINDOW_MS = 50, 10_000
CONFIG = (
    "group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=4", "transaction.state.log.num.partitions=4",
)  # fmt: skip
TOPICS = [f"app-{what}" for what in ("clicks", "users", "places", "counts", "joined", "windows")]
PRODUCER = {"enable.idempotence": True, "delivery.timeout.ms": 300_000, "log_level": 0}


@contextlib.contextmanager
def application(bootstrap: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (
        open(directory / "application.log", "ab") as log,
        subprocess.Popen(
            streams_command("Clicks.java", bootstrap, "app", directory), stdin=subprocess.PIPE, stdout=log, stderr=log
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def values_by_key(bootstrap: str, topic: str) -> dict[str | None, list[str | None]]:
    found: dict[str | None, list[str | None]] = defaultdict(list)
    for _, key, value in records(bootstrap, topic):
        found[key].append(value)
    return found


def has(bootstrap: str, topic: str, count: int) -> bool:
    return len(records(bootstrap, topic)) >= count


def log_start_offset(bootstrap: str, topic: str) -> int:
    """Of all partitions together."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0})
    partitions = reader.list_topics(topic, 60).topics[topic].partitions
    low = sum(reader.get_watermark_offsets(TopicPartition(topic, each), 60)[0] for each in partitions)
    reader.close()
    return int(low)


class Feed:
    """Sends clicks: what was `sent` has user, click and timestamp."""

    def __init__(self, bootstrap: str, begin_ms: int) -> None:
        self.producer = Producer({"bootstrap.servers": bootstrap, **PRODUCER})
        self.begin_ms = begin_ms
        self.sent: list[tuple[str, str, int]] = []

    def send(self, count: int, word: str | None = None, late_ms: int = 0) -> None:
        for number in range(len(self.sent), len(self.sent) + count):
            click = f"{number} {word or f'w{number % WORDS}'}"
            self.sent.append((f"u{number % USERS}", click, self.begin_ms + number * STEP_MS + late_ms))
            user, _, timestamp = self.sent[-1]
            self.producer.produce("app-clicks", click, user, timestamp=timestamp)


def stopped_in_a_transaction(process: subprocess.Popen[bytes], bootstrap: str, feed: Feed) -> bool:
    """Whether the application, which then stands still, has written what it has not committed; else it goes on."""
    feed.send(20)
    process.send_signal(signal.SIGSTOP)
    if len(records(bootstrap, "app-joined", "read_uncommitted")) > len(records(bootstrap, "app-joined")):
        return True
    process.send_signal(signal.SIGCONT)
    return False


def test_streams_tells_everything_once_while_it_and_each_broker_are_killed(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", 3, *CONFIG) as cluster:
        bootstrap = cluster.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        wanted = [NewTopic(topic, 4, 3, config={"min.insync.replicas": "2"}) for topic in TOPICS]
        for made in admin.create_topics(wanted).values():
            made.result(60)
        feed = Feed(bootstrap, int(time.time() * 1000) // WINDOW_MS * WINDOW_MS)
        # Of records of one time Streams takes either first; a click must not come before where its user is.
        for user in range(USERS):
            feed.producer.produce("app-users", f"p{user % PLACES}", f"u{user}", timestamp=feed.begin_ms - STEP_MS)
        for place in range(PLACES):
            feed.producer.produce("app-places", f"place{place}", f"p{place}", timestamp=feed.begin_ms - STEP_MS)
        assert feed.producer.flush(60) == 0
        with application(bootstrap, tmp_path) as process:
            feed.send(CLICKS_OF_A_ROUND)
            until(partial(has, bootstrap, "app-joined", 1), "the first clicks are joined", 120)
            until(partial(stopped_in_a_transaction, process, bootstrap, feed), "it is in a transaction")
        with application(bootstrap, tmp_path) as process:
            for broker in range(3):
                feed.send(CLICKS_OF_A_ROUND)
                until(partial(has, bootstrap, "app-joined", len(feed.sent) - CLICKS_OF_A_ROUND + 1), "it goes on", 120)
                feed.send(CLICKS_OF_A_ROUND)
                cluster.kill(broker)
                feed.producer.poll(1)
                cluster.up()
            windows = Counter(f"{user} {at // WINDOW_MS * WINDOW_MS}" for user, _, at in feed.sent)
            feed.send(USERS, "last", late_ms=3_600_000)
            assert feed.producer.flush(120) == 0
            until(partial(has, bootstrap, "app-counts", len(feed.sent)), "all are counted", 120)
            until(partial(has, bootstrap, "app-windows", len(windows)), "all windows are closed")
            until(partial(log_start_offset, bootstrap, "app-words-repartition"), "what was counted is deleted")
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(90) == 0, (tmp_path / "application.log").read_text()[-3000:]

        words = Counter(click.split()[1] for _, click, _ in feed.sent)
        counts = {word: [str(count) for count in range(1, last + 1)] for word, last in words.items()}
        joined = defaultdict(list)
        for user, click, _ in feed.sent:
            place = int(user[1:]) % PLACES
            joined[user].append(f"{click} p{place} place{place}")
        assert values_by_key(bootstrap, "app-counts") == counts
        assert values_by_key(bootstrap, "app-joined") == joined
        assert values_by_key(bootstrap, "app-windows") == {key: [str(n)] for key, n in windows.items()}
