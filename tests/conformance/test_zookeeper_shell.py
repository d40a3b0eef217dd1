"""Apache's ``zookeeper-shell`` says the same of the embedded coordinator as of a real ZooKeeper."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apache
import pytest
from cluster import until

from barnabas.bench.apache import four_letter_word, free_port

pytestmark = pytest.mark.apache

SCRIPT = """
version
ls /
create /a one
create -e /e session
create -s /s- x
create -s -e /se- x
create -c /c container
create -t 5000 /ttl t
create /a again
create /x/y no
create /acl data digest:alice:pwhash=:cdrwa
create /badacl data nobody:x:cdrwa
get /a
get -s /a
stat /a
stat /missing
get /missing
get /acl
set /a two
set -v 0 /a three
set -v 1 /a three
set -s /a four
ls -s /
ls -R /
create /a/b
create /a/b/c deep
create /e/child no
get -w /a
set /a five
set /a six
stat -w /nothing
create /nothing
ls -w /a
create /a/d
stat -w /a/d
delete /a/d
addWatch /a
create /a/f
set /a/f v
delete /a/f
addWatch -m PERSISTENT /a/b
create /a/b/g
removewatches /a/b
removewatches /a
removewatches /a
set /a seven
getAllChildrenNumber /
getAllChildrenNumber /a
getAllChildrenNumber /missing
getEphemerals
getEphemerals /se
whoami
addauth digest alice:secret
whoami
setAcl /a/b auth:alice:cdrwa
getAcl /a/b
getAcl -s /
getAcl /acl
getAcl /missing
setAcl -R /a world:anyone:r
delete /a/b/c
create /a/refused
setAcl /a world:anyone:cdrwa
sync /
delete /a
delete -v 7 /s-0000000002
delete /missing
deleteall /a
deleteall /nothing
setquota -n 2 /c
listquota /c
setquota -b 100 /c
listquota /c
ls /zookeeper/quota
setquota -n 5 /c/child
delquota -n /c
listquota /c
delquota /c
listquota /c
listquota /missing
setquota -b 100 /missing
delquota /missing
config
reconfig -remove 1
printwatches off
nonsense
ls
create
get relative
history
"""


def said(printed: str) -> tuple[list[str], list[str]]:
    """Lines without what is a server's own (zxids, times, sessions), and apart from them the watch events."""
    text = re.sub(r"0x[0-9a-f]+", "0x", printed)
    text = re.sub(r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d+ [\d:]+ \w+ \d{4}", "a time", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "host:port", text)
    lines = [line.strip() for line in text.splitlines()]
    lines = [
        line for line in lines if line and line != "WATCHER::" and not re.match(r"\[\d{4}-|at |Connecting to", line)
    ]
    # What is used of a quota: the coordinator keeps quotas as a server without enforceQuota does, and does not count.
    lines = [line for line in lines if not line.startswith(("Output stat", "[Warning]"))]
    events = [line for line in lines if line.startswith("WatchedEvent")]
    rest = [_sorted_list(line) for line in lines if not line.startswith("WatchedEvent")]
    return rest, events


def _sorted_list(line: str) -> str:
    """Names in a list have no order of their own."""
    if line.startswith("[") and line.endswith("]"):
        return "[" + ", ".join(sorted(line[1:-1].split(", "))) + "]"
    return line


def answers(port: int) -> bool:
    try:
        return "Zookeeper version" in four_letter_word(f"127.0.0.1:{port}", "srvr")
    except OSError:
        return False


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "barnabas", "coordinator", "--port", str(port), "--dir", str(tmp_path / "ours")]
    with (tmp_path / "coordinator.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until(lambda: answers(port), "the coordinator listens")
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def test_every_command_of_zookeeper_shell_is_answered_as_zookeeper_answers_it(coordinator: str, tmp_path: Path) -> None:
    # The defaults of ZooKeeper, under which there are no znodes with a time to live.
    settings = {"extendedTypesEnabled": "false"}
    with apache.ZooKeeperEnsemble(tmp_path, config=settings) as real:
        found = {}
        for name, address in (("ours", coordinator), ("real", real.connect)):
            done = apache.tool("zookeeper-shell", "-server", address, text=SCRIPT)
            assert done.returncode == 0, done.stderr
            found[name] = (*said(done.stdout), *said(done.stderr))
    for ours, theirs in zip(found["ours"], found["real"], strict=True):
        # Who somebody is, is told in the order of a hash table.
        assert sorted(ours) == sorted(theirs)
        assert [line for line in ours if "alice" not in line] == [line for line in theirs if "alice" not in line]
    printed, events = found["real"][:2]
    assert any("CLI version" in line for line in printed)
    assert len(events) >= 9, events
