"""One Apache Kafka broker and one of ours that speak to each other over SASL_SSL, and authenticate again and again."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import apache
import pytest
from certificates import Authority
from cluster import BARNABAS, until
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic

pytestmark = pytest.mark.apache

APACHES, OURS = 0, 1
SESSION_MS = 4_000
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="broker" password="inner" user_broker="inner" user_alice="wonder";'
)


def metadata(admin: AdminClient) -> ClusterMetadata | None:
    """None where a client has no answer in time: it may have asked a broker that was killed, or that just starts."""
    try:
        return admin.list_topics(timeout=5)
    except KafkaException:
        return None


def test_both_kinds_lead_follow_and_reign_over_sasl_ssl(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    store = authority.issue("broker").pkcs12("secret")
    ports = {number: apache.free_port() for number in (APACHES, OURS)}
    shared = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BOTH:SASL_SSL",
        "inter.broker.listener.name": "BOTH",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.both.plain.sasl.jaas.config": JAAS,
        "listener.name.both.ssl.keystore.location": str(store),
        "listener.name.both.ssl.keystore.type": "PKCS12",
        "listener.name.both.ssl.keystore.password": "secret",
        "listener.name.both.ssl.key.password": "secret",
        "listener.name.both.ssl.truststore.location": str(authority.trust_store),
        "listener.name.both.ssl.truststore.type": "PEM",
        "listener.name.both.ssl.client.auth": "required",
        "connections.max.reauth.ms": str(SESSION_MS),
        "zookeeper.session.timeout.ms": "10000",
        "offsets.topic.num.partitions": "2",
    }
    kafka = apache.ApacheCluster(tmp_path / "apache", 1, config=shared, first_id=APACHES)
    kafka._config["listeners"] = f"PLAINTEXT://127.0.0.1:{kafka.ports[APACHES]},BOTH://127.0.0.1:{ports[APACHES]}"
    key = authority.issue("alice")
    client = {
        "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports.values()),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.trust_store),
        "ssl.certificate.location": str(key.certificate),
        "ssl.key.location": str(key.key),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "wonder",
        "log_level": 0,
    }
    with kafka:
        values = {
            **shared,
            "broker.id": str(OURS),
            "listeners": f"BOTH://127.0.0.1:{ports[OURS]}",
            "zookeeper.connect": kafka.zookeeper,
            "log.dirs": str(tmp_path / "logs"),
        }
        properties = tmp_path / "ours.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        log = tmp_path / "ours.log"
        with log.open("wb") as output:
            ours = subprocess.Popen([*BARNABAS, "broker", str(properties)], stdout=output, stderr=output)
        try:
            admin = AdminClient(client)
            until(lambda: (known := metadata(admin)) and len(known.brokers) == 2, "both kinds are known")
            admin.create_topics([NewTopic("t", 4, 2)])["t"].result(60)

            def in_sync() -> bool:
                known = metadata(admin)
                partitions = known.topics["t"].partitions if known and "t" in known.topics else {}
                return len(partitions) == 4 and all(sorted(each.isrs) == [0, 1] for each in partitions.values())

            until(in_sync, "both kinds follow each other")
            partitions = admin.list_topics("t", timeout=30).topics["t"].partitions
            assert {each.leader for each in partitions.values()} == {0, 1}
            producer = Producer({**client, "acks": "all", "enable.idempotence": True})
            refused: list[object] = []
            sent = 0
            begun = time.monotonic()
            while time.monotonic() - begun < 3 * SESSION_MS / 1000:  # sessions end, and begin again
                for _ in range(50):
                    producer.produce("t", b"%d" % sent, on_delivery=lambda e, _: refused.append(e) if e else None)
                    sent += 1
                assert producer.flush(60) == 0
            kafka.kill(APACHES)
            until(lambda: (known := metadata(admin)) and known.controller_id == OURS, "ours reigns")
            kafka.launch(APACHES)
            until(in_sync, "Apache's follows again")
            assert not refused
            consumer = Consumer({**client, "group.id": "all", "auto.offset.reset": "earliest"})
            consumer.assign([TopicPartition("t", number, 0) for number in range(4)])
            seen: set[bytes] = set()
            until(
                lambda: (
                    seen.update(each.value() for each in consumer.consume(5000, 0.5) if not each.error())
                    or len(seen) == sent
                ),
                "every record is there",
            )
            consumer.close()
            assert "its session has ended" not in log.read_text()
        finally:
            ours.terminate()
            ours.wait(60)
