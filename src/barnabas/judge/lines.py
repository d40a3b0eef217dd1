"""Rows of a history as text, one line for each operation: ``p send r/0@4 v=7 t=1``."""

from __future__ import annotations

from barnabas.judge.history import NEVER, Op, OperationHistory, Status


def told(history: OperationHistory, row: int, *, times: bool = True) -> str:
    """A row as a line; with `times` it begins with the row's times in seconds since the history's start."""
    client = history.context.clients[int(history.process[row])]
    words = [client.name, Op(int(history.op[row])).word]
    at, offset = int(history.place[row]), int(history.offset[row])
    if at >= 0 or offset >= 0:
        words.append((history.place_name(at) if at >= 0 else "") + (f"@{offset}" if offset >= 0 else ""))
    for letter, column in (("k", history.key), ("v", history.value), ("t", history.txn), ("f", history.follows)):
        if column[row] >= 0:
            words.append(f"{letter}={int(column[row])}")
    if history.name[row] >= 0:
        words.append(f"g={history.names[int(history.name[row])]}")
    if history.error[row] >= 0:
        words.append(f"e={history.errors[int(history.error[row])]}")
    status = Status(int(history.status[row]))
    if status is not Status.OK:
        words.append(status.word)
    if not times:
        return " ".join(words)
    begun = int(history.invoked[0])
    end = int(history.completed[row])
    until = "…" if end == NEVER else f"{(end - begun) / 1e9:.6f}"
    return f"{(int(history.invoked[row]) - begun) / 1e9:.6f}..{until} {' '.join(words)}"
