"""The embedded coordinator beside a real ZooKeeper: the same operations, the same answers, events and trees.

``BARNABAS_DIFFERENTIAL_OPERATIONS`` says how many; ``make differential`` does a million.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache
import pytest
from coordinator_differential import Conversation

from barnabas.bench.apache_zookeeper import KAFKAS_VERSION, NEWER_VERSION, ZooKeeperEnsemble
from barnabas.zk.protocol.acl import digest_of
from barnabas.zk.protocol.data import NOTIFICATION_XID, PING_XID
from barnabas.zk.protocol.frames import ConnectRequest, ConnectResponse, decode_reply_header, encode_request, framed
from barnabas.zk.protocol.ops import GetChildren, GetData, ZkOperation
from barnabas.zk.protocol.session_ops import Ping

OPERATIONS = int(os.environ.get("BARNABAS_DIFFERENTIAL_OPERATIONS", "10000"))
SEED = int(os.environ.get("BARNABAS_DIFFERENTIAL_SEED", "1"))
SUPER = digest_of(b"super:duper")


class Client:
    """One session, one operation at a time."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self.socket.sendall(framed(ConnectRequest(40_000).encode()))
        ConnectResponse.decode(self.frame())

    def bytes(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            assert part, "the server closed the connection"
            data += part
        return data

    def frame(self) -> bytes:
        return self.bytes(*struct.unpack(">i", self.bytes(4)))

    def send(self, operation: ZkOperation[Any], xid: int) -> tuple[int, Any]:
        """The answer's zxid, and the result or the error's code."""
        self.socket.sendall(encode_request(xid, operation))
        while True:
            frame = self.frame()
            header = decode_reply_header(frame)
            if header.xid != NOTIFICATION_XID:
                assert header.xid == xid
                return header.zxid, header.code or operation.decode_result(frame, 16)[0]


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[str]:
    port = apache.free_port()
    command = [sys.executable, "-m", "barnabas", "coordinator", "--port", str(port), "--dir", str(tmp_path / "ours")]
    # Empty containers go by the clock, at some time or other: they have a test of their own.
    for config in (
        "znode.container.checkIntervalMs=1000000000",
        "extendedTypesEnabled=true",
        f"DigestAuthenticationProvider.superDigest={SUPER}",
    ):
        command += ["--config", config]
    with (tmp_path / "ours.log").open("wb") as log:
        process = subprocess.Popen([*command, "--no-fsync"], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, (tmp_path / "ours.log").read_text()
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.apache
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("version", "operations"),
    [(NEWER_VERSION, OPERATIONS), pytest.param(KAFKAS_VERSION, OPERATIONS // 4, id="kafkas-own")],
)
def test_the_same_operations_have_the_same_answers(
    version: str, operations: int, embedded: str, tmp_path: Path
) -> None:
    properties = {
        "zookeeper.forceSync": "no",
        "znode.container.checkIntervalMs": "1000000000",
        "zookeeper.DigestAuthenticationProvider.superDigest": SUPER,
    }
    config = {"extendedTypesEnabled": "true", "tickTime": "2000", "minSessionTimeout": "1000"}
    with ZooKeeperEnsemble(tmp_path / "theirs", version=version, config=config, properties=properties) as real:
        # Before 3.9 ZooKeeper kept one kind of watch for a path and session, and forgot the other.
        conversation = Conversation(embedded, real.connect, SEED, mixed_watches=version != KAFKAS_VERSION)
        try:
            conversation.run(operations)
        finally:
            conversation.close()
        assert conversation.events > operations // 20


FAULTS = re.compile(
    "xid out of order|Xid out of order|Unreasonable length|Packet len|Unimplemented|MarshallingError|"
    "RuntimeInconsistency|BadArguments|SystemError|APIError|IOException while reading|does not match|Unable to read"
)
"""What a ZooKeeper client writes into its log when a server does not keep to the protocol."""


@pytest.mark.apache
@pytest.mark.timeout(600)
def test_apache_kafka_lives_on_the_coordinator(embedded: str, tmp_path: Path) -> None:
    config = {
        "zookeeper.session.timeout.ms": "12000",
        "offsets.topic.replication.factor": "1",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with apache.ApacheCluster(tmp_path, brokers=3, zookeeper=embedded, config=config) as kafka:
        client = Client(embedded)

        def data(path: str) -> Any:
            result = client.send(GetData(path), 1)[1]
            return json.loads(result[0]) if isinstance(result, tuple) else None

        def children(path: str) -> list[str]:
            result = client.send(GetChildren(path), 1)[1]
            return sorted(result[0]) if isinstance(result, tuple) else []

        def until(fact: Callable[[], object], what: str) -> None:
            deadline = time.monotonic() + 90
            while not fact():
                assert time.monotonic() < deadline, what
                client.send(Ping(), PING_XID)
                time.sleep(0.1)

        def tool(name: str, *arguments: str) -> str:
            done = apache.tool(name, "--bootstrap-server", kafka.bootstrap, *arguments)
            return done.stdout + done.stderr

        made = tool("kafka-topics", "--create", "--topic", "t", "--partitions", "4", "--replication-factor", "2")
        assert "Created topic t" in made
        tool("kafka-configs", "--alter", "--topic", "t", "--add-config", "retention.ms=12345")
        assert data("/config/topics/t")["config"] == {"retention.ms": "12345"}
        tool("kafka-acls", "--add", "--topic", "t", "--allow-principal", "User:alice", "--operation", "Read")
        assert [acl["principal"] for acl in data("/kafka-acl/Topic/t")["acls"]] == ["User:alice"]

        wanted = {"0": [0, 1], "1": [1, 2], "2": [2, 0], "3": [1, 0]}
        plan = tmp_path / "plan.json"
        partitions = [{"topic": "t", "partition": int(each), "replicas": replicas} for each, replicas in wanted.items()]
        plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
        tool("kafka-reassign-partitions", "--execute", "--reassignment-json-file", str(plan))
        until(lambda: data("/brokers/topics/t")["partitions"] == wanted, "the replicas did not move")
        until(lambda: not data("/brokers/topics/t")["adding_replicas"], "the reassignment did not end")

        dead = data("/controller")["brokerid"]
        epoch = data("/controller_epoch")
        kafka.kill(dead)
        until(lambda: (now := data("/controller")) and now["brokerid"] != dead, "nobody became controller")
        assert data("/controller_epoch") == epoch + 1
        kafka.start(dead)
        assert children("/brokers/ids") == ["0", "1", "2"]

        asleep = next(broker for broker in (0, 1, 2) if broker != data("/controller")["brokerid"])
        kafka.processes[asleep].send_signal(signal.SIGSTOP)
        until(lambda: str(asleep) not in children("/brokers/ids"), "the session of a stopped broker did not expire")
        kafka.processes[asleep].send_signal(signal.SIGCONT)
        until(lambda: children("/brokers/ids") == ["0", "1", "2"], "the broker did not register again")

        until(
            lambda: all(
                len(data(f"/brokers/topics/t/partitions/{partition}/state")["isr"]) == 2 for partition in range(4)
            ),
            "not all replicas are in sync again",
        )
        for broker in kafka.ports:
            log = (tmp_path / f"broker-{broker}" / "server.log").read_text()
            assert FAULTS.findall(log) == []
        shell = apache.tool("zookeeper-shell", "-server", embedded, "get", "/controller_epoch")
        assert shell.stdout.strip().endswith(str(epoch + 1))
