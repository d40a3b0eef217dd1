"""ACLs kept in another ensemble than all else (``authorizer.zookeeper.url``), and who was denied, in the log."""

from __future__ import annotations

from pathlib import Path

from cluster import barnabas
from processes import Cluster, Process, eventually, free_port

from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.metadata import MetadataRequest

DENIED = (
    "Principal = User:ANONYMOUS is Denied Operation = Describe from host = 127.0.0.1 on resource = Topic:LITERAL:"
    "orders for request = Metadata with resourceRefCount = 1"
)
"""``AclAuthorizer.logAuditMessage``."""


def test_acls_stand_in_the_ensemble_that_the_authorizer_names(tmp_path: Path) -> None:
    port = free_port()
    other = Process("other", tmp_path, "coordinator", "--port", str(port), "--dir", str(tmp_path / "other"))
    config = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "authorizer.zookeeper.url": f"127.0.0.1:{port}/kafka",
    }

    def run(*words: str) -> str:
        done = barnabas(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def znodes(server: int, path: str) -> str:
        return run("zk", "ls", path, "--zookeeper", f"127.0.0.1:{server}")

    other.start()
    try:
        with Cluster(tmp_path, 1, config) as cluster:
            at = ("-b", cluster.bootstrap)
            run("acl", "deny", "topic:orders", "--principal", "User:*", *at)
            assert "orders" in znodes(port, "/kafka/kafka-acl/Topic")
            assert "kafka-acl" not in znodes(cluster.zookeeper_port, "/")
            with BlockingConnection("127.0.0.1", cluster.ports[0]) as asking:
                request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name="orders")], False)
                answer = asking.send(request, 9)
                assert answer.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            eventually(lambda: DENIED in cluster.brokers[0].output(), what="the denial is logged")
            run("acl", "remove", "topic:orders", *at)
            assert "orders" not in znodes(port, "/kafka/kafka-acl/Topic")
    finally:
        other.stop()
