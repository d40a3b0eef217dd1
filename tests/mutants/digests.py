"""What a recorded result stands on: the mutant, the product, the simulator with its checkers, and the play or the test.

A result holds as long as nothing of that changed. Comments and docstrings do not count.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import subprocess
import tokenize
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from mutants.copies import PACKAGE, fingerprint
from mutants.mutant import Mutant
from mutants.plays import play_of

ROOT = Path(__file__).parents[2]
SIMULATOR = "sim"
NEVER_SIMULATED = ("bench", "cli", "judge", "spark", "testing", "web")
"""Parts of the package that no simulated run takes anything of."""
_COMMITTED = ("src/barnabas", "tests/mutants/plays.py", "tests/mutants/table_*.py")


def stands_on(mutant: Mutant, record: dict[str, Any]) -> dict[str, str]:
    """The digests, as of now, of all that a result of this kind depends on."""
    parts = {"mutant": fingerprint(mutant), "product": product()}
    if "test" in record:
        if mutant.source in NEVER_SIMULATED:
            parts["package"] = of_files(sorted((PACKAGE / mutant.source).rglob("*.py")))
        return {**parts, "test": of_files([ROOT / record["test"].partition("::")[0]])}
    parts["simulator"] = simulator()
    if "play" in record:
        parts["play"] = _digest([json.dumps(play_of(record["play"]).plan.as_json(), sort_keys=True)])
    return parts


def changed_since(mutant: Mutant, record: dict[str, Any]) -> list[str]:
    """What of it is another by now; nothing, where the result still holds."""
    return [name for name, digest in stands_on(mutant, record).items() if record["stands_on"].get(name) != digest]


@cache
def product() -> str:
    aside = {SIMULATOR, *NEVER_SIMULATED}
    return of_files(path for path in _sources() if path.relative_to(PACKAGE).parts[0] not in aside)


@cache
def simulator() -> str:
    return of_files(path for path in _sources() if path.relative_to(PACKAGE).parts[0] == SIMULATOR)


def _sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def of_files(paths: Iterable[Path]) -> str:
    """A digest of the code in them and of their names."""
    return _digest(each for path in paths for each in (str(path.relative_to(ROOT)), bare(path.read_text())))


@cache  # each result asks for the same files
def bare(text: str) -> str:
    """Python without comments, docstrings and empty lines, the same whichever Python tells."""
    lines = text.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = lines[token.start[0] - 1][: token.start[1]]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    assert statement.end_lineno is not None, "a parsed node has an end"
                    lines[statement.lineno - 1 : statement.end_lineno] = [""] * (
                        statement.end_lineno - statement.lineno + 1
                    )
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _digest(told: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(told).encode()).hexdigest()[:12]


@cache
def commit() -> str:
    """The last commit that changed what results stand on; with a ``+`` where there are changes that are in none."""
    name = _git("log", "-1", "--format=%h", "--abbrev=10", "--", *_COMMITTED)
    return f"{name}+" if _git("status", "--porcelain", "--", *_COMMITTED) else name


def head() -> str:
    return _git("rev-parse", "HEAD")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
