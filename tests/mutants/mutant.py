"""One historical bug, as the edits that put it back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """In `path` (below ``src/barnabas``) `find` becomes `replace`. `find` must be there exactly once."""

    path: str
    find: str
    replace: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """`profiles` of the simulation should provoke the bug, and the invariants that are `expected` break then."""

    bug: str
    source: str
    what: str
    profiles: tuple[str, ...]
    expected: tuple[str, ...]
    edits: tuple[Edit, ...]


def mutant(bug: str, source: str, what: str, profiles: str, expected: str, *edits: tuple[str, str, str]) -> Mutant:
    """As `Mutant`, with profiles and invariants as words of one string."""
    return Mutant(
        bug, source, what, tuple(profiles.split()), tuple(expected.split()), tuple(Edit(*each) for each in edits)
    )
