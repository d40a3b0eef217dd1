"""The hot path of a broker, compiled: the same modules, made into extensions by mypyc where `hatch_build.py` can.

Only a broker's own process uses them. Everywhere else the modules are interpreted: the simulator, its mutants and many
tests replace methods of the product, and compiled code would ignore such a replacement.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

PACKAGE: Final = Path(__file__).parents[1]
PLACE: Final = PACKAGE / "_compiled"
SUFFIX: Final = EXTENSION_SUFFIXES[0]
"""Names the Python that a module was compiled for: a wheel may serve other Pythons, too, which interpret the source."""


def digest_of(sources: Sequence[str], package: Path) -> str:
    """The digest of the modules in these files, by their paths below the package."""
    found = hashlib.sha256()
    for name in sorted(sources):
        found.update(name.encode())
        found.update((package / name).read_bytes())
    return found.hexdigest()


class CompiledModules:
    """A finder that imports some modules from extensions (``sys.meta_path``)."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = files

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self.files.get(name)
        return None if file is None else spec_from_file_location(name, file)


def compiled_files(place: Path = PLACE, package: Path = PACKAGE) -> dict[str, Path]:
    """The extensions for this Python by their modules' names; none if they were compiled from other sources."""
    try:
        made_from, *sources = (place / f"sources{SUFFIX}.txt").read_text().split()
        if digest_of(sources, package) != made_from:
            return {}
    except FileNotFoundError:
        return {}
    return {file.name.removesuffix(SUFFIX): file for file in sorted(place.glob(f"*{SUFFIX}"))}


def is_taken() -> bool:
    return any(isinstance(finder, CompiledModules) for finder in sys.meta_path)


def take_compiled() -> None:
    """Makes this process import the compiled hot path, if it is installed; called before any of it is imported."""
    files = {} if is_taken() else compiled_files()
    if not files:
        return
    early = sorted(files.keys() & sys.modules.keys())
    assert not early, f"{early} are imported as they are written: compiled code must not meet them"
    sys.meta_path.insert(0, CompiledModules(files))
