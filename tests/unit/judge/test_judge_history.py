"""Histories on disk are what they were, and nothing else is taken for one."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from history_lines import parse

from barnabas.judge.history import SCHEMA, Client, HistoryError, Op, OperationHistory, read, write
from barnabas.judge.journal import Notes, now
from barnabas.judge.lines import told
from barnabas.model.ids import TopicPartition

TEXT = """
client p acks=1 idempotent=no transactional_id=x transaction_timeout_ms=7
topic r cleanup.policy=compact
fact transaction.version=1
p send r/2@4 k=1 v=7 t=3
p send q/0 v=8 unknown e=TIMED_OUT
p commit t=3 g=x ..4
p send q/0 v=9 failed
"""


def lines(history: OperationHistory) -> list[str]:
    return [told(history, row) for row in range(len(history))]


def test_a_history_comes_back_from_its_file(tmp_path: Path) -> None:
    made = parse(TEXT)
    write(made, tmp_path / "h.parquet")
    back = read(tmp_path / "h.parquet")
    assert back.context == made.context
    assert lines(back) == lines(made)
    assert np.array_equal(back.completed, made.completed)
    assert pq.read_schema(tmp_path / "h.parquet").names == SCHEMA.names


def test_an_empty_history_comes_back(tmp_path: Path) -> None:
    write(parse(""), tmp_path / "h.parquet")
    assert len(read(tmp_path / "h.parquet")) == 0


def test_a_row_is_told_as_it_is_written() -> None:
    history = parse(TEXT)
    assert [told(history, row, times=False) for row in range(4)] == [
        "p send r/2@4 k=1 v=7 t=3",
        "p send q/0 v=8 e=TIMED_OUT unknown",
        "p commit t=3 g=x",
        "p send q/0 v=9 failed",
    ]
    assert told(history, 1).startswith("0.000000..… ")


def test_other_files_are_refused_with_a_reason(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("not parquet")
    with pytest.raises(HistoryError, match="not a Parquet file"):
        read(text)
    table = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1]}), table)
    with pytest.raises(HistoryError, match="has no column process"):
        read(table)
    write(parse(TEXT), table)
    pq.write_table(pq.read_table(table).replace_schema_metadata({}), table)
    with pytest.raises(HistoryError, match="no metadata"):
        read(table)


@pytest.mark.parametrize(
    ("line", "why"),
    [("p jump r/0", "'jump' is no operation"), ("p send r", "cannot read"), ("client p colour=red", "has no colour")],
)
def test_a_line_that_says_nothing_is_refused(line: str, why: str) -> None:
    with pytest.raises(HistoryError, match=why):
        parse(line)


def test_rows_under_way_are_nothing_that_a_garbage_collection_looks_at() -> None:
    """It would stop the proxies beside the clients, and with them the cluster: for seconds, after five million rows."""
    notes = Notes({})
    journals = [notes.journal(Client(name)) for name in ("p", "q")]

    def looked_at() -> int:
        found: dict[int, Any] = {}
        new: list[Any] = [notes]
        while new:
            found |= {id(each): each for each in new}
            new = [each for each in gc.get_referents(*new) if id(each) not in found and not isinstance(each, type)]
        return sum(len(gc.get_referents(each)) for each in found.values())

    def add(count: int) -> None:
        for value in range(count):
            at = TopicPartition("r", value % 3)
            journals[value % 2].add(Op.SEND, now(), at, value=10**6 + value, name=f"n{value % 4}", error="no")

    add(12)
    before = looked_at()
    add(1000)
    assert looked_at() == before
    history = notes.history()
    assert [
        (history.names[name], history.errors[error]) for name, error in zip(history.name, history.error, strict=True)
    ] == [(f"n{value % 4}", "no") for value in (*range(12), *range(1000))]
    assert [history.places[place] for place in history.place] == [
        ("r", value % 3) for value in (*range(12), *range(1000))
    ]


def test_rows_that_are_looked_at_while_more_come_are_whole() -> None:
    notes = Notes({})
    journal, count = notes.journal(Client("p")), 3_000

    def add() -> None:
        for value in range(count):
            journal.add(Op.SEND, 0, TopicPartition("r", 0), offset=value, value=value)

    writer, switched_s = threading.Thread(target=add), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns within a row
    try:
        writer.start()
        seen = [0]
        while seen[-1] < count:
            history = notes.history()
            seen.append(len(history.offset))
            assert history.offset.tolist() == history.value.tolist() == list(range(seen[-1]))
    finally:
        sys.setswitchinterval(switched_s)
        writer.join()
    assert seen == sorted(seen)
