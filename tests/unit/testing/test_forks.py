"""A process that is forked has the memory of its parent, and none of its threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FORKED = """
import os
from barnabas.client.blocking import connect
from barnabas.testing import KafkaCluster

with KafkaCluster(1, directory={directory!r}) as cluster, connect(cluster.bootstrap) as client:
    cluster.create_topic("t")
    producer = client.producer()
    producer.send("t", b"parent")
    child = os.fork()
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        producer.send("t", b"parent")
        print(sorted(record.value for record in cluster.records("t")))
    else:
        try:
            {used}
        except Exception as error:
            print(f"{{type(error).__name__}}: {{error}}", flush=True)
        with connect(cluster.bootstrap) as another:
            another.producer().send("t", b"child")
if not child:
    os._exit(7)
"""


@pytest.mark.parametrize(
    ("used", "refusal"),
    [
        ("cluster.create_topic('u')", "ClusterError: This process is a fork"),
        ("cluster.partition('t', 0).leader", "ClusterError: This process is a fork"),
        ("producer.send('t', b'twice')", "RuntimeError: This client was made before the process was forked"),
        ("client.consumer('t')", "RuntimeError: This client was made before the process was forked"),
    ],
)
def test_what_a_fork_has_of_its_parent_is_refused_and_stays_the_parents(
    used: str, refusal: str, tmp_path: Path
) -> None:
    program = FORKED.format(directory=str(tmp_path), used=used)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    said, found = done.stdout.splitlines()
    assert said.startswith(refusal)
    assert found == str([b"child", b"parent", b"parent"])


BROKEN_WHILE_A_FORK_LIVES = """
import os
import socket
import sys
from barnabas.testing import KafkaCluster

directory = sys.argv[1] or None
with KafkaCluster(1, directory=directory) as cluster:
    host, _, port = cluster.broker(0).address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    cluster.create_topic("t")
    kept, told = os.pipe()
    child = os.fork()
    if not child:
        os.close(told)
        os.read(kept, 1)  # until the parent lets it go
        os._exit(0)
    os.close(kept)
    cluster.broker(0).kill()
    try:
        print(connection.recv(1))
    except ConnectionResetError:
        print("reset")
    try:
        socket.create_connection((host, int(port)), timeout=10)
    except ConnectionRefusedError:
        print("refused")
    cluster.broker(0).start()
    print(cluster.partition("t", 0).leader.id)
    os.close(told)
    os.waitpid(child, 0)
"""


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_broker_dies_and_starts_again_while_a_fork_lives(on_disk: bool, tmp_path: Path) -> None:
    program = [sys.executable, "-c", BROKEN_WHILE_A_FORK_LIVES, str(tmp_path) if on_disk else ""]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["reset", "refused", "0"]
