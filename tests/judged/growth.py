"""How the cost of a verdict by Spark grows with the history: CPU seconds and memory, written into docs/judge.md.

``python tests/judged/growth.py [--operations 1,3,10,30]`` (`make judge-growth`) makes healthy histories of so many
million operations (records of their own and transactions of four records, one in eleven of which is aborted, in 32
partitions), and judges each by ``barnabas judge check --spark``. CPU seconds are those of all its processes, so that a
busy machine changes little; memory is the most that all of them had resident together, the pages that they share
counted once in each.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
from judged_tables import put

from barnabas.judge.history import NONE, Client, Context, Op, OperationHistory, Status, write

PLACES: Final = 32
WRITERS: Final = 4
ALONE: Final = 4
"""Records of their own beside each transaction of four."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def healthy(operations: int) -> OperationHistory:
    """About so many, of which nothing is to be found but what every Kafka has."""
    units = operations // 27
    sends, markers, ends = _written(units)
    aborted = np.flatnonzero(np.arange(units) % 11 == 0)
    committed = ~np.isin(sends["txn"], aborted)
    scan, scan_committed = WRITERS, WRITERS + 1
    parts = [
        {**sends, "process": sends["unit"] % WRITERS, "op": Op.SEND, "at": sends["time"]},
        {**ends, "op": np.where(ends["txn"] % 11 == 0, Op.ABORT, Op.COMMIT), "at": ends["time"]},
        {**_sorted({**sends, "txn": NONE}), "process": scan, "op": Op.READ},
        {**_sorted({**markers, "txn": NONE}), "process": scan, "op": Op.MARKER},
        {
            **_sorted({**{k: v[committed] for k, v in sends.items()}, "txn": NONE}),
            "process": scan_committed,
            "op": Op.READ,
        },
    ]
    length = np.bincount(np.concatenate([sends["place"], markers["place"]]), minlength=PLACES)
    for process in (scan, scan_committed):
        parts.append({"place": np.arange(PLACES), "offset": length, "process": process, "op": Op.SCANNED})
    return _history(parts)


def _written(units: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Each unit is some records of their own, and one transaction: two records in a partition, and two in the next."""
    width = ALONE + 6
    unit, step = np.divmod(np.arange(units * width), width)
    inside = step >= ALONE
    place = np.where(inside, (unit + (step - ALONE) % 2) % PLACES, (unit * 7 + step) % PLACES)
    order = np.argsort(place, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=PLACES))])
    offset = np.empty(len(place), np.int64)
    offset[order] = np.arange(len(place)) - starts[place[order]]
    ends = step >= ALONE + 4
    value = np.where(ends, np.arange(len(place)) - 2, np.arange(len(place)))
    columns = {
        "unit": unit, "place": place, "offset": offset, "value": value, "txn": np.where(inside, unit, NONE),
        "time": np.arange(len(place)),
    }  # fmt: skip
    sends, markers = ({name: each[chosen] for name, each in columns.items()} for chosen in (~ends, ends))
    last = {
        "process": np.arange(units) % WRITERS,
        "txn": np.arange(units),
        "time": np.arange(units) * width + ALONE + 3.5,
    }
    return sends, markers, last


def _sorted(columns: dict[str, Any]) -> dict[str, Any]:
    """As a scan reads them: one partition after another."""
    order = np.lexsort((columns["offset"], columns["place"]))
    return {name: each if np.isscalar(each) else each[order] for name, each in columns.items()}


def _history(parts: list[dict[str, Any]]) -> OperationHistory:
    lengths = [max(len(each) for each in part.values() if not np.isscalar(each)) for part in parts]

    def column(name: str, kind: Any = np.int64, none: int = NONE) -> Any:
        return np.concatenate(
            [np.broadcast_to(part.get(name, none), length) for part, length in zip(parts, lengths, strict=True)]
        ).astype(kind)

    total = sum(lengths)
    # What has no time of its own comes behind all that has, in its order.
    begun = np.concatenate(
        [np.asarray(part.get("at", np.full(n, np.inf))) for part, n in zip(parts, lengths, strict=True)]
    )
    order = np.argsort(begun, kind="stable")
    invoked = np.arange(total, dtype=np.int64) * 1_000
    nothing = np.full(total, NONE, np.int32)
    clients = [Client(f"writer-{n}", transactional_id=f"id-{n}") for n in range(WRITERS)]
    clients += [Client("scan", scan=True), Client("scan-committed", scan=True, isolation="read_committed")]
    return OperationHistory(
        Context(tuple(clients), {"t": {}}, {"transaction.version": "2"}),
        tuple(("t", number) for number in range(PLACES)), (), (),
        column("process", np.int32)[order], column("op", np.uint8)[order], np.full(total, Status.OK, np.uint8),
        invoked, invoked + 500, invoked, column("place", np.int32)[order], column("offset")[order], column("key"),
        column("value")[order], column("txn")[order], column("follows"), nothing, nothing,
    )  # fmt: skip


class Watched:
    """A command's processes, looked at five times a second until it ends: the CPU seconds of all, and their memory."""

    def __init__(self, command: list[str]) -> None:
        self.cpu_s: dict[int, float] = {}
        self.memory = 0
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self._looking = threading.Thread(target=self._look)
        self._looking.start()
        self.said = self._process.communicate()[0]
        self._looking.join()

    def _look(self) -> None:
        while self._process.poll() is None:
            resident = 0
            for stat in Path("/proc").glob("[0-9]*/stat"):
                try:
                    fields = stat.read_text().rpartition(")")[2].split()
                except OSError:
                    continue  # it has ended
                if int(fields[3]) == self._process.pid:
                    self.cpu_s[int(stat.parent.name)] = (int(fields[11]) + int(fields[12])) / _TICKS
                    resident += int(fields[21]) * _PAGE
            self.memory = max(self.memory, resident)
            time.sleep(0.2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", default="1,3,10,30", help="millions, with commas between them")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    lines = [
        "| operations | CPU of all processes, s | memory at most, MB | file, MB |",
        "| --- | --- | --- | --- |",
    ]
    for millions in given.operations.split(","):
        with tempfile.TemporaryDirectory(prefix="judged-growth-") as place:
            path = Path(place) / "history.parquet"
            history = healthy(int(float(millions) * 1_000_000))
            count = len(history)
            write(history, path)
            del history
            done = Watched([sys.executable, "-m", "barnabas", "judge", "check", str(path), "--spark", given.master])
            assert "\n0 anomalies, " in done.said, done.said
            size = path.stat().st_size
        cost = f"{sum(done.cpu_s.values()):,.0f} | {done.memory / 1e6:,.0f}"
        lines.append(f"| {count:,} | {cost} | {size / 1e6:,.0f} |")
        print(lines[-1], flush=True)
        # As each is known: the last takes longer than all before it, and may take more memory than there is.
        if given.write:
            put("growth", lines, 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
