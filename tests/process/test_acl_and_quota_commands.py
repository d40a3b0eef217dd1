"""``barnabas acl`` and ``barnabas quota`` on a running cluster: what they make takes effect, and is told as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cluster import Cluster, barnabas, running, until

from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.metadata import MetadataRequest


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory):
    directory: Path = tmp_path_factory.mktemp("acl")
    with running(
        directory,
        1,
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found=true",
    ) as made:
        yield made


def run(cluster: Cluster, *words: str) -> str:
    done = barnabas(*words, "--dir", str(cluster.directory))
    assert done.returncode == 0, done.stderr
    return done.stdout


def connection(cluster: Cluster, client_id: str) -> BlockingConnection:
    return BlockingConnection("127.0.0.1", cluster.broker(0)["port"], client_id)


def test_acls_are_made_told_and_removed(cluster: Cluster) -> None:
    asking = connection(cluster, "acls")

    def described() -> int:
        request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name="orders")], False)
        return int(asking.send(request, 9).topics[0].error_code)

    assert described() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    run(cluster, "acl", "deny", "topic:ord*")
    until(lambda: described() == ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the topic is denied")
    run(cluster, "acl", "allow", "group:app", "--principal", "User:alice", "--operation", "read", "--host", "10.0.0.1")
    told = json.loads(run(cluster, "acl", "list", "--format", "json"))
    assert [list(each.values()) for each in told] == [
        ["topic:ord*", "deny", "User:*", "*", "all"],
        ["group:app", "allow", "User:alice", "10.0.0.1", "read"],
    ]
    assert "ord" in run(cluster, "acl", "list", "topic:orders")
    assert run(cluster, "acl", "list", "topic:others") == ""
    assert "topic:ord*" in run(cluster, "acl", "remove", "topic:ord*")
    until(lambda: described() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic is allowed")
    run(cluster, "acl", "remove", "group:app")
    assert "0:0:0:0:0:0:0:1" in run(cluster, "acl", "deny", "group:app", "--host", "::1")
    assert "0:0:0:0:0:0:0:1" in run(cluster, "acl", "remove", "group:app", "--host", "::1")
    assert run(cluster, "acl", "list") == ""


def test_quotas_are_set_told_obeyed_and_removed(cluster: Cluster) -> None:
    run(cluster, "quota", "set", "mutation=1", "--client", "eager")
    run(cluster, "quota", "set", "produce=1000", "fetch=2000", "--user", "*", "--client", "c d")
    run(cluster, "quota", "set", "connection=5", "--ip", "127.0.0.9")
    told = json.loads(run(cluster, "quota", "list", "--format", "json"))
    assert sorted(
        (each["user"], each["client-id"], each["ip"], each["quota"], each["limit"]) for each in told if each["user"]
    ) == [
        ("*", "c d", None, "fetch", 2000.0),
        ("*", "c d", None, "produce", 1000.0),
    ]
    eager = connection(cluster, "eager")
    numbers = iter(range(1000))

    def create(partitions: int) -> int:
        topic = CreateTopicsRequest.CreatableTopic(f"topic-{next(numbers)}", partitions, 1)
        answer = eager.send(CreateTopicsRequest([topic], timeout_ms=30_000), 6)
        throttled = answer.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert throttled == (answer.throttle_time_ms > 0)
        return int(answer.topics[0].error_code)

    # The first may take more than there is; the one after it is refused, unless the quota was not heard of yet.
    until(lambda: create(12) == ErrorCode.THROTTLING_QUOTA_EXCEEDED, "what changes too much is refused")
    run(cluster, "quota", "remove", "mutation", "--client", "eager")
    until(lambda: create(1) == 0, "without the quota it is not")
    run(cluster, "quota", "remove", "connection", "--ip", "127.0.0.9")
    run(cluster, "quota", "remove", "produce", "fetch", "--user", "*", "--client", "c d")
    assert run(cluster, "quota", "list") == ""


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("acl allow nothing", "names no resource"),
        ("acl allow cluster --operation read", "knows create"),
        ("acl allow topic:t --principal alice", "User:alice"),
        ("acl deny topic:t --host 10.0.0.0/8", "expected one IP address"),
        ("acl deny topic:t --host example.com", "expected one IP address"),
        ("quota set foo=1 --user a", "is not a quota"),
        ("quota set produce=x --user a", "a limit is a number"),
        ("quota set produce=1", "Say whose quota"),
        ("quota set produce=1 --ip 10.0.0.1", "only have a quota of connections"),
    ],
)
def test_what_means_nothing_is_said(cluster: Cluster, words: str, complaint: str) -> None:
    done = barnabas(*words.split(), "--dir", str(cluster.directory))
    assert done.returncode == 2
    assert complaint in done.stderr
