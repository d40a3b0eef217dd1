"""One bug, historical or made, as the edits that put it in."""

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


def unreported(bug: str, package: str, what: str, edit: Edit) -> Mutant:
    """A bug that nobody has reported: no history suggests profiles for it, or an invariant."""
    return mutant(bug, package, what, "", "", edit)
