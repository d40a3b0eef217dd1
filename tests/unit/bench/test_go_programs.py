"""Programs in Go: built once for each state of their source."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from barnabas.bench import BenchError
from barnabas.bench.go_programs import built

HELLO = """package main

func main() { println("%s") }
"""


def source(place: Path, text: str) -> Path:
    place.mkdir(exist_ok=True)
    (place / "go.mod").write_text("module hello\n\ngo 1.18\n")
    (place / "main.go").write_text(text)
    return place


def says(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stderr


@pytest.mark.skipif(shutil.which("go") is None, reason="go is not on PATH")
def test_a_state_of_the_source_is_built_once_and_another_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_CACHE", str(tmp_path / "cache"))
    first = built(source(tmp_path / "source", HELLO % "one"), "hello")
    inode = first.stat().st_ino
    assert built(tmp_path / "source", "hello") == first
    assert first.stat().st_ino == inode
    second = built(source(tmp_path / "source", HELLO % "two"), "hello")
    assert (says(first), says(second)) == ("one\n", "two\n")
    with pytest.raises(BenchError, match=r"(?s)go could not build hello: .*main\.go"):
        built(source(tmp_path / "source", "package main\n\nfunc main() {\n"), "hello")


def test_a_machine_without_go_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchError, match="go is not on PATH"):
        built(tmp_path, "hello")
