"""One secured cluster of an Apache broker and one of ours: users and tokens made on either kind log in to both."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import apache
import pytest
from cluster import BARNABAS, barnabas, until
from kafka_tool_output import Said
from kafka_tools import tool

from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.security.sasl.login import Login, SaslLogin, login_of
from barnabas.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

pytestmark = [pytest.mark.long(0), pytest.mark.apache]

APACHES, OURS = 0, 1
KINDS = pytest.mark.parametrize(("there", "here"), [(APACHES, OURS), (OURS, APACHES)], ids=["to-ours", "to-apaches"])
_MODULES = "org.apache.kafka.common.security"
_UNSECURED = f"{_MODULES}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
CONFIG = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.sasl.plain.sasl.jaas.config": (
        f'{_MODULES}.plain.PlainLoginModule required username="b" password="pw" user_b="pw" user_plain="p=,q";'
    ),
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
    "listener.name.sasl.oauthbearer.sasl.jaas.config": (
        f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    ),
    "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class": _UNSECURED,
    "listener.name.sasl.plain.connections.max.reauth.ms": "2000",
    "delegation.token.secret.key": "of all brokers",
    "zookeeper.session.timeout.ms": "18000",
    "offsets.topic.replication.factor": "1",
}


class Brokers:
    """The ports of both kinds, on the plaintext listener and on the other."""

    def __init__(self, plaintext: dict[int, int], sasl: dict[int, int]) -> None:
        self.plaintext = plaintext
        self.sasl = sasl

    def connect(self, broker: int, login: Login) -> BlockingConnection:
        return BlockingConnection("127.0.0.1", self.sasl[broker], "logins", login=login)

    def admits(self, broker: int, login: Login) -> bool:
        try:
            self.connect(broker, login).close()
        except KafkaError as error:
            if error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
                raise
            return False
        return True


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    apache.require()
    directory = tmp_path_factory.mktemp("logins")
    plaintext, sasl = ({id: apache.free_port() for id in (APACHES, OURS)} for _ in range(2))
    listeners = {id: f"PLAINTEXT://127.0.0.1:{plaintext[id]},SASL://127.0.0.1:{sasl[id]}" for id in plaintext}
    cluster = apache.ApacheCluster(
        directory / "apache", 1, config={**CONFIG, "listeners": listeners[APACHES]}, first_id=APACHES
    )
    cluster.ports[APACHES] = plaintext[APACHES]
    with cluster as kafka:
        ours = {**CONFIG, "broker.id": str(OURS), "listeners": listeners[OURS], "zookeeper.connect": kafka.zookeeper}
        properties = directory / "ours.properties"
        ours["log.dirs"] = str(directory / "logs")
        properties.write_text("".join(f"{name}={value}\n" for name, value in ours.items()))
        log = (directory / "ours.log").open("wb")
        process = subprocess.Popen([*BARNABAS, "broker", str(properties)], stdout=log, stderr=log)
        try:
            until(lambda: len(apache.cluster_view("127.0.0.1", plaintext[APACHES])[0]) == 2, "both kinds are known")
            yield Brokers(plaintext, sasl)
        finally:
            process.terminate()
            process.wait(30)
            log.close()


def change_user(brokers: Brokers, broker: int, user: str, *change: str) -> None:
    """By Kafka's own kafka-configs."""
    said = tool(
        "kafka-configs", "--bootstrap-server", f"127.0.0.1:{brokers.plaintext[broker]}", "--alter",
        "--entity-type", "users", "--entity-name", user, *change,
    )  # fmt: skip
    assert said.status == 0, said


@KINDS
def test_users_made_with_kafka_configs_log_in_to_the_other_kind(brokers: Brokers, there: int, here: int) -> None:
    user = f"a=b,{there}"
    logins = {n: [SaslLogin(f"SCRAM-SHA-{n}", user, each) for each in ("first", "other")] for n in (256, 512)}
    change_user(brokers, there, user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=first]")
    until(lambda: brokers.admits(here, logins[256][0]), "the user is known")
    assert not brokers.admits(here, logins[256][1])
    assert not brokers.admits(here, logins[512][0])
    change_user(brokers, there, user, "--add-config", "SCRAM-SHA-256=[password=other],SCRAM-SHA-512=[password=other]")
    until(lambda: brokers.admits(here, logins[256][1]), "the new password")
    assert brokers.admits(here, logins[512][1])
    assert not brokers.admits(here, logins[256][0])
    change_user(brokers, there, user, "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512")
    until(lambda: not brokers.admits(here, logins[512][1]), "the user is gone")


@pytest.mark.parametrize("broker", [APACHES, OURS], ids=["apaches", "ours"])
def test_every_mechanism_logs_in_to_either_kind(brokers: Brokers, broker: int) -> None:
    unsecured = 'Module required unsecuredLoginStringClaim_sub="me" unsecuredLoginLifetimeSeconds="{}";'
    oauthbearer = {"sasl.mechanism": "OAUTHBEARER"}
    assert brokers.admits(broker, SaslLogin("PLAIN", "plain", "p=,q"))
    assert not brokers.admits(broker, SaslLogin("PLAIN", "plain", "p"))
    assert brokers.admits(broker, login_of({**oauthbearer, "sasl.jaas.config": unsecured.format(60)}))
    assert not brokers.admits(broker, login_of({**oauthbearer, "sasl.jaas.config": unsecured.format(-1)}))


def user_login(brokers: Brokers, user: str) -> SaslLogin:
    change_user(brokers, APACHES, user, "--add-config", "SCRAM-SHA-256=[password=pw]")
    login = SaslLogin("SCRAM-SHA-256", user, "pw")
    for broker in (APACHES, OURS):
        until(lambda broker=broker: brokers.admits(broker, login), "the user is known")
    return login


@KINDS
def test_tokens_made_by_one_kind_are_used_renewed_and_removed_at_the_other(
    brokers: Brokers, there: int, here: int
) -> None:
    owner, renewer = (user_login(brokers, f"{name}{there}") for name in ("owner", "renewer"))
    renewers = [CreateDelegationTokenRequest.CreatableRenewers("User", renewer.username)]
    with brokers.connect(there, owner) as asking:
        made = asking.send(CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1), 3)
    assert made.error_code == 0
    mac = bytes(made.hmac)
    by_token = SaslLogin("SCRAM-SHA-512", made.token_id, base64.b64encode(mac).decode(), token_authenticated=True)
    until(lambda: brokers.admits(here, by_token), "the token is known")
    assert not brokers.admits(here, replace(by_token, password=base64.b64encode(mac[::-1]).decode()))
    assert not brokers.admits(here, replace(by_token, token_authenticated=False))
    with brokers.connect(here, by_token) as asking:
        assert asking.send(MetadataRequest(topics=[]), 12).brokers
        # Who came by a token gets no other.
        refused = asking.send(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    with brokers.connect(here, renewer) as asking:
        renewed = asking.send(RenewDelegationTokenRequest(hmac=mac, renew_period_ms=3 * 86_400_000), 2)
        assert renewed.error_code == 0
        assert renewed.expiry_timestamp_ms > made.expiry_timestamp_ms
        (described,) = asking.send(DescribeDelegationTokenRequest(owners=None), 3).tokens
        assert (described.token_id, bytes(described.hmac)) == (made.token_id, mac)
        assert described.expiry_timestamp == renewed.expiry_timestamp_ms
        assert described.principal_name == described.token_requester_principal_name == owner.username
        assert [each.principal_name for each in described.renewers] == [renewer.username]
    with brokers.connect(there, owner) as asking:
        until(
            lambda: (
                asking.send(DescribeDelegationTokenRequest(owners=None), 3).tokens[0].expiry_timestamp
                == renewed.expiry_timestamp_ms
            ),
            "it is renewed on the other kind",
        )
    with brokers.connect(here, owner) as asking:
        assert asking.send(ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=-1), 2).error_code == 0
    for broker in (here, there):
        until(lambda broker=broker: not brokers.admits(broker, by_token), "the token is gone")


@pytest.mark.parametrize("broker", [APACHES, OURS], ids=["apaches", "ours"])
def test_a_client_authenticates_again_before_its_session_ends(brokers: Brokers, broker: int) -> None:
    ends = time.monotonic() + 6
    with brokers.connect(broker, SaslLogin("PLAIN", "plain", "p=,q")) as asking:
        first = asking._authenticate_again_s
        assert first is not None
        while time.monotonic() < ends:
            assert asking.send(MetadataRequest(topics=[]), 12).brokers
        again = asking._authenticate_again_s
        assert again is not None
        assert again > first + 3


def told(*arguments: str, text: str | None = None) -> str:
    done = barnabas(*arguments, text=text)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def command_config(directory: Path, login: SaslLogin) -> Path:
    path = directory / f"{login.username}.properties"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={login.mechanism}\n"
        f'sasl.jaas.config={_MODULES}.scram.ScramLoginModule required username="{login.username}" '
        f'password="{login.password}"{" tokenauth=true" if login.token_authenticated else ""};\n'
    )
    return path


@pytest.mark.parametrize("broker", [APACHES, OURS], ids=["apaches", "ours"])
def test_users_and_tokens_by_command(brokers: Brokers, broker: int, tmp_path: Path) -> None:
    plain = ("-b", f"127.0.0.1:{brokers.plaintext[broker]}")
    user = f"operator{broker}"
    login = SaslLogin("SCRAM-SHA-512", user, "pass word")
    told("user", "set", user, *plain, text="pass word\n")
    told("user", "set", user, "--mechanism", "SCRAM-SHA-256", "--iterations", "5000", "--password", "x", *plain)
    until(lambda: brokers.admits(broker, login), "the user is known")
    listed = json.loads(told("user", "list", user, "--format", "json", *plain))
    assert [(each["mechanism"], each["iterations"]) for each in listed] == [
        ("SCRAM-SHA-256", 5000),
        ("SCRAM-SHA-512", 4096),
    ]
    secured = ("-b", f"127.0.0.1:{brokers.sasl[broker]}", "--command-config", str(command_config(tmp_path, login)))
    made = json.loads(told("token", "create", "--renewer", "bob", "--lifetime", "2h", "--format", "json", *secured))
    assert (made["owner"], made["renewers"]) == (f"User:{user}", ["User:bob"])
    assert made["ends_ms"] - made["issued_ms"] == 7_200_000
    by_token = SaslLogin("SCRAM-SHA-256", made["token_id"], made["hmac"], token_authenticated=True)
    until(lambda: brokers.admits(broker, by_token), "the token is known")
    assert made["token_id"] in told("token", "list", *secured)
    as_token = ("-b", f"127.0.0.1:{brokers.sasl[broker]}", "--command-config", str(command_config(tmp_path, by_token)))
    assert "tokens" in told("topic", "create", f"tokens{broker}", *as_token) + told("topic", "list", *as_token)
    refused = barnabas("token", "create", *as_token)
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in refused.stderr
    assert "valid until" in told("token", "renew", made["hmac"], "--for", "1h", *secured)
    assert told("token", "expire", made["hmac"], *secured) == "the token is gone\n"
    assert told("user", "delete", user, *plain) == f"{user} has no password any more for SCRAM-SHA-256, SCRAM-SHA-512\n"
    until(lambda: not brokers.admits(broker, login), "the user is gone")
    refused = barnabas("topic", "list", *secured)
    assert refused.returncode == 1
    assert "SASL_AUTHENTICATION_FAILED" in refused.stderr or "invalid credentials" in refused.stderr


def test_kafkas_java_client_logs_in_to_ours_by_every_mechanism(brokers: Brokers, tmp_path: Path) -> None:
    owner = user_login(brokers, "java")
    with brokers.connect(OURS, owner) as asking:
        made = asking.send(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
    mac = base64.b64encode(bytes(made.hmac)).decode()
    scram, oauthbearer = (
        f"{_MODULES}.{each}LoginModule required" for each in ("scram.Scram", "oauthbearer.OAuthBearer")
    )
    logins = {
        "PLAIN": f'{_MODULES}.plain.PlainLoginModule required username="plain" password="p=,q";',
        "SCRAM-SHA-256": f'{scram} username="{owner.username}" password="{owner.password}";',
        "SCRAM-SHA-512": f'{scram} username="{made.token_id}" password="{mac}" tokenauth="true";',
        "OAUTHBEARER": f'{oauthbearer} unsecuredLoginStringClaim_sub="java";',
    }
    for mechanism, jaas in logins.items():
        config = tmp_path / mechanism
        config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n")
        at = ("--bootstrap-server", f"127.0.0.1:{brokers.sasl[OURS]}", "--command-config", str(config))
        said = tool("kafka-broker-api-versions", *at)
        assert "id: 1" in said.out, (mechanism, said)


def our_tool(*words: str) -> Said:
    done = barnabas(*words)
    return Said(done.returncode, done.stdout, done.stderr)


def masked(output: str) -> str:
    """Without ids, HMACs and times, and the columns' widths that come of them."""
    output = re.sub(r"[A-Za-z0-9+/]{86}==|\d{4}-\d\d-\d\dT\d\d:\d\d", "*", output)
    return re.sub(r" +", " ", re.sub(r"(tokenId : |^)[A-Za-z0-9_-]{22}", r"\1ID", output, flags=re.M))


def test_kafkas_tool_for_tokens_by_name(brokers: Brokers, tmp_path: Path) -> None:
    """``kafka-delegation-tokens``, Apache's and ours, says and does the same at a broker of each kind."""
    config = str(command_config(tmp_path, user_login(brokers, "tool")))
    mine = ("--describe", "--owner-principal", "User:tool")
    outputs = []
    for tool_of, broker in ((tool, OURS), (our_tool, OURS), (our_tool, APACHES)):
        at = ("--bootstrap-server", f"127.0.0.1:{brokers.sasl[broker]}", "--command-config", config)

        def run(*arguments: str, tool_of: Callable[..., Said] = tool_of, at: tuple[str, ...] = at) -> Said:
            status, out, err = tool_of("kafka-delegation-tokens", *at, *arguments)
            return Said(status, out, err if status == 0 else err.partition("\n")[0])

        answers = [run("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")]
        found = re.search(r"[A-Za-z0-9+/]{86}==", answers[0][1])
        assert found is not None, answers
        answers.append(run("--describe"))
        answers.append(run(*mine))
        answers.append(run("--renew", "--renew-time-period", "-1", "--hmac", found[0]))
        answers.append(run("--expire", "--expiry-time-period", "-1", "--hmac", found[0]))
        until(lambda run=run: "tokens : 0" in run(*mine)[1], "the token is gone")
        answers.append(run("--describe", "--owner-principal", "User:nobody"))
        answers.append(run("--renew", "--renew-time-period", "-1", "--hmac", found[0]))
        answers.append(run("--describe", "--hmac", "x"))
        answers.append(run("--create"))
        answers.append(run())
        outputs.append([(code, masked(out), masked(err)) for code, out, err in answers])
    assert outputs[1] == outputs[0]
    assert outputs[2] == outputs[0]
