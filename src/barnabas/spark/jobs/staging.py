"""Where Spark writes files that no commit names yet: in an archive's or a table's directory, a place for each machine.

A lock keeps a second writer of this machine out, so what lies in this machine's place was left by one that was killed.
A writer of another machine may be at work: the commit keeps one of the two out, and until then its files are its own.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from socket import gethostname
from typing import Final
from uuid import uuid4

KEPT_S: Final = 7 * 24 * 3600
"""How long a place of another machine is left alone: longer than any job writes for one commit."""


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

    What an attempt of a task writes lies under ``_temporary`` until then. One that Spark gave up and that still writes
    makes such a file anew behind the commit, with rows that another attempt's file has.
    """
    return sorted(path for path in staged.rglob("*.parquet") if "_temporary" not in path.relative_to(staged).parts)
