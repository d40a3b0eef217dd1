"""File descriptors that have run out, in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.runtime.descriptors import BRIEF, SPARES

USED_UP = """
import os, resource, sys
from barnabas.runtime.descriptors import hold_spares, opening
from barnabas.runtime.real import RealDisk
from barnabas.runtime.secret_file import secret_file

hold_spares()
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
opened = []
try:
    while True:
        opened.append(opening(lambda: os.open(os.devnull, os.O_RDONLY)))
except OSError as error:
    assert error.errno == 24, error
for _ in range(3):
    do()
print(len(opened))
"""
SYNC = "def do(): RealDisk().fsync_dir(sys.argv[1])"
SECRET = """
def do():
    with secret_file(b"a key") as path:
        with open(path, "rb") as file:
            assert file.read() == b"a key"
"""
TWICE = """
import os, resource
from barnabas.runtime.descriptors import SPARES, hold_spares, opening

def use_up():
    opened = []
    try:
        while True:
            opened.append(opening(lambda: os.open(os.devnull, os.O_RDONLY)))
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        return len(opened)

hold_spares()
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
use_up()
for _ in range(SPARES):
    os.close(opening(lambda: os.open(os.devnull, os.O_RDONLY)))
try:
    while True:
        os.open(os.devnull, os.O_RDONLY)  # a stranger's
except OSError:
    print(use_up())
"""


@pytest.mark.parametrize("does", [SYNC, SECRET], ids=["sync", "secret"])
def test_a_file_is_opened_briefly_where_files_that_stay_open_have_taken_all_descriptors(
    does: str, tmp_path: Path
) -> None:
    """A directory is synced behind a rename, such as that of a topic which is deleted: a failure ends the directory. A
    changed key is given to OpenSSL as a file, and whoever takes up the change foresees no other error than its own."""
    done = subprocess.run(
        [sys.executable, "-c", does + USED_UP, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


def test_the_spares_come_back_when_there_are_descriptors_again() -> None:
    done = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == SPARES - BRIEF
