"""One Apache Kafka broker and one of ours that log in to each other: over SASL_SSL again and again, and by tokens."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import apache
import pytest
from certificates import Authority
from cluster import BARNABAS, until
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic
from joserfc import jwt
from joserfc.jwk import RSAKey

from barnabas.security.sasl.http import ALLOWED_URLS

pytestmark = [pytest.mark.long(2), pytest.mark.apache]

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


def test_both_kinds_log_in_to_each_other_by_tokens(tmp_path: Path) -> None:
    """OAUTHBEARER: each shows the token in a file, and knows the authority's keys from another."""
    key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}, private=True)
    now_s = int(time.time())
    claims = {"sub": "broker", "iat": now_s, "exp": now_s + 3600}
    keys, token = tmp_path / "jwks.json", tmp_path / "token"
    keys.write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    token.write_text(jwt.encode({"alg": "RS256", "kid": "one"}, claims, key))
    allowed = f"file:{keys},file:{token}"
    oauthbearer = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
    mechanism = "listener.name.both.oauthbearer.sasl."
    shared = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BOTH:SASL_PLAINTEXT",
        "inter.broker.listener.name": "BOTH",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        f"{mechanism}jaas.config": f"{oauthbearer}LoginModule required;",
        f"{mechanism}server.callback.handler.class": f"{oauthbearer}ValidatorCallbackHandler",
        f"{mechanism}login.callback.handler.class": f"{oauthbearer}LoginCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": f"file:{keys}",
        "sasl.oauthbearer.token.endpoint.url": f"file:{token}",
        "zookeeper.session.timeout.ms": "10000",
        "min.insync.replicas": "2",
    }
    ports = {number: (apache.free_port(), apache.free_port()) for number in (APACHES, OURS)}
    listeners = {number: f"PLAINTEXT://127.0.0.1:{a},BOTH://127.0.0.1:{b}" for number, (a, b) in ports.items()}
    kafka = apache.ApacheCluster(
        tmp_path / "apache",
        1,
        config={**shared, "listeners": listeners[APACHES]},
        first_id=APACHES,
        jvm=(f"-D{ALLOWED_URLS}={allowed}",),
    )
    kafka.ports[APACHES] = ports[APACHES][0]
    with kafka:
        own = {"broker.id": str(OURS), "listeners": listeners[OURS], "zookeeper.connect": kafka.zookeeper}
        values = {**shared, **own, "log.dirs": str(tmp_path / "logs"), ALLOWED_URLS: allowed}
        properties = tmp_path / "ours.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        with (tmp_path / "ours.log").open("wb") as output:
            ours = subprocess.Popen([*BARNABAS, "broker", str(properties)], stdout=output, stderr=output)
        try:
            client = {"bootstrap.servers": f"127.0.0.1:{ports[OURS][0]}", "log_level": 0}
            admin = AdminClient(client)
            until(lambda: (known := metadata(admin)) and len(known.brokers) == 2, "both kinds are known")
            admin.create_topics([NewTopic("t", 2, 2)])["t"].result(60)
            told: list[object] = []
            producer = Producer({**client, "acks": "all"})
            for partition in (0, 1):
                producer.produce("t", b"x", partition=partition, on_delivery=lambda e, _: told.append(e))
            assert producer.flush(60) == 0
            assert told == [None, None]
            partitions = admin.list_topics("t", timeout=30).topics["t"].partitions
            assert {each.leader for each in partitions.values()} == {APACHES, OURS}
        finally:
            ours.terminate()
            ours.wait(60)
