"""What the bench asks of a table that a topic landed in."""

from __future__ import annotations

from pathlib import Path

import pytest

pyarrow = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")

from barnabas.bench.spark_land import check  # noqa: E402


def made(path: Path, places: list[tuple[int, int]]) -> Path:
    rows = [
        {"key": b"k", "value": b"v", "headers": "none", "_partition": p, "_offset": o, "_timestamp": 0}
        for p, o in places
    ]
    deltalake.write_deltalake(str(path), pyarrow.Table.from_pylist(rows))
    return path


def test_each_offset_is_to_be_there_once(tmp_path: Path) -> None:
    check(made(tmp_path / "whole", [(0, 0), (0, 1), (1, 0)]), 3, 2)
    for name, places in {
        "doubled": [(0, 0), (0, 1), (0, 1)],
        "lost": [(0, 0), (0, 2), (1, 0)],
        "short": [(0, 0), (1, 0)],
    }.items():
        with pytest.raises(RuntimeError, match="of 3 records"):
            check(made(tmp_path / name, places), 3, 2)
