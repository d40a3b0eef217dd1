"""One historical bug, as the edits that put it back."""

from __future__ import annotations

from dataclasses import dataclass

from mutants.edits import Edit


@dataclass(frozen=True, slots=True)
class Mutant:
    """`profiles` of the simulation should provoke the bug, and the invariants that are `expected` break then."""

    bug: str
    source: str
    what: str
    profiles: tuple[str, ...]
    expected: tuple[str, ...]
    edits: tuple[Edit, ...]


def mutant(bug: str, source: str, what: str, profiles: str, expected: str, *edits: Edit) -> Mutant:
    """As `Mutant`, with profiles and invariants as words of one string."""
    return Mutant(bug, source, what, tuple(profiles.split()), tuple(expected.split()), edits)
