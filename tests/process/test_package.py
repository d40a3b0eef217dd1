"""What `pip` installs works outside of the tree: the wheel, and the sdist on a machine without a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.long(2),
    pytest.mark.skipif(not os.environ.get("BARNABAS_PACKAGE"), reason="asks PyPI: make package"),
    pytest.mark.timeout(1800),  # the hot path is compiled, beside whatever else the machine does
]

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "cat", "env", "seq", "sh", "uname", "wc")
"""All that PATH has where there is no compiler."""


def told(command: list[str], directory: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a wheel and an sdist, built from what is committed."""
    place = tmp_path_factory.mktemp("package")
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    tree = place / "tree"
    tree.mkdir()
    committed = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=tree, input=committed, check=True)
    told([uv, "build", "--python", sys.executable, "--out-dir", str(place / "dist")], tree, quickly_compiled(place))
    return place / "dist"


def quickly_compiled(place: Path) -> Mapping[str, str]:
    """The environment in which the compiler does not optimise, which takes most of its time: ``make setup`` has built
    the same sources as they are released."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        return os.environ
    script = place / "cc"
    script.write_text(f'#!/bin/sh\nexec {compiler} "$@" -O0\n')
    script.chmod(0o755)
    return {**os.environ, "CC": str(script)}


@pytest.mark.parametrize(
    ("kind", "compiler", "checked_by"),
    [("*.whl", True, "the kernel"), ("*.tar.gz", False, "Python")],
    ids=["the wheel", "the sdist without a compiler"],
)
def test_what_pip_installs_is_a_cluster(
    built: Path, tmp_path: Path, kind: str, compiler: bool, checked_by: str
) -> None:
    if compiler and not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("there is no compiler")
    environment = {name: value for name, value in os.environ.items() if name not in ("CC", "PYTHONPATH", "VIRTUAL_ENV")}
    if not compiler:
        tools = tmp_path / "tools"
        tools.mkdir()
        for tool in TOOLS:
            (tools / tool).symlink_to(str(shutil.which(tool)))
        environment["PATH"] = str(tools)
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    told([uv, "venv", "--seed", "--python", sys.executable, str(tmp_path / "venv")], tmp_path, os.environ)
    (package,) = built.glob(kind)
    told([str(tmp_path / "venv" / "bin" / "pip"), "install", "-q", str(package)], tmp_path, environment)
    barnabas = str(tmp_path / "venv" / "bin" / "barnabas")
    told([barnabas, "up", "-n", "3"], tmp_path, environment)
    try:
        told(
            [barnabas, "topic", "create", "t", "--partitions", "3", "--replication-factor", "3"], tmp_path, environment
        )
        told(["bash", "-c", f"seq 1000 | {barnabas} produce -t t"], tmp_path, environment)
        read = told([barnabas, "consume", "-t", "t", "-o", "start", "-e", "-f", "%v\\n"], tmp_path, environment)
        assert sorted(map(int, read.split())) == list(range(1, 1001))
        assert f"records are checked by {checked_by}" in told([barnabas, "status"], tmp_path, environment)
    finally:
        told([barnabas, "down"], tmp_path, environment)
