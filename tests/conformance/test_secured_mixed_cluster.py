"""Users, ACLs and delegation tokens made on one kind of broker take effect on the other, over TLS, either way round.

In each way each kind is told by the other's tools once: what Kafka's tools make on ours counts on Apache's, and the
reverse. And clients in four languages, unchanged, come in by every mechanism: each writes to a partition of either kind
and reads both in a group.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import apache
import pytest
from clients import python_logins
from clients.programs import PROGRAMS, java_logins
from cluster import until
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, NewTopic
from confluent_kafka.admin import ResourcePatternType as Pattern
from confluent_kafka.admin import ResourceType as Kind
from our_tools import OurTools
from secured_mixed import APACHES, KINDS, MODULES, OURS, SECRET, SecuredCluster, properties, quoted, token_endpoint

from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.model.errors import KafkaError as BarnabasError
from barnabas.security.sasl.login import SaslLogin
from barnabas.security.tls.settings import tls_settings
from barnabas.wire.messages.list_offsets import ListOffsetsRequest
from barnabas.wire.messages.metadata import MetadataRequest

pytestmark = [pytest.mark.long(3), pytest.mark.apache]

CONFIGS, ACLS, TOKENS = "kafka-configs", "kafka-acls", "kafka-delegation-tokens"


@pytest.fixture(scope="module", params=[False, True], ids=["ours-joins-apaches", "apaches-joins-ours"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    apache.require()
    with SecuredCluster(tmp_path_factory.mktemp("mixed"), ours_first=request.param).running() as running:
        yield running


@pytest.fixture(scope="module")
def topic(cluster: SecuredCluster) -> str:
    """One partition led by each kind and followed by the other, with a record in each."""
    client = cluster.librdkafka("admin")
    admin = AdminClient(client)
    admin.create_topics([NewTopic("orders", 2, replica_assignment=[[APACHES, OURS], [OURS, APACHES]])])[
        "orders"
    ].result(60)
    producer = Producer({**client, "acks": "all"})
    refused: list[KafkaError] = []
    for partition in KINDS:
        producer.produce("orders", b"x", partition=partition, on_delivery=lambda e, _: refused.append(e) if e else None)
    assert producer.flush(60) == 0
    assert not refused

    def followed() -> bool:
        partitions = admin.list_topics("orders", timeout=10).topics["orders"].partitions
        return {number: (each.leader, sorted(each.isrs)) for number, each in partitions.items()} == {
            number: (number, [APACHES, OURS]) for number in KINDS
        }

    until(followed, "each kind leads a partition and follows the other")
    return "orders"


class Tools:
    """Kafka's tools of one kind, as the administrator or whoever `config` says, at a broker."""

    def __init__(self, cluster: SecuredCluster, ours: OurTools | None) -> None:
        self._cluster = cluster
        self._ours = ours

    def run(self, name: str, broker: int, *words: str, config: str | None = None) -> str:
        at = ("--bootstrap-server", f"127.0.0.1:{self._cluster.ports['CLIENTS'][broker]}")
        login = ("--command-config", config or str(self._cluster.admin))
        if self._ours is None:
            return self._cluster.kafkas(name, *at, *login, *words)
        said = self._ours.call(name, *at, *login, *words)
        assert said.status == 0, (name, words, said)
        return said.out


@pytest.fixture(scope="module")
def tools(cluster: SecuredCluster) -> Iterator[dict[str, Tools]]:
    ours = OurTools()
    yield {"apaches": Tools(cluster, None), "ours": Tools(cluster, ours)}
    ours.close()


class Asked:
    """Connections of one login to both kinds, kept open."""

    def __init__(self, cluster: SecuredCluster, login: SaslLogin) -> None:
        self._cluster = cluster
        self._login = login
        self._open: dict[int, BlockingConnection] = {}

    def connect(self, broker: int) -> BlockingConnection:
        context = tls_settings(self._cluster.trusted).client_context()
        port = self._cluster.ports["CLIENTS"][broker]
        return BlockingConnection("127.0.0.1", port, "asked", tls=context, login=self._login)

    def is_let_in(self, broker: int) -> bool:
        try:
            self.connect(broker).close()
        except BarnabasError as error:
            if error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
                raise
            return False
        return True

    def error(self, broker: int) -> int:
        """What it says to who wants to know where the partition ends that it leads."""
        if broker not in self._open:
            self._open[broker] = self.connect(broker)
        partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=broker, timestamp=-1)
        asked = ListOffsetsRequest(-1, 0, [ListOffsetsRequest.ListOffsetsTopic("orders", [partition])])
        return int(self._open[broker].send(asked, 7).topics[0].partitions[0].error_code)

    def until_at_both(self, error: ErrorCode) -> None:
        for broker, kind in KINDS.items():
            until(lambda broker=broker: self.error(broker) == error, f"{kind} broker answers {error.name}")

    def until_let_in(self, wanted: bool) -> None:
        for broker, kind in KINDS.items():
            until(lambda broker=broker: self.is_let_in(broker) is wanted, f"{kind} broker: let in is {wanted}")

    def close(self) -> None:
        for each in self._open.values():
            each.close()


@pytest.mark.parametrize(("whose", "there", "here"), [("apaches", OURS, APACHES), ("ours", APACHES, OURS)])
def test_what_is_made_on_one_kind_counts_on_the_other(
    cluster: SecuredCluster, topic: str, tools: dict[str, Tools], whose: str, there: int, here: int
) -> None:
    """`whose` tools, at the broker `there` and taken back `here`."""
    user = f"alice-{whose}"
    run = tools[whose].run
    entity = ("--alter", "--entity-type", "users", "--entity-name", user)
    run(CONFIGS, there, *entity, "--add-config", f"SCRAM-SHA-512=[iterations=4096,password={SECRET}]")
    alice = Asked(cluster, SaslLogin("SCRAM-SHA-512", user, SECRET))
    alice.until_let_in(True)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [alice.error(broker) for broker in KINDS] == [denied, denied]

    grant = ("--allow-principal", f"User:{user}", "--operation", "Describe", "--topic", topic)
    run(ACLS, there, "--add", *grant)
    alice.until_at_both(ErrorCode.NONE)

    # A token of hers speaks for her, with her rights.
    hers = str(properties(cluster.directory / f"{user}.properties", cluster.scram(user)))
    made = run(TOKENS, there, "--create", "--max-life-time-period", "-1", config=hers)
    found = re.search(r"[A-Za-z0-9+/]{86}==", made)
    assert found is not None, made
    token_id = made[: found.start()].split()[-1]
    by_token = Asked(cluster, SaslLogin("SCRAM-SHA-512", token_id, found[0], token_authenticated=True))
    by_token.until_let_in(True)
    by_token.until_at_both(ErrorCode.NONE)

    run(ACLS, here, "--remove", "--force", *grant)
    alice.until_at_both(denied)
    by_token.until_at_both(denied)
    run(TOKENS, here, "--expire", "--expiry-time-period", "-1", "--hmac", found[0], config=hers)
    by_token.until_let_in(False)
    run(CONFIGS, here, *entity, "--delete-config", "SCRAM-SHA-512")
    alice.until_let_in(False)
    alice.close()
    by_token.close()


def test_nobody_else_gets_in(cluster: SecuredCluster, topic: str) -> None:
    for broker in KINDS:
        wrong = Asked(cluster, SaslLogin("SCRAM-SHA-512", "admin", base64.b64encode(SECRET.encode()).decode()))
        assert not wrong.is_let_in(broker)
        with BlockingConnection("127.0.0.1", cluster.ports["PLAINTEXT"][broker], "nobody") as nobody:
            answer = nobody.send(MetadataRequest([MetadataRequest.MetadataRequestTopic(name=topic)]), 12)
            assert answer.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    stranger = cluster.librdkafka("admin")
    del stranger["ssl.ca.location"]
    with pytest.raises(KafkaException):  # whose authority it does not know
        AdminClient(stranger).list_topics(timeout=2)
    client = {**cluster.librdkafka("k"), "sasl.mechanism": "PLAIN"}
    refused: list[KafkaError] = []
    producer = Producer(client)
    producer.produce(topic, b"x", on_delivery=lambda error, _: refused.append(error))
    assert producer.flush(60) == 0
    assert [each.code() for each in refused] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


# Clients, each written as its operator writes it

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "mTLS")
CLIENTS: Final = ("librdkafka", "java", "franz_go", "aiokafka", "kafkajs")
BOTH_WAYS: Final = {name: [["to 0", "to 1"], True] for name in MECHANISMS}
"""Written to and read from both kinds; and a wrong secret is refused."""


@pytest.fixture(scope="module")
def endpoint(cluster: SecuredCluster) -> Iterator[str]:
    """Where tokens of `k` come from, who may write to and read from the topics that are made here."""
    cluster.set_password("k", *MECHANISMS[1:3])
    admin = AdminClient(cluster.librdkafka("admin"))
    bindings = [
        AclBinding(kind, "logins-", Pattern.PREFIXED, "User:k", "*", operation, AclPermissionType.ALLOW)
        for kind, operation in (
            (Kind.TOPIC, AclOperation.READ),
            (Kind.TOPIC, AclOperation.WRITE),
            (Kind.GROUP, AclOperation.READ),
        )
    ]
    for made in admin.create_acls(bindings).values():
        made.result(60)
    topics = [
        NewTopic(topic_of(client, mechanism), 2, replica_assignment=[[APACHES], [OURS]])
        for client in CLIENTS
        for mechanism in MECHANISMS
    ]
    for made in admin.create_topics(topics).values():
        made.result(60)
    with token_endpoint({"k": cluster.token("k")}) as url:
        yield url


def topic_of(client: str, mechanism: str) -> str:
    return f"logins-{client}-{mechanism}"


def logins_of(cluster: SecuredCluster, endpoint: str, client: str) -> list[dict[str, str]]:
    return [
        {
            "mechanism": mechanism,
            "topic": topic_of(client, mechanism),
            "bootstrap": cluster.bootstrap("CERTIFIED" if mechanism == "mTLS" else "CLIENTS"),
            "authority": str(cluster.authority.trust_store),
            "key": str(cluster.k.key),
            "certificate": str(cluster.k.certificate),
            "user": "k",
            "password": SECRET,
            "token": cluster.token("k"),
            "endpoint": endpoint,
        }
        for mechanism in MECHANISMS
    ]


@pytest.mark.parametrize("cluster", [False], indirect=True, ids=["ours-joins-apaches"])
@pytest.mark.parametrize("tell", [python_logins.librdkafka, python_logins.aiokafka], ids=["librdkafka", "aiokafka"])
def test_a_python_client_comes_in_by_every_mechanism(
    cluster: SecuredCluster, endpoint: str, tell: Callable[[list[dict[str, str]]], object]
) -> None:
    assert tell(logins_of(cluster, endpoint, tell.__name__)) == BOTH_WAYS


@pytest.mark.parametrize("cluster", [False], indirect=True, ids=["ours-joins-apaches"])
@pytest.mark.parametrize("folder", ["franz_go", "kafkajs"])
def test_a_program_comes_in_by_every_mechanism(
    cluster: SecuredCluster, endpoint: str, folder: str, tmp_path: Path
) -> None:
    (program,) = (each for each in PROGRAMS if each.folder == folder)
    file = tmp_path / "logins.json"
    file.write_text(json.dumps(logins_of(cluster, endpoint, folder)))
    assert program.log_in(file) == BOTH_WAYS


@pytest.mark.parametrize("cluster", [False], indirect=True, ids=["ours-joins-apaches"])
def test_the_java_client_comes_in_by_every_mechanism(cluster: SecuredCluster, endpoint: str, tmp_path: Path) -> None:
    for mechanism in MECHANISMS:
        values = java_properties(cluster, endpoint, mechanism, SECRET)
        properties(tmp_path / f"{mechanism}.properties", {**values, "topic": topic_of("java", mechanism)})
        wrong = java_properties(cluster, endpoint, mechanism, f"{SECRET}?")
        if mechanism != "mTLS":
            properties(tmp_path / f"wrong-{mechanism}.properties", wrong)
    found = java_logins(tmp_path, endpoint)
    assert {name: [found[name], found.get(f"wrong-{name}", True)] for name in MECHANISMS} == BOTH_WAYS


def java_properties(cluster: SecuredCluster, endpoint: str, mechanism: str, secret: str) -> dict[str, str]:
    servers = cluster.bootstrap("CERTIFIED" if mechanism == "mTLS" else "CLIENTS")
    values = {"bootstrap.servers": servers, "security.protocol": "SASL_SSL", **cluster.trusted}
    user = f"username=k password={quoted(secret)};"
    match mechanism:
        case "mTLS":
            stores = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(cluster.k.key_store)}
            return {**values, **stores, "security.protocol": "SSL"}
        case "OAUTHBEARER":
            module = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required clientId=k clientSecret={quoted(secret)};"
            more = {
                "sasl.login.callback.handler.class": f"{MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": endpoint,
                "sasl.login.retry.backoff.max.ms": "100",
            }
            return {**values, **more, "sasl.mechanism": mechanism, "sasl.jaas.config": module}
        case "PLAIN":
            module = f"{MODULES}.plain.PlainLoginModule required {user}"
            return {**values, "sasl.mechanism": mechanism, "sasl.jaas.config": module}
    return {"bootstrap.servers": servers, **cluster.scram("k", secret, mechanism)}
