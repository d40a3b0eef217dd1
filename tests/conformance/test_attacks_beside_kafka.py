"""Attacks on living brokers of both kinds, which are answered alike: whoever has no right gets nothing.

One secured cluster of an Apache Kafka broker and one of ours; what an attacker is told by the one is compared with what
the other says.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import re
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import apache
import pytest
from certificates import Authority, Certificate
from cluster import BARNABAS, until
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from confluent_kafka.admin import ResourcePatternType as Pattern
from confluent_kafka.admin import ResourceType as Kind
from joserfc import jwt
from joserfc.jwk import RSAKey
from secured_mixed import ALLOWED_URLS, APACHES, KINDS, MODULES, OURS, SECRET, SecuredCluster, properties

from barnabas.client.asking import ConnectionLost
from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.security.sasl.login import Login, OAuthBearerLogin, SaslLogin
from barnabas.security.sasl.scram_credential import MECHANISMS
from barnabas.security.tls.settings import tls_settings
from barnabas.wire.frames import decode_response, encode_request, response_class
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.wire.messages.alter_partition import AlterPartitionRequest
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest

pytestmark = [pytest.mark.long(2), pytest.mark.apache]

SESSION_MS = 15_000
"""After a login by SCRAM-SHA-256; SCRAM-SHA-512 is asked for no other."""
TOPIC = "orders"
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
REFUSED = ErrorCode.SASL_AUTHENTICATION_FAILED
T = TypeVar("T")


class Attacked(SecuredCluster):
    @cached_property
    def asking(self) -> AdminClient:
        """As who may do everything."""
        return AdminClient(self.librdkafka("admin"))

    def _broker_config(self, broker: int) -> dict[str, str]:
        short = {"listener.name.clients.scram-sha-256.connections.max.reauth.ms": str(SESSION_MS)}
        return {**super()._broker_config(broker), **short}

    def connect(
        self, broker: int, login: Login | None = None, certificate: Certificate | None = None
    ) -> BlockingConnection:
        """To CLIENTS, or to CERTIFIED with a certificate."""
        stores = dict(self.trusted)
        if certificate is not None:
            stores |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificate.key_store)}
        port = self.ports["CLIENTS" if certificate is None else "CERTIFIED"][broker]
        return BlockingConnection("127.0.0.1", port, "attacker", tls=tls_settings(stores).client_context(), login=login)

    def admits(self, broker: int, login: Login) -> bool:
        try:
            self.connect(broker, login).close()
        except KafkaError as error:
            if error.code is not REFUSED:
                raise
            return False
        return True

    def user(self, name: str) -> None:
        """With a password for both mechanisms, known to both kinds."""
        self.set_password(name, "SCRAM-SHA-256", "SCRAM-SHA-512")
        for broker in KINDS:
            until(lambda broker=broker: self.admits(broker, scram(name)), f"{name} is known to broker {broker}")

    def allow(self, user: str, operation: AclOperation = AclOperation.READ) -> None:
        bindings = [AclBinding(Kind.TOPIC, TOPIC, Pattern.LITERAL, f"User:{user}", "*", operation, _ALLOW)]
        for made in self.asking.create_acls(bindings).values():
            made.result(60)

    def allow_nothing(self, user: str) -> None:
        told = AclBindingFilter(
            Kind.ANY, None, Pattern.ANY, f"User:{user}", None, AclOperation.ANY, AclPermissionType.ANY
        )
        for gone in self.asking.delete_acls([told]).values():
            gone.result(60)

    def alter(self, broker: int, name: str, value: str, *, validate_only: bool = False) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.BROKER, str(broker), incremental_configs=[entry])
        (done,) = self.asking.incremental_alter_configs([resource], validate_only=validate_only).values()
        done.result(60)


_ALLOW = AclPermissionType.ALLOW


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """`TOPIC` has a partition at each broker, of the same number."""
    apache.require()
    with Attacked(tmp_path_factory.mktemp("attacked"), ours_first=False).running() as running:
        assert isinstance(running, Attacked)
        admin = running.asking
        admin.create_topics([NewTopic(TOPIC, 2, replica_assignment=[[APACHES], [OURS]])])[TOPIC].result(60)
        until(lambda: len(admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions) == 2, "the topic is there")
        yield running


def scram(user: str, number: int = 512) -> SaslLogin:
    return SaslLogin(f"SCRAM-SHA-{number}", user, SECRET)


def alike(attack: Callable[[int], T]) -> T:
    """What both kinds answer."""
    answers = {kind: attack(broker) for broker, kind in KINDS.items()}
    assert answers["ours"] == answers["apaches"]
    return answers["ours"]


def at_once(attack: Callable[[int], T]) -> dict[str, T]:
    """What each kind answers to an attack that waits for the end of a session."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(KINDS.values(), pool.map(attack, KINDS), strict=True))


def ends_with(asking: BlockingConnection, within_s: float = 60) -> str:
    """How a connection that goes on asking ends."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            asking.send(MetadataRequest(topics=[]), 12)
        except KafkaError as error:
            return error.code.name
        except ConnectionLost:
            return "lost"
        time.sleep(0.1)
    return "served"


# Whom a broker takes for one


def test_what_only_brokers_say_is_not_taken_from_a_client(cluster: Attacked) -> None:
    cluster.user("client")
    cluster.allow("client")
    forged = (
        LeaderAndIsrRequest(controller_id=OURS, controller_epoch=1 << 20),
        StopReplicaRequest(controller_id=OURS, controller_epoch=1 << 20),
        UpdateMetadataRequest(controller_id=OURS, controller_epoch=1 << 20),
        ControlledShutdownRequest(broker_id=APACHES),
        AlterPartitionRequest(broker_id=APACHES),
        AllocateProducerIdsRequest(broker_id=APACHES),
    )

    def attack(broker: int) -> list[int]:
        with cluster.connect(broker, scram("client")) as asking:
            return [asking.send(each).error_code for each in forged]

    assert alike(attack) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * len(forged)


def test_cve_2018_1288_who_reads_is_no_follower(cluster: Attacked) -> None:
    cluster.user("reader")
    cluster.allow("reader")

    def attack(broker: int) -> list[int]:
        with cluster.connect(broker, scram("reader")) as asking:
            said = []
            for replica in (-1, APACHES, OURS):
                partition = FetchRequest.FetchPartition(broker, fetch_offset=0, partition_max_bytes=1000)
                topics = [FetchRequest.FetchTopic(topic=TOPIC, partitions=[partition])]
                request = FetchRequest(replica_id=replica, max_bytes=1000, session_epoch=-1, topics=topics)
                said.append(asking.send(request, 12).responses[0].partitions[0].error_code)
            return said

    for broker in KINDS:
        until(lambda broker=broker: attack(broker)[0] == 0, f"broker {broker} knows the right")
    assert alike(attack) == [ErrorCode.NONE, DENIED, DENIED]


# Rights and users that go away


def test_a_right_that_goes_away_ends_the_reading_in_the_middle_of_a_fetch_session(cluster: Attacked) -> None:
    cluster.user("carol")
    cluster.allow("carol")

    def attack(broker: int) -> list[int]:
        with cluster.connect(broker, scram("carol")) as asking:
            until(lambda: fetched(asking, broker, 0, 0)[1] == 0, "carol may read")
            session, error = fetched(asking, broker, 0, 0)
            cluster.allow_nothing("carol")
            epoch = iter(range(1, 10_000))
            until(lambda: fetched(asking, broker, session, next(epoch))[1] != 0, "the right is gone")
            said = [error, fetched(asking, broker, session, next(epoch))[1]]
            cluster.allow("carol")
            until(lambda: fetched(asking, broker, session, next(epoch))[1] == 0, "the right is back")
            return said

    assert alike(attack) == [ErrorCode.NONE, DENIED]


def fetched(asking: BlockingConnection, number: int, session: int, epoch: int) -> tuple[int, int]:
    """A fetch session, and what it says of a partition, which is named by the first request alone."""
    partition = FetchRequest.FetchPartition(number, fetch_offset=0, partition_max_bytes=1000)
    topics = [FetchRequest.FetchTopic(topic=TOPIC, partitions=[partition])] if epoch == 0 else []
    request = FetchRequest(max_bytes=1000, session_id=session, session_epoch=epoch, topics=topics)
    answer = asking.send(request, 12)
    assert not answer.error_code
    errors = [each.error_code for topic in answer.responses for each in topic.partitions]
    return answer.session_id, errors[0] if errors else 0


def test_a_deleted_user_is_served_until_it_has_to_say_again_who_it_is(cluster: Attacked) -> None:
    """As in Kafka: for ever where nothing asks again, else for ``connections.max.reauth.ms`` at most."""

    def attack(broker: int) -> list[Any]:
        user = f"dave{broker}"
        cluster.user(user)
        with cluster.connect(broker, scram(user)) as for_ever, cluster.connect(broker, scram(user, 256)) as for_a_while:
            admin = ("--bootstrap-server", cluster.bootstrap(), "--command-config", str(cluster.admin))
            gone = ("--alter", "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512", "--entity-type", "users")
            cluster.kafkas("kafka-configs", *admin, *gone, "--entity-name", user)
            until(lambda: not cluster.admits(broker, scram(user)), "the user is gone")
            return [ends_with(for_a_while), len(for_ever.send(MetadataRequest(topics=[]), 12).brokers)]

    assert at_once(attack) == {kind: [REFUSED.name, 2] for kind in KINDS.values()}


def test_who_does_not_authenticate_again_is_ended_and_nobody_becomes_somebody_else(cluster: Attacked) -> None:
    for user in ("erin", "frank"):
        cluster.user(user)

    def attack(broker: int) -> list[str]:
        silent = cluster.connect(broker, scram("erin", 256))
        assert silent._authenticate_again_s is not None
        silent._authenticate_again_s = None
        changing = cluster.connect(broker, scram("erin", 256))
        changing._login = scram("frank", 256)
        with pytest.raises(KafkaError) as refused:
            changing._authenticate()
        assert refused.value.code is REFUSED
        said = str(refused.value).partition(": ")[2]
        with silent, changing:
            return [said, ends_with(changing), ends_with(silent)]

    answers = at_once(attack)
    assert answers["ours"] == answers["apaches"]
    reason, *ends = answers["ours"]
    assert "Cannot change principals during re-authentication from User.erin" in reason
    assert ends == ["lost", "lost"]


# Delegation tokens


def test_a_token_is_its_owners_and_renewers_alone(cluster: Attacked) -> None:
    for user in ("owner", "mallory"):
        cluster.user(user)

    def attack(broker: int) -> list[Any]:
        with cluster.connect(broker, scram("owner")) as asking:
            made = asking.send(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
        mac = bytes(made.hmac)
        by_token = SaslLogin("SCRAM-SHA-512", made.token_id, base64.b64encode(mac).decode(), token_authenticated=True)
        until(lambda: cluster.admits(broker, by_token), "the token is known")
        said: list[Any] = []
        for guess in (bytes(len(mac)), mac[::-1], mac[:-1]):
            said.append(cluster.admits(broker, replace(by_token, password=base64.b64encode(guess).decode())))
        said.append(cluster.admits(broker, replace(by_token, token_authenticated=False)))
        with cluster.connect(broker, scram("mallory")) as asking:
            for guess in (mac, mac[::-1], b""):
                said.append(asking.send(RenewDelegationTokenRequest(guess, 3_600_000), 2).error_code)
                said.append(asking.send(ExpireDelegationTokenRequest(guess, -1), 2).error_code)
            said.append(len(asking.send(DescribeDelegationTokenRequest(owners=None), 3).tokens))
            for_another = CreateDelegationTokenRequest("User", "owner", max_lifetime_ms=-1)
            said.append(asking.send(for_another, 3).error_code)
        with cluster.connect(broker, by_token) as asking:
            for each in (CreateDelegationTokenRequest(max_lifetime_ms=-1), RenewDelegationTokenRequest(mac, -1)):
                said.append(asking.send(each).error_code)
        return said

    mismatch, unknown = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    not_allowed = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert alike(attack) == [
        *[False] * 4,
        *[mismatch] * 2,
        *[unknown] * 4,
        0,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        not_allowed,
        not_allowed,
    ]


def test_a_token_that_has_expired_ends_its_session_and_begins_none(cluster: Attacked) -> None:
    cluster.user("grace")

    def attack(broker: int) -> list[Any]:
        with cluster.connect(broker, scram("grace")) as asking:
            made = asking.send(CreateDelegationTokenRequest(max_lifetime_ms=15_000), 3)
        mac = bytes(made.hmac)
        by_token = SaslLogin("SCRAM-SHA-512", made.token_id, base64.b64encode(mac).decode(), token_authenticated=True)
        until(lambda: cluster.admits(broker, by_token), "the token is known")
        with cluster.connect(broker, by_token) as asking:
            asking._authenticate_again_s = None
            said: list[Any] = [ends_with(asking), cluster.admits(broker, by_token)]
        with cluster.connect(broker, scram("grace")) as asking:
            return [*said, asking.send(RenewDelegationTokenRequest(mac, 3_600_000), 2).error_code > 0]

    # Apache's lets in whoever has an expired token until its scheduler, once an hour, has removed it.
    assert at_once(attack) == {
        "apaches": ["lost", True, True],
        "ours": ["lost", False, True],
    }


def test_a_token_that_its_owner_ends_begins_no_session_and_ends_none(cluster: Attacked) -> None:
    """As in Kafka, which asks a session for no more than what it began with."""
    cluster.user("heidi")

    def attack(broker: int) -> list[Any]:
        by_token = made_token(cluster, broker, "heidi")
        with cluster.connect(broker, by_token) as begun, cluster.connect(broker, scram("heidi")) as owner:
            gone = owner.send(ExpireDelegationTokenRequest(base64.b64decode(by_token.password), -1), 2)
            until(lambda: not cluster.admits(broker, by_token), "the token is gone")
            return [gone.error_code, len(begun.send(MetadataRequest(topics=[]), 12).brokers)]

    assert alike(attack) == [ErrorCode.NONE, 2]


TOKEN = ",tokenauth=true"


def made_token(cluster: Attacked, broker: int, owner: str, number: int = 512) -> SaslLogin:
    """A login by a token of `owner`, which this broker knows."""
    with cluster.connect(broker, scram(owner)) as asking:
        made = asking.send(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
    mac = base64.b64encode(bytes(made.hmac)).decode()
    by_token = SaslLogin(f"SCRAM-SHA-{number}", made.token_id, mac, token_authenticated=True)
    until(lambda: cluster.admits(broker, by_token), "the token is known")
    return by_token


def exchanged(asking: BlockingConnection, user: str, password: str, acts_for: str, extensions: str) -> str | None:
    """What a SCRAM login is told that says what no client of ours would; nothing where it is let in."""
    mechanism = MECHANISMS["SCRAM-SHA-512"]
    assert asking.send(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1).error_code == 0
    header = f"n,{acts_for and f'a={acts_for}'},"
    bare = f"n={user},r={os.urandom(18).hex()}{extensions}"
    first = asking.send(SaslAuthenticateRequest(auth_bytes=f"{header}{bare}".encode()), 2)
    if first.error_code:
        return str(first.error_message)
    said = first.auth_bytes.decode()
    nonce, salt, iterations = (part[2:] for part in said.split(","))
    salted = mechanism.salted_password(password, base64.b64decode(salt), int(iterations))
    key = hmac.digest(salted, b"Client Key", "sha512")
    unproven = f"c={base64.b64encode(header.encode()).decode()},r={nonce}"
    signature = hmac.digest(hashlib.sha512(key).digest(), f"{bare},{said},{unproven}".encode(), "sha512")
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    final = f"{unproven},p={base64.b64encode(proof).decode()}".encode()
    last = asking.send(SaslAuthenticateRequest(auth_bytes=final), 2)
    return str(last.error_message) if last.error_code else None


def test_a_token_is_used_under_no_other_name(cluster: Attacked) -> None:
    """Neither with another's id, nor as a user's name, nor for somebody that the login names beside it; with its own id
    it speaks for its owner alone."""
    for user in ("ivan", "judy"):
        cluster.user(user)
    cluster.allow("ivan")

    def attack(broker: int) -> list[str | None]:
        his, hers = (made_token(cluster, broker, user) for user in ("ivan", "judy"))
        said = []
        for user, password, acts_for, extensions in (
            (hers.username, his.password, "", TOKEN),
            ("ivan", his.password, "", TOKEN),
            ("judy", SECRET, "", TOKEN),
            (his.username, SECRET, "", TOKEN),
            (his.username, his.password, "", f"{TOKEN},tokenauth=false"),
            (his.username, his.password, "", ",tokenauth=yes"),
            (his.username, his.password, "admin", TOKEN),
            (his.username, his.password, "ivan", TOKEN),
        ):
            with cluster.connect(broker) as asking:
                said.append(exchanged(asking, user, password, acts_for, extensions))
        for token, may in ((his, True), (hers, False)):
            with cluster.connect(broker) as asking:
                assert exchanged(asking, token.username, token.password, token.username, ",tokenauth=TRUE") is None
                until(
                    lambda may=may, asking=asking: (fetched(asking, broker, 0, 0)[1] == 0) is may, "its owner's right"
                )
        with cluster.connect(broker) as asking:
            assert asking.send(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
            plain = f"\0{his.username}\0{his.password}".encode()
            said.append(asking.send(SaslAuthenticateRequest(auth_bytes=plain), 2).error_message)
        return said

    refused = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"
    another = "Authentication failed: Client requested an authorization id that is different from username"
    by_plain = "Authentication failed: Invalid username or password"
    assert alike(attack) == [*[refused] * 6, another, another, by_plain]


def test_who_authenticates_again_is_the_same_by_the_same_mechanism(cluster: Attacked, tmp_path: Path) -> None:
    """By password and token in turn, since both prove the owner: what a token may not do counts from then on, and no
    more behind a password. Nobody else's token, and no other mechanism of the same user."""
    for user in ("kim", "lee", "k"):
        cluster.user(user)

    def bearer(user: str) -> OAuthBearerLogin:
        file = tmp_path / user
        file.write_text(cluster.token(user))
        return OAuthBearerLogin(f"file:{file}")

    def attack(broker: int) -> list[str]:
        kims, lees = (made_token(cluster, broker, user, 256) for user in ("kim", "lee"))

        def again(*logins: Login) -> str:
            first, second = logins
            with cluster.connect(broker, first) as asking:
                asking._login = second
                try:
                    asking._authenticate()
                except KafkaError as error:
                    return str(error).rpartition("): ")[2]
                except ConnectionLost:
                    return "lost"
                return ErrorCode(asking.send(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3).error_code).name

        by_password = scram("kim", 256)
        return [
            again(by_password, by_password),
            again(by_password, kims),
            again(kims, by_password),
            again(kims, kims),
            again(kims, lees),
            again(by_password, lees),
            again(kims, scram("lee", 256)),
            again(by_password, replace(kims, password=lees.password)),
            again(by_password, scram("kim", 512)),
            again(scram("k", 256), bearer("k")),
            again(bearer("k"), scram("k", 256)),
            again(bearer("k"), bearer("k")),
            again(bearer("k"), bearer("lee")),
        ]

    *by_token, wrong, other, bearers, scrams, same, somebody = alike(attack)
    assert by_token[:4] == ["NONE", *["DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"], "NONE", by_token[1]]
    for said in by_token[4:]:
        assert "Cannot change principals during re-authentication from User.kim: User.lee" in said
    assert "invalid credentials" in wrong
    assert (other, bearers, scrams, same) == ("lost", "lost", "lost", "NONE")
    assert "Cannot change principals during re-authentication from User.k: User.lee" in somebody


# OAUTHBEARER


def test_a_token_that_the_authority_did_not_sign_is_refused_and_nobody_is_asked_for_its_keys(cluster: Attacked) -> None:
    now_s = int(time.time())
    other = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}, private=True)
    claims = {"sub": "admin", "iat": now_s, "exp": now_s + 3600}

    def part(fields: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")

    def confused(public: bytes) -> str:
        """Signed with what everybody knows, the public key, as if it were a secret."""
        signed = f"{part({'alg': 'HS256', 'kid': 'one'})}.{part(claims)}"
        mac = hmac.digest(public, signed.encode(), "sha256")
        return f"{signed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"

    with asked() as (url, requests):
        header = {"alg": "RS256", "kid": "one"}
        pointing = {"jku": url, "x5u": url, "jwk": other.as_dict(private=False)}
        tokens = [
            f"{part({'alg': 'none'})}.{part(claims)}.",
            jwt.encode(header, claims, other),
            jwt.encode(header, {**claims, "iat": now_s - 7200, "exp": now_s - 3600}, cluster.key),
            confused(cluster.key.as_pem(private=False)),
            jwt.encode({**header, **pointing}, claims, other),
            jwt.encode({**header, "kid": f"{url}/../one", **pointing}, claims, other),
        ]

        def attack(broker: int) -> list[bool]:
            return [presented(cluster, broker, token) for token in tokens]

        assert alike(attack) == [False] * len(tokens)
        assert requests == []
    assert alike(lambda broker: presented(cluster, broker, cluster.token("k")))


@pytest.mark.parametrize("address", ["file:/etc/passwd", "http://169.254.169.254/latest/meta-data"])
def test_cve_2025_27817_an_address_that_is_not_on_the_list_keeps_a_broker_from_starting(
    address: str, tmp_path: Path
) -> None:
    """Of both kinds; who may set the one key has no file read, and no address of the inside asked."""
    apache.require()
    port = apache.free_port()
    values = {
        "listeners": f"PLAINTEXT://127.0.0.1:{apache.free_port()},CLIENTS://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "listener.name.clients.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.clients.oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
        "listener.name.clients.oauthbearer.sasl.server.callback.handler.class": (
            f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "sasl.oauthbearer.jwks.endpoint.url": address,
    }
    option = f"-D{ALLOWED_URLS}=https://authority.example.com/keys"
    own = {"broker.id": "0", "zookeeper.connect": f"127.0.0.1:{apache.free_port()}", "log.dirs": str(tmp_path / "logs")}
    file = properties(tmp_path / "ours.properties", {**values, **own})
    words = [*BARNABAS, "broker", str(file), "--coordinator", str(tmp_path / "coordinator")]
    environment = {**os.environ, "KAFKA_OPTS": option}
    ours = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ours.returncode == 1, ours.stderr
    with (
        pytest.raises(RuntimeError, match="ended with 1"),
        apache.ApacheCluster(tmp_path / "apache", 1, config=values, jvm=(option,)),
    ):
        pass
    apaches = (tmp_path / "apache" / "broker-0" / "server.log").read_text()
    for said in (ours.stderr, apaches):
        assert ALLOWED_URLS in said
        assert address in said


def presented(cluster: Attacked, broker: int, token: str) -> bool:
    """Whether a bearer of this token is let in."""
    with cluster.connect(broker) as asking:
        assert asking.send(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == 0
        said = asking.send(SaslAuthenticateRequest(auth_bytes=f"n,,\x01auth=Bearer {token}\x01\x01".encode()), 2)
        return not said.error_code and not said.auth_bytes


@contextlib.contextmanager
def asked() -> Iterator[tuple[str, list[str]]]:
    """An address, and what was asked for there."""
    requests: list[str] = []

    class Listening(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_error(404)

        do_POST = do_GET

        def log_message(self, format: str, *arguments: Any) -> None:
            """Not on the console."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Listening) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/keys", requests
        finally:
            server.shutdown()
            thread.join()


def test_cve_2025_27817_a_client_reads_no_file_and_asks_no_address_that_is_not_on_its_list(
    cluster: Attacked, tmp_path: Path
) -> None:
    """Ours has an empty list where none is given, as Kafka from 4.0 on; that of 3.9 asks whoever it is told to."""
    bootstrap = cluster.bootstrap()

    def asking(address: str, **more: str) -> Path:
        values = {
            "security.protocol": "SASL_SSL",
            **cluster.trusted,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": f"{MODULES}.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": f'{MODULES}.oauthbearer.OAuthBearerLoginModule required clientId="k" clientSecret="s";',
            "sasl.oauthbearer.token.endpoint.url": address,
            **more,
        }
        return properties(tmp_path / "client.properties", values)

    def ours(*words: str) -> str:
        done = subprocess.run([*BARNABAS, *words], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode, done.stdout
        return done.stdout + done.stderr

    def apaches(file: Path, *options: str) -> str:
        java, *rest = apache.tool_command(
            "kafka-topics", "--bootstrap-server", bootstrap, "--list", "--command-config", str(file)
        )
        done = subprocess.run([java, *options, *rest], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode, done.stdout
        return done.stdout + done.stderr

    elsewhere = "https://authority.example.com/token"
    with asked() as (url, requests):
        for address in (
            url,
            url.replace("127.0.0.1", "localhost"),
            "file:/etc/passwd",
            "http://169.254.169.254/latest",
        ):
            for listed in ({}, {ALLOWED_URLS: elsewhere}):
                file = str(asking(address, **listed))
                for words in (
                    ("topic", "list", "-b", bootstrap),
                    ("kafka-topics", "--list", "--bootstrap-server", bootstrap),
                ):
                    said = ours(*words, "--command-config", file)
                    assert "sasl.oauthbearer.token.endpoint.url" in said
                    assert ALLOWED_URLS in said
                    assert "root:" not in said
        assert requests == []
        said = apaches(asking(url), f"-D{ALLOWED_URLS}={elsewhere}")
        assert ALLOWED_URLS in said
        assert requests == []
        apaches(asking(url))
        assert requests
        requests.clear()
        ours("topic", "list", "-b", bootstrap, "--command-config", str(asking(url, **{ALLOWED_URLS: url})))
        assert requests  # the list is what held it back


# Certificates, and what is said before anybody is known


def enters(cluster: Attacked, broker: int, certificate: Certificate) -> bool:
    try:
        with cluster.connect(broker, certificate=certificate) as asking:
            return bool(asking.send(MetadataRequest(topics=[]), 12).brokers)
    except (ssl.SSLError, ConnectionError):
        return False


def until_only(cluster: Attacked, broker: int, certificate: Certificate, other: Certificate) -> None:
    """Waits until `certificate` is let in, and `other` is not, by each of a broker's network threads.

    Of Kafka's, which are three, one after the other takes up a changed store; connections go to them in turn.
    """
    until(
        lambda: all(enters(cluster, broker, certificate) and not enters(cluster, broker, other) for _ in range(6)),
        "the changed store counts",
    )


def test_whom_no_authority_and_no_rule_knows_is_not_let_in(cluster: Attacked, tmp_path: Path) -> None:
    """Expired, of another authority, of a name that no mapping rule fits; and after the trust store was changed."""
    other = Authority(tmp_path, "other")
    theirs = other.issue("k")
    late, nameless = cluster.authority.issue("late", days=-1), cluster.authority.issue("NAMELESS")
    store = "listener.name.certified.ssl.truststore.location"

    def attack(broker: int) -> list[Any]:
        said: list[Any] = [enters(cluster, broker, each) for each in (cluster.k, late, theirs, nameless)]
        with cluster.connect(broker, certificate=cluster.k) as open_already:
            cluster.alter(broker, store, str(other.trust_store))
            until_only(cluster, broker, theirs, cluster.k)
            expired = other.issue(f"late{broker}", days=-1)
            said += [enters(cluster, broker, each) for each in (cluster.k, late, expired)]
            said.append(len(open_already.send(MetadataRequest(topics=[]), 12).brokers))
        cluster.alter(broker, store, str(cluster.authority.trust_store))
        until_only(cluster, broker, cluster.k, theirs)
        return said

    assert alike(attack) == [True, False, False, False, False, False, False, 2]


KNOWN = re.compile("(?!.*(local issuer|self-signed)).*")


def test_a_certificate_is_used_for_what_it_was_given_alone(cluster: Attacked, tmp_path: Path) -> None:
    """A server's lets no client in, and a client's makes no server, though every name of it is right."""
    servers, clients = (cluster.authority.issue(name, purpose=f"{name}Auth") for name in ("server", "client"))
    assert alike(lambda broker: [enters(cluster, broker, each) for each in (servers, clients)]) == [False, True]
    store = "listener.name.certified.ssl.keystore.location"
    others = {use: Authority(tmp_path, use) for use in ("clientAuth", "serverAuth")}

    def attack(broker: int) -> list[str]:
        said = []
        for use, other in others.items():
            cluster.alter(broker, store, str(other.issue("broker", purpose=use).key_store))
            context = tls_settings({"ssl.truststore.location": str(other.trust_store)}).client_context()

            def told(context: ssl.SSLContext = context) -> str:
                wire = socket.create_connection(("127.0.0.1", cluster.ports["CERTIFIED"][broker]), timeout=60)
                try:
                    with context.wrap_socket(wire, server_hostname="127.0.0.1") as secured:
                        return str(secured.version())
                except ssl.SSLCertVerificationError as error:
                    return error.verify_message
                except (ssl.SSLError, ConnectionError):
                    return "ended"

            # Before the store counts, the certificate is one of an authority that this client does not know.
            said.append(until(lambda told=told: KNOWN.match(told()), "the store counts")[0])
        cluster.alter(broker, store, str(cluster.key_store))
        until(lambda: all(enters(cluster, broker, cluster.k) for _ in range(6)), "the first store counts")
        return said

    assert alike(attack) == ["unsuitable certificate purpose", "TLSv1.3"]


def answered(
    cluster: Attacked, listener: str, broker: int, context: ssl.SSLContext, session: Any, message: Any, version: int
) -> tuple[Any, Any]:
    """What is answered to who offers this TLS session, None for nothing; and the session that can be resumed then."""
    plain = socket.create_connection(("127.0.0.1", cluster.ports[listener][broker]), timeout=60)
    try:
        with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as wire:
            wire.sendall(frame(message, version))
            (size,) = struct.unpack(">i", exactly(wire, 4))
            answer = decode_response(response_class(message.api_key), version, exactly(wire, size))[1]
            return answer, wire.session
    except (ssl.SSLError, ConnectionError):
        return None, None


def exactly(wire: ssl.SSLSocket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = wire.recv(count - len(data))
        if not more:
            raise ConnectionError("it ended")
        data += more
    return data


def context_of(cluster: Attacked, version: str, certificate: Certificate | None) -> ssl.SSLContext:
    context = tls_settings(cluster.trusted).client_context()
    context.maximum_version = ssl.TLSVersion[version]
    if certificate is not None:
        context.load_cert_chain(certificate.key_store)
    return context


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_tls_session_opens_no_door_that_its_certificate_does_not(
    cluster: Attacked, version: str, tmp_path: Path
) -> None:
    """Taken up again on another listener, and after the stores that it was made by are others."""
    other = Authority(tmp_path, "other")
    store = "listener.name.certified.ssl.truststore.location"

    def certified(broker: int, context: ssl.SSLContext, session: Any) -> tuple[bool, Any]:
        said, began = answered(cluster, "CERTIFIED", broker, context, session, MetadataRequest(topics=[]), 4)
        return said is not None, began

    def attack(broker: int) -> list[bool]:
        nobody, k = (context_of(cluster, version, each) for each in (None, cluster.k))
        versions, anybodys = answered(cluster, "CLIENTS", broker, nobody, None, ApiVersionsRequest(), 0)
        said = [versions is not None, certified(broker, nobody, anybodys)[0]]
        came_in, began = certified(broker, k, None)
        again, _ = certified(broker, k, began)
        theirs = other.issue(f"k{broker}")
        cluster.alter(broker, store, str(other.trust_store))
        until_only(cluster, broker, theirs, cluster.k)
        said += [came_in, again, certified(broker, k, began)[0]]
        cluster.alter(broker, store, str(cluster.authority.trust_store))
        until_only(cluster, broker, cluster.k, theirs)
        return said

    assert alike(attack) == [True, False, True, True, False]


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_tls_session_is_one_of_who_began_it(cluster: Attacked, version: str) -> None:
    """Who has its secret, and shows another certificate now, is who began it where ours takes one of TLS 1.2 up again.
    Apache's takes none up here, nor does ours one of TLS 1.3."""
    cluster.allow("k")
    stranger = cluster.authority.issue("stranger")

    def fetched_by(broker: int, context: ssl.SSLContext, session: Any) -> tuple[int, Any]:
        read = FetchRequest.FetchTopic(
            topic=TOPIC, partitions=[FetchRequest.FetchPartition(broker, fetch_offset=0, partition_max_bytes=1000)]
        )
        request = FetchRequest(max_bytes=1000, session_epoch=-1, topics=[read])
        said, began = answered(cluster, "CERTIFIED", broker, context, session, request, 12)
        return said.responses[0].partitions[0].error_code, began

    def attack(broker: int) -> list[int]:
        context = context_of(cluster, version, cluster.k)
        until(lambda: fetched_by(broker, context, None)[0] == 0, "k may read")
        first, began = fetched_by(broker, context, None)
        context.load_cert_chain(stranger.key_store)
        return [first, fetched_by(broker, context, began)[0], fetched_by(broker, context, None)[0]]

    anew = [ErrorCode.NONE, DENIED, DENIED]
    assert {kind: attack(broker) for broker, kind in KINDS.items()} == {
        "apaches": anew,
        "ours": [ErrorCode.NONE, ErrorCode.NONE, DENIED] if version == "TLSv1_2" else anew,
    }


def test_a_certificates_mapped_name_has_the_rights_of_that_user(cluster: Attacked) -> None:
    cluster.user("mapped")
    certificate = cluster.authority.issue("mapped")

    def attack(broker: int) -> list[int]:
        with cluster.connect(broker, certificate=certificate) as asking:
            before = fetched(asking, broker, 0, 0)[1]
            cluster.allow("mapped")
            until(lambda: fetched(asking, broker, 0, 0)[1] == 0, "the right counts")
            cluster.allow_nothing("mapped")
            until(lambda: fetched(asking, broker, 0, 0)[1] != 0, "the right is gone")
            return [before, fetched(asking, broker, 0, 0)[1]]

    # Who may read nothing is told so by the session's first answer as well.
    assert alike(attack) == [DENIED, DENIED]


def frame(message: Any, version: int) -> bytes:
    return b"".join(bytes(part) for part in encode_request(message, version, 1, "attacker"))


def all_of(wire: socket.socket) -> bytes:
    """What comes until the other side ends it."""
    wire.settimeout(60)
    data = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while more := wire.recv(65536):
            data += more
    return data


def test_nothing_is_told_before_it_is_known_who_asks(cluster: Attacked) -> None:
    """Cleartext where TLS is spoken and the reverse, and requests before TLS or the login are over."""
    asking = frame(MetadataRequest(topics=None), 4)
    context = tls_settings(cluster.trusted).client_context()

    def attack(broker: int) -> list[bytes]:
        said = []
        for listener in ("CLIENTS", "CERTIFIED"):
            with socket.create_connection(("127.0.0.1", cluster.ports[listener][broker])) as wire:
                wire.sendall(asking)
                told = all_of(wire)
                said.append(b"" if told.startswith(b"\x15") else told)  # an alert says nothing
        with socket.create_connection(("127.0.0.1", cluster.ports["PLAINTEXT"][broker])) as wire:
            wire.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(508))
            said.append(all_of(wire))
        plain = socket.create_connection(("127.0.0.1", cluster.ports["CLIENTS"][broker]))
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as wire:
            wire.sendall(asking)
            said.append(all_of(wire))
        plain = socket.create_connection(("127.0.0.1", cluster.ports["CLIENTS"][broker]))
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as wire:
            handshake = frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            wire.sendall(handshake + asking)
            told = all_of(wire)
            said.append(b"127.0.0.1" if b"127.0.0.1" in told else b"")  # a broker's address, which Metadata tells
        return said

    assert alike(attack) == [b""] * 5


def test_nobody_renegotiates(cluster: Attacked) -> None:
    def attack(broker: int) -> int:
        address = f"127.0.0.1:{cluster.ports['CLIENTS'][broker]}"
        words = ("openssl", "s_client", "-tls1_2", "-CAfile", str(cluster.authority.trust_store), "-connect", address)
        done = subprocess.run(words, input="R\n", capture_output=True, text=True, timeout=60, check=False)
        before, asked_for, after = (done.stdout + done.stderr).partition("RENEGOTIATING")
        assert asked_for, before
        return after.count("verify return")

    assert alike(attack) == 0


# Keys that protect all listeners at once

UNPREFIXED = {
    "ssl.keystore.location": "/nowhere/broker.pem",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.password": "secret",
    "ssl.key.password": "secret",
    "ssl.keystore.key": "key",
    "ssl.keystore.certificate.chain": "chain",
    "ssl.truststore.location": "/nowhere/authority.pem",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.password": "secret",
    "ssl.truststore.certificates": "certificates",
    "ssl.protocol": "TLSv1.3",
    "ssl.enabled.protocols": "TLSv1.2",
    "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256",
    "ssl.client.auth": "required",
    "ssl.endpoint.identification.algorithm": "https",
    "ssl.principal.mapping.rules": "DEFAULT",
    "ssl.allow.dn.changes": "true",
    "ssl.allow.san.changes": "true",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required;",
    "sasl.kerberos.service.name": "kafka",
    "sasl.kerberos.principal.to.local.rules": "DEFAULT",
    "sasl.login.refresh.window.factor": "0.7",
    "sasl.login.class": "com.example.Login",
    "sasl.server.callback.handler.class": "com.example.Handler",
    "sasl.server.max.receive.size": "1000",
    "sasl.oauthbearer.jwks.endpoint.url": "https://example.com/keys",
    "connections.max.reauth.ms": "60000",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "principal.builder.class": "com.example.Builder",
}
"""Each with a value that Kafka would start with, or that is refused for what it is."""
TAKEN_BY_APACHES = {
    "ssl.protocol",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.endpoint.identification.algorithm",
    "sasl.enabled.mechanisms",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.jaas.config",
    "sasl.kerberos.service.name",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.login.refresh.window.factor",
}
"""As docs/security.md names them. They count there from the next start on, and a broker of ours does not say yes to a
protection that is not there."""


def test_what_protects_all_listeners_at_once_is_not_changed_while_a_broker_runs(cluster: Attacked) -> None:
    """What Kafka refuses is refused with the same error; and what it would only keep until its next start, as well."""

    def verdict(broker: int, name: str, value: str) -> str:
        try:
            cluster.alter(broker, name, value, validate_only=True)
        except KafkaException as error:
            return str(error.args[0].name())
        return "NO_ERROR"

    apaches = {name: verdict(APACHES, name, value) for name, value in UNPREFIXED.items()}
    assert {name for name, said in apaches.items() if said == "NO_ERROR"} == TAKEN_BY_APACHES
    documented = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    assert [name for name in TAKEN_BY_APACHES if f"`{name}`" not in documented] == []
    refused = ErrorCode.INVALID_REQUEST.name
    assert {name: verdict(OURS, name, value) for name, value in UNPREFIXED.items()} == dict.fromkeys(
        UNPREFIXED, refused
    )
    assert {apaches[name] for name in apaches.keys() - TAKEN_BY_APACHES} == {refused}
