"""The staging directory for files that no commit names yet: one for each machine, in an archive's or table's directory.

A lock excludes a second writer on the same machine, so files in this machine's directory are those of a killed writer.
A writer on another machine may be at work: only one of the two can commit, and until then each has its own files.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from socket import gethostname
from typing import Final
from uuid import uuid4

KEPT_S: Final = 7 * 24 * 3600
"""How long another machine's staging directory is kept: longer than any job writes for one commit."""


def new_place() -> str:
    """A name below the directory for such files."""
    return f"{gethostname()}/{uuid4().hex}"


def clear(staging: Path) -> None:
    """Deletes what killed writers left in the directory `staging`."""
    shutil.rmtree(staging / gethostname(), ignore_errors=True)
    for place in staging.glob("*"):
        if place.stat().st_mtime < time.time() - KEPT_S:
            shutil.rmtree(place, ignore_errors=True)


def written_in(staged: Path) -> list[Path]:
    """The Parquet files that Spark committed under `staged`, in order.

    The files of a task's attempt are under ``_temporary`` until then. An attempt that Spark gave up but still writes
    may create such a file after the commit, with rows that another attempt's file has, too.
    """
    return sorted(path for path in staged.rglob("*.parquet") if "_temporary" not in path.relative_to(staged).parts)
