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
        ("cluster.create_topic('u')", "ClusterError: The cluster is another process's"),
        ("cluster.partition('t', 0).leader", "ClusterError: The cluster is another process's"),
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
