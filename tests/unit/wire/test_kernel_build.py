"""The kernel is built wherever it can be, and where it cannot, the package says so and works without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from build_hook import ROOT, hatch_build

from barnabas.wire import scan

SOURCES = ["_avro.h", "_codec.h", "_columns.h", "_kernel.c", "_python.h", "_scan.h", "_slabs.h"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What `hatch_build.py` needs of the source tree for the kernel, without anything built."""
    wire = tmp_path / "src" / "barnabas" / "wire"
    wire.mkdir(parents=True)
    shutil.copy(ROOT / "hatch_build.py", tmp_path)
    for name in SOURCES:
        shutil.copy(ROOT / "src" / "barnabas" / "wire" / name, wire)
    return tmp_path


def built(tree: Path, **environment: str) -> tuple[str, list[str]]:
    """What a build says, and the files that are there then."""
    run = subprocess.run(
        [sys.executable, "-c", "import hatch_build as it; print(*it.complaints(it.build(), None))"],
        cwd=tree,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.rstrip("\n"), sorted(file.name for file in (tree / "src" / "barnabas" / "wire").iterdir())


def test_where_there_is_a_compiler_the_kernel_runs() -> None:
    module = hatch_build()
    can_be_built = module.has_stable_abi() and module.compiler() is not None
    assert ("the kernel" if can_be_built else "Python") == scan.RUNNING


@pytest.mark.parametrize(("compiler", "reason"), [("false", "false failed"), ("/nowhere/cc", "cannot be run")])
def test_a_build_that_fails_says_why_and_leaves_nothing(tree: Path, compiler: str, reason: str) -> None:
    (tree / "src" / "barnabas" / "wire" / "_kernel.abi3.so").write_bytes(b"of another source")
    os.utime(tree / "src" / "barnabas" / "wire" / "_kernel.abi3.so", (0, 0))
    said, there = built(tree, CC=compiler)
    assert said.startswith("barnabas checks records in Python, slowly: ")
    assert reason in said
    assert there == SOURCES


def test_a_build_makes_a_module_and_does_so_once(tree: Path) -> None:
    if hatch_build().compiler() is None or not hatch_build().has_stable_abi():
        pytest.skip("there is no C compiler")
    assert built(tree) == ("", sorted(["_kernel.abi3.so", *SOURCES]))
    assert built(tree, CC="false")[0] == ""
