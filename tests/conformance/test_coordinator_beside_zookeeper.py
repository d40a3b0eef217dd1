"""The embedded coordinator beside a real ZooKeeper: the same operations, the same answers, events and trees.

``BARNABAS_DIFFERENTIAL_OPERATIONS`` says how many; ``make differential`` does a million.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache
import pytest
from coordinator_differential import Conversation

from barnabas.cli.apache_zookeeper import KAFKAS_VERSION, NEWER_VERSION, ZooKeeperEnsemble
from barnabas.zk.acl import digest_of
from barnabas.zk.ops import (
    NOTIFICATION_XID,
    PING_XID,
    ConnectRequest,
    ConnectResponse,
    GetChildren,
    GetData,
    Operation,
    Ping,
    decode_reply_header,
    encode_request,
    framed,
)

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

    def send(self, operation: Operation[Any], xid: int) -> tuple[int, Any]:
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
    for config in ("znode.container.checkIntervalMs=1000000000", f"DigestAuthenticationProvider.superDigest={SUPER}"):
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
    config = {"extendedTypesEnabled": "false", "tickTime": "2000", "minSessionTimeout": "1000"}
    with ZooKeeperEnsemble(tmp_path / "theirs", version=version, config=config, properties=properties) as real:
        # Before 3.9 ZooKeeper kept one kind of watch for a path and session, and forgot the other.
        conversation = Conversation(embedded, real.connect, SEED, mixed_watches=version != KAFKAS_VERSION)
        try:
            conversation.run(operations)
        finally:
            conversation.close()
        assert conversation.events > operations // 20


@pytest.mark.apache
def test_apache_kafka_runs_on_the_coordinator_and_outlives_a_controllers_death(embedded: str, tmp_path: Path) -> None:
    config = {"zookeeper.session.timeout.ms": "4000", "offsets.topic.replication.factor": "1"}
    with apache.ApacheCluster(tmp_path, brokers=2, zookeeper=embedded, config=config) as kafka:
        made = apache.tool(
            *("kafka-topics", "--bootstrap-server", kafka.bootstrap, "--create"),
            *("--topic", "t", "--partitions", "4", "--replication-factor", "2"),
        )
        assert "Created topic t" in made.stdout
        client = Client(embedded)

        def controller() -> int | None:
            result = client.send(GetData("/controller"), 1)[1]
            return json.loads(result[0])["brokerid"] if isinstance(result, tuple) else None

        dead = controller()
        assert dead is not None
        epoch = int(client.send(GetData("/controller_epoch"), 1)[1][0])
        kafka.kill(dead)
        deadline = time.monotonic() + 60
        while controller() in (dead, None):
            assert time.monotonic() < deadline, "nobody became controller"
            client.send(Ping(), PING_XID)
        assert int(client.send(GetData("/controller_epoch"), 1)[1][0]) == epoch + 1
        kafka.start(dead)
        assert sorted(client.send(GetChildren("/brokers/ids"), 1)[1][0]) == ["0", "1"]
        shell = apache.tool("zookeeper-shell", "-server", embedded, "get", "/controller_epoch")
        assert shell.stdout.strip().endswith(str(epoch + 1))
