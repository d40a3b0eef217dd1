"""A bank in transactions, on real brokers of which one after the other is killed: no transfer is torn, none is lost."""

from __future__ import annotations

import os
import threading
import time
import uuid
from pathlib import Path

from cluster import Cluster, running, until
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.client.blocking import BlockingCluster
from barnabas.model.ids import TopicPartition as Partition
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest

ACCOUNTS = 4
TELLERS = 3
LENGTH_S = int(os.environ.get("BANK_SECONDS", "12"))
CONFIG = (
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
    "min.insync.replicas=2",
    "zookeeper.session.timeout.ms=3000",
)


class Teller(threading.Thread):
    """Moves money from account to account, each transfer a transaction; begins anew where it was fenced."""

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(name=name)
        self.bootstrap = bootstrap
        self.stopping = False
        self.outcomes: dict[bytes, str] = {}
        self.trouble: list[str] = []

    def producer(self) -> Producer:
        while True:
            made = Producer(
                {
                    "bootstrap.servers": self.bootstrap,
                    "transactional.id": self.name,
                    "transaction.timeout.ms": 10_000,
                    "log_level": 0,
                }
            )
            try:
                made.init_transactions(10)
                return made
            except KafkaException as error:
                self.trouble.append(str(error))

    def run(self) -> None:
        producer = self.producer()
        number = 0
        while not self.stopping:
            number += 1
            transfer = f"{self.name}/{uuid.uuid4().hex[:6]}/{number}".encode()
            self.outcomes[transfer] = "unknown"
            regrets = number % 5 == 0
            committing = False
            try:
                producer.begin_transaction()
                for half, account in ((b" debit", number % ACCOUNTS), (b" credit", (number * 7 + 1) % ACCOUNTS)):
                    producer.produce("accounts", transfer + half, partition=account)
                if regrets:
                    producer.flush(10)
                    producer.abort_transaction(20)
                else:
                    committing = True
                    producer.commit_transaction(20)
                self.outcomes[transfer] = "aborted" if regrets else "committed"
            except KafkaException as error:
                self.trouble.append(str(error))
                if not committing:
                    self.outcomes[transfer] = "aborted"
                producer = self.producer()  # which aborts whatever is open


def read(bootstrap: str, isolation: str, stop: threading.Event | None = None) -> dict[tuple[int, int], bytes]:
    """Everything by partition and offset: until `stop`, or to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "judge", "isolation.level": isolation, "log_level": 0,
            "enable.partition.eof": True, "enable.auto.commit": False,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition("accounts", number, 0) for number in range(ACCOUNTS)])
    found: dict[tuple[int, int], bytes] = {}
    ended: set[int] = set()
    while not stop.is_set() if stop is not None else len(ended) < ACCOUNTS:
        message = consumer.poll(0.5)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found[message.partition(), message.offset()] = message.value()
            ended.discard(message.partition())
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    return found


def coordinator(cluster: Cluster, name: str) -> int:
    with BlockingCluster(cluster.bootstrap) as client:
        found = client.any().send(FindCoordinatorRequest(key_type=1, coordinator_keys=[name]), 4)
        return int(found.coordinators[0].node_id)


def leader(cluster: Cluster) -> int:
    with BlockingCluster(cluster.bootstrap) as client:
        client.refresh(["accounts"])
        return client.metadata.leader(Partition("accounts", 0))


def test_no_transfer_is_torn_while_coordinators_and_leaders_are_killed(tmp_path: Path) -> None:
    with running(tmp_path, 3, *CONFIG) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("accounts", ACCOUNTS, 3)])["accounts"].result(30)
        tellers = [Teller(cluster.bootstrap, f"teller-{number}") for number in range(TELLERS)]
        stop, seen = threading.Event(), {}
        reader = threading.Thread(target=lambda: seen.update(read(cluster.bootstrap, "read_committed", stop)))
        for thread in (*tellers, reader):
            thread.start()
        try:
            until(lambda: all("committed" in each.outcomes.values() for each in tellers), "every teller has begun")
            ends = time.monotonic() + LENGTH_S
            kills = 0
            while time.monotonic() < ends:
                victim = coordinator(cluster, tellers[kills % TELLERS].name) if kills % 2 == 0 else leader(cluster)
                if victim >= 0:
                    cluster.kill(victim)
                    kills += 1
                    time.sleep(0.5 * (kills % 3))
                    cluster.up()
                counts = [len(each.outcomes) for each in tellers]
                moved = lambda before=counts: all(  # noqa: E731
                    len(each.outcomes) > count + 3 for each, count in zip(tellers, before, strict=True)
                )
                until(moved, "every teller goes on")
            assert kills >= 2
        finally:
            for each in tellers:
                each.stopping = True
            for each in tellers:
                each.join(90)
            time.sleep(1)
            stop.set()
            reader.join(30)
        outcomes = {transfer: told for each in tellers for transfer, told in each.outcomes.items()}

        def stable() -> bool:
            everything = [Partition("accounts", number) for number in range(ACCOUNTS)]
            with BlockingCluster(cluster.bootstrap) as client:
                ends = client.list_offsets(dict.fromkeys(everything, -1))
                committed = client.list_offsets(dict.fromkeys(everything, -1), isolation_level=1)
            return all(committed[each].offset == ends[each].offset for each in everything)

        until(stable, "no transaction is open any more", 30)
        final = read(cluster.bootstrap, "read_committed")
        halves: dict[bytes, list[bytes]] = {}
        for value in final.values():
            transfer, half = value.split(b" ")
            halves.setdefault(transfer, []).append(half)
        for transfer, told in outcomes.items():
            found = sorted(halves.pop(transfer, []))
            assert found in ([], [b"credit", b"debit"]), f"{transfer!r} ({told}) is torn: {found}"
            assert told == "unknown" or (told == "committed") == bool(found), (
                f"{transfer!r} is {told}, there is {found}"
            )
        assert not halves, "these transfers came from nowhere"
        assert all(final.get(place) == value for place, value in seen.items()), "what a reader saw is gone"
        tally = {told: list(outcomes.values()).count(told) for told in ("committed", "aborted", "unknown")}
        assert tally["committed"] > 20, tally
