"""``barnabas spark run PROGRAM.py --restart``: how often a program is begun, and with what."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from barnabas.spark.jobs.program import run_program

PROGRAM = """
import sys
from pathlib import Path
from pyspark.errors import StreamingQueryException
from beside import NOTES
assert __name__ == "__main__"
NOTES.append(sys.argv[1:])
if len(NOTES) <= int(sys.argv[1]):
    raise StreamingQueryException("[STREAM_FAILED] Query [id = 1] terminated with exception: Its end. SQLSTATE: XXKST")
"""


class Session:
    """As much of a session as a run asks: the queries that are left over."""

    def __init__(self) -> None:
        self.stopped = 0
        self.streams = SimpleNamespace(active=[SimpleNamespace(stop=self._stop)])

    def _stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "beside.py").write_text("NOTES = []\n")
    (tmp_path / "job.py").write_text(PROGRAM)
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    return tmp_path / "job.py"


def run(program: Path, fails: int, restart: int) -> tuple[Any, list[str], list[list[str]]]:
    session, told = Session(), list[str]()
    spark: Any = session
    try:
        run_program(spark, program, [str(fails), "--more"], restart=restart, told=told.append)
    finally:
        notes = sys.modules["beside"].NOTES
        del sys.modules["beside"]
    return session, told, notes


def test_a_program_is_begun_again_as_often_as_its_query_fails(program: Path) -> None:
    before = list(sys.argv), list(sys.path)
    session, told, notes = run(program, fails=2, restart=5)
    assert notes == [["2", "--more"]] * 3
    assert session.stopped == 2
    assert told == ["Query [id = 1] terminated with exception: Its end."] * 2
    assert (sys.argv, sys.path) == before


def test_what_fails_too_often_or_at_once_is_raised(program: Path) -> None:
    with pytest.raises(StreamingQueryException):
        run(program, fails=2, restart=1)
    with pytest.raises(StreamingQueryException):
        run(program, fails=1, restart=0)


def test_another_error_is_the_programs_own(tmp_path: Path) -> None:
    program = tmp_path / "wrong.py"
    program.write_text("1 / 0")
    spark: Any = Session()
    with pytest.raises(ZeroDivisionError):
        run_program(spark, program, [], restart=5, told=pytest.fail)
