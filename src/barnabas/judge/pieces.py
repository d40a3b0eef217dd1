"""The checks on pieces of a history that is too large for one machine: pure functions from Arrow tables to findings.

A history is divided twice (by `barnabas.judge.spark_check`), so that each check sees all rows that it could need:

- by partition: all rows of the partition, sends to other partitions of records that were read in it, and the end and
  the last send of every transaction in it. All checks run here, except those of whole transactions.
- by transaction: its sends, its ends, the scans' reads of its records, and committed readers' reads of its records
  without an answer to their producer. Lost and torn transactions are found here.

Both have the rows that every piece needs: the faults, and ends of unknown outcome. Both are told which transactions of
unknown outcome are known to others as committed.

Cycles cross pieces: the pieces by partition give the edges, which `in_stretch` gets by stretches of commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from barnabas.judge import cycles, records, updates
from barnabas.judge.check import of_partitions, of_transactions
from barnabas.judge.findings import Example, Finding, Judged
from barnabas.judge.history import SCHEMA, Column, Context, OperationHistory, of_table
from barnabas.judge.seen import Seen, known_to_others

ROW: Final = "row"
"""A row's number in the whole history."""
JUDGED: Final = "judged"
WRITES, READS = 0, 1
FOUND: Final = pa.schema(
    [
        ("what", pa.string()),
        ("anomaly", pa.string()),
        ("limit", pa.string()),
        ("count", pa.int64()),
        ("evaluated", pa.int64()),
        ("examples", pa.string()),
        ("kind", pa.int32()),
        ("begin", pa.int64()),
        ("end", pa.int64()),
        ("begin_at", pa.int64()),
        ("end_at", pa.int64()),
        (ROW, pa.int64()),
    ]
)
"""A row is a judgement (``what`` is `JUDGED`; examples are JSON), or an edge between transactions with the time of each
one's first request to commit."""
FOUND_DDL: Final = (
    "what string, anomaly string, limit string, count bigint, evaluated bigint, examples string, kind int, "
    "begin bigint, end bigint, begin_at bigint, end_at bigint, row bigint"
)


def by_place(table: Any, context: Context, common: Any, resolved: Sequence[int]) -> Any:
    """The findings in a piece by partition, as `FOUND`. `table` and `common` have `SCHEMA`'s columns and `ROW`;
    `resolved` is the result of `resolved_of` for the whole history."""
    whole, numbers = _history(table, context, common)
    seen = Seen(whole, np.array(resolved, np.int64))
    found = list(_judged([records.lost_writes(seen, in_transactions=False), *of_partitions(seen)], numbers))
    for kind, edges in ((WRITES, cycles.write_edges(seen)), (READS, cycles.read_edges(seen))):
        found += _edges(seen, kind, edges, numbers)
    return pa.Table.from_pylist(found, FOUND)


def by_transaction(table: Any, context: Context, common: Any, resolved: Sequence[int]) -> Any:
    """The findings in a piece by transaction, as `FOUND`."""
    # A send may also be there for checks of its key by others, without its transaction: its own row takes precedence.
    history, numbers = _history(table.sort_by("txn"), context, common)
    seen = Seen(history, np.array(resolved, np.int64))
    found = list(_judged(of_transactions(seen), numbers))
    return pa.Table.from_pylist(found, FOUND)


def resolved_of(table: Any, context: Context) -> list[int]:
    """The transactions of unknown outcome that others know to be committed, by all rows about such transactions."""
    history, _ = _history(table, context, table.slice(0, 0))
    found: list[int] = known_to_others(Seen(history)).tolist()
    return found


def of_totals(table: Any, context: Context, common: Any) -> list[Judged]:
    """The findings in the totals of all banks; rows have their numbers in the whole history."""
    history, numbers = _history(table, context, common)
    one = updates.wrong_totals(Seen(history))
    return [
        one._replace(
            findings=tuple(
                Finding(
                    finding.anomaly,
                    finding.limit,
                    finding.count,
                    tuple(Example(said, tuple(numbers[list(rows)].tolist())) for said, rows in finding.examples),
                )
                for finding in one.findings
            )
        )
    ]


def _history(table: Any, context: Context, common: Any) -> tuple[OperationHistory, Column]:
    """A piece in the order of the history, with each row once, and the numbers of its rows."""
    columns = [*SCHEMA.names, ROW]
    plain = pa.schema([_plain(field) for field in SCHEMA] + [pa.field(ROW, pa.int64())])
    both = pa.concat_tables([piece.select(columns).cast(plain) for piece in (table, common)])
    numbers, first = np.unique(both[ROW].to_numpy(), return_index=True)
    return of_table(both.take(first).drop_columns([ROW]), context), numbers


def _plain(field: Any) -> Any:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return pa.field(field.name, kind)


def _judged(judged: Sequence[Judged], numbers: Column) -> Iterator[dict[str, Any]]:
    for judgement in judged:
        yield {
            "what": JUDGED,
            "anomaly": judgement.anomaly,
            "count": 0,
            "evaluated": judgement.evaluated,
            "examples": "[]",
        }
        for finding in judgement.findings:
            examples = [[example.sentence, numbers[list(example.rows)].tolist()] for example in finding.examples]
            yield {
                "what": JUDGED,
                "anomaly": judgement.anomaly,
                "limit": finding.limit,
                "count": finding.count,
                "evaluated": 0,
                "examples": json.dumps(examples),
            }


def _edges(seen: Seen, kind: int, edges: cycles.Edges, numbers: Column) -> Iterator[dict[str, Any]]:
    begin, end, row = edges
    at, txns = seen.commit_invoked, seen.txns
    for one, two, where in zip(begin.tolist(), end.tolist(), row.tolist(), strict=True):
        yield {
            "what": "edge",
            "kind": kind,
            "begin": int(txns[one]),
            "end": int(txns[two]),
            "begin_at": int(at[one]),
            "end_at": int(at[two]),
            ROW: int(numbers[where]),
        }


def stretches(back: Any) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The stretches of the order of commits over which an edge goes back: the begin and end of each, by time and
    transaction. `back` has those edges."""
    lows = zip(back["end_at"].to_pylist(), back["end"].to_pylist(), strict=True)
    highs = zip(back["begin_at"].to_pylist(), back["begin"].to_pylist(), strict=True)
    begins: list[tuple[int, int]] = []
    ends: list[tuple[int, int]] = []
    for low, high in sorted(zip(lows, highs, strict=True)):
        if ends and low <= ends[-1]:
            ends[-1] = max(ends[-1], high)
        else:
            begins.append(low)
            ends.append(high)
    return begins, ends


def in_stretch(table: Any) -> Any:
    """The cycles of one stretch, each as JSON of the rows that show it, and whether reads and writes are in it."""
    codes = table[ROW].to_numpy() * 2 + table["kind"].to_numpy()
    found = [rows.tolist() for rows in cycles.within(table["begin"].to_numpy(), table["end"].to_numpy(), codes)]
    return pa.table(
        {
            "rows": pa.array([json.dumps([code // 2 for code in cycle]) for cycle in found], pa.string()),
            "mixed": pa.array([len({code % 2 for code in cycle}) == 2 for cycle in found], pa.bool_()),
            ROW: pa.array([min(cycle) // 2 for cycle in found], pa.int64()),
        }
    )
