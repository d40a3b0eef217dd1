"""ACLs made on Apache Kafka take effect on ours within moments, and the reverse; on open connections and sessions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import apache
import pytest
from cluster import BARNABAS, until
from kafka_tools import tool

from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.metadata import MetadataRequest

pytestmark = pytest.mark.apache

CONFIG = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "zookeeper.session.timeout.ms": "18000",
}
APACHES, OURS = 0, 1


@pytest.fixture
def bootstraps(tmp_path: Path):
    """An Apache broker and one of ours in one cluster; the address of each."""
    with apache.ApacheCluster(tmp_path / "apache", 1, config=CONFIG, first_id=APACHES) as kafka:
        port = apache.free_port()
        properties = tmp_path / "ours.properties"
        properties.write_text(
            f"broker.id={OURS}\nlisteners=PLAINTEXT://127.0.0.1:{port}\nzookeeper.connect={kafka.zookeeper}\n"
            f"log.dirs={tmp_path / 'logs'}\n" + "".join(f"{name}={value}\n" for name, value in CONFIG.items())
        )
        log = (tmp_path / "ours.log").open("wb")
        process = subprocess.Popen([*BARNABAS, "broker", str(properties)], stdout=log, stderr=log)
        try:
            until(lambda: len(apache.cluster_view("127.0.0.1", kafka.ports[APACHES])[0]) == 2, "both kinds are known")
            yield {APACHES: kafka.bootstrap, OURS: f"127.0.0.1:{port}"}
        finally:
            process.terminate()
            process.wait(30)
            log.close()


def connection(bootstrap: str) -> BlockingConnection:
    host, _, port = bootstrap.rpartition(":")
    return BlockingConnection(host, int(port), "acls")


def kafka_acls(bootstrap: str, *arguments: str) -> str:
    said = tool("kafka-acls", "--bootstrap-server", bootstrap, *arguments)
    assert said.status == 0, said
    return said.out


def barnabas_acls(bootstrap: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "barnabas", "kafka-acls", "--bootstrap-server", bootstrap, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def described(asking: BlockingConnection, topic: str) -> int:
    answer = asking.send(MetadataRequest([MetadataRequest.MetadataRequestTopic(name=topic)]), 12)
    return int(answer.topics[0].error_code)


class Session:
    """A consumer's fetch session: the first request names the partition, those after it name nothing."""

    def __init__(self, bootstrap: str, topic: str, topic_id: bytes) -> None:
        self._asking = connection(bootstrap)
        partition = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        first = FetchRequest(
            max_bytes=1000,
            session_epoch=0,
            topics=[FetchRequest.FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])],
        )
        answer = self._asking.send(first, 13)
        assert answer.session_id
        self._id = answer.session_id
        self._epoch = 0

    def error(self) -> int:
        """What the session tells of the partition; nothing new is no error."""
        self._epoch += 1
        answer = self._asking.send(FetchRequest(max_bytes=1000, session_id=self._id, session_epoch=self._epoch), 13)
        assert not answer.error_code
        return next((int(each.error_code) for topic in answer.responses for each in topic.partitions), 0)


def test_acls_made_on_either_kind_take_effect_on_the_other(bootstraps: dict[int, str]) -> None:
    asking = {number: connection(bootstrap) for number, bootstrap in bootstraps.items()}
    at_each = [CreateTopicsRequest.CreatableReplicaAssignment(0, [number]) for number in (OURS,)]
    created = asking[APACHES].send(
        CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("orders", -1, -1, at_each)], timeout_ms=30_000),
        5,
    )
    assert not created.topics[0].error_code
    for number, each in asking.items():
        until(lambda each=each: described(each, "orders") == 0, f"broker {number} knows the topic")
    metadata = asking[OURS].send(MetadataRequest([MetadataRequest.MetadataRequestTopic(name="orders")]), 12)
    session = Session(bootstraps[OURS], "orders", metadata.topics[0].topic_id)
    assert session.error() == 0

    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    deny = ("--deny-principal", "User:*", "--operation", "All", "--topic", "ord", "--resource-pattern-type", "prefixed")
    for made_on, by in ((APACHES, kafka_acls), (OURS, kafka_acls), (APACHES, barnabas_acls), (OURS, barnabas_acls)):
        by(bootstraps[made_on], "--add", *deny)
        for number, each in asking.items():
            until(lambda each=each: described(each, "orders") == denied, f"denied on {number}, asked {made_on}")
        until(lambda: session.error() == denied, "the fetch session is denied")
        # Both brokers and both tools tell of it in the same words.
        told = {
            tool(bootstrap, "--list", "--topic", "orders", "--resource-pattern-type", "match")
            for tool in (kafka_acls, barnabas_acls)
            for bootstrap in bootstraps.values()
        }
        assert len(told) == 1, told
        assert "principal=User:*, host=*, operation=ALL, permissionType=DENY" in told.pop()
        other = APACHES if made_on == OURS else OURS
        by(bootstraps[other], "--remove", "--force", *deny)
        for number, each in asking.items():
            until(lambda each=each: described(each, "orders") == 0, f"allowed on {number}, asked {other}")
        until(lambda: session.error() == 0, "the fetch session goes on")
