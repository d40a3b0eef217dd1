"""The embedded coordinator beside a real ZooKeeper: the same operations, the same answers, events and trees.

``BARNABAS_DIFFERENTIAL_OPERATIONS`` says how many; ``make differential`` does a million.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import apache
import pytest
from coordinator_differential import Conversation

from barnabas.bench.apache_zookeeper import KAFKAS_VERSION, NEWER_VERSION, ZooKeeperEnsemble
from barnabas.zk.protocol.acl import digest_of

OPERATIONS = int(os.environ.get("BARNABAS_DIFFERENTIAL_OPERATIONS", "5000"))
SEED = int(os.environ.get("BARNABAS_DIFFERENTIAL_SEED", "1"))
SUPER = digest_of(b"super:duper")


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


@pytest.mark.apache
def test_who_asks_by_a_word_and_says_no_more_is_answered_by_both(embedded: str, tmp_path: Path) -> None:
    with ZooKeeperEnsemble(tmp_path / "theirs", version=NEWER_VERSION) as real:
        for address in (embedded, real.connect):
            host, _, port = address.partition(":")
            for _ in range(20):
                with socket.create_connection((host, int(port)), timeout=20) as connection:
                    connection.sendall(b"srvr\n")
                    with contextlib.suppress(OSError):  # answered and closed already
                        connection.shutdown(socket.SHUT_WR)
                    said = b"".join(iter(lambda connection=connection: connection.recv(65536), b""))
                assert said.startswith(b"Zookeeper version: 3.9.")
