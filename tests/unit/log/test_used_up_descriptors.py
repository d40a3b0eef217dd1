"""A change that may not be left half done is done though files that stay open have taken all descriptors.

Each in a process of its own, which has as many files open as the system lets it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "change",
    [
        "cut", "cut without snapshots", "cut to nothing", "begin elsewhere", "by size", "by age", "by age, damaged",
        "abort", "flush", "roll", "close", "rename", "delete",
    ],
)  # fmt: skip
def test_a_log_is_changed_where_there_is_no_descriptor_left(change: str, tmp_path: Path) -> None:
    program = Path(__file__).with_name("used_up_descriptors.py")
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), change],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
