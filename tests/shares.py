"""A share of what takes long: ``2/6`` is the second of six, ``head/6`` the one that the commit's hash names."""

from __future__ import annotations

from mutants.digests import head


def place(share: str) -> tuple[int, int]:
    """The share's place, from 0 on, and how many there are; `ValueError` for a share that there is not."""
    number, _, of = share.partition("/")
    first = int(head(), 16) % int(of) if number == "head" else int(number) - 1
    if not 0 <= first < int(of):
        raise ValueError(f"there is no share {share}")
    return first, int(of)
