"""One Apache Kafka 3.9.2 broker and two of ours in one cluster, on a real ZooKeeper; each kind reigns once.

``MIXED_PROTOCOLS=2.6,2.8`` plays it with these values of inter.broker.protocol.version (`make mixed`).
"""

import os
from collections import Counter

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from processes import Process, answers, eventually, read

from barnabas.bench.apache import ApacheCluster, free_port

pytestmark = pytest.mark.apache

APACHE = 0
OURS = (1, 2)
PROTOCOLS = os.environ.get("MIXED_PROTOCOLS", "3.9").split(",")


def properties(directory, broker_id, port, zookeeper, protocol):
    file = directory / f"broker-{broker_id}.properties"
    file.write_text(
        f"broker.id={broker_id}\nlisteners=PLAINTEXT://127.0.0.1:{port}\nzookeeper.connect={zookeeper}\n"
        f"zookeeper.session.timeout.ms=4000\nlog.dirs={directory}/logs-{broker_id}\n"
        f"inter.broker.protocol.version={protocol}\n"
    )
    return str(file)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_both_kinds_lead_follow_and_reign_and_nothing_acknowledged_is_lost(tmp_path, protocol):
    config = {"zookeeper.session.timeout.ms": "4000", "inter.broker.protocol.version": protocol}
    with ApacheCluster(tmp_path / "apache", 1, config=config, first_id=APACHE) as apache:
        ports = {number: free_port() for number in OURS}
        ours = {
            number: Process(
                f"broker-{number}", tmp_path, "broker", properties(tmp_path, number, port, apache.zookeeper, protocol)
            )
            for number, port in ports.items()
        }
        bootstrap = ",".join([apache.bootstrap, *(f"127.0.0.1:{port}" for port in ports.values())])

        def topic():
            known = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics("mixed", timeout=5)
            return known, known.topics["mixed"].partitions

        def all_in_sync():
            return all(sorted(state.isrs) == [0, 1, 2] for state in topic()[1].values())

        try:
            for number, process in ours.items():
                process.start()
                eventually(lambda port=ports[number]: answers(port), what=f"broker {number} answers")
            admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
            eventually(lambda: len(admin.list_topics(timeout=5).brokers) == 3, what="all three are known")
            assert admin.list_topics(timeout=5).controller_id == APACHE
            admin.create_topics([NewTopic("mixed", 6, 3, config={"min.insync.replicas": "2"})])["mixed"].result(30)
            eventually(all_in_sync, what="all are in sync")
            assert set(Counter(state.leader for state in topic()[1].values())) == {0, 1, 2}

            told, errors = [], []
            producer = Producer(
                {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "log_level": 0}
            )

            def on_delivery(error, message):
                (errors if error else told).append(error or int(message.value()))

            def send(first, last):
                for number in range(first, last):
                    producer.produce("mixed", b"%d" % number, key=b"%d" % number, on_delivery=on_delivery)
                assert producer.flush(90) == 0

            send(0, 3000)
            apache.kill(APACHE)
            send(3000, 6000)
            eventually(lambda: topic()[0].controller_id in OURS, what="one of ours reigns")
            apache.start(APACHE)
            eventually(all_in_sync, within=90, what="the Apache broker is in sync again under our controller")
            send(6000, 9000)
            for number in OURS:
                ours[number].kill()
                eventually(lambda gone=number: all(gone not in s.isrs for s in topic()[1].values()), what="it is out")
                send(9000 + 3000 * number, 12000 + 3000 * number)
                ours[number].start()
                eventually(all_in_sync, within=60, what=f"broker {number} is in sync again")

            assert not errors
            expected = [*range(9000), *range(12000, 18000)]
            assert sorted(told) == expected
            consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0})
            consumer.assign([TopicPartition("mixed", number, 0) for number in range(6)])
            found, complaints = [], []

            def everything_is_read():
                found.extend(int(message.value()) for message in read(consumer, complaints))
                assert len(found) >= len(expected), (len(found), complaints)
                return True

            eventually(everything_is_read, within=60)
            consumer.close()
            assert sorted(found) == expected
        finally:
            for process in ours.values():
                process.kill()
