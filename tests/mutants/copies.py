"""Copies of the package with one mutant's edits in them."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from mutants.edits import DoesNotApply, apply_edit
from mutants.mutant import Mutant

PACKAGE = Path(__file__).parents[2] / "src" / "barnabas"


def edited(mutant: Mutant, package: Path = PACKAGE) -> dict[str, str]:
    """The mutant's files, by their path below the package, with the edits made. Raises `DoesNotApply`."""
    files: dict[Path, str] = {}

    def read(path: Path) -> str:
        return files[path] if path in files else path.read_text()

    for edit in mutant.edits:
        try:
            path, text = apply_edit(edit, package, read)
        except DoesNotApply as error:
            raise DoesNotApply(f"{mutant.bug}: {error}") from error
        files[path] = text
    return {str(path.relative_to(package)): text for path, text in files.items()}


def make_copy(mutant: Mutant, into: Path, package: Path = PACKAGE) -> None:
    """Puts ``barnabas`` below `into`, with the mutant's edits. Compiled files come along."""
    files = edited(mutant, package)
    shutil.copytree(package, into / "barnabas")
    for path, text in files.items():
        (into / "barnabas" / path).write_text(text)


def fingerprint(mutant: Mutant) -> str:
    """Changes whenever the mutant does, but not when what it edits moves to another module."""
    told = json.dumps([[edit.anchor.partition(":")[2], edit.old, edit.new] for edit in mutant.edits])
    return hashlib.sha256(told.encode()).hexdigest()[:12]
