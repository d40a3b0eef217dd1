"""Copies of the package with one mutant's edits in them."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from mutants.table import Mutant

PACKAGE = Path(__file__).parents[2] / "src" / "barnabas"


class DoesNotApply(Exception):
    """An edit's text is not in its file exactly once: the code moved on, and the mutant has to follow."""


def edited(mutant: Mutant, package: Path = PACKAGE) -> dict[str, str]:
    """The mutant's files, by their path below the package, with the edits made. Raises `DoesNotApply`."""
    files: dict[str, str] = {}
    for edit in mutant.edits:
        text = files.get(edit.path)
        if text is None:
            text = (package / edit.path).read_text()
        found = text.count(edit.find)
        if found != 1:
            raise DoesNotApply(f"{mutant.bug}: {edit.path} has the text to be replaced {found} times: {edit.find!r}")
        files[edit.path] = text.replace(edit.find, edit.replace)
    return files


def make_copy(mutant: Mutant | None, into: Path, package: Path = PACKAGE) -> None:
    """Puts ``barnabas`` below `into`, with the mutant's edits (None: as it is). Compiled files come along."""
    files = {} if mutant is None else edited(mutant, package)
    shutil.copytree(package, into / "barnabas")
    for path, text in files.items():
        (into / "barnabas" / path).write_text(text)


def fingerprint(mutant: Mutant) -> str:
    """Changes whenever the mutant does."""
    told = json.dumps([[edit.path, edit.find, edit.replace] for edit in mutant.edits])
    return hashlib.sha256(told.encode()).hexdigest()[:12]
