"""A test's cluster with users: who comes in by what, what each may do, and what is said of bad requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import until
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

import barnabas.client
from barnabas.client import blocking
from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.model.errors import KafkaError as OurKafkaError
from barnabas.security.tls.settings import tls_settings
from barnabas.testing import ClusterError, KafkaCluster
from barnabas.wire.messages.metadata import MetadataRequest

pytest_plugins = ["pytester"]

BY_PASSWORD = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
MECHANISMS = (*BY_PASSWORD, "OAUTHBEARER", "mTLS")
WAIT_S = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(2, users={"alice": 'w"o\\nder', "bob": "", "mallory": ""}) as started:
        started.user("alice").allow()
        yield started


def sent(config: dict[str, object], topic: str, value: bytes) -> str | None:
    """What became of a record: None where it was acknowledged."""
    outcomes: list[str | None] = []
    producer = Producer({**config, "log_level": 0, "message.timeout.ms": 20_000})
    producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error and error.name()))
    producer.flush(WAIT_S)
    return outcomes[0]


def read(config: dict[str, object], topic: str, group: str) -> list[bytes] | KafkaError:
    consumer = Consumer({**config, "log_level": 0, "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(WAIT_S)
        assert message is not None
        error = message.error()
        return [message.value()] if error is None else error
    finally:
        consumer.close()


def is_refused(config: dict[str, object]) -> bool:
    """Whether no broker lets a client in; TLS that fails is no more than that to librdkafka."""
    refusals = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._ALL_BROKERS_DOWN)
    said: list[KafkaError] = []
    admin = AdminClient({**config, "log_level": 0, "error_cb": said.append})
    ends = time.monotonic() + WAIT_S
    while not any(error.code() in refusals for error in said):
        if time.monotonic() > ends:
            return False
        admin.poll(0.1)
    return True


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_comes_in_by_every_mechanism(cluster: KafkaCluster, mechanism: str) -> None:
    alice = cluster.user("alice")
    topic = f"librdkafka-{mechanism}"
    cluster.create_topic(topic)
    assert sent(alice.client_config(mechanism), topic, b"value") is None
    assert read(alice.client_config(mechanism), topic, mechanism) == [b"value"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_clients_come_in_by_every_mechanism(cluster: KafkaCluster, mechanism: str) -> None:
    properties = cluster.user("alice").properties(mechanism)
    topic = f"ours-{mechanism}"
    cluster.create_topic(topic)

    async def story() -> None:
        async with barnabas.client.connect(config=properties) as client, client.producer() as producer:
            await producer.send(topic, b"value")

    asyncio.run(story())
    with (
        blocking.connect(config=properties) as client,
        client.consumer(topic, group=topic, auto_offset_reset="earliest") as consumer,
    ):
        assert next(iter(consumer)).value == b"value"


def test_nobody_may_do_anything_until_it_is_allowed(cluster: KafkaCluster) -> None:
    bob = cluster.user("bob")
    cluster.create_topic("orders-1")
    assert sent(bob.client_config(), "orders-1", b"1") == "TOPIC_AUTHORIZATION_FAILED"
    bob.allow("topic:orders-*", "write")
    assert sent(bob.client_config(), "orders-1", b"2") is None
    bob.allow("topic:orders-1", "read")
    refused = read(bob.client_config(), "orders-1", "bobs")
    assert isinstance(refused, KafkaError)
    assert refused.name() == "GROUP_AUTHORIZATION_FAILED"
    bob.allow("group:bobs", "read")
    assert read(bob.client_config(), "orders-1", "bobs") == [b"2"]
    bob.deny("topic:orders-1", "write")
    assert sent(bob.client_config(), "orders-1", b"3") == "TOPIC_AUTHORIZATION_FAILED"
    bob.revoke("topic:orders-1")
    assert sent(bob.client_config(), "orders-1", b"4") is None
    bob.revoke()
    assert sent(bob.client_config(), "orders-1", b"5") == "TOPIC_AUTHORIZATION_FAILED"
    assert [record.value for record in cluster.records("orders-1")] == [b"2", b"4"]


def test_rights_are_known_to_every_broker_when_allow_returns(cluster: KafkaCluster) -> None:
    mallory = cluster.user("mallory")
    tls = tls_settings(mallory.properties()).client_context()

    def named(broker: int) -> str | None:
        host, _, port = cluster.broker(broker).address.rpartition(":")
        login = cluster.host.keys.login("mallory")  # type: ignore[union-attr]
        with BlockingConnection(host, int(port), tls=tls, login=login) as connection:
            (topic,) = connection.send(MetadataRequest([MetadataRequest.MetadataRequestTopic(name="seen")])).topics
        return None if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED else topic.name

    cluster.create_topic("seen")
    for _ in range(5):
        assert [named(broker) for broker in (0, 1)] == [None, None]
        mallory.allow("topic:seen", "describe")
        assert [named(broker) for broker in (0, 1)] == ["seen", "seen"]
        mallory.revoke()


def test_tls_alone_proves_nobody(cluster: KafkaCluster) -> None:
    cluster.create_topic("anonymous")
    assert sent(cluster.user("alice").client_config("TLS"), "anonymous", b"x") == "TOPIC_AUTHORIZATION_FAILED"


def test_what_is_wrong_or_over_lets_nobody_in(cluster: KafkaCluster) -> None:
    alice = cluster.user("alice")
    for mechanism in BY_PASSWORD:
        assert is_refused({**alice.client_config(mechanism), "sasl.password": "guessed"})
    expired = alice.token(valid_for=-5)
    by_token = {**alice.client_config("OAUTHBEARER"), "oauth_cb": lambda _: (expired, time.time() + 60)}
    assert is_refused(by_token)
    assert is_refused({"bootstrap.servers": cluster.bootstrap})
    assert is_refused({"bootstrap.servers": cluster.bootstrap, "security.protocol": "SSL"})


def test_a_users_certificate_that_has_expired_lets_nobody_in(cluster: KafkaCluster) -> None:
    mallory = cluster.user("mallory")
    assert not is_refused_tls(mallory.properties("mTLS"))
    mallory.certify(valid_for=-1)
    assert is_refused_tls(mallory.properties("mTLS"))
    mallory.certify(valid_for=600)
    assert not is_refused_tls(mallory.properties("mTLS"))


def is_refused_tls(properties: dict[str, str]) -> bool:
    host, _, port = properties["bootstrap.servers"].partition(",")[0].rpartition(":")
    try:
        with BlockingConnection(host, int(port), tls=tls_settings(properties).client_context()) as connection:
            connection.send(MetadataRequest(topics=[]))
    except OSError:
        return True
    return False


def test_clients_notice_a_brokers_certificate_that_has_expired() -> None:
    with KafkaCluster(1, users=["alice"]) as cluster:
        alice = cluster.user("alice")
        alice.allow()
        cluster.create_topic("t")
        producer = Producer({**alice.client_config(), "log_level": 0})
        producer.produce("t", b"opens a connection")
        assert producer.flush(WAIT_S) == 0
        cluster.change_certificates(valid_for=-1)
        assert is_refused(alice.client_config())
        assert is_refused_tls(alice.properties("mTLS"))
        producer.produce("t", b"by a connection that was open")
        assert producer.flush(WAIT_S) == 0
        cluster.change_certificates()
        assert sent(alice.client_config("SCRAM-SHA-256"), "t", b"again") is None
        assert not is_refused_tls(alice.properties("mTLS"))
        cluster.broker(0).restart()
        assert sent(alice.client_config("mTLS"), "t", b"and over a restart") is None
        cluster.verify()


def test_passwords_change_and_users_go(cluster: KafkaCluster) -> None:
    mallory = cluster.user("mallory")
    before = mallory.client_config()
    mallory.change_password()
    assert before["sasl.password"] != mallory.password
    assert is_refused(before)
    with blocking.connect(config=mallory.properties("SCRAM-SHA-256")) as client:
        client.admin.describe_cluster()
    mallory.delete()
    assert is_refused(mallory.client_config())
    mallory.change_password("chosen")
    assert mallory.password == "chosen"
    with blocking.connect(config=mallory.properties()) as client:
        client.admin.describe_cluster()


def test_a_secured_cluster_breaks_and_mends_as_any() -> None:
    """Links, pauses and kills act on what TLS carries; between brokers as well."""
    with KafkaCluster(3, users=["alice"]) as cluster:
        alice = cluster.user("alice")
        alice.allow()
        cluster.create_topic("t", config={"min.insync.replicas": 2})
        partition = cluster.partition("t", 0)
        first = partition.leader
        first.kill()
        partition.wait(not_leader=first, timeout=WAIT_S)
        assert sent(alice.client_config(), "t", b"1") is None
        first.start()
        partition.wait(isr={0, 1, 2}, timeout=WAIT_S)
        second = partition.leader
        second.partition(to=["brokers", "zookeeper"], from_=["brokers", "zookeeper"])
        partition.wait(not_leader=second, timeout=WAIT_S)
        # Who is cut off takes itself for the leader still; a client that asked it would wait there.
        others = {"bootstrap.servers": ",".join(each.address for each in cluster.brokers if each != second)}
        assert sent({**alice.client_config("PLAIN"), **others}, "t", b"2") is None
        cluster.heal()
        third = partition.leader
        third.pause()
        partition.wait(not_leader=third, timeout=WAIT_S)
        assert sent(alice.client_config("mTLS"), "t", b"3") is None
        third.resume()
        cluster.recover()
        cluster.latency(0.05)
        began = time.monotonic()
        assert sent(alice.client_config(), "t", b"4") is None
        assert time.monotonic() - began > 0.1
        cluster.recover()
        fault = cluster.fail("PRODUCE", "NOT_ENOUGH_REPLICAS", times=2)
        assert sent(alice.client_config(), "t", b"5") is None
        assert fault.hits == 2
        assert {record.value for record in cluster.records("t")} == {b"1", b"2", b"3", b"4", b"5"}
        assert cluster.verify().acknowledged >= 5


def test_a_handshake_with_a_paused_broker_ends_in_time() -> None:
    with KafkaCluster(2, users=["alice"]) as cluster:
        cluster.broker(1).pause()

        async def connect() -> None:
            host, port = cluster.host.harness_address(1)
            runtime = cluster.host.client_runtime()
            tls = cluster.host.keys.brokers_tls  # type: ignore[union-attr]
            await runtime.network.connect(asyncio.Protocol, host, port, timeout_ms=200, tls=tls)

        with pytest.raises(TimeoutError, match="did not begin TLS within 200 ms"):
            cluster.run(connect())
        cluster.broker(1).resume()


def test_brokers_in_processes_have_users_as_well(tmp_path: Path) -> None:
    for password in ("first", "second"):
        with KafkaCluster(
            1, processes=True, directory=tmp_path, users={"alice": password}, session_timeout=10
        ) as cluster:
            alice = cluster.user("alice")
            if password == "first":
                alice.allow()
                cluster.create_topic("t")
            for mechanism in MECHANISMS:
                assert sent(alice.client_config(mechanism), "t", b"x") is None
            cluster.change_certificates(valid_for=600)
            assert sent(alice.client_config(), "t", b"y") is None
            until(lambda: cluster.verify().acknowledged >= len(MECHANISMS) + 1, "acknowledged")
    assert (tmp_path / "security").stat().st_mode & 0o777 == 0o700


def test_coroutines_have_users_as_well() -> None:
    async def story() -> list[bytes]:
        async with KafkaCluster(1, users=["alice"]) as cluster:
            alice = cluster.user("alice")
            await alice.allow()
            await cluster.create_topic("t")
            async with barnabas.client.connect(config=alice.properties()) as client, client.producer() as producer:
                await producer.send("t", b"awaited")
            await alice.change_password("new")
            assert alice.password == alice.client_config()["sasl.password"] == "new"
            return [record.value or b"" for record in await cluster.records("t")]

    assert asyncio.run(story()) == [b"awaited"]


def test_the_fixture_takes_users(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka(brokers=1, users=["alice"])
        def test_alice(kafka_cluster):
            assert kafka_cluster.user("alice").client_config()["sasl.username"] == "alice"

        @pytest.mark.kafka(users=["al ice"])
        def test_nobody(kafka_cluster):
            pass
        """
    )
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["*'al ice' is not a valid user name: it must consist of letters, digits, '.', '_' and '-'*"]
    )


@pytest.mark.parametrize(
    ("users", "said"),
    [
        (["broker"], "the brokers' own user"),
        ([""], "not a valid user name"),
        ({"a=b": ""}, "not a valid user name"),
        ("alice", r"\['alice'\]"),
    ],
)
def test_users_that_cannot_be(users: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        KafkaCluster(users=users)  # type: ignore[arg-type]


def test_what_there_is_not_is_said(cluster: KafkaCluster, kafka_cluster: KafkaCluster) -> None:
    alice = cluster.user("alice")
    with pytest.raises(ValueError, match="did you mean alice"):
        cluster.user("alise")
    with pytest.raises(ValueError, match="did you mean SCRAM-SHA-512"):
        alice.client_config("SCRAM-SHA-521")
    with pytest.raises(ValueError, match="'GSSAPI' is not a mechanism that these brokers offer"):
        alice.properties("GSSAPI")
    with pytest.raises(ValueError, match="topic:NAME"):
        alice.allow("orders")
    with pytest.raises(ValueError, match="group:g knows read, describe, delete and all"):
        alice.allow("group:g", "write")
    with pytest.raises(ValueError, match="at most an hour ago"):
        alice.certify(valid_for=-7200)
    with pytest.raises(ClusterError, match=r"KafkaCluster\(users=\['alice'\]\)"):
        kafka_cluster.user("alice")
    with pytest.raises(ClusterError, match="no certificates"):
        kafka_cluster.change_certificates()


def test_a_configuration_that_brokers_do_not_take_is_said() -> None:
    config = {"sasl.enabled.mechanisms": "GSSAPI,SCRAM-SHA-512"}
    with (
        pytest.raises(ClusterError, match=r"listener\.name\.clients\.gssapi\.sasl\.jaas\.config is not set"),
        KafkaCluster(1, users=["alice"], config=config),
    ):
        pass


def test_a_user_without_rights_learns_no_topics(cluster: KafkaCluster) -> None:
    cluster.create_topic("secret")
    with blocking.connect(config=cluster.user("bob").properties()) as client:
        with pytest.raises(OurKafkaError) as refused, client.consumer("secret", group="g") as consumer:
            next(iter(consumer))
        assert refused.value.code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED)
